/* Ways of data into the process. */
#include "server/data/load.h"

#include "server/base/log.h"

#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM_BUDGET ((size_t)256 << 20) /* for names, and NPY in Fortran order */

/* Rows of both files, and where they come from. */
struct sources {
    struct table tables[2]; /* of small files */
    struct datarows rows[2];
    struct datarows *train, *test; /* test may be NULL */
    char sha256[2 * DATAFILE_SHA256_HEX];
};

static void sources_release(struct sources *s)
{
    for (int k = 0; k < 2; k++) {
        datarows_close(&s->rows[k]);
        table_release(&s->tables[k]);
    }
}

static void join(char out[2 * DATAFILE_SHA256_HEX], const char *train, const char *test)
{
    snprintf(out, 2 * DATAFILE_SHA256_HEX, "%s%s%s", train, test[0] != '\0' ? ":" : "", test);
}

/* ---- small files ---- */

static enum err read_table(const struct dataload *load, const struct datafile *file,
                           const char *name, struct table *out, char sha256[DATAFILE_SHA256_HEX],
                           struct err_info *info)
{
    char *bytes;
    size_t size;
    enum err code = datafile_read(file, load->budget, &bytes, &size, sha256, info);
    if (code != ERR_OK)
        return code;
    struct table_source source = {
        .name = name, .bytes = bytes, .size = size, .budget_bytes = load->budget};
    code = table_read(out, &source, info);
    free(bytes);
    return code;
}

static enum err read_tables(const struct dataload *load, struct sources *s,
                            struct mistakes *mistakes, struct err_info *info)
{
    const struct dataload_files *f = load->files;
    char sha[2][DATAFILE_SHA256_HEX] = {"", ""};
    enum err code = read_table(load, &f->train, load->spec->path, &s->tables[0], sha[0], info);
    if (code != ERR_OK)
        return datarows_mistake(code, "/data/path", mistakes, info);
    datarows_view(&s->rows[0], &s->tables[0], "/data/path");
    s->train = &s->rows[0];
    if (f->has_test) {
        code = read_table(load, &f->test, load->spec->test, &s->tables[1], sha[1], info);
        if (code != ERR_OK)
            return datarows_mistake(code, "/data/test", mistakes, info);
        datarows_view(&s->rows[1], &s->tables[1], "/data/test");
        s->test = &s->rows[1];
    }
    join(s->sha256, sha[0], sha[1]);
    return ERR_OK;
}

/* ---- large files ---- */

static enum err open_rows(const struct dataload *load, struct sources *s, struct mistakes *mistakes,
                          struct err_info *info)
{
    const struct dataload_files *f = load->files;
    enum err code =
        datarows_open(&s->rows[0], &f->train, load->spec->path, "/data/path", STREAM_BUDGET, info);
    if (code != ERR_OK)
        return datarows_mistake(code, "/data/path", mistakes, info);
    s->train = &s->rows[0];
    if (!f->has_test)
        return ERR_OK;
    code =
        datarows_open(&s->rows[1], &f->test, load->spec->test, "/data/test", STREAM_BUDGET, info);
    if (code == ERR_OK)
        s->test = &s->rows[1];
    return datarows_mistake(code, "/data/test", mistakes, info);
}

/* The plan of the values; after it the content of the files is known. */
static enum err make_plan(const struct dataload *load, struct sources *s,
                          struct dataprep_plan *plan, struct mistakes *mistakes,
                          struct err_info *info)
{
    enum err code = dataprep_plan(plan, load->spec, load->kind, s->train, s->test, mistakes, info);
    if (code == ERR_OK && s->sha256[0] == '\0')
        join(s->sha256, s->rows[0].sha256, s->test != NULL ? s->rows[1].sha256 : "");
    return code;
}

static enum err into_memory(const struct dataload *load, struct sources *s,
                            struct dataprep_plan *plan, struct data *out, struct mistakes *mistakes,
                            struct err_info *info)
{
    struct dataimage_layout layout;
    struct data counted = plan->shape;
    if (!dataimage_layout(&layout, &plan->shape))
        return err_set(info, ERR_NO_MEMORY, "no memory for the data");
    dataimage_attach(&counted, &layout);
    enum err code = load->reserve(load->context, counted.bytes, info);
    if (code == ERR_OK)
        code = dataprep_memory(out, plan, s->train, s->test, info);
    if (code == ERR_OK)
        memcpy(out->sha256, s->sha256, sizeof out->sha256);
    return code == ERR_TOO_LARGE ? datarows_mistake(code, "/data/path", mistakes, info) : code;
}

