/* The child of the crash test: what it writes, and the threads that write it until it is killed. */
#ifndef BARKER_TESTS_CRASH_STORE_CHILD_H
#define BARKER_TESTS_CRASH_STORE_CHILD_H

#include "server/store/jobfile.h"
#include "server/store/studies.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOBS = 2, CHAINS = 2, THIN = 10, LINE = 64 };
static const size_t widths[JOBS] = {3, 700}; /* one tile across, and two */

/* ---- what is written ---- */

static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline double draw_value(size_t job, uint32_t chain, uint64_t draw, size_t column)
{
    uint64_t key = mix(mix(job * 1000 + chain) + draw) + column;
    return (double)(mix(key) >> 11) * 0x1p-53 - 0.5;
}

/* The state and the moments say how many draws belong to them. */
enum { STATE_WORDS = 300 };

static inline void fill_state(uint64_t *state, size_t job, uint32_t chain, uint64_t draws)
{
    for (size_t i = 0; i < STATE_WORDS; i++)
        state[i] = mix(draws * 31 + chain * 7 + job) + i;
}

static inline void job_name(size_t job, char id[JOB_ID_SIZE])
{
    job_id_make(id, 1000 + job, 77);
}

static inline void serial_id(uint64_t serial, char id[JOB_ID_SIZE])
{
    job_id_make(id, 5000 + serial, (uint32_t)mix(serial));
}

static inline void serial_request(uint64_t serial, char *out, size_t size)
{
    snprintf(out, size, "{\"serial\": %llu, \"pad\": \"%0*d\"}", (unsigned long long)serial,
             (int)(mix(serial) % 3000), 0);
}

/* Study number `serial` has STUDY_JOBS jobs of its own. */
enum { STUDY_JOBS = 3, STUDY_IDS = 1000000, STUDY_JOB_IDS = 2000000 };

static inline void study_id(uint64_t serial, char id[JOB_ID_SIZE])
{
    serial_id(STUDY_IDS + serial, id);
}

static inline void study_job_id(uint64_t serial, size_t i, char id[JOB_ID_SIZE])
{
    serial_id(STUDY_JOB_IDS + STUDY_JOBS * serial + i, id);
}

static inline void serial_hash(uint64_t serial, unsigned char hash[32])
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
static inline bool say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline bool say(const char *format, ...)
{
    char line[LINE];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return length > 0 && write(STDOUT_FILENO, line, (size_t)length) == length;
}

static inline void must(enum err code, const struct err_info *info)
{
    if (code == ERR_OK)
        return;
    fprintf(stderr, "crash-store: %s: %s\n", err_name(code), info->message);
    _exit(2);
}

static inline void ensure_files(struct store *store)
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

static inline void *sample(void *arg)
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
        must(jobfile_commit(s->child->store, id, &slice, 1, &info), &info);
        first += draws;
        heard = say("draws %zu %u %llu\n", s->job, s->chain, (unsigned long long)first);
    }
    free(values);
    return NULL;
}

static inline void submit(struct child *child, uint64_t serial)
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
    must(store_job_create(child->store, &row, &(struct store_claim){.key = key, .hash = hash},
                          &existing, &info),
         &info);
}

static inline void submit_study(struct child *child, uint64_t serial)
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
    must(store_study_create(child->store, &row, jobs, STUDY_JOBS,
                            &(struct store_claim){.key = key, .hash = hash}, &existing, &info),
         &info);
}

static inline void *study(void *arg)
{
    struct child *child = arg;
    for (bool heard = true; heard; child->study++) {
        submit_study(child, child->study);
        heard = say("study %llu\n", (unsigned long long)child->study);
    }
    return NULL;
}

/* Creates jobs, cancels every third, removes every fifth. */
static inline void *create(void *arg)
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
            must(store_job_purge(child->store, row.id, 0, &info), &info);
            say("purged %llu\n", (unsigned long long)serial);
        }
    }
    return NULL;
}

static inline int run_child(const char *directory, uint64_t seed, uint64_t serial,
                            uint64_t first_study)
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

#endif
