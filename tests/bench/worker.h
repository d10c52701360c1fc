/* One workload of `make bench` in a process of its own, which runs as many iterations as it is told
 * to and says how long they took. tests/bench/sampling starts such processes and lets them take
 * turns; a program that includes this gives worker_open, worker_run and worker_close. Header-only.
 *
 *     bench-NAME model=logistic N=88163 d=4 n=881 ...
 *
 * writes "ready" (or "absent" and the reason), then answers every line
 *
 *     INSTRUCTION_SET THREADS ITERATIONS
 *
 * with the seconds of processor time and of wall time, until its input ends. */
#ifndef BARKER_TESTS_BENCH_WORKER_H
#define BARKER_TESTS_BENCH_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct workload {
    char model[24];         /* logistic, factorization, ica, skew_normal */
    bool corrected, single; /* variant of the sampler; precision of the data */
    size_t N, d, n;         /* rows, columns or rank, batch; n == 0: all rows */
    size_t users, items;    /* factorization */
    size_t control;         /* 1: control variates, in a frame around 0; ours alone */
    size_t one_in;          /* so many iterations have a minibatch; 0: all; ours alone */
    size_t chains;          /* all of them do every iteration */
    size_t apart;           /* 1: one by one, on THREADS threads; ours alone */
    double sigma;           /* step size */
};

/* False: this program does not do that workload. */
static bool worker_open(const struct workload *w);
static void worker_run(const char *isa, size_t threads, uint64_t iterations);
static void worker_close(void);

static inline bool worker_word(struct workload *w, const char *word)
{
    const struct {
        const char *key;
        size_t *value;
    } sizes[] = {{"N", &w->N},         {"d", &w->d},           {"n", &w->n},
                 {"users", &w->users}, {"items", &w->items},   {"chains", &w->chains},
                 {"apart", &w->apart}, {"one_in", &w->one_in}, {"control", &w->control}};
    const char *equals = strchr(word, '=');
    if (equals == NULL)
        return false;
    size_t length = (size_t)(equals - word);
    const char *value = equals + 1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (strlen(sizes[i].key) == length && memcmp(word, sizes[i].key, length) == 0) {
            *sizes[i].value = strtoul(value, NULL, 10);
            return true;
        }
    if (strncmp(word, "model=", 6) == 0)
        return snprintf(w->model, sizeof w->model, "%s", value) > 0;
    if (strncmp(word, "sigma=", 6) == 0)
        return (w->sigma = strtod(value, NULL)) > 0.0;
    w->corrected = w->corrected || strcmp(word, "variant=corrected") == 0;
    w->single = w->single && strcmp(word, "precision=double") != 0;
    return strncmp(word, "variant=", 8) == 0 || strncmp(word, "precision=", 10) == 0;
}

static inline double worker_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void worker_turn(const char *isa, size_t threads, uint64_t iterations)
{
    worker_run(isa, threads, iterations / 16 + 1); /* others had the caches meanwhile */
    double cpu = worker_clock(CLOCK_PROCESS_CPUTIME_ID), wall = worker_clock(CLOCK_MONOTONIC);
    worker_run(isa, threads, iterations);
    printf("%.9f %.9f\n", worker_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu,
           worker_clock(CLOCK_MONOTONIC) - wall);
    fflush(stdout);
}

static inline int worker_main(int argc, char **argv)
{
    struct workload w = {.single = true, .chains = 1, .sigma = 0.1};
    for (int i = 1; i < argc; i++)
        if (!worker_word(&w, argv[i])) {
            fprintf(stderr, "%s: %s?\n", argv[0], argv[i]);
            return 2;
        }
    if (!worker_open(&w)) {
        puts("absent");
        return 0;
    }
    puts("ready");
    fflush(stdout);
    char isa[16];
    size_t threads;
    uint64_t iterations;
    while (scanf("%15s %zu %lu", isa, &threads, &iterations) == 3)
        worker_turn(isa, threads, iterations);
    worker_close();
    return 0;
}

/* Cheap made-up numbers: a linear congruential generator's high bits, uniform in (0,1). */
static inline double worker_uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(*state >> 33) + 0.5) * 0x1p-31;
}

/* A covariate of mean 0 and variance 1. */
static inline double worker_covariate(uint64_t *state)
{
    return 3.4641016151377546 * (worker_uniform(state) - 0.5);
}

#endif
