/* A certificate before the job: a pilot run with the chosen settings, full-data gradients at its
 * draws, and the bias of every mean and sd that they show (core/diagnostics/certificate.h). Where
 * it is beyond chance and beyond the target, the step is shortened or the batch enlarged, and the
 * next run shows whether that was enough.
 *
 * A run of M effective draws shows biases of some 1/sqrt(M) sds. All runs and gradients together
 * take a fifth of the time of the job at most; the job's own certificate is made of more draws. */
#include "core/diagnostics/certificate.h"
#include "core/diagnostics/scores.h"
#include "core/plan/steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE       0.2 /* of the job's nominal seconds, in ... */
#define ROUNDS      3   /* ... so many parts, of which ... */
#define RUN_SHARE   0.6 /* ... so much is for the chains, the rest for gradients */
#define KEEP        2000
#define KEEP_VALUES 4e6 /* numbers of all draws that are kept */
#define MEND_MOST   500 /* parameters */
#define DENSE_ESS   10.0
#define ROWS_LEAST  16  /* of a block */
#define PASSES      4.0 /* over the data, at least: fewer resolve no bias */
#define ROWS_FACTOR 4.0
#define ENOUGH      0.8 /* of the tolerated bias, which a mend aims at */
#define FACTOR      0.4 /* a step is not shortened by more at a time */

/* Of the errors beyond chance and target, the largest in units of what the target allows. */
struct bias {
    bool seen, mean; /* there is such an error; it is that of a mean, not of an sd */
    size_t at;
    double error, se, ratio;
    double visible; /* errors of means that would have been seen, in sds */
};

struct certifying {
    size_t n, d;
    double *theta, *score, *mean, *sd, *covariance;
    uint32_t *batch;
    struct certificate_row *rows;
    double *u, *g; /* padded */
};

static void certifying_release(struct certifying *c)
{
    free(c->theta);
    free(c->score);
    free(c->mean);
    free(c->covariance);
    free(c->batch);
    free(c->rows);
    free(c->u);
    free(c->g);
}

static enum err certifying_init(struct certifying *c, size_t n, size_t d, struct err_info *info)
{
    *c = (struct certifying){.n = n, .d = d};
    c->theta = malloc(n * d * sizeof *c->theta);
    c->score = malloc(n * d * sizeof *c->score);
    c->mean = calloc(2 * d, sizeof *c->mean);
    c->covariance = calloc(d * d, sizeof *c->covariance);
    c->batch = malloc(n * sizeof *c->batch);
    c->rows = malloc(d * sizeof *c->rows);
    c->u = lanes_alloc(d, sizeof *c->u);
    c->g = lanes_alloc(d, sizeof *c->g);
    if (c->theta == NULL || c->score == NULL || c->mean == NULL || c->covariance == NULL ||
        c->batch == NULL || c->rows == NULL || c->u == NULL || c->g == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the certificate of a plan");
    c->sd = c->mean + d;
    return ERR_OK;
}

/* ---- draws, moments, gradients ---- */

static void take_draws(struct certifying *c, const struct planning *p)
{
    size_t d = c->d, each = p->pilot.kept, per = certificate_batches(each, p->pilot.chains);
    const struct frame *frame = p->view != NULL ? p->plan->frame : NULL;
    for (size_t i = 0; i < c->n; i++) {
        double *theta = c->theta + i * d;
        memcpy(c->u, p->pilot.draws + i * d, d * sizeof *theta);
        if (frame != NULL)
            frame_to_user(frame, c->u, c->g);
        memcpy(theta, frame != NULL ? c->g : c->u, d * sizeof *theta);
        c->batch[i] = (uint32_t)(i / each * per + i % each * per / each);
        for (size_t j = 0; j < d; j++)
            c->mean[j] += theta[j] / (double)c->n;
    }
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < d; j++)
            c->sd[j] += pow(c->theta[i * d + j] - c->mean[j], 2.0) / (double)c->n;
    for (size_t j = 0; j < d; j++)
        c->sd[j] = sqrt(c->sd[j]);
}

static void find_covariance(struct certifying *c)
{
    size_t d = c->d;
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < d; j++) {
            double x = (c->theta[i * d + j] - c->mean[j]) / (double)c->n;
            for (size_t k = 0; k < d; k++)
                c->covariance[j * d + k] += x * (c->theta[i * d + k] - c->mean[k]);
        }
}

/* A A' of the frame. A wrong common factor does not matter: the certificate's coefficients undo
 * it. */
static void take_frame(struct certifying *c, const struct frame *frame)
{
    size_t d = c->d, stride = padded(d);
    for (size_t j = 0; j < d; j++)
        for (size_t k = 0; k < d; k++)
            for (size_t i = 0; i <= (j < k ? j : k); i++)
                c->covariance[j * d + k] +=
                    frame->rows[j * stride + i] * frame->rows[k * stride + i];
}

/* The matrix S of core/diagnostics/certificate.h: the covariance of the draws if there are
 * DENSE_ESS effective draws per parameter, else that of a dense frame. NULL: variances alone. */
