/* Normal targets, and jobs with draws of them, for the tests of the checks on the whole data. */
#ifndef TESTS_UNIT_SERVER_DIAGNOSE_NORMAL_WORLD_H
#define TESTS_UNIT_SERVER_DIAGNOSE_NORMAL_WORLD_H

#include "core/base/lanes.h"
#include "core/kernels/kernels.h"
#include "server/base/json.h"
#include "tests/support/store.h"

#include <math.h>
#include <time.h>

static struct store_test t;

static char id[JOB_ID_SIZE] = "01hf7yat00m5x3qz";

/* ---- targets ---- */

/* Independent normals around 2.385 with sds 1, 1/2, 1/4, ..., 1/16, 1, ...; log density 7.25 at the
 * mode. Of N data terms each has its share. Every pass is counted, may take a while, and may set
 * `halt`. */
struct target {
    struct model base;
    atomic_size_t passes;
    size_t halt_at; /* pass; 0: never */
    unsigned pause_us;
    double undefined_above; /* no density there */
    atomic_bool halt;
};

static inline double sd_of(size_t j)
{
    return ldexp(1.0, -(int)(j % 5));
}

static inline void count_pass(const struct model *m)
{
    struct target *target = (struct target *)(uintptr_t)m;
    if (atomic_fetch_add(&target->passes, 1) + 1 == target->halt_at)
        atomic_store(&target->halt, true);
    if (target->pause_us > 0)
        usleep(target->pause_us);
}

static inline void add_gradient(const struct model *m, const double *theta, double weight,
                                double *g)
{
    memset(g, 0, padded(m->d) * sizeof *g);
    for (size_t j = 0; j < m->d; j++)
        g[j] = weight * (2.385 - theta[j]) / (sd_of(j) * sd_of(j));
}

static inline double add_density(const struct model *m, const double *theta, double weight)
{
    double sum = 7.25;
    for (size_t j = 0; j < m->d; j++) {
        double z = (theta[j] - 2.385) / sd_of(j);
        sum -= 0.5 * z * z;
        if (theta[j] > ((const struct target *)m)->undefined_above)
            return NAN;
    }
    return weight * sum;
}

static inline void grad_fixed(const struct model *m, const double *theta, double *g, void *work)
{
    (void)work;
    if (m->N == 0)
        count_pass(m);
    add_gradient(m, theta, m->N == 0 ? 1.0 : 0.0, g);
}

static inline double log_fixed(const struct model *m, const double *theta, void *work)
{
    (void)work;
    if (m->N == 0)
        count_pass(m);
    return add_density(m, theta, m->N == 0 ? 1.0 : 0.0);
}

static inline void grad_batch(const struct model *m, const double *theta, const uint32_t *idx,
                              size_t n, double *sum, double *sumsq, void *work)
{
    (void)idx;
    (void)sumsq;
    (void)work;
    count_pass(m);
    add_gradient(m, theta, (double)n / (double)m->N, sum);
}

static inline double log_batch(const struct model *m, const double *theta, const uint32_t *idx,
                               size_t n, void *work)
{
    (void)idx;
    (void)work;
    count_pass(m);
    return add_density(m, theta, (double)n / (double)m->N);
}

static const struct model_type normal_type = {.name = "normals",
                                              .grad_fixed = grad_fixed,
                                              .grad_batch = grad_batch,
                                              .log_fixed = log_fixed,
                                              .log_batch = log_batch};

static inline struct target target_make(size_t d, size_t N)
{
    return (struct target){
        .base = {.type = &normal_type,
                 .d = d,
                 .N = N,
                 .blocks = {{.name = "theta", .rank = 1, .shape = {d}}},
                 .block_count = 1},
        .undefined_above = INFINITY,
    };
}

/* ---- jobs ---- */

struct sample {
    size_t d, width;
    uint32_t chains;
    size_t draws; /* per chain; every 10th iteration is one */
    uint64_t warmup;
    double scale, shift; /* of the draws, in sds of the target */
};

static inline void moments_of(const double *values, size_t n, size_t d, double *mean,
                              double *variance)
{
    for (size_t j = 0; j < d; j++) {
        mean[j] = variance[j] = 0.0;
        for (size_t i = 0; i < n; i++)
            mean[j] += values[i * d + j] / (double)n;
        for (size_t i = 0; i < n; i++) {
            double r = values[i * d + j] - mean[j];
            variance[j] += r * r / (double)(n > 1 ? n - 1 : 1);
        }
    }
}

static inline void add_chain(const struct sample *s, uint32_t chain)
{
    struct rng rng;
    double *values = lanes_alloc(s->draws * s->d, sizeof *values);
    double *moments = calloc(2 * s->d, sizeof *moments);
    rng_seed(&rng, 20240917, chain, 7);
    kernels->rng_normal(&rng, values, s->draws * s->d);
    for (size_t i = 0; i < s->draws * s->d; i++)
        values[i] = 2.385 + sd_of(i % s->d) * (s->shift + s->scale * values[i]);
    moments_of(values, s->draws, s->d, moments, moments + s->d);
    struct jobfile_slice slice = {.chain = chain,
                                  .iteration = 10 * s->draws,
                                  .draws = s->draws,
                                  .values = values,
                                  .moment_count = s->draws,
                                  .mean = moments,
                                  .variance = moments + s->d};
    expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    free(values);
    free(moments);
}

static inline struct jobfile *make_job(struct sample s)
{
    struct jobfile *file;
    char(*texts)[32] = calloc(s.d + 1, sizeof *texts);
    const char **names = calloc(s.d + 1, sizeof *names);
    size_t width = s.width > 0 ? s.width : s.d;
    for (size_t j = 0; j < width; j++) {
        snprintf(texts[j], sizeof texts[j], "theta[%zu]", j + 1);
        names[j] = texts[j];
    }
    struct jobfile_meta meta = {.request = "{}",
                                .names = names,
                                .width = width,
                                .d = s.d,
                                .chains = s.chains,
                                .thin = 10,
                                .warmup = s.warmup};
    expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
    for (uint32_t c = 1; c <= s.chains && width == s.d; c++)
        add_chain(&s, c);
    expect_ok(jobfile_open(&file, t.store, id, &t.info), &t.info);
    free(names);
    free(texts);
    return file;
}

/* A number of the document, "energy.ratio"; fails when there is none. */
static inline double number(const json_t *doc, const char *part, const char *key)
{
    const json_t *value = json_object_get(json_object_get(doc, part), key);
    cr_assert(json_is_number(value), "%s.%s is no number", part, key);
    return json_number_value(value);
}

static inline bool is_null(const json_t *doc, const char *key)
{
    return json_is_null(json_object_get(doc, key));
}

#endif