/* ---- the shelf ---- */

/* The name of everything that the prepared bytes depend on, the content of the files included. */
static enum err make_key(const struct dataload *load, const char *sha256, char key[DATABIN_KEY_HEX],
                         struct err_info *info)
{
    const struct data_spec *spec = load->spec;
    const char *response = spec->response != NULL ? spec->response : "";
    const char *offset = spec->offset != NULL ? spec->offset : "";
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    unsigned char digest[32];
    if (out != NULL) {
        fprintf(out, "%s|%d %d %d %d %zu %s %zu %s|", sha256, (int)load->kind, spec->intercept,
                spec->standardize, (int)spec->precision, strlen(response), response, strlen(offset),
                offset);
        if (spec->columns != NULL)
            fprintf(out, "%zu|", spec->column_count);
        for (size_t k = 0; spec->columns != NULL && k < spec->column_count; k++)
            fprintf(out, "%zu %s|", strlen(spec->columns[k]), spec->columns[k]);
    }
    bool made = out != NULL && fclose(out) == 0 &&
                gnutls_hash_fast(GNUTLS_DIG_SHA256, text, size, digest) == 0;
    free(text);
    if (!made)
        return err_set(info, ERR_NO_MEMORY, "no memory for the data");
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(key + 2 * i, 3, "%02x", digest[i]);
    return ERR_OK;
}

static enum err hash_file(const struct datafile *file, char sha256[DATAFILE_SHA256_HEX],
                          struct err_info *info)
{
    struct datafile_reader reader;
    char *piece = malloc(TABLE_FEED_BYTES);
    enum err code = piece != NULL ? datafile_reader_init(&reader, file, true, info)
                                  : err_set(info, ERR_NO_MEMORY, "no memory to read the data");
    if (code == ERR_OK) {
        for (size_t got; code == ERR_OK && reader.at < file->size;)
            code = datafile_reader_read(&reader, piece, TABLE_FEED_BYTES, &got, info);
        datafile_reader_end(&reader, sha256);
    }
    free(piece);
    return code;
}

/* The content of a file where it may be on the shelf: by its times, or else by reading it. Empty:
 * the shelf has nothing of its size. */
static enum err find_content(const struct dataload *load, const struct datafile *file,
                             char sha256[DATAFILE_SHA256_HEX], struct err_info *info)
{
    sha256[0] = '\0';
    if (datashelf_knows(load->shelf, file, sha256) || !datashelf_may_have(load->shelf, file))
        return ERR_OK;
    return hash_file(file, sha256, info);
}

static enum err find_contents(const struct dataload *load, char sha256[2 * DATAFILE_SHA256_HEX],
                              struct err_info *info)
{
    char sha[2][DATAFILE_SHA256_HEX] = {"", ""};
    sha256[0] = '\0';
    enum err code = find_content(load, &load->files->train, sha[0], info);
    if (code == ERR_OK && sha[0][0] != '\0' && load->files->has_test)
        code = find_content(load, &load->files->test, sha[1], info);
    bool known = sha[0][0] != '\0' && (!load->files->has_test || sha[1][0] != '\0');
    if (code == ERR_OK && known)
        join(sha256, sha[0], sha[1]);
    return code;
}

static void describe(const struct dataload *load, struct databin_about *about)
{
    const struct dataload_files *f = load->files;
    about->sources[0] = datashelf_source(&f->train);
    about->source_bytes[0] = f->train.size;
    if (f->has_test) {
        about->sources[1] = datashelf_source(&f->test);
        about->source_bytes[1] = f->test.size;
    }
}

/* What is on the shelf, open as `fd`, goes to memory where that has room, and is mapped where not.
 * NOT_FOUND: it was damaged. */
static enum err from_shelf(const struct dataload *load, int fd, const struct databin_about *about,
                           struct data *out, struct err_info *info)
{
    struct databin_about now = {0};
    enum databin_way way = load->reserve(load->context, about->bytes, info) == ERR_OK
                               ? DATABIN_MEMORY
                               : DATABIN_MAPPED;
    describe(load, &now);
    enum err code = datashelf_load(load->shelf, fd, about, now.sources, way, out, info);
    if (code == ERR_NO_MEMORY && way == DATABIN_MEMORY)
        code = datashelf_load(load->shelf, fd, about, now.sources, DATABIN_MAPPED, out, info);
    close(fd);
    return code;
}

