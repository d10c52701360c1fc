/* The cache of loaded data. */
#include "server/datacache.h"
#include "server/dataprep.h"
#include "server/table.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOADS_MAX 2

struct entry {
    struct data data; /* first: a `const struct data *` is its entry */
    char *key;
    size_t references;
    bool loading, failed;
    uint64_t used; /* for least recently used */
    struct entry *next;
};

struct datacache {
    const struct datafile_root *root;
    size_t budget, held;
    uint64_t tick;
    unsigned loads; /* under way; each holds the file, the table and the result in memory */
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    struct entry *entries;
};

struct datacache *datacache_new(const struct datafile_root *root, size_t budget_bytes)
{
    struct datacache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->root = root;
    cache->budget = budget_bytes;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->loaded, NULL);
    return cache;
}

static void entry_free(struct entry *entry)
{
    dataprep_release(&entry->data);
    free(entry->key);
    free(entry);
}

void datacache_free(struct datacache *cache)
{
    if (cache == NULL)
        return;
    for (struct entry *e = cache->entries, *next; e != NULL; e = next) {
        next = e->next;
        entry_free(e);
    }
    pthread_mutex_destroy(&cache->lock);
    pthread_cond_destroy(&cache->loaded);
    free(cache);
}

/* ---- files ---- */

struct files {
    struct datafile train, test;
    bool has_test;
};

/* What is wrong with the file itself is a mistake of the job that names it. */
static enum err as_mistake(enum err code, const char *pointer, struct mistakes *mistakes,
                           const struct err_info *info)
{
    if (code != ERR_INVALID && code != ERR_NOT_FOUND && code != ERR_MALFORMED &&
        code != ERR_UNSUPPORTED && code != ERR_TOO_LARGE)
        return code;
    mistake_add(mistakes, pointer, "%s", info->message);
    return ERR_INVALID;
}

static enum err open_one(const struct datacache *cache, const char *user, const char *path,
                         const char *pointer, struct datafile *out, struct mistakes *mistakes,
                         struct err_info *info)
{
    enum err code = datafile_open(cache->root, user, path, out, info);
    return as_mistake(code, pointer, mistakes, info);
}

static void close_files(struct files *f)
{
    datafile_close(&f->train);
    if (f->has_test)
        datafile_close(&f->test);
}

static enum err open_files(const struct datacache *cache, const char *user,
                           const struct data_spec *spec, struct files *f, struct mistakes *mistakes,
                           struct err_info *info)
{
    f->has_test = false;
    enum err code = open_one(cache, user, spec->path, "/data/path", &f->train, mistakes, info);
    if (code != ERR_OK || spec->test == NULL)
        return code;
    code = open_one(cache, user, spec->test, "/data/test", &f->test, mistakes, info);
    f->has_test = code == ERR_OK;
    if (code != ERR_OK)
        datafile_close(&f->train);
    return code;
}

/* ---- keys ---- */

static void print_identity(FILE *out, const struct datafile *f)
{
    fprintf(out, "%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%lld.%09ld|", f->device, f->inode, f->size,
            (long long)f->modified.tv_sec, f->modified.tv_nsec);
}

/* Everything that the prepared bytes depend on. */
static char *make_key(const struct files *f, const struct data_spec *spec, enum data_kind kind)
{
    char *key = NULL;
    size_t size;
    FILE *out = open_memstream(&key, &size);
    if (out == NULL)
        return NULL;
    print_identity(out, &f->train);
    if (f->has_test)
        print_identity(out, &f->test);
    const char *response = spec->response != NULL ? spec->response : "";
    fprintf(out, "%d %d %d %d %zu %s|", (int)kind, spec->intercept, spec->standardize,
            (int)spec->precision, strlen(response), response);
    if (spec->columns != NULL)
        fprintf(out, "%zu|", spec->column_count);
    for (size_t k = 0; spec->columns != NULL && k < spec->column_count; k++)
        fprintf(out, "%zu %s|", strlen(spec->columns[k]), spec->columns[k]);
    if (fclose(out) != 0) {
        free(key);
        return NULL;
    }
    return key;
}

/* ---- loading ---- */

static enum err read_one(const struct datafile *file, const char *name, const char *pointer,
                         size_t budget, struct table *out, char sha256[DATAFILE_SHA256_HEX],
                         struct mistakes *mistakes, struct err_info *info)
{
    char *bytes;
    size_t size;
    enum err code = datafile_read(file, budget, &bytes, &size, sha256, info);
    if (code != ERR_OK)
        return as_mistake(code, pointer, mistakes, info);
    struct table_source source = {
        .name = name, .bytes = bytes, .size = size, .budget_bytes = budget};
    code = table_read(out, &source, info);
    free(bytes);
    return as_mistake(code, pointer, mistakes, info);
}

static enum err load(struct data *out, const struct files *f, const struct data_spec *spec,
                     enum data_kind kind, size_t budget, struct mistakes *mistakes,
                     struct err_info *info)
{
    struct table train = {0}, test = {0};
    char sha[2][DATAFILE_SHA256_HEX] = {"", ""};
    enum err code =
        read_one(&f->train, spec->path, "/data/path", budget, &train, sha[0], mistakes, info);
    if (code == ERR_OK && f->has_test)
        code = read_one(&f->test, spec->test, "/data/test", budget, &test, sha[1], mistakes, info);
    if (code == ERR_OK)
        code = dataprep(out, spec, kind, &train, f->has_test ? &test : NULL, mistakes, info);
    if (code == ERR_OK)
        snprintf(out->sha256, sizeof out->sha256, "%s%s%s", sha[0], f->has_test ? ":" : "", sha[1]);
    table_release(&train);
    table_release(&test);
    return code;
}