static const double *covariance_of(struct certifying *c, const struct planning *p)
{
    const struct frame *frame = p->plan->frame;
    bool many = fmin(planning_draws(p), (double)c->n) >= DENSE_ESS * (double)c->d;
    if (many)
        find_covariance(c);
    else if (frame != NULL && frame->kind == FRAME_DENSE)
        take_frame(c, frame);
    else
        return NULL;
    return c->covariance;
}

static enum err find_scores(struct certifying *c, struct planning *p, double passes,
                            struct err_info *info)
{
    struct scores scores;
    size_t d = c->d, blocks = scores_blocks((double)c->n, passes);
    p->seconds += fmin((double)c->n, passes) * cost_gradient(p->model);
    enum err code = scores_init(&scores, p->model, c->mean, blocks, p->request->seed, info);
    for (size_t i = 0; i < c->n && code == ERR_OK; i++) {
        memcpy(c->u, c->theta + i * d, d * sizeof *c->u);
        scores_at(&scores, i, c->u, c->g);
        memcpy(c->score + i * d, c->g, d * sizeof *c->g);
        if (!planning_goes_on(p))
            code = err_set(info, ERR_UNAVAILABLE, "interrupted during the certificate of a plan");
    }
    scores_release(&scores);
    return code;
}

/* ---- what they show ---- */

/* `noise` is the Monte-Carlo error of the run, which is no bias. */
static void consider(struct bias *worst, size_t at, bool mean, double error, double se,
                     double noise, double allowed, double alarm)
{
    double beyond = fabs(error) - alarm * hypot(se, noise), ratio = fabs(error) / allowed;
    if (beyond > 0.0 && ratio > 1.0 && !(ratio <= worst->ratio))
        *worst = (struct bias){.seen = true,
                               .mean = mean,
                               .at = at,
                               .error = error,
                               .se = hypot(se, noise),
                               .ratio = ratio,
                               .visible = worst->visible};
}

static struct bias worst_of(const struct certifying *c, const struct planning *p)
{
    const struct plan_target *t = &p->request->target;
    double alarm = certificate_alarm(2 * c->d), ess = planning_draws(p);
    double ess_sd = ess * p->pilot.slowest / fmax(p->pilot.slowest, p->pilot.slowest_sd);
    double mean_noise = 1.0 / sqrt(fmin(ess, (double)c->n));
    double sd_noise = 1.0 / sqrt(2.0 * fmin(ess_sd, (double)c->n));
    struct bias worst = {.ratio = 0.0, .visible = alarm * mean_noise};
    for (size_t j = 0; j < c->d; j++) {
        const struct certificate_row *row = &c->rows[j];
        consider(&worst, j, true, row->mean_error, row->mean_se, mean_noise, t->mean_error, alarm);
        consider(&worst, j, false, row->sd_error, row->sd_se, sd_noise, t->sd_error, alarm);
    }
    return worst;
}

static enum err certify(struct planning *p, double passes, struct bias *found,
                        struct err_info *info)
{
    struct certifying c;
    size_t n = p->pilot.kept * p->pilot.chains;
    enum err code = certifying_init(&c, n, p->model->d, info);
    if (code == ERR_OK) {
        take_draws(&c, p);
        code = find_scores(&c, p, passes, info);
    }
    if (code == ERR_OK) {
        struct certificate_draws draws = {
            .n = n,
            .d = c.d,
            .theta = c.theta,
            .score = c.score,
            .batch = c.batch,
            .batches = p->pilot.chains * certificate_batches(p->pilot.kept, p->pilot.chains),
            .mean = c.mean,
            .sd = c.sd,
            .covariance = covariance_of(&c, p)};
        code = certificate_measure(c.rows, &draws, info);
    }
    if (code == ERR_OK)
        *found = worst_of(&c, p);
    certifying_release(&c);
    return code;
}

/* ---- mends ---- */

static bool batch_is_open(const struct planning *p)
{
    return p->request->batch_size == PLAN_AUTO && p->request->one_in == 0 && p->n < p->model->N;
}

/* By how much the step is to be shortened, as bias grows with its square. */
static double factor_of(const struct bias *found)
{
    return fmax(FACTOR, sqrt(ENOUGH / found->ratio));
}

static double more_rows(const struct planning *p)
{
    return fmin(ROWS_FACTOR * budget_rows(p), (double)p->model->N);
}

/* A larger batch reduces only the bias due to noise, a shorter step every bias. The batch is
 * enlarged first where noise may be the cause and more rows cost less than more iterations; only
 * once, because bias that remains has another cause. */
static bool rows_first(const struct planning *p, const struct bias *found)
{
    double noise = try_noise_seen(p), f = factor_of(found);
    double of_noise = budget_noise_bias(p, budget_rows(p)) * noise * noise;
    return (of_noise > 0.25 * budget_step_bias(p, p->sigma) || p->pilot.beyond > 0.01) &&
           budget_cost(p, more_rows(p)) < budget_cost(p, budget_rows(p)) / (f * f);
}

