/* kill -9 against the store: a child writes to a store from several threads and tells on a pipe
 * what was acknowledged; it is killed at a random moment; then everything that it was told is
 * looked up.
 *
 *     crash-store [KILLS [SEED]]
 *
 * What is written follows from its place by formula, so every stored number can be checked. */
#include "tests/crash/store_child.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- parent ---- */

enum { SERIALS = 200000 };
enum fate { UNKNOWN, CREATED, CANCELLED, PURGING, PURGED };

struct told {
    unsigned char fate[SERIALS];
    bool cancelled[SERIALS];
    uint64_t next_serial;
    uint64_t studies; /* acknowledged, all before it */
    uint64_t draws[JOBS][CHAINS + 1];
    size_t lines;
};

static size_t complaints;

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    va_list args;
    complaints++;
    va_start(args, format);
    printf("FAILED ");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

static void note(struct told *told, const char *line)
{
    unsigned long long a, b, c;
    told->lines++;
    if (sscanf(line, "draws %llu %llu %llu", &a, &b, &c) == 3) {
        told->draws[a][b] = c;
        return;
    }
    if (sscanf(line, "study %llu", &a) == 1) {
        told->studies = a + 1;
        return;
    }
    static const char *const words[] = {"?", "job", "cancelled", "purging", "purged"};
    char word[16];
    if (sscanf(line, "%15s %llu", word, &a) != 2 || a >= SERIALS)
        return;
    for (unsigned char f = CREATED; f <= PURGED; f++)
        if (strcmp(words[f], word) == 0)
            told->fate[a] = f;
    told->cancelled[a] |= told->fate[a] == CANCELLED;
}

static void listen_to(FILE *from, struct told *told)
{
    char line[LINE];
    while (fgets(line, sizeof line, from) != NULL)
        if (strchr(line, '\n') != NULL)
            note(told, line);
}

static void check_job(struct store *store, const struct told *told, uint64_t serial)
{
    struct err_info info = {0};
    struct job_row row;
    char id[JOB_ID_SIZE], request[4000];
    serial_id(serial, id);
    enum err code = store_job_get(store, id, &row, &info);
    if (told->fate[serial] == PURGED && code == ERR_OK)
        complain("job %llu was purged and is there", (unsigned long long)serial);
    if (told->fate[serial] == PURGED || (told->fate[serial] == PURGING && code == ERR_NOT_FOUND) ||
        (told->fate[serial] == UNKNOWN && code == ERR_NOT_FOUND)) {
        job_row_release(&row);
        return;
    }
    if (code != ERR_OK) {
        complain("job %llu: %s", (unsigned long long)serial, info.message);
        return;
    }
    serial_request(serial, request, sizeof request);
    if (strcmp(request, row.request) != 0)
        complain("job %llu has another request", (unsigned long long)serial);
    if (told->cancelled[serial] && row.state != JOB_cancelled)
        complain("job %llu was cancelled and is %s", (unsigned long long)serial,
                 job_state_name(row.state));
    job_row_release(&row);
}

/* An answer that was not received: asking again gives the one job. */
static void check_repeat(struct store *store, uint64_t serial)
{
    struct err_info info = {0};
    struct child again = {.store = store};
    struct job_row row;
    char id[JOB_ID_SIZE];
    serial_id(serial, id);
    bool was_there = store_job_get(store, id, &row, &info) == ERR_OK;
    if (was_there)
        job_row_release(&row);
    submit(&again, serial);
    if (store_job_get(store, id, &row, &info) != ERR_OK)
        complain("job %llu cannot be repeated", (unsigned long long)serial);
    else if (was_there && row.revision != 1 && row.state == JOB_queued)
        complain("job %llu was changed by repeating it", (unsigned long long)serial);
    job_row_release(&row);
}

/* How many of the jobs of a study are there; -1 - n when the study is there and n of them. */
static int study_parts(struct store *store, uint64_t serial)
{
    struct err_info info = {0};
    struct study_row row;
    struct job_row job;
    char id[JOB_ID_SIZE];
    int jobs = 0;
    for (size_t i = 0; i < STUDY_JOBS; i++) {
        study_job_id(serial, i, id);
        if (store_job_get(store, id, &job, &info) == ERR_OK) {
            jobs++;
            job_row_release(&job);
        }
    }
    study_id(serial, id);
    if (store_study_get(store, NULL, id, &row, &info) != ERR_OK)
        return jobs;
    if (row.member_count != STUDY_JOBS)
        complain("study %llu has %zu jobs", (unsigned long long)serial, row.member_count);
    study_row_release(&row);
    return -1 - jobs;
}

