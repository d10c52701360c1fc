/* Speed of the store, next to a plain file that is written and synced with the same bytes.
 * BENCH_DIR chooses the disk (default: a new directory under /var/tmp). */
#include "server/jobfile.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char directory[200];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void must(enum err code, const struct err_info *info)
{
    if (code == ERR_OK)
        return;
    fprintf(stderr, "bench-store: %s: %s\n", err_name(code), info->message);
    exit(1);
}

static struct store *open_store(const char *name)
{
    struct store *store;
    struct err_info info = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    must(store_open(&store, &(struct store_config){.directory = path}, &info), &info);
    return store;
}

/* ---- a plain file ---- */

static double file_seconds(size_t writes, size_t bytes)
{
    char path[300];
    snprintf(path, sizeof path, "%s/plain", directory);
    char *buffer = malloc(bytes);
    memset(buffer, 0x5a, bytes);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    double from = seconds();
    for (size_t i = 0; i < writes; i++) {
        if (write(fd, buffer, bytes) != (ssize_t)bytes || fdatasync(fd) != 0) {
            perror("bench-store: write");
            exit(1);
        }
    }
    double took = seconds() - from;
    close(fd);
    unlink(path);
    free(buffer);
    return took;
}

/* ---- job creation ---- */

enum { CREATES = 2000 };

struct creator {
    struct store *store;
    size_t from, count;
};

static void *create(void *arg)
{
    const struct creator *c = arg;
    static char request[1500];
    memset(request, 'x', sizeof request - 1);
    for (size_t i = c->from; i < c->from + c->count; i++) {
        struct err_info info = {0};
        struct job_row row = {.owner = "ana",
                              .state = JOB_queued,
                              .reason = "waits for its first slice",
                              .request = request,
                              .model = "logistic",
                              .sampler = "sgbd"};
        char key[32];
        bool existing;
        job_id_make(row.id, i, (uint32_t)i);
        snprintf(key, sizeof key, "key-%zu", i);
        must(
            store_job_create(c->store, &row, key, (const unsigned char *)request, &existing, &info),
            &info);
    }
    return NULL;
}

