/* Everything that may happen to a store at once, for ThreadSanitizer: chains are committed and
 * read, jobs created, changed, listed and purged, notes taken, files exported, backups made.
 *
 *     tsan-store [SECONDS] */
#include "server/base/clock.h"
#include "server/store/jobfile.h"
#include "server/store/users.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 3, WIDTH = 5 };

static struct store *store;
static char directory[] = "/tmp/tsan-store-XXXXXX";
static atomic_bool running = true;
static atomic_size_t failures, actions;
static atomic_uint serial;

static void expect(enum err code, const struct err_info *info)
{
    actions++;
    if (code == ERR_OK)
        return;
    failures++;
    fprintf(stderr, "tsan-store: %s: %s\n", err_name(code), info->message);
}

static void file_id(size_t n, char id[JOB_ID_SIZE])
{
    job_id_make(id, 100 + n, 5);
}

static void *commit(void *arg)
{
    struct err_info info = {0};
    const char *names[WIDTH] = {"a", "b", "c", "d", "e"};
    char id[JOB_ID_SIZE];
    double values[WIDTH * 40] = {0};
    file_id((size_t)arg, id);
    struct jobfile_meta meta = {
        .request = "{}", .names = names, .width = WIDTH, .d = WIDTH, .chains = 1};
    expect(jobfile_create(store, id, &meta, &info), &info);
    for (uint64_t first = 0; running; first += 40) {
        struct jobfile_slice slice = {.chain = 1,
                                      .first_draw = first,
                                      .draws = 40,
                                      .values = values,
                                      .state = values,
                                      .state_size = 100,
                                      .mean = values};
        expect(jobfile_commit(store, id, &slice, 1, &info), &info);
    }
    return NULL;
}

static void *read_draws(void *arg)
{
    for (size_t n = (size_t)arg; running; n++) {
        struct err_info info = {0};
        struct jobfile *file;
        struct jobfile_chain chain;
        double out[100];
        uint32_t column = 3;
        char id[JOB_ID_SIZE];
        file_id(n % FILES, id);
        if (jobfile_open(&file, store, id, &info) == ERR_NOT_FOUND)
            continue;
        expect(jobfile_chain(file, 1, &chain, &info), &info);
        size_t count = chain.draws < 100 ? (size_t)chain.draws : 100;
        expect(jobfile_draws(file, 1, chain.draws - count, count, &column, 1, out, &info), &info);
        jobfile_name(file, 2);
        jobfile_close(file);
    }
    return NULL;
}

static void *change_jobs(void *arg)
{
    (void)arg;
    while (running) {
        struct err_info info = {0};
        bool existing;
        unsigned n = serial++;
        struct job_row row = {.owner = "ana",
                              .request = (char *)"{}",
                              .model = (char *)"ica",
                              .sampler = (char *)"sgbd"};
        job_id_make(row.id, 5000 + n, n);
        expect(store_job_create(store, &row, NULL, &existing, &info), &info);
        row.state = JOB_running;
        expect(store_job_update(store, &row, JOB_SET_STATE, "started", &info), &info);
        store_usage_note(store, "ana", n, n);
        if (n % 4 == 0)
            expect(store_job_purge(store, row.id, 0, &info), &info);
    }
    return NULL;
}

static bool see(void *ctx, const struct job_row *row)
{
    (void)row;
    ++*(size_t *)ctx;
    return true;
}

static void *list_jobs(void *arg)
{
    (void)arg;
    while (running) {
        struct err_info info = {0};
        struct store_stats stats;
        size_t count = 0;
        struct job_filter filter = {.owner = "ana", .limit = 100};
        expect(store_jobs(store, &filter, see, &count, &info), &info);
        store_stats(store, &stats);
        store_broken(store, NULL);
    }
    return NULL;
}

static void *copy(void *arg)
{
    (void)arg;
    for (unsigned n = 0; running; n++) {
        struct err_info info = {0};
        char path[100], command[120], id[JOB_ID_SIZE];
        struct jobfile_copy copy;
        file_id(0, id);
        if (jobfile_copy_open(&copy, store, "ana", id, &info) == ERR_OK)
            jobfile_copy_close(&copy);
        snprintf(path, sizeof path, "%s/backup", directory);
        expect(store_backup_directory(directory, path, NULL, NULL, &info), &info);
        snprintf(command, sizeof command, "rm -rf %s", path);
        failures += system(command) != 0;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 5;
    struct err_info info = {0};
    pthread_t threads[10];
    size_t count = 0;
    if (mkdtemp(directory) == NULL)
        return 2;
    expect(store_open(&store, &(struct store_config){.directory = directory}, &info), &info);
    if (store == NULL)
        return 2;
    for (size_t i = 0; i < FILES; i++)
        pthread_create(&threads[count++], NULL, commit, (void *)i);
    pthread_create(&threads[count++], NULL, read_draws, (void *)0);
    pthread_create(&threads[count++], NULL, read_draws, (void *)1);
    pthread_create(&threads[count++], NULL, change_jobs, NULL);
    pthread_create(&threads[count++], NULL, change_jobs, NULL);
    pthread_create(&threads[count++], NULL, list_jobs, NULL);
    pthread_create(&threads[count++], NULL, copy, NULL);
    sleep(seconds);
    running = false;
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    store_close(store);
    char command[60];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    failures += system(command) != 0;
    printf("%zu actions, %zu failures\n", (size_t)actions, (size_t)failures);
    return failures > 0;
}