/* Acknowledged: there with all its jobs. The one under way: the same, or nothing of it; and asking
 * again makes it whole. */
static void check_studies(struct store *store, struct told *told)
{
    uint64_t last = told->studies, from = last > 200 ? last - 200 : 0;
    struct child again = {.store = store};
    for (uint64_t s = from; s < last; s++)
        if (study_parts(store, s) != -1 - STUDY_JOBS)
            complain("study %llu is not whole", (unsigned long long)s);
    int parts = study_parts(store, last);
    if (parts != 0 && parts != -1 - STUDY_JOBS)
        complain("study %llu is there in part", (unsigned long long)last);
    submit_study(&again, last);
    if (study_parts(store, last) != -1 - STUDY_JOBS)
        complain("study %llu cannot be repeated", (unsigned long long)last);
    told->studies = last + 1;
}

static void check_values(struct jobfile *file, size_t job, uint32_t chain, uint64_t draws)
{
    struct err_info info = {0};
    size_t width = widths[job], step = 4096;
    double *values = malloc(step * width * sizeof *values);
    for (uint64_t first = 0; first < draws; first += step) {
        size_t n = draws - first < step ? (size_t)(draws - first) : step;
        enum err code = jobfile_draws(file, chain, first, n, NULL, 0, values, &info);
        if (code != ERR_OK) {
            complain("job %zu chain %u: %s", job, chain, info.message);
            break;
        }
        for (size_t i = 0; i < n * width; i++) {
            if (values[i] == draw_value(job, chain, first + i % n, i / n))
                continue;
            complain("job %zu chain %u: draw %llu is another", job, chain,
                     (unsigned long long)(first + i % n));
            break;
        }
    }
    free(values);
}

static void check_chain(struct jobfile *file, struct told *told, size_t job, uint32_t chain)
{
    struct err_info info = {0};
    struct jobfile_chain stored;
    uint64_t state[STATE_WORDS];
    void *bytes = NULL;
    size_t size = 0;
    double mean = 0;
    enum err code = jobfile_chain(file, chain, &stored, &info);
    if (code == ERR_OK)
        code = jobfile_state(file, chain, &bytes, &size, &info);
    if (code != ERR_OK || stored.draws < told->draws[job][chain])
        complain("job %zu chain %u: %llu draws of %llu; %s", job, chain,
                 (unsigned long long)stored.draws, (unsigned long long)told->draws[job][chain],
                 info.message);
    fill_state(state, job, chain, stored.draws);
    if (stored.draws > 0) {
        if (size != sizeof state || memcmp(state, bytes, size) != 0)
            complain("job %zu chain %u: state and draws disagree", job, chain);
        if (jobfile_vector(file, chain, JOBFILE_MEAN, &mean, &info) != ERR_OK ||
            mean != (double)stored.draws || stored.iteration != stored.draws * THIN)
            complain("job %zu chain %u: moments and draws disagree", job, chain);
    }
    free(bytes);
    check_values(file, job, chain, stored.draws);
    told->draws[job][chain] = stored.draws;
}

/* The files here belong to no row of the catalogue, and their states are no chains. */
static void complain_problem(void *ctx, const char *problem)
{
    (void)ctx;
    if (strstr(problem, "belongs to no job") == NULL && strstr(problem, "saved state") == NULL)
        complain("%s", problem);
}

