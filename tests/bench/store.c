/* Speed of the store next to a plain file that is written and synced with the same bytes, and next
 * to two of them, a log that is written over and a file that is synced once a round: what anybody
 * pays who writes twice. Leaves a state directory with many finished jobs behind, for a daemon to
 * be started on. Prints one JSON object. Called by tests/bench/server.
 *
 *     bench-store STATE JOBS NARROW_DRAWS WIDE_DRAWS
 *
 * Of the jobs, one has NARROW_DRAWS draws of 4 parameters, one has WIDE_DRAWS of 52 580, both
 * stored as chains do it: as many draws in a commit as a chain buffers. They take turns in rounds,
 * and a ratio is that of one round: the speed of a disk that others use changes within a second. */
#include "server/store/jobfile.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, ROUNDS = 32, READS = 15 };

static const char *directory;
static struct store *store;

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

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

/* ---- plain files ---- */

struct plain {
    int file, log, target;
    const void *bytes;
    size_t size, round; /* of a commit in bytes, of a round in commits */
};

static int open_plain(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/plain", directory);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    unlink(path);
    return fd;
}

static void write_bytes(int fd, const struct plain *p, bool sync)
{
    if (write(fd, p->bytes, p->size) != (ssize_t)p->size || (sync && fdatasync(fd) != 0)) {
        perror("bench-store: write");
        exit(1);
    }
}

/* Seconds of a round of synced writes at the end of the file. */
static double write_once(const struct plain *p)
{
    double from = seconds();
    for (size_t i = 0; i < p->round; i++)
        write_bytes(p->file, p, true);
    return seconds() - from;
}

static double write_twice(const struct plain *p)
{
    double from = seconds();
    lseek(p->log, 0, SEEK_SET);
    for (size_t i = 0; i < p->round; i++)
        write_bytes(p->log, p, true);
    for (size_t i = 0; i < p->round; i++)
        write_bytes(p->target, p, i + 1 == p->round);
    return seconds() - from;
}

/* Gives back the memory that holds a copy of what is on disk. A virtual machine is lent memory page
 * by page, and what a growing file takes of it may cost several times the writing, for one file and
 * not for the next; given back, it is there for the next round. */
