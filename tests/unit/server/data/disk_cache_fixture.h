/* A data root with a disk cache behind a memory cache. */
#ifndef BARKER_TESTS_DISK_CACHE_FIXTURE_H
#define BARKER_TESTS_DISK_CACHE_FIXTURE_H

#include "server/data/guard.h"
#include "server/data/memory_cache.h"
#include "server/data/disk_cache.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define BUDGET ((size_t)64 << 20)
#define NAME   100

extern char disk_top[];
extern struct data_root *disk_root;
extern struct disk_cache *disk;
extern struct memory_cache *cache;

static inline const char *at(const char *name)
{
    static char path[4][300];
    static unsigned next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", disk_top, name);
    return out;
}

static inline void put_bytes(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(at(name), "w");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* Rows that need double precision in column b and not in a. */
static inline void put_rows(const char *name, int rows, int salt)
{
    FILE *file = fopen(at(name), "w");
    cr_assert_not_null(file);
    fprintf(file, "a,b,y\n");
    for (int i = 0; i < rows; i++)
        fprintf(file, "%d.5,%d.1,%d\n", (i * 7 + salt) % 1000, i % 13, (i + salt) % 2);
    fclose(file);
}

extern struct disk_cache_limits limits;

/* A daemon that starts: everything from `from` bytes on goes through the disk cache. */
static inline void start(size_t budget, uint64_t from)
{
    struct err_info info = {0};
    memory_cache_free(cache);
    disk_cache_close(disk);
    disk = NULL;
    cr_assert_eq(disk_cache_open(&disk, disk_top, &limits, &info), ERR_OK, "%s", info.message);
    cache = memory_cache_new(disk_root, budget);
    memory_cache_use_disk(cache, disk, from);
}

static inline void teardown(void)
{
    char command[64];
    memory_cache_free(cache);
    disk_cache_close(disk);
    data_root_close(disk_root);
    snprintf(command, sizeof command, "rm -rf %s", disk_top);
    cr_assert_eq(system(command), 0);
}

extern struct err_info said;

static inline enum err try_get(const struct data_spec *spec, enum data_kind kind,
                               const struct data **out)
{
    struct mistakes mistakes = {0};
    said = (struct err_info){0};
    *out = NULL;
    enum err code = memory_cache_get(cache, "ada", spec, kind, out, &mistakes, &said);
    if (code == ERR_INVALID && mistakes.count > 0)
        snprintf(said.message, sizeof said.message, "%s", mistakes.items[0].detail);
    return code;
}

static inline const struct data *get(const struct data_spec *spec, enum data_kind kind)
{
    const struct data *data = NULL;
    enum err code = try_get(spec, kind, &data);
    cr_assert_eq(code, ERR_OK, "%s: %s", err_text(code), said.message);
    return data;
}

static inline const struct data *get_train(void)
{
    struct data_spec spec = {.path = "train.csv", .response = "y"};
    return get(&spec, DATA_REGRESSION);
}

static inline struct disk_cache_stats stats(void)
{
    struct disk_cache_stats s;
    disk_cache_stats(disk, &s);
    return s;
}

/* The name of the one file in the disk cache. */
static inline const char *only_file(void)
{
    static char name[300];
    size_t count = 0;
    DIR *folder = opendir(at("cache"));
    for (struct dirent *item; (item = readdir(folder)) != NULL;)
        if (item->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/cache/%s", disk_top, item->d_name);
            count++;
        }
    closedir(folder);
    cr_assert_eq(count, 1);
    return name;
}

static inline size_t files_there(void)
{
    size_t count = 0;
    DIR *folder = opendir(at("cache"));
    for (struct dirent *item; (item = readdir(folder)) != NULL;)
        count += item->d_name[0] != '.';
    closedir(folder);
    return count;
}

#endif
