/* kill -9 against the store: a child writes to a store from several threads and tells on a pipe
 * what was acknowledged; it is killed at a random moment; then everything that it was told is
 * looked up.
 *
 *     crash-store [KILLS [SEED]]
 *
 * What is written follows from its place by formula, so every stored number can be checked. */
#include "server/store/jobfile.h"

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

enum { JOBS = 2, CHAINS = 2, THIN = 10, LINE = 64 };
static const size_t widths[JOBS] = {3, 700}; /* one tile across, and two */

/* ---- what is written ---- */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double draw_value(size_t job, uint32_t chain, uint64_t draw, size_t column)
{
    uint64_t key = mix(mix(job * 1000 + chain) + draw) + column;
    return (double)(mix(key) >> 11) * 0x1p-53 - 0.5;
}

/* The state and the moments say how many draws belong to them. */
enum { STATE_WORDS = 300 };

static void fill_state(uint64_t *state, size_t job, uint32_t chain, uint64_t draws)
{
    for (size_t i = 0; i < STATE_WORDS; i++)
        state[i] = mix(draws * 31 + chain * 7 + job) + i;
}

static void job_name(size_t job, char id[JOB_ID_SIZE])
{
    job_id_make(id, 1000 + job, 77);
}

static void serial_id(uint64_t serial, char id[JOB_ID_SIZE])
{
    job_id_make(id, 5000 + serial, (uint32_t)mix(serial));
}

static void serial_request(uint64_t serial, char *out, size_t size)
{
    snprintf(out, size, "{\"serial\": %llu, \"pad\": \"%0*d\"}", (unsigned long long)serial,
             (int)(mix(serial) % 3000), 0);
}

/* Study number `serial` has STUDY_JOBS jobs of its own. */
enum { STUDY_JOBS = 3, STUDY_IDS = 1000000, STUDY_JOB_IDS = 2000000 };

static void study_id(uint64_t serial, char id[JOB_ID_SIZE])
{
    serial_id(STUDY_IDS + serial, id);
}

static void study_job_id(uint64_t serial, size_t i, char id[JOB_ID_SIZE])
{
    serial_id(STUDY_JOB_IDS + STUDY_JOBS * serial + i, id);
}

static void serial_hash(uint64_t serial, unsigned char hash[32])
{
    for (size_t i = 0; i < 32; i++)
        hash[i] = (unsigned char)mix(serial + i);
}

/* ---- child ---- */

struct child {
    struct store *store;
    uint64_t seed, serial, study;
};

