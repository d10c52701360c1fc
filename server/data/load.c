/* Loads data: from files into memory, or through the disk cache. */
#include "server/data/load.h"

#include "server/base/log.h"
#include "server/data/formula_rows.h"

#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM_BUDGET ((size_t)256 << 20) /* for names, and NPY in Fortran order */

/* Rows of both files, and where they come from. */
struct sources {
    struct table tables[2]; /* of small files */
    struct data_rows rows[2];
    struct data_rows *train, *test; /* test may be NULL */
    char sha256[2 * DATA_FILE_SHA256_HEX];
};

static void sources_release(const struct load *load, struct sources *s)
{
    for (int k = 0; k < 2; k++) {
        data_rows_close(&s->rows[k]);
        load->reading.give(load->reading.context, s->tables[k].taken);
        table_release(&s->tables[k]);
    }
}

static void join_hashes(char out[2 * DATA_FILE_SHA256_HEX], const char *train, const char *test)
{
    snprintf(out, 2 * DATA_FILE_SHA256_HEX, "%s%s%s", train, test[0] != '\0' ? ":" : "", test);
}

static enum err read_table(const struct load *load, const struct data_file *file, const char *name,
                           struct table *out, char sha256[DATA_FILE_SHA256_HEX],
                           struct err_info *info)
{
    char *bytes;
    size_t size;
    enum err code = load->reading.take(load->reading.context, file->size, info);
    if (code != ERR_OK)
        return code;
    code = data_file_read(file, load->budget, &bytes, &size, sha256, info);
    if (code == ERR_OK) {
        struct table_source source = {.name = name,
                                      .bytes = bytes,
                                      .size = size,
                                      .budget_bytes = load->budget,
                                      .most_bytes = load->unpacked,
                                      .memory = load->reading};
        code = table_read(out, &source, info);
        free(bytes);
    }
    load->reading.give(load->reading.context, file->size);
    return code;
}

/* A formula makes as many columns as a factor has levels: from a small file more than fits anywhere. */
#define DESIGN_FACTOR 16 /* times the size of the file, or what fits into memory */

static enum err open_formula(const struct load *load, struct sources *s, struct mistakes *mistakes,
                             struct err_info *info)
{
    uint64_t size = DESIGN_FACTOR * load->files->train.size;
    struct data_rows_limits limits = {.budget_bytes = STREAM_BUDGET,
                                      .unpacked_bytes = load->unpacked,
                                      .design_bytes = size > load->budget ? size : load->budget,
                                      .memory = load->reading};
    s->train = &s->rows[0];
    return data_rows_open_formula(s->train, &load->files->train, load->spec, "/data/path", &limits,
                                  mistakes, info);
}

/* Small files are read now, large ones block by block later. A small file that does not fit into
 * memory is not a mistake yet. */
static enum err open_rows(const struct load *load, bool large, struct sources *s,
                          struct mistakes *mistakes, struct err_info *info)
{
    if (load->spec->formula != NULL)
        return open_formula(load, s, mistakes, info);
    const struct data_file *files[] = {&load->files->train, &load->files->test};
    const char *names[] = {load->spec->path, load->spec->test};
    static const char *const pointers[] = {"/data/path", "/data/test"};
    char sha[2][DATA_FILE_SHA256_HEX] = {"", ""};
    struct data_rows_limits limits = {
        .budget_bytes = STREAM_BUDGET, .unpacked_bytes = load->unpacked, .memory = load->reading};
    for (int k = 0; k < 1 + load->files->has_test; k++) {
        enum err code =
            large ? data_rows_open(&s->rows[k], files[k], names[k], pointers[k], &limits, info)
                  : read_table(load, files[k], names[k], &s->tables[k], sha[k], info);
        if (code == ERR_TOO_LARGE && !large)
            return code;
        if (code != ERR_OK)
            return data_rows_mistake(code, pointers[k], mistakes, info);
        if (!large)
            data_rows_view(&s->rows[k], &s->tables[k], pointers[k]);
    }
    s->train = &s->rows[0];
    s->test = load->files->has_test ? &s->rows[1] : NULL;
    join_hashes(s->sha256, sha[0], sha[1]);
    return ERR_OK;
}