/* ---- the cache, under its lock ---- */

static void unlink_entry(struct datacache *cache, struct entry *entry)
{
    struct entry **at = &cache->entries;
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    cache->held -= entry->data.bytes;
    entry_free(entry);
}

/* Drops what nobody uses, the least recently used first, until `bytes` more fit. */
static bool make_room(struct datacache *cache, size_t bytes)
{
    while (cache->held + bytes > cache->budget) {
        struct entry *oldest = NULL;
        for (struct entry *e = cache->entries; e != NULL; e = e->next)
            if (e->references == 0 && !e->loading && (oldest == NULL || e->used < oldest->used))
                oldest = e;
        if (oldest == NULL)
            return false;
        unlink_entry(cache, oldest);
    }
    return true;
}

/* An entry with this key: one that is there (waiting for it if it is being loaded), or a new one,
 * marked as being loaded by the caller. NULL: no memory. */
static struct entry *claim(struct datacache *cache, const char *key, bool *mine)
{
    *mine = false;
    struct entry *e;
    for (e = cache->entries; e != NULL && strcmp(e->key, key) != 0; e = e->next)
        ;
    if (e != NULL) {
        e->references++;
        while (e->loading)
            pthread_cond_wait(&cache->loaded, &cache->lock);
        return e;
    }
    e = calloc(1, sizeof *e);
    char *copy = strdup(key);
    if (e == NULL || copy == NULL) {
        free(e);
        free(copy);
        return NULL;
    }
    e->key = copy;
    e->references = 1;
    e->loading = true;
    e->next = cache->entries;
    cache->entries = e;
    *mine = true;
    return e;
}

static void drop(struct datacache *cache, struct entry *e)
{
    e->used = ++cache->tick;
    if (--e->references == 0 && (e->failed || cache->held > cache->budget))
        unlink_entry(cache, e);
}

static enum err finish(struct datacache *cache, struct entry *e, struct data *data, enum err code,
                       struct err_info *info)
{
    if (code == ERR_OK && data->bytes > cache->budget)
        code = err_set(info, ERR_TOO_LARGE,
                       "the data take %zu MB of memory, more than the %zu MB allowed",
                       data->bytes >> 20, cache->budget >> 20);
    if (code == ERR_OK && !make_room(cache, data->bytes))
        code = err_set(info, ERR_UNAVAILABLE, "the memory for data is in use by other jobs");
    if (code == ERR_OK) {
        e->data = *data;
        cache->held += data->bytes;
    } else {
        dataprep_release(data);
    }
    e->loading = false;
    e->failed = code != ERR_OK;
    pthread_cond_broadcast(&cache->loaded);
    return code;
}

enum err datacache_get(struct datacache *cache, const char *user, const struct data_spec *spec,
                       enum data_kind kind, const struct data **out, struct mistakes *mistakes,
                       struct err_info *info)
{
    struct files files;
    enum err code = open_files(cache, user, spec, &files, mistakes, info);
    if (code != ERR_OK)
        return code;
    char *key = make_key(&files, spec, kind);
    bool mine = false;
    pthread_mutex_lock(&cache->lock);
    struct entry *e = key != NULL ? claim(cache, key, &mine) : NULL;
    if (e != NULL && mine) {
        struct data data = {0};
        while (cache->loads >= LOADS_MAX)
            pthread_cond_wait(&cache->loaded, &cache->lock);
        cache->loads++;
        pthread_mutex_unlock(&cache->lock);
        code = load(&data, &files, spec, kind, cache->budget, mistakes, info);
        pthread_mutex_lock(&cache->lock);
        cache->loads--;
        code = finish(cache, e, &data, code, info);
        if (code == ERR_TOO_LARGE)
            code = as_mistake(code, "/data/path", mistakes, info);
    } else if (e != NULL && e->failed) {
        code = err_set(info, ERR_UNAVAILABLE, "the data could not be loaded just now; try again");
    }
    if (e == NULL)
        code = err_set(info, ERR_NO_MEMORY, "no memory for the data");
    if (e != NULL && code != ERR_OK)
        drop(cache, e);
    pthread_mutex_unlock(&cache->lock);
    close_files(&files);
    free(key);
    if (code == ERR_OK)
        *out = &e->data;
    return code;
}

void datacache_put(struct datacache *cache, const struct data *data)
{
    if (data == NULL)
        return;
    pthread_mutex_lock(&cache->lock);
    drop(cache, (struct entry *)(uintptr_t)data);
    pthread_mutex_unlock(&cache->lock);
}

void datacache_stats(struct datacache *cache, size_t *bytes, size_t *entries)
{
    pthread_mutex_lock(&cache->lock);
    *bytes = cache->held;
    *entries = 0;
    for (const struct entry *e = cache->entries; e != NULL; e = e->next)
        (*entries)++;
    pthread_mutex_unlock(&cache->lock);
}