/* NOT_FOUND: the shelf has nothing of this content. */
static enum err find_on_shelf(const struct dataload *load, struct data *out, struct err_info *info)
{
    char key[DATABIN_KEY_HEX], sha256[2 * DATAFILE_SHA256_HEX];
    struct databin_about about;
    enum err code = find_contents(load, sha256, info);
    if (code == ERR_OK && sha256[0] == '\0')
        return ERR_NOT_FOUND;
    if (code == ERR_OK)
        code = make_key(load, sha256, key, info);
    if (code != ERR_OK)
        return code;
    int fd = datashelf_find(load->shelf, key, &about);
    return fd < 0 ? ERR_NOT_FOUND : from_shelf(load, fd, &about, out, info);
}

static enum err to_shelf(const struct dataload *load, struct sources *s,
                         const struct dataprep_plan *plan, struct data *out, struct err_info *info)
{
    struct databin_about about = {0};
    int fd = -1;
    enum err code = make_key(load, s->sha256, about.key, info);
    if (code != ERR_OK)
        return code;
    memcpy(about.sha256, s->sha256, sizeof about.sha256);
    describe(load, &about);
    code = datashelf_put(load->shelf, &about, plan, s->train, s->test, &fd, info);
    if (code != ERR_OK)
        return code;
    code = databin_about(fd, &about, info);
    if (code == ERR_OK)
        return from_shelf(load, fd, &about, out, info);
    close(fd);
    return code;
}

/* Without the binary form, data that fit into memory are as good. */
static enum err instead(const struct dataload *load, struct sources *s, struct dataprep_plan *plan,
                        const struct err_info *why, struct data *out, struct err_info *info)
{
    struct err_info memory = {0};
    struct mistakes ignored = {0};
    log_event(LOG_WARN, "data cache not written", "file", load->spec->path, "reason", why->message,
              NULL);
    enum err code = into_memory(load, s, plan, out, &ignored, &memory);
    if (code == ERR_OK)
        return ERR_OK;
    return err_set(info, why->code, "%s; and %s", why->message, memory.message);
}

static bool is_storage(enum err code)
{
    return code == ERR_NO_SPACE || code == ERR_IO || code == ERR_CORRUPT || code == ERR_NOT_FOUND;
}

static enum err through_shelf(const struct dataload *load, struct data *out,
                              struct mistakes *mistakes, struct err_info *info)
{
    struct sources s = {0};
    struct dataprep_plan plan;
    enum err code = find_on_shelf(load, out, info);
    if (code != ERR_NOT_FOUND)
        return code;
    code = open_rows(load, &s, mistakes, info);
    if (code == ERR_OK)
        code = make_plan(load, &s, &plan, mistakes, info);
    if (code == ERR_OK) {
        code = to_shelf(load, &s, &plan, out, info);
        if (is_storage(code)) {
            struct err_info why = *info;
            why.code = code == ERR_NO_SPACE ? code : ERR_IO;
            code = instead(load, &s, &plan, &why, out, info);
        }
        dataprep_plan_release(&plan);
    }
    sources_release(&s);
    return code;
}

/* ---- choosing ---- */

static enum err to_memory(const struct dataload *load, bool large, struct data *out,
                          struct mistakes *mistakes, struct err_info *info)
{
    struct sources s = {0};
    struct dataprep_plan plan;
    enum err code =
        large ? open_rows(load, &s, mistakes, info) : read_tables(load, &s, mistakes, info);
    if (code == ERR_OK)
        code = make_plan(load, &s, &plan, mistakes, info);
    if (code == ERR_OK) {
        code = into_memory(load, &s, &plan, out, mistakes, info);
        dataprep_plan_release(&plan);
    }
    sources_release(&s);
    return code;
}

enum err dataload(const struct dataload *load, struct data *out, struct mistakes *mistakes,
                  struct err_info *info)
{
    const struct dataload_files *f = load->files;
    uint64_t bytes = f->train.size + (f->has_test ? f->test.size : 0);
    *out = (struct data){0};
    if (load->shelf != NULL && bytes >= load->shelf_from)
        return through_shelf(load, out, mistakes, info);
    return to_memory(load, bytes >= load->shelf_from, out, mistakes, info);
}
