/* The verdict on mixing: R-hat and the effective sample sizes against their targets, and how
 * much longer the job must run to reach them. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <inttypes.h>
#include <math.h>

#define FAIR_RHAT  1.05
#define FAIR_ESS   100.0
#define VAGUE_RHAT 1.1 /* beyond, times are lower bounds */
#define HOPELESS_RHAT \
    1.5                  /* beyond, the chains are in different regions and no time can be
                           * estimated */
#define LEAST_DRAWS  6   /* of one chain, the least for core/diagnostics/mixing.h */
#define WIDE_LATTICE 0.5 /* sds: beyond, chains on several lattices keep R-hat above 1.01 */

/* A tail ESS that is not known is ignored. */
static double least_ess(const struct summary_head *h)
{
    return fmin(h->min_ess_bulk, h->min_ess_tail);
}

static enum mixing_level level_of(const struct summary_head *h)
{
    double ess = least_ess(h);
    if (h->max_rhat <= VERDICT_RHAT && ess >= VERDICT_ESS)
        return MIXING_LEVEL_good;
    return h->max_rhat <= FAIR_RHAT && ess >= FAIR_ESS ? MIXING_LEVEL_fair : MIXING_LEVEL_poor;
}

/* The factor by which the draws must grow to reach the target. The squared R-hat exceeds 1 by about
 * one over the effective sample size of a half chain, so it shrinks as 1/draws, just as the ESS
 * grows. NaN: not known. */
static double times_needed(const struct summary_head *h)
{
    if (!(h->max_rhat < HOPELESS_RHAT) || !(least_ess(h) > 0.0))
        return NAN;
    double excess = h->max_rhat * h->max_rhat - 1.0;
    double by_rhat =
        h->max_rhat > VERDICT_RHAT ? excess / (VERDICT_RHAT * VERDICT_RHAT - 1.0) : 1.0;
    return fmax(1.0, fmax(by_rhat, VERDICT_ESS / least_ess(h)));
}

/* Iterations of one chain and seconds still needed for the target: seconds of wall clock while
 * the job runs, of processor time (which the job file stores) once it has ended. */
struct remaining {
    double iterations, seconds; /* NaN: not known */
    double left_iterations, left_seconds;
};

static bool lattices_differ(const struct verdict_input *input)
{
    return input->about.chains > 1 && verdict_scattered(input) &&
           verdict_lattice(input) > WIDE_LATTICE;
}

static struct remaining remaining_to_target(const struct verdict_input *input)
{
    const struct verdict_context *c = input->context;
    double all =
        input->ended ? (double)input->chains.iterations / input->chains.cpu_seconds : c->rate;
    double rate = all > 0.0 && isfinite(all) ? all / (double)input->about.chains : NAN;
    double warmup = (double)input->about.warmup, at = (double)input->chains.slowest;
    double done = fmax(0.0, at - warmup), left = fmax(0.0, (double)c->iterations - done);
    double times = times_needed(&c->head);
    double more = times > 1.0 && lattices_differ(input) ? NAN : done * (times - 1.0);
    return (struct remaining){.iterations = more,
                              .seconds = more > 0.0 ? more / rate : more,
                              .left_iterations = left,
                              .left_seconds = left / rate};
}

static void add_extension(struct sentence *text, const struct verdict_input *input,
                          const struct remaining *remaining, double iterations, const char *about)
{
    sentence_add(text, "extend it by %s %" PRIu64 " iterations", about,
                 sentence_round_up(iterations));
    if (!isnan(remaining->seconds)) {
        sentence_add(text, " (");
        sentence_add_duration(text, remaining->seconds * iterations / remaining->iterations);
        sentence_add(text, "%s)", input->ended ? " of processor time" : "");
    }
}

static void add_remaining(struct sentence *text, const struct verdict_input *input,
                          const struct remaining *remaining)
{
    const char *about = input->context->head.max_rhat > VAGUE_RHAT ? "at least" : "about";
    if (input->context->state == JOB_failed || remaining->iterations == 0.0)
        return;
    if (lattices_differ(input)) {
        sentence_add(text, ", and each chain is on a lattice of its own: take a smaller step size");
        return;
    }
    if (isnan(remaining->iterations)) {
        sentence_add(text, ", the chains disagree: how long it takes cannot be estimated");
        return;
    }
    sentence_add(text, ", ");
    if (input->ended) {
        add_extension(text, input, remaining, remaining->iterations, about);
        return;
    }
    if (isnan(remaining->seconds)) {
        sentence_add(text, "%s %" PRIu64 " iterations more", about,
                     sentence_round_up(remaining->iterations));
    } else {
        if (remaining->seconds >= 1.0)
            sentence_add(text, "%s ", about);
        sentence_add_duration(text, remaining->seconds);
        sentence_add(text, " more");
    }
    if (remaining->iterations > remaining->left_iterations) {
        sentence_add(text, ", but it ends before: ");
        add_extension(text, input, remaining, remaining->iterations - remaining->left_iterations,
                      about);
    }
}

/* ---- the text ---- */

/* Rounded to an integer, but never up to the bound. */
static double shown_ess(double ess)
{
    return ess < VERDICT_ESS ? fmin(round(ess), VERDICT_ESS - 1.0) : round(ess);
}

