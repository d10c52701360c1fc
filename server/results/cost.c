/* Cost to reach a target error. */
#include "server/results/cost.h"

#include <math.h>
#include <stdio.h>

/* An unbiased job shows a bias too, of the size of its error. A bias within two errors counts as
 * noise; the square of a larger one is on average one squared error too large. */
static double counted_bias(double bias, double error)
{
    if (isnan(bias) || isnan(error) || bias <= 2.0 * error)
        return 0.0;
    return sqrt(bias * bias - error * error);
}

/* The part of the bias's error that comes from the reference: the error of the job is subtracted. */
static double reference_error(const struct cost_setting *s)
{
    double square = s->bias_error * s->bias_error - s->mcse * s->mcse;
    return square > 0.0 ? sqrt(square) : 0.0;
}

void cost_make(struct cost *out, const struct cost_setting *s)
{
    double bias = counted_bias(s->bias, s->bias_error), so_far = s->warmup + s->after;
    *out = (struct cost){
        .bias = bias, .error = hypot(bias, s->mcse), .ess = NAN, .seconds = NAN, .gradients = NAN};
    if (!(s->mcse > 0.0) || !isfinite(s->mcse) || !(s->after > 0.0)) {
        out->error = NAN;
        snprintf(out->reason, sizeof out->reason, "the effective sample size is not known");
        return;
    }
    if (s->rhat > COST_LOST_RHAT) {
        out->error = NAN;
        snprintf(out->reason, sizeof out->reason,
                 "the chains have not mixed (R-hat %.3f): the cost of the target error %.3g is not "
                 "known",
                 s->rhat, s->target);
        return;
    }
    if (bias >= s->target) {
        snprintf(out->reason, sizeof out->reason,
                 "the bias alone is %.3g posterior sd, and the target error %.3g: more draws do "
                 "not help",
                 bias, s->target);
        return;
    }
    if (reference_error(s) > 0.5 * s->target) {
        snprintf(out->reason, sizeof out->reason,
                 "the reference is known only to %.2g posterior sd: too imprecise to tell whether "
                 "the target error %.3g can be reached",
                 reference_error(s), s->target);
        return;
    }
    double factor = s->mcse * s->mcse / ((s->target - bias) * (s->target + bias));
    out->ess = s->ess * factor;
    out->gradients = s->warmup + s->after * factor;
    out->seconds = s->cpu_seconds * (out->gradients / so_far);
}
