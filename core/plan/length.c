/* How long chains run, and which of their draws are kept. */
#include "core/plan/planning.h"

#include <math.h>

#define SURE          2.0  /* standard errors that the tolerated error of a mean must cover */
#define CHEAP         0.4  /* nominal seconds: chains run that long in any case, ... */
#define CHEAP_FACTOR  16.0 /* ... up to this many times the target */
#define WARMUP_DRAWS  10.0 /* effective draws from a normal approximation to the posterior */
#define WARMUP_LEAST  100
#define WARMUP_ADAPTS 2000 /* iterations of chains that adapt their step size, ... */
#define WARMUP_WHITE  1000 /* ... and of exact samplers where all scales are nearly 1 */
#define WARMUP_SHARE  0.3  /* of all iterations, at most, where time is short, ... */
#define WARMUP_NEAR   0.06 /* ... and from a start near the posterior */
#define SHARE_OF_SDS  0.5  /* of the effective draws of means, for sds known as well, relatively */
#define KEPT          2.5  /* draws per effective draw: more add cost but little information */
#define KEPT_BYTES    (64e6)
#define UNSEEN        1000.0 /* iterations per effective draw where no pilot run measured it */
#define ADAPTED       100.0  /* ... of chains that adapt their step size */
#define ADAPTED_WHITE 10.0 /* ... of exact samplers where all scales are nearly 1, times d^(1/3) */
#define MARGIN        1.5  /* more draws of an exact sampler: a pilot run measures mixing roughly */
#define SLOWER        1.25 /* the time limit of a job is so many times the target's seconds, ... */
#define GRACE         2.0  /* ... plus so many seconds */
#define WHITE         8.0  /* iterations per draw times sigma^2: twice those of a normal target */

double planning_wanted(const struct planning *p)
{
    const struct plan_target *t = &p->request->target;
    double for_means = pow(SURE / t->mean_error, 2.0), for_sds = pow(SURE / t->sd_error, 2.0);
    return t->ess > 0.0 ? t->ess : fmax(for_means, for_sds);
}

/* Iterations of all chains together, which one core does in so many nominal seconds. */
static double affordable(const struct planning *p, double seconds)
{
    return fmax(0.0, seconds) / planning_iteration(p);
}

/* All scales are nearly 1: an exact sampler in a dense frame around a mode. */
static bool white(const struct planning *p)
{
    return p->request->sampler->exact && p->plan->precondition == PRECONDITION_DENSE && p->centred;
}

uint64_t planning_adapts(const struct planning *p)
{
    return white(p) ? WARMUP_WHITE : WARMUP_ADAPTS;
}

double planning_each(const struct planning *p)
{
    return white(p) ? ADAPTED_WHITE * cbrt((double)p->model->d) : ADAPTED;
}

double planning_mean_error(const struct planning *p)
{
    const struct plan_request *r = p->request;
    double seconds = r->target.seconds > 0.0 ? r->target.seconds - p->seconds : INFINITY;
    double most =
        r->iterations != PLAN_AUTO ? (double)r->iterations * r->chains : affordable(p, seconds);
    /* The pilot run may be too short to see slow mixing. */
    double each = fmax(p->pilot.slowest, WHITE / (p->sigma * p->sigma));
    return 1.0 / sqrt(fmin(planning_wanted(p), most / each));
}

double planning_job_seconds(const struct planning *p)
{
    const struct plan_request *r = p->request;
    double each = isfinite(p->pilot.slowest) ? p->pilot.slowest : WHITE / (p->sigma * p->sigma);
    double needed = planning_wanted(p) * each * planning_iteration(p);
    if (r->iterations != PLAN_AUTO)
        return (double)r->iterations * r->chains * planning_iteration(p);
    return needed < CHEAP && !(r->target.ess > 0.0) ? fmin(CHEAP, CHEAP_FACTOR * needed) : needed;
}

static void choose_warmup(struct planning *p, double each, double total)
{
    struct plan *plan = p->plan;
    double least = plan->step.kind == STEP_AUTO ? (double)planning_adapts(p) : WARMUP_LEAST;
    double wanted = fmax(least, ceil(WARMUP_DRAWS * each));
    double share = p->placed && p->request->start == NULL ? WARMUP_NEAR : WARMUP_SHARE;
    double most = fmax(least, share * total);
    plan->warmup = p->request->warmup;
    if (plan->warmup != PLAN_AUTO)
        return;
    plan->warmup = (uint64_t)fmin(wanted, most);
    planning_note(p, "warm-up: %.0f iterations, %.2g times the slowest autocorrelation time",
                  (double)plan->warmup, (double)plan->warmup / each);
}

static void choose_thin(struct planning *p, double each)
{
    struct plan *plan = p->plan;
    size_t width = p->request->save_count > 0 ? p->request->save_count : p->model->d;
    double thin =
        isfinite(p->pilot.slowest) ? fmax(1.0, floor(each / KEPT)) : 1.0; /* if measured */
    double bytes = 8.0 * (double)width * p->request->chains;
    double length = (double)(plan->iterations + plan->warmup);
    plan->thin = p->request->thin;
    if (plan->thin != PLAN_AUTO)
        return;
    bool large = bytes * length / thin > KEPT_BYTES;
    if (large)
        thin = ceil(bytes * length / KEPT_BYTES);
    thin = fmax(1.0, fmin(thin, floor((double)plan->iterations / 20.0)));
    plan->thin = sampler_thin(p->request->sampler, (uint64_t)thin);
    if (plan->thin == 1)
        planning_note(p, "thin: every iteration is kept");
    else
        planning_note(p,
                      large ? "thin: one iteration in %.0f, for draws of 64 MB in all"
                            : "thin: one iteration in %.0f, some draws per autocorrelation time",
                      (double)plan->thin);
}