/* The plan of the values; after it the content of the files is known. */
static enum err make_plan(const struct load *load, struct sources *s, struct prepare_plan *plan,
                          struct mistakes *mistakes, struct err_info *info)
{
    struct formula_rows *formula = s->train->formula;
    struct data_spec spec = *load->spec;
    if (formula != NULL)
        formula_rows_spec(formula, load->spec, &spec);
    enum err code = prepare_plan(plan, &spec, load->kind, s->train, s->test, mistakes, info);
    if (code == ERR_OK && formula != NULL)
        code = prepare_add_name(plan, formula_rows_facts(formula), info);
    if (code == ERR_OK && s->sha256[0] == '\0')
        join_hashes(s->sha256, s->rows[0].sha256, s->test != NULL ? s->rows[1].sha256 : "");
    return code;
}

static enum err into_memory(const struct load *load, struct sources *s, struct prepare_plan *plan,
                            struct data *out, struct err_info *info)
{
    struct data_layout layout;
    struct data counted = plan->shape;
    if (!data_layout(&layout, &plan->shape))
        return err_set(info, ERR_NO_MEMORY, "no memory for the data");
    layout_attach(&counted, &layout);
    enum err code = load->reserve(load->context, counted.bytes, info);
    if (code == ERR_OK)
        code = prepare_memory(out, plan, s->train, s->test, info);
    if (code == ERR_OK)
        memcpy(out->sha256, s->sha256, sizeof out->sha256);
    return code;
}

/* ---- the disk cache ---- */

