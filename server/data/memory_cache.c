/* The cache of loaded data. */
#include "server/data/memory_cache.h"
#include "server/data/load.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOADS_MAX 2
#define DISK_FROM ((uint64_t)32 << 20) /* bytes; smaller files are read whole */

struct entry {
    struct data data; /* first: a `const struct data *` is its entry */
    char *key;
    size_t references;
    size_t held; /* bytes of the budget */
    bool loading, failed;
    uint64_t used; /* for least recently used */
    struct entry *next;
};

struct memory_cache {
    const struct data_root *root;
    size_t budget, held;
    uint64_t tick;
    unsigned loads; /* under way; each may hold a small file, its table and the result in memory */
    struct disk_cache *disk;
    uint64_t disk_from;
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    struct entry *entries;
};

struct memory_cache *memory_cache_new(const struct data_root *root, size_t budget_bytes)
{
    struct memory_cache *cache = calloc(1, sizeof *cache);
    if (cache == NULL)
        return NULL;
    cache->root = root;
    cache->budget = budget_bytes;
    cache->disk_from = DISK_FROM;
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->loaded, NULL);
    return cache;
}

void memory_cache_use_disk(struct memory_cache *cache, struct disk_cache *disk, uint64_t from_bytes)
{
    cache->disk = disk;
    cache->disk_from = from_bytes;
}

static void entry_free(struct entry *entry)
{
    data_release(&entry->data);
    free(entry->key);
    free(entry);
}

void memory_cache_free(struct memory_cache *cache)
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

static enum err open_one(const struct memory_cache *cache, const char *user, const char *path,
                         const char *pointer, struct data_file *out, struct mistakes *mistakes,
                         struct err_info *info)
{
    enum err code = data_file_open(cache->root, user, path, out, info);
    return data_rows_mistake(code, pointer, mistakes, info);
}

static void close_files(struct load_files *f)
{
    data_file_close(&f->train);
    if (f->has_test)
        data_file_close(&f->test);
}

static void look_at(const struct memory_cache *cache, const char *user, const char *path,
                    const char *pointer, struct mistakes *mistakes)
{
    struct data_file file;
    struct err_info info = {0};
    if (path != NULL && !mistake_at(mistakes, pointer) &&
        open_one(cache, user, path, pointer, &file, mistakes, &info) == ERR_OK)
        data_file_close(&file);
}

void memory_cache_look(const struct memory_cache *cache, const char *user, const char *path,
                       const char *test, struct mistakes *mistakes)
{
    look_at(cache, user, path, "/data/path", mistakes);
    look_at(cache, user, test, "/data/test", mistakes);
}

static enum err open_files(const struct memory_cache *cache, const char *user,
                           const struct data_spec *spec, struct load_files *f,
                           struct mistakes *mistakes, struct err_info *info)
{
    f->has_test = false;
    enum err code = open_one(cache, user, spec->path, "/data/path", &f->train, mistakes, info);
    if (code == ERR_INVALID)
        look_at(cache, user, spec->test, "/data/test", mistakes);
    if (code != ERR_OK || spec->test == NULL)
        return code;
    code = open_one(cache, user, spec->test, "/data/test", &f->test, mistakes, info);
    f->has_test = code == ERR_OK;
    if (code != ERR_OK)
        data_file_close(&f->train);
    return code;
}

/* ---- keys ---- */

static void print_identity(FILE *out, const struct data_file *f)
{
    fprintf(out, "%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%lld.%09ld|", f->device, f->inode, f->size,
            (long long)f->modified.tv_sec, f->modified.tv_nsec);
}

/* Which files, by inode and times, and what is made of them. */
static char *make_key(const struct load_files *f, const struct data_spec *spec, enum data_kind kind)
{
    char *key = NULL;
    size_t size;
    FILE *out = open_memstream(&key, &size);
    if (out == NULL)
        return NULL;
    print_identity(out, &f->train);
    if (f->has_test)
        print_identity(out, &f->test);
    prepare_print_key(out, spec, kind);
    if (fclose(out) != 0) {
        free(key);
        return NULL;
    }
    return key;
}

/* ---- the cache, under its lock ---- */

static void unlink_entry(struct memory_cache *cache, struct entry *entry)
{
    struct entry **at = &cache->entries;
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    cache->held -= entry->held;
    entry_free(entry);
}

/* Evicts unused entries, the least recently used first, until `bytes` more fit. */
static bool make_room(struct memory_cache *cache, size_t bytes)
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

/* An entry whose mapped file could not be read is not handed out again. */
static bool usable(const struct entry *e, const char *key)
{
    return strcmp(e->key, key) == 0 && !data_broken(&e->data);
}