static void say_found(struct planning *p, const struct bias *found, const char *rest)
{
    double unit = found->mean ? 1.0 : 100.0;
    planning_note(
        p, "certificate: in a pilot run, the %s of parameter %zu was off by %.2g ± %.1g%s; %s",
        found->mean ? "mean" : "sd", found->at + 1, unit * found->error, unit * found->se,
        found->mean ? " sd" : " %", rest);
}

static void enlarge_batch(struct planning *p, const struct bias *found)
{
    char rest[80];
    budget_settle_batch(p, more_rows(p));
    snprintf(rest, sizeof rest, "batch enlarged to %.4g rows per iteration", budget_rows(p));
    say_found(p, found, rest);
}

static void shorten_step(struct planning *p, const struct bias *found)
{
    char rest[80];
    double f = factor_of(found);
    p->sigma *= f;
    p->sigma_most = p->sigma;
    p->plan->checks.sd_error *= f * f;
    p->pilot.slowest /= f * f;
    snprintf(rest, sizeof rest, "step shortened to %.3g", p->sigma);
    say_found(p, found, rest);
}

/* Whether the job still fits into its time limit with larger batches (`rows`) or shorter steps. */
static bool in_time(const struct planning *p, const struct bias *found, bool rows)
{
    double limit = p->request->target.seconds, f = factor_of(found);
    double longer =
        rows ? budget_cost(p, more_rows(p)) / budget_cost(p, budget_rows(p)) : 1.0 / (f * f);
    return !(limit > 0.0) || p->seconds + longer * planning_job_seconds(p) <= limit;
}

static void leave(struct planning *p, const struct bias *found, const char *rest)
{
    if (found->mean)
        p->mean_bias = fabs(found->error);
    else
        p->plan->checks.sd_error = fabs(found->error);
    say_found(p, found, rest);
}

/* False: nothing is left to be changed. */
static bool mend(struct planning *p, const struct bias *found, int round, bool *rows_tried)
{
    bool rows = batch_is_open(p) && !*rows_tried && rows_first(p, found);
    bool last = round + 1 == ROUNDS, possible = !last && in_time(p, found, rows);
    if (last)
        leave(p, found, "that is left, after as many changes as are tried");
    else if (!possible)
        leave(p, found, "the time does not allow shorter steps or larger batches");
    else if (rows)
        enlarge_batch(p, found);
    else
        shorten_step(p, found);
    *rows_tried = *rows_tried || rows;
    return possible;
}

static bool can_certify(const struct planning *p, double seconds)
{
    bool passes = (1.0 - RUN_SHARE) * seconds >= PASSES * cost_gradient(p->model);
    return p->model->d <= MEND_MOST && !p->model->noise_heavy && passes;
}

/* One run and its certificate. *resolved: there were enough draws. Unless they showed a bias, what
 * the last run has measured is kept. */
static enum err look(struct planning *p, double seconds, struct bias *found, bool *resolved,
                     struct err_info *info)
{
    size_t d = p->model->d, keep = (size_t)fmin(KEEP, KEEP_VALUES / (double)d);
    double passes = (1.0 - RUN_SHARE) * seconds / cost_gradient(p->model);
    struct pilot before = p->pilot;
    if (p->model->N < ROWS_LEAST * scores_blocks((double)keep, passes) && (double)keep > passes)
        keep = (size_t)passes;
    p->pilot = (struct pilot){0};
    enum err code = try_longer(p, (double)keep, RUN_SHARE * seconds, keep, info);
    *found = (struct bias){.seen = false};
    *resolved = code == ERR_OK && !p->pilot.diverged && isfinite(p->pilot.slowest) &&
                p->pilot.kept * p->pilot.chains >= CERTIFICATE_DRAWS;
    if (*resolved)
        code = certify(p, passes, found, info);
    if (found->seen) {
        pilot_release(&before);
    } else {
        pilot_release(&p->pilot);
        p->pilot = before;
    }
    return code;
}

enum err mend_bias(struct planning *p, struct err_info *info)
{
    double limit = p->request->target.seconds, job = planning_job_seconds(p);
    double seconds = SHARE / ROUNDS * (limit > 0.0 ? fmin(job, limit) : job);
    bool resolved = true, rows_tried = false;
    enum err code = ERR_OK;
    if (!can_certify(p, seconds)) {
        planning_note(p, "certificate: not made before the job, which is too short for one");
        return ERR_OK;
    }
    for (int round = 0; round < ROUNDS && code == ERR_OK && resolved; round++) {
        struct bias found;
        code = look(p, seconds, &found, &resolved, info);
        if (code == ERR_OK && resolved && !found.seen)
            planning_note(p, "certificate: no bias of %.2g sd or more in a pilot run",
                          found.visible);
        if (!found.seen || !mend(p, &found, round, &rows_tried))
            break;
    }
    if (code == ERR_OK && !resolved)
        planning_note(p, "certificate: not made before the job, as a pilot run had too few draws");
    return code;
}
