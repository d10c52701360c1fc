/* Scores of arms. */
#include "server/study/score.h"
#include "core/base/lanes.h"
#include "core/base/rng.h"
#include "core/diagnostics/stein.h"
#include "core/kernels/kernels.h"
#include "core/model/gradient.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_TEST_POINTS 77

struct scoring {
    const struct score_wish *wish;
    size_t d;
    double *centre, *scale; /* of all arms together */
    double *means, *sds;    /* arm by arm */
    double *theta, *score;  /* of the arm: rows of d numbers */
    double *at, *g;         /* padded: one draw and its gradient */
    double *points;         /* test points */
    double *sorted;         /* one number per arm */
};

uint64_t score_bytes(size_t d, size_t arms, size_t draws, size_t locations)
{
    return (uint64_t)(2 * draws + 2 * arms + locations + 8) * (d + 32) * sizeof(double);
}

static void release(struct scoring *s)
{
    free(s->centre);
    free(s->scale);
    free(s->means);
    free(s->sds);
    free(s->theta);
    free(s->score);
    free(s->at);
    free(s->g);
    free(s->points);
    free(s->sorted);
}

static enum err allocate(struct scoring *s, struct err_info *info)
{
    size_t d = s->d, arms = s->wish->arm_count, draws = s->wish->draws;
    s->centre = calloc(d, sizeof *s->centre);
    s->scale = calloc(d, sizeof *s->scale);
    s->means = calloc(arms * d, sizeof *s->means);
    s->sds = calloc(arms * d, sizeof *s->sds);
    s->theta = calloc(draws * d, sizeof *s->theta);
    s->score = calloc(draws * d, sizeof *s->score);
    s->at = lanes_alloc(d, sizeof *s->at);
    s->g = lanes_alloc(d, sizeof *s->g);
    s->points = lanes_alloc(s->wish->locations * d, sizeof *s->points); /* drawn in whole lanes */
    s->sorted = calloc(arms, sizeof *s->sorted);
    bool all = s->centre && s->scale && s->means && s->sds && s->theta && s->score && s->at &&
               s->g && s->points && s->sorted;
    return all ? ERR_OK : err_set(info, ERR_NO_MEMORY, "no memory for the score of an arm");
}

static bool is_halted(const struct scoring *s)
{
    return s->wish->halt != NULL && atomic_load(s->wish->halt);
}

static enum err interrupted(struct err_info *info)
{
    return err_set(info, ERR_UNAVAILABLE, "the score was interrupted");
}

/* ---- draws ---- */

static size_t draws_of(const struct scoring *s, const struct score_arm *arm)
{
    return arm->count < s->wish->draws ? (size_t)arm->count : s->wish->draws;
}

/* Draw i of those that are used, from the middle of its part. */
static enum err read_draw(const struct scoring *s, const struct score_arm *arm, size_t i,
                          struct err_info *info)
{
    size_t used = draws_of(s, arm);
    uint64_t at = arm->first + (uint64_t)(((double)i + 0.5) * (double)arm->count / (double)used);
    return jobfile_draws(arm->file, 1, at, 1, NULL, 0, s->at, info);
}