static void verify(const char *directory, struct told *told)
{
    struct err_info info = {0};
    struct store *store;
    enum err code = store_open(&store, &(struct store_config){.directory = directory}, &info);
    if (code != ERR_OK) {
        complain("the store does not open: %s", info.message);
        return;
    }
    if (store_check(store, complain_problem, NULL, &info) != ERR_OK)
        complain("the check failed: %s", info.message);
    for (size_t j = 0; j < JOBS; j++) {
        char id[JOB_ID_SIZE];
        struct jobfile *file;
        job_name(j, id);
        code = jobfile_open(&file, store, id, &info);
        if (code == ERR_NOT_FOUND && told->draws[j][1] + told->draws[j][2] == 0)
            continue;
        if (code != ERR_OK) {
            complain("job file %zu: %s", j, info.message);
            continue;
        }
        for (uint32_t c = 1; c <= CHAINS; c++)
            check_chain(file, told, j, c);
        jobfile_close(file);
    }
    uint64_t end = told->next_serial;
    while (end < SERIALS && told->fate[end] != UNKNOWN)
        end++;
    /* Beyond the last known one, what was under way may be there or not, once. */
    for (uint64_t s = 0; s < end; s++)
        check_job(store, told, s);
    for (uint64_t s = end; s < end + 2 && s % 5 != 0; s++) {
        check_repeat(store, s);
        told->fate[s] = CREATED;
    }
    told->next_serial = end + 4;
    check_studies(store, told);
    store_close(store);
}

static pid_t start_child(const char *directory, uint64_t seed, const struct told *told, FILE **from)
{
    char seed_text[24], serial_text[24], study_text[24];
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)seed);
    snprintf(serial_text, sizeof serial_text, "%llu", (unsigned long long)told->next_serial);
    snprintf(study_text, sizeof study_text, "%llu", (unsigned long long)told->studies);
    char *args[] = {"crash-store", "child", (char *)directory, seed_text, serial_text,
                    study_text,    NULL};
    if (pipe(ends) != 0)
        exit(2);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, args, environ) != 0)
        exit(2);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *from = fdopen(ends[0], "r");
    return pid;
}

struct killer {
    pid_t pid;
    uint64_t after_us;
};

static void *kill_later(void *arg)
{
    const struct killer *k = arg;
    struct timespec delay = {.tv_sec = (time_t)(k->after_us / 1000000),
                             .tv_nsec = (long)(k->after_us % 1000000) * 1000};
    nanosleep(&delay, NULL);
    kill(k->pid, SIGKILL);
    return NULL;
}

static bool one_round(const char *directory, uint64_t seed, uint64_t most_us, struct told *told)
{
    FILE *from;
    pthread_t thread;
    int status;
    size_t before = complaints;
    pid_t pid = start_child(directory, seed, told, &from);
    struct killer killer = {.pid = pid, .after_us = mix(seed) % most_us};
    pthread_create(&thread, NULL, kill_later, &killer);
    listen_to(from, told);
    pthread_join(thread, NULL);
    fclose(from);
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        complain("the child ended by itself (status %d)", status);
    verify(directory, told);
    return complaints == before;
}

/* A child that never got to say anything proves nothing: where that is slow there are more rounds,
 * and longer ones. Returns how many went wrong. */
static size_t campaign(const char *directory, uint64_t seed, size_t kills, struct told *told)
{
    size_t failed = 0;
    for (size_t i = 0; i < kills || (told->lines < kills && i < 10 * kills); i++)
        failed += !one_round(directory, seed + i, 400000 * (1 + i / kills), told);
    if (told->lines < kills)
        complain("too little was acknowledged for this to mean anything");
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "child") == 0)
        return run_child(argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
                         strtoull(argv[5], NULL, 10));
    size_t kills = argc > 1 ? strtoul(argv[1], NULL, 10) : 30;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    char directory[] = "/tmp/crash-store-XXXXXX", command[80];
    struct told *told = calloc(1, sizeof *told);
    if (told == NULL || mkdtemp(directory) == NULL)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu\n", (unsigned long long)seed);
    size_t failed = campaign(directory, seed, kills, told);
    printf("%zu acknowledgements, %llu studies, %llu and %llu draws per chain of the two jobs\n",
           told->lines, (unsigned long long)told->studies, (unsigned long long)told->draws[0][1],
           (unsigned long long)told->draws[1][1]);
    free(told);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (complaints > 0)
        printf("the store is left in %s\n", directory);
    else if (system(command) != 0)
        return 2;
    failed = failed == 0 && complaints > 0 ? 1 : failed < kills ? failed : kills;
    printf("%zu passed, %zu failed\n", kills - failed, failed);
    return complaints > 0;
}