/* An entry with this key: one that is there (waiting for it if it is being loaded), or a new one,
 * marked as being loaded by the caller. NULL: no memory. */
static struct entry *claim(struct memory_cache *cache, const char *key, bool *mine)
{
    *mine = false;
    struct entry *e;
    for (e = cache->entries; e != NULL && !usable(e, key); e = e->next)
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

/* What is mapped is opened again in no time, and the disk cache may remove it when no job has it. */
static void drop(struct memory_cache *cache, struct entry *e)
{
    bool keep = !e->failed && !e->data.mapped && cache->held <= cache->budget;
    e->used = ++cache->tick;
    if (--e->references == 0 && !keep)
        unlink_entry(cache, e);
}

/* For whom memory is wanted. */
struct claimant {
    struct memory_cache *cache;
    struct entry *entry;
};

static enum err reserve(void *context, size_t bytes, struct err_info *info)
{
    struct claimant *c = context;
    struct memory_cache *cache = c->cache;
    if (bytes > cache->budget)
        return err_set(info, ERR_TOO_LARGE,
                       "the data take %zu MB of memory, more than the %zu MB allowed", bytes >> 20,
                       cache->budget >> 20);
    pthread_mutex_lock(&cache->lock);
    cache->held -= c->entry->held;
    c->entry->held = 0;
    bool fits = make_room(cache, bytes);
    if (fits) {
        c->entry->held = bytes;
        cache->held += bytes;
    }
    pthread_mutex_unlock(&cache->lock);
    if (fits)
        return ERR_OK;
    return err_set(info, ERR_UNAVAILABLE, "the memory for data is in use by other jobs");
}

/* Loads without the lock, which is held before and after. */
static enum err load(struct memory_cache *cache, struct entry *e, const struct load_files *files,
                     const struct data_spec *spec, enum data_kind kind, struct mistakes *mistakes,
                     struct err_info *info)
{
    struct data data = {0};
    struct claimant claimant = {.cache = cache, .entry = e};
    struct load way = {.files = files,
                       .spec = spec,
                       .kind = kind,
                       .disk = cache->disk,
                       .disk_from = cache->disk_from,
                       .budget = cache->budget,
                       .reserve = reserve,
                       .context = &claimant};
    while (cache->loads >= LOADS_MAX)
        pthread_cond_wait(&cache->loaded, &cache->lock);
    cache->loads++;
    pthread_mutex_unlock(&cache->lock);
    enum err code = load_data(&way, &data, mistakes, info);
    pthread_mutex_lock(&cache->lock);
    cache->loads--;
    e->data = data;
    if (code != ERR_OK || data.mapped) {
        cache->held -= e->held;
        e->held = 0;
    }
    e->loading = false;
    e->failed = code != ERR_OK;
    pthread_cond_broadcast(&cache->loaded);
    return code;
}

enum err memory_cache_get(struct memory_cache *cache, const char *user,
                          const struct data_spec *spec, enum data_kind kind,
                          const struct data **out, struct mistakes *mistakes, struct err_info *info)
{
    struct load_files files;
    enum err code = open_files(cache, user, spec, &files, mistakes, info);
    if (code != ERR_OK)
        return code;
    char *key = make_key(&files, spec, kind);
    bool mine = false;
    pthread_mutex_lock(&cache->lock);
    struct entry *e = key != NULL ? claim(cache, key, &mine) : NULL;
    if (e != NULL && mine)
        code = load(cache, e, &files, spec, kind, mistakes, info);
    else if (e != NULL && e->failed)
        code = err_set(info, ERR_UNAVAILABLE, "the data could not be loaded just now; try again");
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

void memory_cache_put(struct memory_cache *cache, const struct data *data)
{
    if (data == NULL)
        return;
    pthread_mutex_lock(&cache->lock);
    drop(cache, (struct entry *)(uintptr_t)data);
    pthread_mutex_unlock(&cache->lock);
}

void memory_cache_stats(struct memory_cache *cache, size_t *bytes, size_t *entries)
{
    pthread_mutex_lock(&cache->lock);
    *bytes = cache->held;
    *entries = 0;
    for (const struct entry *e = cache->entries; e != NULL; e = e->next)
        (*entries)++;
    pthread_mutex_unlock(&cache->lock);
}

size_t memory_cache_mapped(struct memory_cache *cache)
{
    size_t bytes = 0;
    pthread_mutex_lock(&cache->lock);
    for (const struct entry *e = cache->entries; e != NULL; e = e->next)
        bytes += !e->loading && e->data.mapped ? e->data.bytes : 0;
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}
