/* The cache of loaded data. */
#include "server/data/memory_cache.h"
#include "server/base/background.h"
#include "server/base/places.h"
#include "server/data/load.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOADS_MAX  4
#define LOADS_EACH 1                    /* so that the loads of one user do not occupy all slots */
#define LOAD_FREE  ((size_t)16 << 20)   /* bytes of reading that are not charged to the budget */
#define DISK_FROM  ((uint64_t)32 << 20) /* bytes; smaller files are read whole */

struct entry {
    struct data data; /* first: a `const struct data *` is its entry */
    char *key;
    char user[DATA_FILE_USER_MAX + 1]; /* the user who first used it, charged for its bytes */
    size_t references;
    size_t held; /* bytes of the budget */
    bool loading, failed;
    uint64_t used; /* for least recently used */
    struct entry *next;
};

struct memory_cache {
    const struct data_root *root;
    size_t budget, held, most_held;
    uint64_t refused;
    uint64_t tick;
    /* Users whose loads are under way (borrowed names, NULL: a free slot); each may hold a small
     * file, its table and the result in memory. */
    const char *loaders[LOADS_MAX];
    bool halted;
    uint64_t unpacked; /* bytes, the most of a file; 0: any number */
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

void memory_cache_limit_unpacked(struct memory_cache *cache, uint64_t bytes)
{
    cache->unpacked = bytes;
}

void memory_cache_halt(struct memory_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    cache->halted = true;
    pthread_cond_broadcast(&cache->loaded);
    pthread_mutex_unlock(&cache->lock);
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

static void check_file(const struct memory_cache *cache, const char *user, const char *path,
                       const char *pointer, struct mistakes *mistakes)
{
    struct data_file file;
    struct err_info info = {0};
    if (path != NULL && !mistake_at(mistakes, pointer) &&
        open_one(cache, user, path, pointer, &file, mistakes, &info) == ERR_OK)
        data_file_close(&file);
}

void memory_cache_check_files(const struct memory_cache *cache, const char *user, const char *path,
                              const char *test, struct mistakes *mistakes)
{
    check_file(cache, user, path, "/data/path", mistakes);
    check_file(cache, user, test, "/data/test", mistakes);
}

static enum err open_files(const struct memory_cache *cache, const char *user,
                           const struct data_spec *spec, struct load_files *f,
                           struct mistakes *mistakes, struct err_info *info)
{
    f->has_test = false;
    enum err code = open_one(cache, user, spec->path, "/data/path", &f->train, mistakes, info);
    if (code == ERR_INVALID)
        check_file(cache, user, spec->test, "/data/test", mistakes);
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

/* One user gets at most half of the budget. Entries that no job uses count for no user. */
static bool within_share(const struct memory_cache *cache, const char *user, size_t more)
{
    size_t held = more;
    for (const struct entry *e = cache->entries; e != NULL; e = e->next)
        if (e->references > 0 && strcmp(e->user, user) == 0)
            held += e->held;
    return held <= cache->budget / 2;
}

/* An entry whose mapped file could not be read is not used again. An entry that no job uses is
 * charged to the next user; for a user whose share it exceeds it does not count as an entry: the
 * load then decides whether the data are mapped or the job waits. */
static bool usable(const struct memory_cache *cache, const struct entry *e, const char *key,
                   const char *user)
{
    return strcmp(e->key, key) == 0 && !data_broken(&e->data) &&
           (e->references > 0 || within_share(cache, user, e->held));
}

static struct entry *find(const struct memory_cache *cache, const char *key, const char *user)
{
    struct entry *e = cache->entries;
    while (e != NULL && !usable(cache, e, key, user))
        e = e->next;
    return e;
}

/* An entry with this key: an existing one (after waiting, if it is being loaded), or a new one,
 * marked as being loaded by the caller, which then holds slot *place. A new entry is made only when
 * the user has a slot, so that a user who waits for one does not delay others who need the same
 * data. NULL: no memory, or halted. */
static struct entry *claim(struct memory_cache *cache, const char *key, const char *user,
                           size_t *place)
{
    struct entry *e;
    *place = LOADS_MAX;
    while ((e = find(cache, key, user)) == NULL && !cache->halted &&
           (*place = places_find(cache->loaders, LOADS_MAX, LOADS_EACH, user)) == LOADS_MAX)
        pthread_cond_wait(&cache->loaded, &cache->lock);
    if (e != NULL) {
        if (e->references++ == 0)
            snprintf(e->user, sizeof e->user, "%s", user);
        while (e->loading)
            pthread_cond_wait(&cache->loaded, &cache->lock);
        return e;
    }
    if (cache->halted)
        return NULL;
    e = calloc(1, sizeof *e);
    char *copy = strdup(key);
    if (e == NULL || copy == NULL) {
        free(e);
        free(copy);
        return NULL;
    }
    e->key = copy;
    snprintf(e->user, sizeof e->user, "%s", user);
    e->references = 1;
    e->loading = true;
    e->next = cache->entries;
    cache->entries = e;
    cache->loaders[*place] = user;
    return e;
}

/* Mapped data are opened again at little cost, and the disk cache can remove the file once it is
 * not mapped. */
static void drop(struct memory_cache *cache, struct entry *e)
{
    bool keep = !e->failed && !e->data.mapped && cache->held <= cache->budget;
    e->used = ++cache->tick;
    if (--e->references == 0 && !keep)
        unlink_entry(cache, e);
}

/* A load, and the memory that it has taken from the budget. */
struct claimant {
    struct memory_cache *cache;
    struct entry *entry;
    size_t arrays;           /* bytes of the budget for the result */
    size_t reading, counted; /* bytes of files and tables; of these, of the budget */
};

/* Under the lock: changes one part of what the entry holds. */
static bool hold_bytes(struct claimant *c, size_t *part, size_t bytes)
{
    struct memory_cache *cache = c->cache;
    if (bytes > *part &&
        (!within_share(cache, c->entry->user, bytes - *part) || !make_room(cache, bytes - *part))) {
        cache->refused++;
        return false;
    }
    c->entry->held += bytes - *part;
    cache->held += bytes - *part;
    cache->most_held = cache->held > cache->most_held ? cache->held : cache->most_held;
    *part = bytes;
    return true;
}

static enum err in_use(struct err_info *info, size_t bytes)
{
    return err_set(info, ERR_UNAVAILABLE,
                   "no room for %zu MB of data: other jobs use the memory for data, of which one "
                   "user may use at most half (data_memory_mb)",
                   bytes >> 20);
}

static size_t budgeted_bytes(size_t reading)
{
    return reading > LOAD_FREE ? reading - LOAD_FREE : 0;
}

static enum err too_large(const struct claimant *c, const char *what, size_t bytes,
                          struct err_info *info)
{
    return err_set(info, ERR_TOO_LARGE,
                   "%s %zu MB of memory; one user may use at most half of the %zu MB for data "
                   "(data_memory_mb)",
                   what, bytes >> 20, c->cache->budget >> 20);
}

static enum err take_reading(void *context, size_t bytes, struct err_info *info)
{
    struct claimant *c = context;
    size_t reading = c->reading + bytes;
    if (budgeted_bytes(reading) > c->cache->budget / 2)
        return too_large(c, "reading the data takes", reading, info);
    pthread_mutex_lock(&c->cache->lock);
    bool fits = hold_bytes(c, &c->counted, budgeted_bytes(reading));
    pthread_mutex_unlock(&c->cache->lock);
    if (!fits)
        return in_use(info, bytes);
    c->reading = reading;
    return ERR_OK;
}

static void give_reading(void *context, size_t bytes)
{
    struct claimant *c = context;
    c->reading -= bytes;
    pthread_mutex_lock(&c->cache->lock);
    hold_bytes(c, &c->counted, budgeted_bytes(c->reading));
    pthread_mutex_unlock(&c->cache->lock);
}

static enum err reserve(void *context, size_t bytes, struct err_info *info)
{
    struct claimant *c = context;
    struct memory_cache *cache = c->cache;
    if (bytes + c->counted > cache->budget / 2)
        return too_large(c, "the data take", bytes + c->counted, info);
    pthread_mutex_lock(&cache->lock);
    bool fits = hold_bytes(c, &c->arrays, bytes);
    pthread_mutex_unlock(&cache->lock);
    return fits ? ERR_OK : in_use(info, bytes);
}

/* Loads without the lock, which is held before and after. It may take minutes of processor time, also
 * when a request waits for it. */
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
                       .budget = cache->budget / 2 + LOAD_FREE,
                       .unpacked = cache->unpacked,
                       .reading = {take_reading, give_reading, &claimant},
                       .reserve = reserve,
                       .context = &claimant};
    pthread_mutex_unlock(&cache->lock);
    background_enter();
    enum err code = load_data(&way, &data, mistakes, info);
    pthread_mutex_lock(&cache->lock);
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
    size_t place = LOADS_MAX;
    pthread_mutex_lock(&cache->lock);
    struct entry *e = key != NULL ? claim(cache, key, user, &place) : NULL;
    if (e != NULL && place < LOADS_MAX) {
        code = load(cache, e, &files, spec, kind, mistakes, info);
        cache->loaders[place] = NULL;
    } else if (e != NULL && e->failed) {
        code = err_set(info, ERR_UNAVAILABLE, "the data could not be loaded; try again");
    } else if (e == NULL && cache->halted) {
        code = err_set(info, ERR_UNAVAILABLE, "the server is shutting down");
    } else if (e == NULL) {
        code = err_set(info, ERR_NO_MEMORY, "no memory for the data");
    }
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

void memory_cache_budget(struct memory_cache *cache, struct budget_stats *out)
{
    pthread_mutex_lock(&cache->lock);
    *out = (struct budget_stats){.total = cache->budget,
                                 .per_user = cache->budget / 2,
                                 .used = cache->held,
                                 .most_used = cache->most_held,
                                 .refused = cache->refused};
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