static void add_numbers(struct sentence *text, const struct verdict_input *input,
                        enum mixing_level level)
{
    const struct summary_head *h = &input->context->head;
    sentence_add(text, "%s (largest R-hat ", mixing_level_name(level));
    sentence_add_rhat(text, h->max_rhat, VERDICT_RHAT);
    if (h->max_rhat > VERDICT_RHAT)
        sentence_add(text, ": %s", h->worst);
    sentence_add(text, ", smallest ESS %.0f bulk", shown_ess(h->min_ess_bulk));
    if (!isnan(h->min_ess_tail))
        sentence_add(text, ", %.0f tail", shown_ess(h->min_ess_tail));
    if (h->parameters > 0 && h->parameters < input->about.width)
        sentence_add(text, ", over %zu of %zu %sparameters", h->parameters, input->about.width,
                     input->about.width < input->about.d ? "saved " : "");
    sentence_add(text, ")");
}

static void add_constants(struct sentence *text, const struct verdict_input *input)
{
    char name[VERDICT_NAME_SIZE];
    jobfile_parameter(input->file, input->stuck, name, sizeof name);
    if (input->constant == input->about.d)
        sentence_add(text, "no parameter moves");
    else if (input->constant == 1)
        sentence_add(text, "%s does not move", name);
    else
        sentence_add(text, "%zu parameters do not move, the first is %s", input->constant, name);
}

static void add_divergences(struct sentence *text, const struct verdict_input *input)
{
    uint64_t n = input->extent.divergences;
    if (n > 0)
        sentence_add(text,
                     ", and %" PRIu64 " transition%s diverged after warm-up: draws may be missing "
                     "where the posterior is narrow; take shorter steps (a larger target_accept)",
                     n, n == 1 ? "" : "s");
}

/* The chains of a planned job start around every mode that the plan has found. */
static void add_modes(struct sentence *text, const struct verdict_input *input,
                      enum mixing_level level)
{
    size_t modes = input->plan.modes;
    if (modes > 1 && level == MIXING_LEVEL_poor)
        sentence_add(text,
                     "; the plan found %zu modes, and chains that start around one may not reach "
                     "the others",
                     modes);
}

static bool too_large_to_add(const struct verdict_input *input)
{
    for (size_t j = 0; j < input->chains.d; j++)
        if (!isfinite(input->chains.moments[j].squares))
            return true;
    return false;
}

/* If mixing cannot be judged, adds the reason and returns true. */
static bool not_judgeable(const struct verdict_input *input, struct sentence *text)
{
    const struct jobfile_info *about = &input->about;
    if (input->chains.diverged != 0)
        sentence_add(text, "unknown (a chain diverged)");
    else if (about->width == 0)
        sentence_add(text, "unknown (no draws are stored)");
    else if (input->chains.slowest <= about->warmup)
        sentence_add(text, "unknown (%s %" PRIu64 " of %" PRIu64 " warm-up iterations)",
                     input->ended ? "it ended after" : "the slowest chain has done",
                     input->chains.slowest, about->warmup);
    else if (input->extent.draws < LEAST_DRAWS)
        sentence_add(text, "unknown (%" PRIu64 " draw%s of each chain %s too few)",
                     input->extent.draws, input->extent.draws == 1 ? "" : "s",
                     input->extent.draws == 1 ? "is" : "are");
    else if (isnan(input->context->head.max_rhat) && input->constant == 0)
        sentence_add(text, "unknown (%s)",
                     !input->ended             ? "not measured yet"
                     : too_large_to_add(input) ? "the values are too large to be added up"
                                               : "not measured");
    else
        return false;
    return true;
}

static enum mixing_level judge(const struct verdict_input *input, struct sentence *text,
                               struct remaining *remaining)
{
    const struct summary_head *h = &input->context->head;
    if (not_judgeable(input, text))
        return MIXING_LEVEL_unknown;
    enum mixing_level level = input->constant > 0 ? MIXING_LEVEL_poor : level_of(h);
    if (isnan(h->max_rhat)) {
        sentence_add(text, "poor (");
        add_constants(text, input);
        sentence_add(text, ")");
        return level;
    }
    if (isinf(h->max_rhat)) {
        sentence_add(text, "poor (each chain stays at a different value: %s)", h->worst);
        return level;
    }
    *remaining = remaining_to_target(input);
    add_numbers(text, input, level);
    add_modes(text, input, level);
    add_remaining(text, input, remaining);
    if (input->constant > 0) {
        sentence_add(text, ", and ");
        add_constants(text, input);
    }
    return level;
}

json_t *verdict_mixing(const struct verdict_input *input, struct sentence *text,
                       enum mixing_level *level, json_t **unknown)
{
    const struct summary_head *h = &input->context->head;
    struct remaining remaining = {.iterations = NAN, .seconds = NAN};
    struct sentence clause = {0};
    json_t *doc = json_object();
    *level = judge(input, &clause, &remaining);
    if (*level != MIXING_LEVEL_unknown)
        add_divergences(&clause, input);
    sentence_add(text, "%s", clause.text);
    json_put(&doc, "level", json_text(mixing_level_name(*level)));
    summary_head_put(&doc, h);
    json_put(&doc, "draws", json_count(input->extent.draws));
    json_put(&doc, "parameters", json_count(h->parameters));
    if (input->extent.trees)
        json_put(&doc, "divergences", json_count(input->extent.divergences));
    json_put(&doc, "seconds_to_target", json_number(remaining.seconds));
    json_put(&doc, "iterations_to_target", json_number(remaining.iterations));
    json_put(&doc, "text", json_text(clause.text));
    if (input->about.chains == 1 && input->extent.draws >= LEAST_DRAWS)
        json_add(unknown, json_text("whether chains from other starts agree (there is one)"));
    if (input->about.width < input->about.d && input->about.width > 0) {
        struct sentence w = {0};
        sentence_add(&w, "mixing of the %zu parameters that are not saved",
                     input->about.d - input->about.width);
        json_add(unknown, json_text(w.text));
    }
    return doc;
}