/* Iterations of one chain after warm-up. */
static void choose_iterations(struct planning *p, double each)
{
    const struct plan_request *r = p->request;
    struct plan *plan = p->plan;
    double chains = r->chains, wanted = planning_wanted(p), seconds = r->target.seconds;
    double left = seconds > 0.0 ? seconds - p->seconds : INFINITY;
    double margin = r->sampler->exact ? MARGIN : 1.0;
    double most = affordable(p, left) / chains, needed = margin * wanted * each / chains;
    double cheap = affordable(p, CHEAP) / chains;
    if (r->target.ess <= 0.0 && cheap > needed)
        needed = fmin(cheap, CHEAP_FACTOR * needed);
    bool short_of_time = needed + WARMUP_DRAWS * each > most;
    choose_warmup(p, each, fmin(most, needed + WARMUP_DRAWS * each));
    plan->iterations = r->iterations;
    if (plan->iterations != PLAN_AUTO)
        return;
    plan->most_seconds = seconds > 0.0 ? SLOWER * seconds + GRACE : 0.0;
    double rest = fmax(100.0, most - (double)plan->warmup);
    plan->iterations = (uint64_t)ceil(fmax(100.0, short_of_time ? fmin(needed, rest) : needed));
    double ess = chains * (double)plan->iterations / each;
    if (ess < 0.95 * wanted)
        planning_note(p,
                      "iterations: %.0f, all that %.3g s allow: about %.3g effective draws of the "
                      "slowest coordinate instead of %.6g",
                      (double)plan->iterations, seconds, ess, wanted);
    else
        planning_note(p,
                      "iterations: %.0f, about %.3g effective draws of the slowest coordinate "
                      "(%.3g iterations each) in %.2g s",
                      (double)plan->iterations, ess, each,
                      (double)(plan->iterations + plan->warmup) * chains * planning_iteration(p));
}

/* The expected errors, and whether they meet the target. */
static void judge(struct planning *p, double each)
{
    struct plan *plan = p->plan;
    struct plan_checks *c = &plan->checks;
    const struct plan_target *t = &p->request->target;
    double chains = p->request->chains, length = (double)(plan->iterations + plan->warmup);
    c->autocorrelation = each;
    c->iteration_seconds = planning_iteration(p);
    c->ess = chains * (double)plan->iterations / each;
    c->mean_error = fmax(SURE / sqrt(c->ess), p->mean_bias);
    c->seconds = p->seconds + length * chains * c->iteration_seconds;
    if (!isfinite(c->energy))
        c->energy = p->pilot.energy;
    if (p->model->noise_heavy && !p->request->sampler->exact) {
        planning_note(p, "target: the gradient noise has infinite variance, so its effect on the "
                         "sds is not known");
        c->sd_error = NAN;
    }
    bool shifts = p->noise_needed > 0.0; /* asymmetric noise as the only randomness biases means */
    if (shifts)
        c->mean_error = NAN;
    bool tried = isfinite(p->pilot.slowest) || !p->request->sampler->exact;
    bool enough = c->ess >= 0.95 * planning_wanted(p) && tried;
    bool unbiased =
        p->request->sampler->exact || (c->sd_error <= t->sd_error && !(p->mean_bias > 0.0));
    plan->within_target = enough && unbiased && !p->pilot.diverged;
    if (!unbiased && isnan(c->sd_error))
        planning_note(p,
                      "target: the bias of %s is not known in advance, so that %.2g %% cannot be "
                      "promised",
                      shifts ? "means and sds" : "the sds", 100.0 * t->sd_error);
    else if (p->mean_bias > 0.0)
        planning_note(p, "target: means within %.2g sd cannot be expected, but %.2g sd",
                      t->mean_error, p->mean_bias);
    else if (!unbiased)
        planning_note(p, "target: sds within %.2g %% cannot be expected, but %.2g %%",
                      100.0 * t->sd_error, 100.0 * c->sd_error);
    if (p->pilot.diverged)
        planning_note(p, "target: a pilot run diverged");
    if (!tried)
        planning_note(p,
                      "target: how the chains mix was not tried out, as the time is too short for "
                      "a pilot run");
}

void planning_lengths(struct planning *p)
{
    const struct plan_request *r = p->request;
    double each = p->pilot.slowest;
    if (p->pilot.chains == 0) { /* everything was given */
        p->plan->warmup = r->warmup;
        p->plan->iterations = r->iterations;
        p->plan->thin = r->thin;
        p->plan->within_target = true;
        return;
    }
    if (!isfinite(each))
        each = p->centred && p->sigma > 0.0 ? WHITE / (p->sigma * p->sigma)
               : white(p)                   ? planning_each(p)
                                            : UNSEEN;
    /* Draws of exact samplers may be antithetic: means are then known better than from independent
     * draws, but sds are not. */
    if (r->sampler->exact)
        each = fmax(each, p->pilot.slowest_sd * (r->target.ess > 0.0 ? 1.0 : SHARE_OF_SDS));
    each = fmax(each, 1.0);
    choose_iterations(p, each);
    choose_thin(p, each);
    judge(p, each);
}