static enum err moments_of(struct scoring *s, size_t a, struct err_info *info)
{
    const struct score_arm *arm = &s->wish->arms[a];
    double *mean = s->means + a * s->d, *square = s->sds + a * s->d;
    size_t used = arm->file != NULL ? draws_of(s, arm) : 0;
    enum err code = ERR_OK;
    if (is_halted(s))
        return interrupted(info);
    for (size_t i = 0; i < used && code == ERR_OK; i++) {
        code = read_draw(s, arm, i, info);
        for (size_t j = 0; j < s->d && code == ERR_OK; j++) {
            double off = s->at[j] - mean[j];
            mean[j] += off / (double)(i + 1);
            square[j] += off * (s->at[j] - mean[j]);
        }
    }
    for (size_t j = 0; j < s->d; j++) {
        square[j] = used > 1 ? sqrt(square[j] / (double)(used - 1)) : NAN;
        mean[j] = used > 1 ? mean[j] : NAN;
    }
    return code;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Over the arms, of the finite ones. */
static double median_at(struct scoring *s, const double *values, size_t j)
{
    size_t n = 0;
    for (size_t a = 0; a < s->wish->arm_count; a++)
        if (isfinite(values[a * s->d + j]))
            s->sorted[n++] = values[a * s->d + j];
    qsort(s->sorted, n, sizeof *s->sorted, ascending);
    return n == 0 ? NAN : 0.5 * (s->sorted[(n - 1) / 2] + s->sorted[n / 2]);
}

/* Units, and test points in them. */
static enum err look_at_all(struct scoring *s, struct err_info *info)
{
    struct rng rng;
    enum err code = ERR_OK;
    for (size_t a = 0; a < s->wish->arm_count && code == ERR_OK; a++)
        code = moments_of(s, a, info);
    for (size_t j = 0; j < s->d && code == ERR_OK; j++) {
        s->centre[j] = median_at(s, s->means, j);
        s->scale[j] = median_at(s, s->sds, j);
        if (!isfinite(s->centre[j]) || !(s->scale[j] > 0.0))
            code = err_set(info, ERR_DIVERGED, "no arm moves in coordinate %zu", j + 1);
    }
    rng_seed(&rng, s->wish->seed, 0, STREAM_TEST_POINTS);
    kernels->rng_normal(&rng, s->points, s->wish->locations * s->d);
    for (size_t k = 0; k < s->wish->locations && code == ERR_OK; k++)
        for (size_t j = 0; j < s->d; j++)
            s->points[k * s->d + j] += s->centre[j] / s->scale[j];
    return code;
}

/* ---- gradients ---- */

static enum err take_gradients(struct scoring *s, const struct score_arm *arm, size_t used,
                               struct err_info *info)
{
    const struct model *model = s->wish->model;
    struct gradient source = {0};
    enum err code = gradient_init(&source, model, model->N, false, info);
    for (size_t i = 0; i < used && code == ERR_OK; i++) {
        code = is_halted(s) ? interrupted(info) : read_draw(s, arm, i, info);
        if (code != ERR_OK)
            break;
        gradient_exact(&source, s->at, s->g);
        memcpy(s->theta + i * s->d, s->at, s->d * sizeof *s->at);
        memcpy(s->score + i * s->d, s->g, s->d * sizeof *s->g);
    }
    gradient_release(&source);
    return code;
}

/* With the mean of the draws themselves, which makes it (n - 1) / n of what it should be. */
static void check_variances(struct score *out, const struct scoring *s, size_t a, size_t n)
{
    const double *mean = s->means + a * s->d;
    double most = -1.0, sum = 0.0, squares = 0.0, grow = (double)n / ((double)n - 1.0);
    for (size_t j = 0; j < s->d; j++) {
        double check = 0.0;
        for (size_t i = 0; i < n; i++)
            check -= grow / (double)n * (s->theta[i * s->d + j] - mean[j]) * s->score[i * s->d + j];
        if (fabs(check - 1.0) > most) {
            most = fabs(check - 1.0);
            out->worst = j;
            out->check_worst = check;
        }
    }
    for (size_t i = 0; i < n; i++) {
        double one = 0.0;
        for (size_t j = 0; j < s->d; j++)
            one -= grow * (s->theta[i * s->d + j] - mean[j]) * s->score[i * s->d + j];
        one /= (double)s->d;
        sum += one;
        squares += one * one;
    }
    double average = sum / (double)n, variance = squares / (double)n - average * average;
    out->check = average;
    out->check_error = sqrt(fmax(variance, 0.0) / ((double)n - 1.0));
}

static enum err judge(struct score *out, struct scoring *s, size_t a, struct err_info *info)
{
    const struct score_arm *arm = &s->wish->arms[a];
    size_t n = arm->file != NULL ? draws_of(s, arm) : 0;
    struct stein_fssd fssd;
    if (n < 2)
        return err_set(info, ERR_CONFLICT, "the arm has no draws in this round");
    enum err code = take_gradients(s, arm, n, info);
    if (code != ERR_OK)
        return code;
    check_variances(out, s, a, n);
    stein_rescale(s->theta, s->score, n, s->d, s->d, s->scale);
    struct stein_points points = {
        .n = n, .d = s->d, .stride = s->d, .theta = s->theta, .score = s->score};
    code = stein_fssd_at(&fssd, &points, s->points, s->wish->locations, info);
    out->fssd = fssd.value;
    out->fssd_error = fssd.error;
    out->draws = n;
    return code;
}

enum err score_arm(struct score *out, const struct score_wish *wish, size_t arm,
                   struct err_info *info)
{
    struct scoring s = {.wish = wish, .d = wish->model->d};
    *out = (struct score){
        .fssd = NAN, .fssd_error = NAN, .check = NAN, .check_error = NAN, .check_worst = NAN};
    enum err code = allocate(&s, info);
    if (code == ERR_OK)
        code = look_at_all(&s, info);
    if (code == ERR_OK)
        code = judge(out, &s, arm, info);
    release(&s);
    return code;
}
