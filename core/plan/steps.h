/* What the files that choose estimator, step size and batch size share: core/plan/step.c has them
 * one after the other. n is rows per iteration, on average: below the smallest batch, one in so many
 * iterations has such a batch. `unit` is the noise of one term (struct planning). */
#ifndef BARKER_CORE_PLAN_STEPS_H
#define BARKER_CORE_PLAN_STEPS_H

#include "core/plan/planning.h"

#define STEP_SHARE 0.35 /* of the tolerated error of the sds, for the step size */

bool planning_is_auto(const struct planning *p);               /* the step size is ours to choose */
bool planning_can_meet_target(const struct planning *p);       /* the bias can be told in advance */
const struct model *planning_target(const struct planning *p); /* what chains sample */

/* core/plan/budget.c. */
/* sigma tau at which a variant without randomness of its own has the variance of the target; 0 for
 * the others. */
double budget_noise_needed(const struct planning *p);
/* Relative excess of the sds by the step alone; by noise, per square of sigma tau, at n rows. */
double budget_step_bias(const struct planning *p, double sigma);
double budget_noise_bias(const struct planning *p, double n);
/* The largest sigma tau that n rows may have: what the step leaves of the tolerated error. */
double budget_noise_most(const struct planning *p, double sigma, double n);
/* tau of n rows over the noise of one term, times N; sigma tau of n rows over what it may be. */
double budget_noise_share(const struct planning *p, double n);
double budget_noise_ratio(const struct planning *p, double unit, double sigma, double n);
double budget_cost(const struct planning *p, double n); /* of an iteration, in about 3 ns */
/* The fewest rows within the tolerance of a step, or N; the rows that get around most for their
 * cost, and their step. */
double budget_rows_for(const struct planning *p, double unit, double sigma);
double budget_best_rows(const struct planning *p, double unit, double *sigma);
double budget_rows(const struct planning *p);              /* those of the settled batches */
void budget_settle_batch(struct planning *p, double rows); /* p->n, p->one_in */

/* core/plan/measure.c. */
/* In what the step of a coordinate is measured. */
double measure_width_at(const struct planning *p, size_t j);
/* `drift`: the largest square of a mean over that of the largest sd; or NULL. */
enum err measure_noise(const struct planning *p, const struct model *target, double *unit,
                       double *drift, struct err_info *info);
/* Of the plain estimator in the plan's dense frame. */
enum err measure_plain(const struct planning *p, double *unit, struct err_info *info);
/* p->unit and p->drift, of what chains sample. */
enum err measure_target(struct planning *p, struct err_info *info);

/* core/plan/choose.c. */
double choose_lattice_error(const struct planning *p, double sigma); /* of a quantile */
double choose_longest_sigma(const struct planning *p);
enum err choose_estimator(struct planning *p, double sigma, struct err_info *info);
enum err choose_centre(struct planning *p, struct err_info *info);
/* The step that makes enough of the noise of the chosen batch, for variants that need it; and
 * whether even the longest makes too little. */
void choose_fitting_sigma(struct planning *p);
bool choose_lacks_noise(const struct planning *p);
void choose_lower_sigma(struct planning *p); /* where no batch can lower the noise */
void choose_batch(struct planning *p);
void choose_sigma(struct planning *p);
void choose_variant(struct planning *p);
void choose_corrected_again(struct planning *p); /* the other variant diverged */

/* core/plan/try.c. */
/* A run at the chosen settings; the batch may grow on the way, or the centre be given up. */
enum err try_settings(struct planning *p, struct err_info *info);
/* Another with the widths of that run: where the curvature misjudged them; without a centre. */
enum err try_widths(struct planning *p, struct err_info *info);
enum err try_sds(struct planning *p, struct err_info *info);
/* Runs at half the step tell its bias; steps that cost more than they may are shortened. */
enum err try_half_steps(struct planning *p, struct err_info *info);

#endif