static void bench_creates(size_t threads, size_t count)
{
    struct store *store = open_store(threads == 1 ? "create1" : "create16");
    struct creator creators[16];
    pthread_t ids[16];
    double from = seconds();
    for (size_t t = 0; t < threads; t++) {
        creators[t] = (struct creator){
            .store = store, .from = 1 + t * (count / threads), .count = count / threads};
        pthread_create(&ids[t], NULL, create, &creators[t]);
    }
    for (size_t t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
    double took = seconds() - from;
    struct store_stats stats;
    store_stats(store, &stats);
    store_close(store);
    double file = file_seconds(count / 4, 4096) * 4;
    printf(
        "%2zu threads creating jobs     %8.0f /s   (%.1f per commit)   file + fdatasync %.0f /s\n",
        threads, (double)count / took, (double)stats.operations / (double)stats.commits,
        (double)count / file);
}

/* ---- draws ---- */

struct shape {
    size_t width, draws, commits; /* draws per commit */
};

static void make_job(struct store *store, const char *job, size_t width)
{
    struct err_info info = {0};
    char(*texts)[32] = malloc(width * sizeof *texts);
    const char **names = malloc(width * sizeof *names);
    for (size_t i = 0; i < width; i++) {
        snprintf(texts[i], sizeof texts[i], "theta[%zu]", i + 1);
        names[i] = texts[i];
    }
    struct jobfile_meta meta = {
        .request = "{}", .names = names, .width = width, .d = width, .chains = 1, .thin = 10};
    must(jobfile_create(store, job, &meta, &info), &info);
    free(names);
    free(texts);
}

static void bench_draws(const struct shape *s)
{
    struct err_info info = {0};
    struct store *store = open_store("draws");
    char job[JOB_ID_SIZE];
    job_id_make(job, 7, (uint32_t)s->width * 1000 + (uint32_t)s->draws);
    double from = seconds();
    make_job(store, job, s->width);
    double made = seconds() - from;
    size_t bytes = s->draws * s->width * sizeof(double);
    double *values = malloc(bytes);
    for (size_t i = 0; i < s->draws * s->width; i++)
        values[i] = (double)i * 0.2385;
    char state[4096] = {0};
    from = seconds();
    for (size_t i = 0; i < s->commits; i++) {
        struct jobfile_slice slice = {.chain = 1,
                                      .iteration = (i + 1) * s->draws * 10,
                                      .state = state,
                                      .state_size = sizeof state,
                                      .first_draw = i * s->draws,
                                      .draws = s->draws,
                                      .values = values};
        must(jobfile_commit(store, job, &slice, &info), &info);
    }
    double took = seconds() - from, mib = (double)(bytes * s->commits) / 1048576;
    uint64_t on_disk = jobfile_bytes(store, job);
    double file = file_seconds(s->commits, bytes);
    printf("d=%-6zu %5zu draws/commit  %8.1f MiB/s   file + fdatasync %7.1f MiB/s   ratio %.2f   "
           "on disk %.2f x   created in %.1f ms\n",
           s->width, s->draws, mib / took, mib / file, file / took,
           (double)on_disk / (double)(bytes * s->commits), made * 1e3);
    free(values);
    store_close(store);
}

/* ---- reading ---- */

static double best(double (*once)(struct store *store, const char *job), struct store *store,
                   const char *job)
{
    double least = 1e9;
    for (int i = 0; i < 7; i++) {
        double took = once(store, job);
        least = took < least ? took : least;
    }
    return least;
}

static double read_one(struct store *store, const char *job)
{
    struct err_info info = {0};
    struct jobfile *file;
    struct jobfile_chain chain;
    double *out = malloc(5000 * sizeof *out), from = seconds();
    must(jobfile_open(&file, store, job, &info), &info);
    must(jobfile_chain(file, 1, &chain, &info), &info);
    uint32_t column = 31111;
    must(jobfile_draws(file, 1, 0, chain.draws < 5000 ? chain.draws : 5000, &column, 1, out, &info),
         &info);
    jobfile_close(file);
    free(out);
    return seconds() - from;
}

static double open_cold(struct store *store, const char *job)
{
    /* Two at once, so that the pool has only one of them. */
    struct err_info info = {0};
    struct jobfile *first, *second;
    must(jobfile_open(&first, store, job, &info), &info);
    double from = seconds();
    must(jobfile_open(&second, store, job, &info), &info);
    double took = seconds() - from;
    (void)second; /* kept open: the next one must be new as well */
    jobfile_close(first);
    return took;
}

static double open_pooled(struct store *store, const char *job)
{
    struct err_info info = {0};
    struct jobfile *file;
    double from = seconds();
    must(jobfile_open(&file, store, job, &info), &info);
    jobfile_close(file);
    return seconds() - from;
}

static double read_all(struct store *store, const char *job)
{
    struct err_info info = {0};
    struct jobfile *file;
    struct jobfile_chain chain;
    must(jobfile_open(&file, store, job, &info), &info);
    must(jobfile_chain(file, 1, &chain, &info), &info);
    double *out = malloc(8192 * 4 * sizeof *out), from = seconds();
    for (uint64_t at = 0; at + 8192 <= chain.draws; at += 8192)
        must(jobfile_draws(file, 1, at, 8192, NULL, 0, out, &info), &info);
    double took = seconds() - from;
    free(out);
    jobfile_close(file);
    return took / ((double)(chain.draws / 8192) * 8192 * 32 / 1048576);
}

static void bench_reads(const struct shape *wide, const struct shape *narrow)
{
    char job[JOB_ID_SIZE], other[JOB_ID_SIZE];
    job_id_make(job, 7, (uint32_t)wide->width * 1000 + (uint32_t)wide->draws);
    job_id_make(other, 7, (uint32_t)narrow->width * 1000 + (uint32_t)narrow->draws);
    struct store *store = open_store("draws");
    printf("one of %zu columns, %zu draws stored %zu at a time: %.2f ms\n", wide->width,
           wide->draws * wide->commits < 5000 ? wide->draws * wide->commits : 5000, wide->draws,
           1e3 * best(read_one, store, job));
    printf("all draws of d=4: %.0f MiB/s\n", 1 / best(read_all, store, other));
    printf("opening a job file: %.0f us new, %.1f us from the pool\n",
           1e6 * best(open_cold, store, other), 1e6 * best(open_pooled, store, other));
    fflush(stdout);
    /* Some readers are still open on purpose, so the store is not closed. */
}

/* ---- start ---- */

static void bench_gets(struct store *store)
{
    enum { GETS = 50000 };
    struct err_info info = {0};
    double from = seconds();
    for (size_t i = 0; i < GETS; i++) {
        struct job_row row;
        char id[JOB_ID_SIZE];
        job_id_make(id, 1 + i % CREATES, (uint32_t)(1 + i % CREATES));
        must(store_job_get(store, id, &row, &info), &info);
        job_row_release(&row);
    }
    printf("reading jobs, 1 thread         %8.0f /s\n", GETS / (seconds() - from));
}

static void bench_start(void)
{
    struct store *store = open_store("create16");
    struct creator c = {.store = store, .from = 100000};
    pthread_t ids[16];
    struct creator many[16];
    for (size_t t = 0; t < 16; t++) {
        many[t] = c;
        many[t].from += t * 1000;
        many[t].count = 640;
        pthread_create(&ids[t], NULL, create, &many[t]);
    }
    for (size_t t = 0; t < 16; t++)
        pthread_join(ids[t], NULL);
    struct store_stats stats;
    store_close(store);
    double from = seconds();
    store = open_store("create16");
    double took = seconds() - from;
    store_stats(store, &stats);
    printf("start with 12 000 jobs (%.0f MiB): %.0f ms\n", (double)stats.file_bytes / 1048576,
           took * 1e3);
    bench_gets(store);
    store_close(store);
    char command[400];
    snprintf(command, sizeof command,
             "sqlite3 %s/create16/barkerd.db \"UPDATE meta SET value = 0 WHERE key = "
             "'clean_stop'\" 2>/dev/null",
             directory);
    if (system(command) != 0)
        return;
    from = seconds();
    store = open_store("create16");
    printf("the same after a crash: %.0f ms\n", 1e3 * (seconds() - from));
    store_close(store);
}

int main(void)
{
    static const struct shape shapes[] = {
        {4, 20, 400},    {4, 1000, 400},  {4, 8192, 200},  {4, 32768, 60},
        {52580, 1, 130}, {52580, 2, 130}, {52580, 19, 30}, {52580, 64, 80},
    };
    const char *chosen = getenv("BENCH_DIR");
    snprintf(directory, sizeof directory, "%s/bench-store-XXXXXX",
             chosen != NULL ? chosen : "/var/tmp");
    if (mkdtemp(directory) == NULL) {
        perror("bench-store");
        return 1;
    }
    bench_creates(1, CREATES / 4);
    bench_creates(16, CREATES);
    bench_start();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        bench_draws(&shapes[i]);
    bench_reads(&shapes[7], &shapes[3]);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command) == 0 ? 0 : 1;
}
