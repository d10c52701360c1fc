/* Functions that core/plan/step.c calls to choose estimator, step size and batch size. n is the
 * mean number of rows per iteration: below the smallest batch size, only one in several iterations
 * has a batch. `unit` is N times the noise of one term, as row_noise of struct planning. */
#ifndef BARKER_CORE_PLAN_STEPS_H
#define BARKER_CORE_PLAN_STEPS_H

#include "core/plan/planning.h"

#define STEP_SHARE 0.35 /* of the tolerated error of the sds, for the step size */

bool planning_is_auto(const struct planning *p);               /* the step size is automatic */
bool planning_can_meet_target(const struct planning *p);       /* the bias can be predicted */
const struct model *planning_target(const struct planning *p); /* the view, or the model */

/* core/plan/budget.c. */
/* sigma tau at which a variant without randomness of its own has the variance of the target; 0 for
 * the others. */
double budget_noise_needed(const struct planning *p);
/* Relative error of the sds due to the step; due to noise of n rows, per (sigma tau)^2. */
double budget_step_bias(const struct planning *p, double sigma);
double budget_noise_bias(const struct planning *p, double n);
/* The largest sigma tau of n rows within the part of the tolerated error that the step leaves. */
double budget_noise_most(const struct planning *p, double sigma, double n);
/* tau of n rows over `unit`; sigma tau of n rows over the largest allowed. */
double budget_noise_share(const struct planning *p, double n);
double budget_noise_ratio(const struct planning *p, double unit, double sigma, double n);
double budget_cost(const struct planning *p, double n); /* nominal seconds of an iteration */
/* The fewest rows with tolerable noise at this step, or N; the rows with the largest sigma^2 per
 * cost, and that sigma. */
double budget_rows_for(const struct planning *p, double unit, double sigma);
double budget_best_rows(const struct planning *p, double unit, double *sigma);
double budget_rows(const struct planning *p);              /* n of the chosen batches */
void budget_settle_batch(struct planning *p, double rows); /* p->n, p->one_in */

/* core/plan/measure.c. */
/* The unit of the step size of coordinate j. */
double measure_width_at(const struct planning *p, size_t j);
/* `unit` at typical points. `drift`: see struct planning; or NULL. */
enum err measure_noise(struct planning *p, const struct model *target, double *unit, double *drift,
                       struct err_info *info);
/* The same for the plain estimator in the plan's dense frame. */
enum err measure_plain(struct planning *p, double *unit, struct err_info *info);
/* Sets p->row_noise and p->drift for planning_target. */
enum err measure_target(struct planning *p, struct err_info *info);

/* core/plan/choose.c. */
double choose_lattice_error(const struct planning *p, double sigma); /* error of a quantile */
double choose_largest_sigma(const struct planning *p);
enum err choose_estimator(struct planning *p, double sigma, struct err_info *info);
enum err choose_centre(struct planning *p, struct err_info *info);
/* For variants whose only randomness is gradient noise: the sigma with the needed sigma tau at the
 * chosen batch; and whether even the longest step has too little noise. */
void choose_fitting_sigma(struct planning *p);
bool choose_needs_more_noise(const struct planning *p);
void choose_lower_sigma(struct planning *p); /* where a larger batch cannot lower the noise */
void choose_batch(struct planning *p);
void choose_sigma(struct planning *p);
void choose_variant(struct planning *p);
void choose_corrected_again(struct planning *p); /* after the other variant diverged */

/* core/plan/try.c. */
/* A pilot run with the chosen settings. May increase the batch, or give up the centre. */
enum err try_settings(struct planning *p, struct err_info *info);
/* Another run with the sds of that run as widths: try_widths where the curvature does not describe
 * the posterior, try_sds without a centre. */
enum err try_widths(struct planning *p, struct err_info *info);
enum err try_sds(struct planning *p, struct err_info *info);
/* Such a run of so many effective draws or nominal seconds, whichever is less, which keeps up to
 * `keep` draws; nothing else changes. */
enum err try_longer(struct planning *p, double draws, double seconds, size_t keep,
                    struct err_info *info);
/* The largest sigma_j tau_j of the last run. */
double try_noise_seen(const struct planning *p);
/* Estimates the bias of the step by runs with half the step, and shortens steps that are too
 * biased. */
enum err try_half_steps(struct planning *p, struct err_info *info);

/* core/plan/mend.c. Looks for bias in every coordinate of a pilot run, and chooses shorter steps or
 * larger batches where it finds more than the target allows. */
enum err mend_bias(struct planning *p, struct err_info *info);

#endif
