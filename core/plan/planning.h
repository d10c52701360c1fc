/* What the parts of core/plan/plan.c share while a plan is made; for core/plan alone. */
#ifndef BARKER_CORE_PLAN_PLANNING_H
#define BARKER_CORE_PLAN_PLANNING_H

#include "core/model/frame.h"
#include "core/plan/pilot.h"
#include "core/plan/plan.h"

struct planning {
    struct plan_request own;            /* with defaults where the target says nothing */
    const struct plan_request *request; /* it */
    double params[PARAM_MAX];           /* of the sampler, likewise */
    const struct model *model;          /* borrowed */
    struct plan *plan;                  /* what comes of it */
    struct gradient source;             /* of the full batch, in the user's coordinates */
    double began;                       /* on the processor's clock */
    double *theta;                      /* the centre, or where the search for it stopped; padded */
    double *scale;      /* sds of every coordinate given the others, at theta; padded */
    double *width;      /* DIAGONAL: what steps are in proportion to: scale, or what a run found */
    double *H;          /* the curvature at theta, where the scales come from all of it; or NULL */
    bool placed;        /* both are known */
    bool centred;       /* theta is a mode */
    struct model *view; /* of plan->frame and plan->control; NULL: the model itself */
    double *steps;      /* DIAGONAL: sigma width_j, for pilot runs */
    double sigma;       /* in preconditioned coordinates; 0: chains adapt it */
    double sigma_most;  /* that may be chosen */
    bool measured;      /* scales or widths are those of a pilot run */
    bool narrows;       /* longer steps were seen to make sds too small, not too large */
    size_t n;           /* batch; N is the full one */
    uint32_t one_in;    /* iterations have one */
    bool always;        /* ... as if all had one */
    double drift;       /* of the noise of one term, squared: what all of them add together / N */
    double needed;      /* sigma tau from which a variant takes all its spread; 0: it has its own */
    double unit;        /* largest sd of the gradient noise of one term, in those coordinates */
    struct pilot pilot; /* the last one */
};

double planning_seconds(const struct planning *p); /* spent */
bool planning_goes_on(void *planning);             /* what the owner says */
void planning_tell(const struct planning *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A line of reasons. */
void planning_why(struct planning *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* core/plan/centre.c: theta, scale, placed, centred, plan->centre. */
enum err planning_centre(struct planning *p, struct err_info *info);
/* The frame and the view of what is chosen. */
enum err planning_view(struct planning *p, struct err_info *info);
/* The mean of a pilot run in batches of n as the frame's centre; theta stays what it is. Depends on
 * the settled coordinates and estimator alone, never on the clock. */
enum err planning_recentre(struct planning *p, size_t n, struct err_info *info);

/* The scales of the last pilot run of so many effective draws in the dense frame, the mean of whose
 * variances is `width` > 0. */
enum err planning_rescale(struct planning *p, double draws, double width, struct err_info *info);

/* core/plan/step.c: estimator, step size and batch size, tried out. */
enum err planning_steps(struct planning *p, struct err_info *info);
/* core/plan/try.c. Forgets frame, centre and estimator. */
void planning_give_up_centre(struct planning *p);
enum err planning_pilot(struct planning *p, double sigma, double draws, struct err_info *info);
/* The same with constant steps of sigma, whatever is asked for, and without a limit of time. */
enum err planning_pilot_fixed(struct planning *p, double sigma, double draws,
                              struct err_info *info);
/* Whether that is worth its while in batches of n, whatever the machine. */
bool planning_can_fix(const struct planning *p, size_t n, double sigma, double draws);
#define PLANNING_SIGMA_FIXED 0.25 /* in any coordinates that are near white */

/* core/plan/width.c, of the last pilot run: effective draws of every coordinate; the mean of its
 * variances over what they should be, 1 where the curvature at the centre says all about the
 * posterior; and whether it does not. */
double planning_draws(const struct planning *p);
double planning_width(const struct planning *p);
bool planning_misjudged(const struct planning *p);
/* DIAGONAL: widths as the run has them. False: it was too short to tell. */
bool planning_widths(struct planning *p);

/* core/plan/length.c: warm-up, iterations, thin. */
void planning_lengths(struct planning *p);
/* Standard error of means, in sds, that steps of sigma as in the last pilot run would end with. */
double planning_mean_error(const struct planning *p);

#endif