/* False when nobody listens any more. */
static bool say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool say(const char *format, ...)
{
    char line[LINE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return length > 0 && write(STDOUT_FILENO, line, (size_t)length) == length;
}

static void must(enum err code, const struct err_info *info)
{
    if (code == ERR_OK)
        return;
    fprintf(stderr, "crash-store: %s: %s\n", err_name(code), info->message);
    _exit(2);
}

static void ensure_files(struct store *store)
{
    for (size_t j = 0; j < JOBS; j++) {
        struct err_info info = {0};
        char id[JOB_ID_SIZE], texts[700][16];
        const char *names[700];
        for (size_t i = 0; i < widths[j]; i++) {
            snprintf(texts[i], sizeof texts[i], "theta[%hu]", (unsigned short)(i + 1));
            names[i] = texts[i];
        }
        job_name(j, id);
        struct jobfile_meta meta = {.request = "{}",
                                    .names = names,
                                    .width = widths[j],
                                    .d = 1,
                                    .chains = CHAINS,
                                    .thin = THIN};
        enum err code = jobfile_create(store, id, &meta, &info);
        if (code != ERR_CONFLICT)
            must(code, &info);
    }
}

struct sampler {
    struct child *child;
    size_t job;
    uint32_t chain;
};

static void *sample(void *arg)
{
    struct sampler *s = arg;
    struct err_info info = {0};
    struct jobfile *file;
    struct jobfile_chain stored;
    char id[JOB_ID_SIZE];
    size_t width = widths[s->job];
    uint64_t random = mix(s->child->seed + s->job * 10 + s->chain);
    job_name(s->job, id);
    must(jobfile_open(&file, s->child->store, id, &info), &info);
    must(jobfile_chain(file, s->chain, &stored, &info), &info);
    jobfile_close(file);
    double *values = malloc(2000 * width * sizeof *values);
    bool heard = true;
    for (uint64_t first = stored.draws; heard;) {
        uint64_t state[STATE_WORDS];
        size_t draws = (random = mix(random)) % (s->job == 0 ? 2000 : 300);
        for (size_t i = 0; i < draws * width; i++)
            values[i] = draw_value(s->job, s->chain, first + i / width, i % width);
        fill_state(state, s->job, s->chain, first + draws);
        double mean = (double)(first + draws);
        struct jobfile_slice slice = {.chain = s->chain,
                                      .iteration = (first + draws) * THIN,
                                      .state = state,
                                      .state_size = sizeof state,
                                      .first_draw = first,
                                      .draws = draws,
                                      .values = values,
                                      .moment_count = first + draws,
                                      .mean = &mean,
                                      .variance = &mean};
        must(jobfile_commit(s->child->store, id, &slice, &info), &info);
        first += draws;
        heard = say("draws %zu %u %llu\n", s->job, s->chain, (unsigned long long)first);
    }
    free(values);
    return NULL;
}

static void submit(struct child *child, uint64_t serial)
{
    struct err_info info = {0};
    char request[4000], key[32];
    unsigned char hash[32];
    bool existing;
    serial_request(serial, request, sizeof request);
    serial_hash(serial, hash);
    snprintf(key, sizeof key, "key-%llu", (unsigned long long)serial);
    struct job_row row = {.owner = "ana",
                          .state = JOB_queued,
                          .reason = "waits",
                          .request = request,
                          .model = "logistic",
                          .sampler = "sgbd"};
    serial_id(serial, row.id);
    must(store_job_create(child->store, &row, key, hash, &existing, &info), &info);
}

static void submit_study(struct child *child, uint64_t serial)
{
    struct err_info info = {0};
    char request[4000], key[32];
    unsigned char hash[32];
    bool existing;
    struct study_member members[STUDY_JOBS];
    struct job_row jobs[STUDY_JOBS];
    serial_request(serial, request, sizeof request);
    serial_hash(serial, hash);
    snprintf(key, sizeof key, "study-%llu", (unsigned long long)serial);
    for (size_t i = 0; i < STUDY_JOBS; i++) {
        jobs[i] = (struct job_row){.owner = "ana",
                                   .state = JOB_queued,
                                   .request = request,
                                   .model = "logistic",
                                   .sampler = "sgbd"};
        study_job_id(serial, i, jobs[i].id);
        memcpy(members[i].job, jobs[i].id, sizeof members[i].job);
        members[i].setting = "{}";
    }
    struct study_row row = {.owner = "ana",
                            .kind = "ladder",
                            .name = "",
                            .request = request,
                            .members = members,
                            .member_count = STUDY_JOBS};
    study_id(serial, row.id);
    must(store_study_create(child->store, &row, jobs, STUDY_JOBS, key, hash, &existing, &info),
         &info);
}

static void *study(void *arg)
{
    struct child *child = arg;
    for (bool heard = true; heard; child->study++) {
        submit_study(child, child->study);
        heard = say("study %llu\n", (unsigned long long)child->study);
    }
    return NULL;
}

/* Creates jobs, cancels every third, removes every fifth. */
static void *create(void *arg)
{
    struct child *child = arg;
    for (bool heard = true; heard;) {
        struct err_info info = {0};
        uint64_t serial = __atomic_fetch_add(&child->serial, 1, __ATOMIC_RELAXED);
        struct job_row row = {.state = JOB_cancelled, .reason = "by its owner", .ended_ms = 9};
        submit(child, serial);
        heard = say("job %llu\n", (unsigned long long)serial);
        serial_id(serial, row.id);
        if (serial % 3 == 0) {
            must(store_job_update(child->store, &row, JOB_SET_STATE, "cancelled", &info), &info);
            say("cancelled %llu\n", (unsigned long long)serial);
        }
        if (serial % 5 == 0) {
            say("purging %llu\n", (unsigned long long)serial);
            must(store_job_purge(child->store, row.id, &info), &info);
            say("purged %llu\n", (unsigned long long)serial);
        }
    }
    return NULL;
}

static int run_child(const char *directory, uint64_t seed, uint64_t serial, uint64_t first_study)
{
    struct err_info info = {0};
    struct child child = {.seed = seed, .serial = serial, .study = first_study};
    struct sampler samplers[JOBS * CHAINS];
    pthread_t thread;
    must(store_open(&child.store, &(struct store_config){.directory = directory}, &info), &info);
    ensure_files(child.store);
    for (size_t i = 0; i < JOBS * CHAINS; i++) {
        samplers[i] = (struct sampler){
            .child = &child, .job = i / CHAINS, .chain = 1 + (uint32_t)(i % CHAINS)};
        pthread_create(&thread, NULL, sample, &samplers[i]);
    }
    pthread_create(&thread, NULL, create, &child);
    pthread_create(&thread, NULL, create, &child);
    pthread_create(&thread, NULL, study, &child);
    pause();
    return 0;
}

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