static void forget_copy(int fd)
{
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void read_all(int fd)
{
    static char bytes[1 << 20];
    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

/* ---- finished jobs ---- */

struct creator {
    size_t from, count;
};

static void create_job(const char *id, const char *name)
{
    static const char progress[] =
        "{\"iteration\":8000,\"total\":8000,\"fraction\":1,\"iterations_per_second\":100000,"
        "\"elapsed_seconds\":0.1,\"eta_seconds\":0,\"cpu_seconds\":0.1,\"chains\":[]}";
    struct err_info info = {0};
    bool existing;
    struct job_row row = {.owner = "bench",
                          .state = JOB_succeeded,
                          .reason = "all chains are complete",
                          .created_ms = 1,
                          .started_ms = 1,
                          .ended_ms = 2,
                          .name = (char *)(uintptr_t)name,
                          .progress = (char *)(uintptr_t)progress,
                          .request = "{\"model\":\"logistic\",\"iterations\":2000,\"chains\":4}",
                          .model = "logistic",
                          .sampler = "sgbd"};
    memcpy(row.id, id, sizeof row.id);
    must(store_job_create(store, &row, NULL, &existing, &info), &info);
}

static void job_path(char out[400], const char *id)
{
    snprintf(out, 400, "%s/draws/%s.db", directory, id);
}

static void *create_jobs(void *arg)
{
    const struct creator *c = arg;
    for (size_t i = c->from; i < c->from + c->count; i++) {
        char id[JOB_ID_SIZE];
        job_id_make(id, i, (uint32_t)i);
        create_job(id, "one of many");
    }
    return NULL;
}

/* Each has a file too, for the start to look at: the same one under other names. */
static void link_files(const char *original, size_t count)
{
    char from[400], to[400], id[JOB_ID_SIZE];
    job_path(from, original);
    for (size_t i = 1; i <= count; i++) {
        job_id_make(id, i, (uint32_t)i);
        job_path(to, id);
        if (link(from, to) != 0) {
            perror("bench-store: link");
            exit(1);
        }
    }
}

static void fill_catalogue(size_t count)
{
    struct creator creators[THREADS];
    pthread_t ids[THREADS];
    for (size_t t = 0; t < THREADS; t++) {
        size_t from = count * t / THREADS, to = count * (t + 1) / THREADS;
        creators[t] = (struct creator){.from = 1 + from, .count = to - from};
        pthread_create(&ids[t], NULL, create_jobs, &creators[t]);
    }
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(ids[t], NULL);
}

/* ---- draws ---- */

struct shape {
    const char *name;
    size_t width, draws; /* of a commit */
    size_t round;        /* commits: 16 MiB, which the store moves from log to file at once */
    size_t total;
};

static void make_file(const char *job, size_t width)
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

/* Numbers with all their digits, as draws have them. */
static double *make_values(size_t count)
{
    double *values = malloc(count * sizeof *values);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        values[i] = 4.0 * (double)(state >> 11) * 0x1p-53 - 2.0;
    }
    return values;
}

static void commit_draws(const char *job, const double *values, size_t draws, size_t *done)
{
    static const char state[4096];
    struct err_info info = {0};
    struct jobfile_slice slice = {.chain = 1,
                                  .iteration = (*done + draws) * 10,
                                  .state = state,
                                  .state_size = sizeof state,
                                  .first_draw = *done,
                                  .draws = draws,
                                  .values = values};
    must(jobfile_commit(store, job, &slice, 1, &info), &info);
    *done += draws;
}

/* Seconds of a round. One more commit, without draws, waits until the log is moved to the file. */
static double store_round(const char *job, const struct shape *s, const double *values,
                          size_t *done)
{
    double from = seconds();
    for (size_t i = 0; i < s->round; i++)
        commit_draws(job, values, s->draws, done);
    commit_draws(job, values, 0, done);
    return seconds() - from;
}

static void print_draws(const char *job, const struct shape *s, double took[3][ROUNDS],
                        size_t rounds)
{
    double ratio[2][ROUNDS], mb = 1e-6 * (double)(s->round * s->draws * s->width * sizeof(double));
    for (size_t r = 0; r < rounds; r++) {
        ratio[0][r] = took[1][r] / took[0][r];
        ratio[1][r] = took[2][r] / took[0][r];
    }
    printf("\"%s\": {\"job\": \"%s\", \"draws\": %zu, \"width\": %zu, \"draws_per_commit\": %zu, "
           "\"rounds\": %zu, \"mb_per_second\": %.1f, \"plain_mb_per_second\": %.1f, "
           "\"twice_mb_per_second\": %.1f, \"ratio\": %.3f, \"ratio_twice\": %.3f}, ",
           s->name, job, s->total, s->width, s->draws, rounds, mb / median(took[0], rounds),
           mb / median(took[1], rounds), mb / median(took[2], rounds), median(ratio[0], rounds),
           median(ratio[1], rounds));
}

static void store_draws(const char *job, const struct shape *s)
{
    double *values = make_values(s->draws * s->width), took[3][ROUNDS];
    struct plain plain = {.file = open_plain(),
                          .log = open_plain(),
                          .target = open_plain(),
                          .bytes = values,
                          .size = s->draws * s->width * sizeof *values,
                          .round = s->round};
    size_t done = 0, rounds = 0;
    char path[400];
    create_job(job, s->name);
    make_file(job, s->width);
    job_path(path, job);
    int stored = open(path, O_RDONLY | O_CLOEXEC); /* for good: closing it ends SQLite's locks */
    for (; rounds < ROUNDS && s->total - done >= s->round * s->draws; rounds++) {
        took[0][rounds] = store_round(job, s, values, &done);
        took[1][rounds] = write_once(&plain);
        took[2][rounds] = write_twice(&plain);
        forget_copy(stored);
        forget_copy(plain.file);
        forget_copy(plain.target);
    }
    while (done < s->total)
        commit_draws(job, values, s->total - done < s->draws ? s->total - done : s->draws, &done);
    print_draws(job, s, took, rounds);
    read_all(stored); /* in memory again, as it was written */
    close(plain.file);
    close(plain.log);
    close(plain.target);
    free(values);
}

/* One parameter of all draws, from a reader that the store keeps; milliseconds. */
static double read_one(const char *job)
{
    double took[READS];
    for (size_t r = 0; r < READS; r++) {
        struct err_info info = {0};
        struct jobfile *file;
        struct jobfile_chain chain;
        double from = seconds();
        must(jobfile_open(&file, store, job, &info), &info);
        must(jobfile_chain(file, 1, &chain, &info), &info);
        double *out = malloc(chain.draws * sizeof *out);
        uint32_t column = (uint32_t)(31111 + 977 * r);
        must(jobfile_draws(file, 1, 0, chain.draws, &column, 1, out, &info), &info);
        jobfile_close(file);
        free(out);
        took[r] = 1e3 * (seconds() - from);
    }
    return median(took, READS);
}

int main(int argc, char **argv)
{
    struct err_info info = {0};
    char narrow_id[JOB_ID_SIZE], wide_id[JOB_ID_SIZE];
    if (argc != 5) {
        fprintf(stderr, "usage: bench-store STATE JOBS NARROW_DRAWS WIDE_DRAWS\n");
        return 2;
    }
    directory = argv[1];
    size_t jobs = strtoul(argv[2], NULL, 10);
    struct shape narrow = {"narrow", 4, 32768, 16, strtoul(argv[3], NULL, 10)},
                 wide = {"wide", 52580, 20, 2, strtoul(argv[4], NULL, 10)};
    must(store_open(&store, &(struct store_config){.directory = directory}, &info), &info);
    job_id_make(narrow_id, 1000000, 1);
    job_id_make(wide_id, 1000000, 2);
    if (narrow.total < narrow.round * narrow.draws || wide.total < wide.round * wide.draws) {
        fprintf(stderr, "bench-store: the draws do not make a round\n");
        return 2;
    }
    printf("{");
    store_draws(narrow_id, &narrow);
    store_draws(wide_id, &wide);
    printf("\"read_one_ms\": %.3f, ", read_one(wide_id));
    fill_catalogue(jobs);
    store_close(store);
    link_files(narrow_id, jobs);
    printf("\"jobs\": %zu}\n", jobs + 2);
    return 0;
}
