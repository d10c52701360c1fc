/* Job files with draws that follow from their place by formula. */
#ifndef BARKER_TESTS_JOBFILE_FIXTURE_H
#define BARKER_TESTS_JOBFILE_FIXTURE_H

#include "tests/unit/server/store/store_fixture.h"

#include "server/base/clock.h"
#include "server/store/internal.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* ---- jobs to try ---- */

static const char *const metric_names[] = {"log_loss", "accuracy", NULL};

static inline void make_job(const char *job, size_t width, uint32_t chains)
{
    char(*texts)[32] = calloc(width + 1, sizeof *texts);
    const char **names = calloc(width + 1, sizeof *names);
    for (size_t i = 0; i < width; i++) {
        snprintf(texts[i], sizeof texts[i], "theta[%zu]", i + 1);
        names[i] = texts[i];
    }
    struct jobfile_meta meta = {.request = "{\"seed\":123}",
                                .names = names,
                                .width = width,
                                .d = width + 2,
                                .chains = chains,
                                .thin = 10,
                                .warmup = 1000,
                                .metrics = metric_names};
    expect_ok(jobfile_create(t.store, job, &meta, &t.info), &t.info);
    free(names);
    free(texts);
}

static inline double value(uint32_t chain, uint64_t draw, size_t column)
{
    return (double)chain * 1e6 + (double)draw * 2.385 - (double)column * 0.71;
}

static inline enum err add_draws(const char *job, uint32_t chain, uint64_t first, size_t draws,
                                 size_t width)
{
    double *values = malloc((draws * width + 1) * sizeof *values);
    for (size_t i = 0; i < draws * width; i++)
        values[i] = value(chain, first + i / width, i % width);
    uint64_t state = first + draws;
    struct jobfile_slice slice = {.chain = chain,
                                  .iteration = (first + draws) * 10,
                                  .cpu_seconds = 0.25,
                                  .state = &state,
                                  .state_size = sizeof state,
                                  .first_draw = first,
                                  .draws = draws,
                                  .values = values};
    t.info = (struct err_info){0};
    enum err code = jobfile_commit(t.store, job, &slice, 1, &t.info);
    free(values);
    return code;
}

static inline struct jobfile *open_job(const char *job)
{
    struct jobfile *file;
    expect_ok(jobfile_open(&file, t.store, job, &t.info), &t.info);
    return file;
}

static inline struct jobfile_chain chain_of(const char *job, uint32_t chain)
{
    struct jobfile_chain stored;
    struct jobfile *file = open_job(job);
    expect_ok(jobfile_chain(file, chain, &stored, &t.info), &t.info);
    jobfile_close(file);
    return stored;
}

/* Reads and compares with the formula. */
static inline void expect_draws(struct jobfile *file, uint32_t chain, uint64_t first, size_t count,
                                const uint32_t *columns, size_t column_count)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    size_t wanted = columns != NULL ? column_count : about.width, wrong = 0;
    double *out = malloc((count * wanted + 1) * sizeof *out);
    out[count * wanted] = -77;
    enum err code = jobfile_draws(file, chain, first, count, columns, column_count, out, &t.info);
    expect_ok(code, &t.info);
    for (size_t k = 0; k < wanted; k++)
        for (size_t i = 0; i < count; i++)
            wrong +=
                out[k * count + i] != value(chain, first + i, columns != NULL ? columns[k] : k);
    cr_expect_eq(wrong, 0, "%zu of %zu numbers are wrong", wrong, count * wanted);
    cr_expect_eq(out[count * wanted], -77, "wrote beyond the end");
    free(out);
}

/* The files here belong to no row of the catalogue, and their states are no chains. */
static inline void count_problem(void *ctx, const char *problem)
{
    if (strstr(problem, "belongs to no job") == NULL && strstr(problem, "saved state") == NULL)
        ++*(size_t *)ctx;
}

static char id[JOB_ID_SIZE] = "01hf7yat00m5x3qz";

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline enum err add_point(const char *job, uint64_t iteration, size_t watched)
{
    double rhat[JOBFILE_WATCHED], ess[JOBFILE_WATCHED];
    for (size_t k = 0; k < JOBFILE_WATCHED; k++) {
        rhat[k] = k == 1 ? (double)NAN : 1.0 + (double)iteration * 1e-6 + (double)k;
        ess[k] = 2.5 * (double)iteration + (double)k;
    }
    struct jobfile_history_point point = {.draws = iteration / 10,
                                          .iteration = iteration,
                                          .seconds = 0.75 * (double)iteration,
                                          .max_rhat = 1.5,
                                          .min_ess_bulk = 17.5,
                                          .min_ess_tail = (double)NAN,
                                          .worst = "theta[4]",
                                          .watched = watched,
                                          .stride = 3,
                                          .rhat = rhat,
                                          .ess_bulk = ess};
    return jobfile_history_add(t.store, job, &point, &t.info);
}

#endif
