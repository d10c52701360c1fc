/* State of a plan in the making. Only core/plan includes this. */
#ifndef BARKER_CORE_PLAN_PLANNING_H
#define BARKER_CORE_PLAN_PLANNING_H

#include "core/model/frame.h"
#include "core/plan/cost.h"
#include "core/plan/pilot.h"
#include "core/plan/plan.h"

#define PLANNING_MODES 4 /* around which chains start, at most */

struct planning {
    struct plan_request own;            /* copy of the request, with defaults filled in */
    const struct plan_request *request; /* points to `own` */
    double params[PARAM_MAX];           /* of the sampler; a copy */
    const struct model *model;          /* borrowed */
    struct plan *plan;                  /* the result */
    struct gradient source;             /* of the full batch, in the user's coordinates */
    double seconds;                     /* nominal seconds spent so far */
    double *theta;                      /* the centre, or where the search for it stopped; padded */
    double *scale; /* sds of every coordinate given the others, at theta; padded */
    double *width; /* DIAGONAL: steps are proportional to it: `scale`, or sds of a pilot run */
    double *H;     /* the curvature at theta, where the whole matrix was computed; or NULL */
    double *modes; /* the centre and other modes, d numbers each, and their log densities: */
    double mode_density[PLANNING_MODES];
    uint32_t mode_count; /* 0: others were not looked for */
    bool placed;         /* theta and scale are known */
    bool centred;        /* theta is a mode */
    struct model *view;  /* of plan->frame and plan->control; NULL: the model itself */
    double *steps;       /* DIAGONAL: sigma width_j, for pilot runs */
    double sigma;        /* in preconditioned coordinates; 0: chains adapt it */
    double sigma_most;   /* largest sigma that may be chosen */
    bool measured;       /* scales or widths are those of a pilot run */
    double mean_bias; /* of means, in sds, that a pilot run showed and no change removed; 0: none */
    bool narrows;     /* pilot runs show that longer steps make sds too small, not too large */
    size_t n;         /* batch size; N: full batch */
    uint32_t one_in;  /* one in this many iterations has a batch */
    bool batch_always;   /* ignore one_in: every iteration has a batch */
    double drift;        /* largest squared mean of a term over the largest squared sd of a term */
    double noise_needed; /* budget_noise_needed; 0: the variant has randomness of its own */
    double row_noise;    /* N times the largest sd of a term, in preconditioned coordinates */
    struct pilot pilot;  /* the last pilot run */
};

bool planning_goes_on(void *planning); /* the request's go_on */
void planning_report(const struct planning *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a line to plan->why. */
void planning_note(struct planning *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* core/plan/plan.c. A plan of d parameters without content; NULL: no memory. */
struct plan *planning_new_plan(size_t d);
/* After the search for the mode: coordinates, view and first choices; planning_rest: these and all
 * other parts of the plan. */
enum err planning_begin(struct planning *p, struct err_info *info);
enum err planning_rest(struct planning *p, struct err_info *info);
/* core/plan/sampler.c: the same for each candidate, of which it keeps the best. */
enum err planning_sampler(struct planning *p, struct err_info *info);

/* core/plan/budget.c: nominal seconds of an iteration with the chosen batches. */
double planning_iteration(const struct planning *p);
double planning_pass(const struct planning *p); /* the same with a single gradient */

/* core/plan/centre.c: theta, scale, placed, centred, plan->centre. */
enum err planning_centre(struct planning *p, struct err_info *info);
enum err planning_scale(struct planning *p, struct err_info *info); /* scale, width, H at theta */
/* core/plan/modes.c: modes besides the centre, and a higher one in its place. */
enum err planning_modes(struct planning *p, struct err_info *info);
/* The view of the plan's frame, in place of the last. No frame and no view. */
enum err planning_new_view(struct planning *p, struct err_info *info);
void planning_drop_frame(struct planning *p);
/* Makes the frame and the view for the chosen coordinates and estimator. */
enum err planning_view(struct planning *p, struct err_info *info);
/* Moves the frame's centre to the mean of a pilot run with batches of n; theta does not change.
 * Depends on the chosen coordinates and estimator only. */
enum err planning_recentre(struct planning *p, size_t n, struct err_info *info);

/* Rescales the dense frame to the sds of the last pilot run, which had `draws` effective draws and
 * variances with the mean `width` > 0. */
enum err planning_rescale(struct planning *p, double draws, double width, struct err_info *info);

/* core/plan/typical.c: of an exact sampler. `A` whitens the curvature at the centre; afterwards it
 * whitens the mean curvature around it, where that is affordable. */
enum err planning_typical(struct planning *p, double *A, struct err_info *info);

/* core/plan/step.c: chooses estimator, step size and batch size; corrects them by pilot runs. */
enum err planning_first_choices(struct planning *p, struct err_info *info);
enum err planning_steps(struct planning *p, struct err_info *info);
/* core/plan/try.c: a pilot run with constant steps of sigma, whatever the request says, and without
 * a time limit. */
enum err planning_pilot_fixed(struct planning *p, double sigma, double draws,
                              struct err_info *info);
/* Whether such a run with batches of n is affordable. */
bool planning_can_fix(const struct planning *p, size_t n, double sigma, double draws);
#define PLANNING_SIGMA_FIXED 0.25 /* in coordinates that are nearly white */

/* core/plan/width.c, of the last pilot run: effective draws of every coordinate; the mean ratio of
 * its variances to those expected from the curvature at the centre (1 where the curvature describes
 * the posterior); and whether it does not describe it. */
double planning_draws(const struct planning *p);
double planning_width(const struct planning *p);
bool planning_scales_are_wrong(const struct planning *p);
/* DIAGONAL: sets the widths to the sds of the run. False: the run was too short. */
bool planning_widths(struct planning *p);

/* core/plan/length.c. Effective draws that the target requires. */
double planning_wanted(const struct planning *p);
/* Of chains that adapt their step size: iterations of warm-up that suffice, and
 * iterations per effective draw as long as no pilot run has measured them. */
uint64_t planning_adapts(const struct planning *p);
double planning_each(const struct planning *p);
/* Nominal seconds of all chains after warm-up, without a limit on them. */
double planning_job_seconds(const struct planning *p);
/* Warm-up, iterations, thin. */
void planning_lengths(struct planning *p);
/* Expected standard error of means, in sds, at the end of chains that mix as in the last pilot
 * run. */
double planning_mean_error(const struct planning *p);

#endif