/* The SHA-256 of the content of the files and of what is made of them. */
static enum err make_key(const struct load *load, const char *sha256, char key[CACHE_FILE_KEY_HEX],
                         struct err_info *info)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    unsigned char digest[32];
    if (out != NULL) {
        fprintf(out, "%s|", sha256);
        prepare_print_key(out, load->spec, load->kind);
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

static enum err hash_file(const struct data_file *file, char sha256[DATA_FILE_SHA256_HEX],
                          struct err_info *info)
{
    struct data_file_reader reader;
    char *piece = malloc(TABLE_FEED_BYTES);
    enum err code = piece != NULL ? data_file_reader_init(&reader, file, true, info)
                                  : err_set(info, ERR_NO_MEMORY, "no memory to read the data");
    if (code == ERR_OK) {
        for (size_t got; code == ERR_OK && reader.at < file->size;)
            code = data_file_reader_read(&reader, piece, TABLE_FEED_BYTES, &got, info);
        data_file_reader_end(&reader, sha256);
    }
    free(piece);
    return code;
}

/* The hash of a file's content if the disk cache may have it: from its times, or else by reading
 * the file. Empty: the disk cache has no file from a source of this size. */
static enum err find_content(const struct load *load, const struct data_file *file,
                             char sha256[DATA_FILE_SHA256_HEX], struct err_info *info)
{
    sha256[0] = '\0';
    if (disk_cache_knows(load->disk, file, sha256) || !disk_cache_may_have(load->disk, file))
        return ERR_OK;
    return hash_file(file, sha256, info);
}

static enum err find_contents(const struct load *load, char sha256[2 * DATA_FILE_SHA256_HEX],
                              struct err_info *info)
{
    char sha[2][DATA_FILE_SHA256_HEX] = {"", ""};
    sha256[0] = '\0';
    enum err code = find_content(load, &load->files->train, sha[0], info);
    if (code == ERR_OK && sha[0][0] != '\0' && load->files->has_test)
        code = find_content(load, &load->files->test, sha[1], info);
    bool known = sha[0][0] != '\0' && (!load->files->has_test || sha[1][0] != '\0');
    if (code == ERR_OK && known)
        join_hashes(sha256, sha[0], sha[1]);
    return code;
}

static void describe(const struct load *load, struct cache_file_about *about)
{
    const struct load_files *f = load->files;
    about->sources[0] = disk_cache_source(&f->train);
    about->source_bytes[0] = f->train.size;
    if (f->has_test) {
        about->sources[1] = disk_cache_source(&f->test);
        about->source_bytes[1] = f->test.size;
    }
}

/* Reads the file `fd` of the disk cache into memory if that has room, else maps it. NOT_FOUND: the
 * file was damaged. */
static enum err from_disk(const struct load *load, int fd, const struct cache_file_about *about,
                          struct data *out, struct err_info *info)
{
    struct cache_file_about now = {0};
    enum cache_file_way way = load->reserve(load->context, about->bytes, info) == ERR_OK
                                  ? CACHE_FILE_MEMORY
                                  : CACHE_FILE_MAPPED;
    describe(load, &now);
    enum err code = disk_cache_load(load->disk, fd, about, now.sources, way, out, info);
    if (code == ERR_NO_MEMORY && way == CACHE_FILE_MEMORY)
        code = disk_cache_load(load->disk, fd, about, now.sources, CACHE_FILE_MAPPED, out, info);
    close(fd);
    return code;
}

/* NOT_FOUND: the disk cache has nothing of this content. */
static enum err find_on_disk(const struct load *load, struct data *out, struct err_info *info)
{
    char key[CACHE_FILE_KEY_HEX], sha256[2 * DATA_FILE_SHA256_HEX];
    struct cache_file_about about;
    enum err code = find_contents(load, sha256, info);
    if (code == ERR_OK && sha256[0] == '\0')
        return ERR_NOT_FOUND;
    if (code == ERR_OK)
        code = make_key(load, sha256, key, info);
    if (code != ERR_OK)
        return code;
    int fd = disk_cache_find(load->disk, key, &about);
    return fd < 0 ? ERR_NOT_FOUND : from_disk(load, fd, &about, out, info);
}

static enum err to_disk(const struct load *load, struct sources *s, const struct prepare_plan *plan,
                        struct data *out, struct err_info *info)
{
    struct cache_file_about about = {0};
    int fd = -1;
    enum err code = make_key(load, s->sha256, about.key, info);
    if (code != ERR_OK)
        return code;
    memcpy(about.sha256, s->sha256, sizeof about.sha256);
    describe(load, &about);
    code = disk_cache_put(load->disk, &about, plan, s->train, s->test, &fd, info);
    if (code != ERR_OK)
        return code;
    code = cache_file_about(fd, &about, info);
    if (code == ERR_OK)
        return from_disk(load, fd, &about, out, info);
    close(fd);
    return code;
}

/* The binary form could not be stored: data that fit into memory do not need it. */
static enum err load_unstored(const struct load *load, struct sources *s, struct prepare_plan *plan,
                              const struct err_info *why, struct data *out, struct err_info *info)
{
    struct err_info memory = {0};
    log_event(LOG_WARN, "cache.skipped", "file", load->spec->path, "reason", why->message, NULL);
    enum err code = into_memory(load, s, plan, out, &memory);
    if (code == ERR_OK)
        return ERR_OK;
    return err_set(info, why->code, "%s; and %s", why->message, memory.message);
}

static bool is_storage(enum err code)
{
    return code == ERR_NO_SPACE || code == ERR_IO || code == ERR_CORRUPT || code == ERR_NOT_FOUND;
}

static enum err through_disk(const struct load *load, struct data *out, struct mistakes *mistakes,
                             struct err_info *info)
{
    struct sources s = {0};
    struct prepare_plan plan;
    enum err code = find_on_disk(load, out, info);
    if (code != ERR_NOT_FOUND)
        return code;
    code = open_rows(load, true, &s, mistakes, info);
    if (code == ERR_OK)
        code = make_plan(load, &s, &plan, mistakes, info);
    if (code == ERR_OK) {
        code = to_disk(load, &s, &plan, out, info);
        if (is_storage(code)) {
            struct err_info why = *info;
            why.code = code == ERR_NO_SPACE ? code : ERR_IO;
            code = load_unstored(load, &s, &plan, &why, out, info);
        }
        prepare_plan_release(&plan);
    }
    sources_release(load, &s);
    return code;
}

/* ---- choosing ---- */

static enum err to_memory(const struct load *load, bool large, struct data *out,
                          struct mistakes *mistakes, struct err_info *info)
{
    struct sources s = {0};
    struct prepare_plan plan;
    enum err code = open_rows(load, large, &s, mistakes, info);
    if (code == ERR_OK)
        code = make_plan(load, &s, &plan, mistakes, info);
    if (code == ERR_OK) {
        code = into_memory(load, &s, &plan, out, info);
        if (code == ERR_TOO_LARGE && large)
            code = data_rows_mistake(code, "/data/path", mistakes, info);
        prepare_plan_release(&plan);
    }
    sources_release(load, &s);
    return code;
}

enum err load_data(const struct load *load, struct data *out, struct mistakes *mistakes,
                   struct err_info *info)
{
    const struct load_files *f = load->files;
    uint64_t bytes = f->train.size + (f->has_test ? f->test.size : 0);
    *out = (struct data){0};
    if (bytes < load->disk_from) {
        enum err code = to_memory(load, false, out, mistakes, info);
        if (code != ERR_TOO_LARGE)
            return code;
    }
    return load->disk != NULL ? through_disk(load, out, mistakes, info)
                              : to_memory(load, true, out, mistakes, info);
}
