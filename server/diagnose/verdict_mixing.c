/* The verdict on mixing: how far R-hat and the effective sample sizes are from what is wanted, and
 * how much longer that takes. */
#include "server/base/json.h"
#include "server/diagnose/verdict_parts.h"

#include <inttypes.h>
#include <math.h>

#define FAIR_RHAT     1.05
#define FAIR_ESS      100.0
#define VAGUE_RHAT    1.1 /* beyond, times are lower bounds */
#define HOPELESS_RHAT 1.5 /* beyond, the chains are in different places and no time can be told */
#define LEAST_DRAWS   6   /* of one chain: core/mixing needs them */
#define WIDE_LATTICE  0.5 /* sds: beyond, chains on several lattices keep R-hat above 1.01 */

/* A tail ESS that is not known does not count. */
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

/* How many times as many draws the target takes. The squared R-hat exceeds 1 by about one over the
 * effective sample size of a half chain, so it shrinks as 1/draws, just as the ESS grows. NaN: no
 * telling. */
static double times_needed(const struct summary_head *h)
{
    if (!(h->max_rhat < HOPELESS_RHAT) || !(least_ess(h) > 0.0))
        return NAN;
    double excess = h->max_rhat * h->max_rhat - 1.0;
    double by_rhat =
        h->max_rhat > VERDICT_RHAT ? excess / (VERDICT_RHAT * VERDICT_RHAT - 1.0) : 1.0;
    return fmax(1.0, fmax(by_rhat, VERDICT_ESS / least_ess(h)));
}

/* What is missing until the target, in iterations of one chain and in seconds: of the clock while
 * the job runs, of processor time once it has ended, which the job file knows for good. */
struct way {
    double iterations, seconds; /* NaN: not known */
    double left_iterations, left_seconds;
};

static bool lattices_differ(const struct verdict_look *look)
{
    return look->about.chains > 1 && verdict_scattered(look) &&
           verdict_lattice(look) > WIDE_LATTICE;
}

static struct way way_to_target(const struct verdict_look *look)
{
    const struct verdict_context *c = look->context;
    double all = look->ended ? (double)look->chains.iterations / look->chains.cpu_seconds : c->rate;
    double rate = all > 0.0 && isfinite(all) ? all / (double)look->about.chains : NAN;
    double warmup = (double)look->about.warmup, at = (double)look->chains.slowest;
    double done = fmax(0.0, at - warmup), left = fmax(0.0, (double)c->iterations - done);
    double times = times_needed(&c->head);
    double more = times > 1.0 && lattices_differ(look) ? NAN : done * (times - 1.0);
    return (struct way){.iterations = more,
                        .seconds = more > 0.0 ? more / rate : more,
                        .left_iterations = left,
                        .left_seconds = left / rate};
}

static void add_extension(struct words *text, const struct verdict_look *look,
                          const struct way *way, double iterations, const char *about)
{
    words_add(text, "extend it by %s %" PRIu64 " iterations", about, words_round_up(iterations));
    if (!isnan(way->seconds)) {
        words_add(text, " (");
        words_add_duration(text, way->seconds * iterations / way->iterations);
        words_add(text, "%s)", look->ended ? " of processor time" : "");
    }
}

static void add_way(struct words *text, const struct verdict_look *look, const struct way *way)
{
    const char *about = look->context->head.max_rhat > VAGUE_RHAT ? "at least" : "about";
    if (look->context->state == JOB_failed || way->iterations == 0.0)
        return;
    if (lattices_differ(look)) {
        words_add(text, ", and each chain is on a lattice of its own: take a smaller step size");
        return;
    }
    if (isnan(way->iterations)) {
        words_add(text, ", the chains disagree: how long it takes cannot be estimated");
        return;
    }
    words_add(text, ", ");
    if (look->ended) {
        add_extension(text, look, way, way->iterations, about);
        return;
    }
    if (isnan(way->seconds)) {
        words_add(text, "%s %" PRIu64 " iterations more", about, words_round_up(way->iterations));
    } else {
        if (way->seconds >= 1.0)
            words_add(text, "%s ", about);
        words_add_duration(text, way->seconds);
        words_add(text, " more");
    }
    if (way->iterations > way->left_iterations) {
        words_add(text, ", but it ends before: ");
        add_extension(text, look, way, way->iterations - way->left_iterations, about);
    }
}

/* ---- what there is to say ---- */

/* Rounded as everywhere else, unless that would reach the bound. */
static double shown_ess(double ess)
{
    return ess < VERDICT_ESS ? fmin(round(ess), VERDICT_ESS - 1.0) : round(ess);
}

static void add_numbers(struct words *text, const struct verdict_look *look,
                        enum mixing_level level)
{
    const struct summary_head *h = &look->context->head;
    words_add(text, "%s (largest R-hat ", mixing_level_name(level));
    words_add_rhat(text, h->max_rhat, VERDICT_RHAT);
    if (h->max_rhat > VERDICT_RHAT)
        words_add(text, ": %s", h->worst);
    words_add(text, ", smallest ESS %.0f bulk", shown_ess(h->min_ess_bulk));
    if (!isnan(h->min_ess_tail))
        words_add(text, ", %.0f tail", shown_ess(h->min_ess_tail));
    if (h->parameters > 0 && h->parameters < look->about.width)
        words_add(text, ", over %zu of %zu %sparameters", h->parameters, look->about.width,
                  look->about.width < look->about.d ? "saved " : "");
    words_add(text, ")");
}

static void add_constants(struct words *text, const struct verdict_look *look)
{
    char name[VERDICT_NAME_SIZE];
    jobfile_parameter(look->file, look->stuck, name, sizeof name);
    if (look->constant == look->about.d)
        words_add(text, "no parameter moves");
    else if (look->constant == 1)
        words_add(text, "%s does not move", name);
    else
        words_add(text, "%zu parameters do not move, the first is %s", look->constant, name);
}

static bool too_large_to_add(const struct verdict_look *look)
{
    for (size_t j = 0; j < look->chains.d; j++)
        if (!isfinite(look->chains.moments[j].squares))
            return true;
    return false;
}

/* Says why nothing can be said, if so. */
static bool silent(const struct verdict_look *look, struct words *text)
{
    const struct jobfile_info *about = &look->about;
    if (look->chains.diverged != 0)
        words_add(text, "unknown (a chain diverged)");
    else if (about->width == 0)
        words_add(text, "unknown (no draws are stored)");
    else if (look->chains.slowest <= about->warmup)
        words_add(text, "unknown (%s %" PRIu64 " of %" PRIu64 " warm-up iterations)",
                  look->ended ? "it ended after" : "the slowest chain has done",
                  look->chains.slowest, about->warmup);
    else if (look->extent.draws < LEAST_DRAWS)
        words_add(text, "unknown (%" PRIu64 " draw%s of each chain %s too few)", look->extent.draws,
                  look->extent.draws == 1 ? "" : "s", look->extent.draws == 1 ? "is" : "are");
    else if (isnan(look->context->head.max_rhat) && look->constant == 0)
        words_add(text, "unknown (%s)",
                  !look->ended             ? "not measured yet"
                  : too_large_to_add(look) ? "the values are too large to be added up"
                                           : "not measured");
    else
        return false;
    return true;
}

static enum mixing_level judge(const struct verdict_look *look, struct words *text, struct way *way)
{
    const struct summary_head *h = &look->context->head;
    if (silent(look, text))
        return MIXING_LEVEL_unknown;
    enum mixing_level level = look->constant > 0 ? MIXING_LEVEL_poor : level_of(h);
    if (isnan(h->max_rhat)) {
        words_add(text, "poor (");
        add_constants(text, look);
        words_add(text, ")");
        return level;
    }
    if (isinf(h->max_rhat)) {
        words_add(text, "poor (each chain is stuck at another value: %s)", h->worst);
        return level;
    }
    *way = way_to_target(look);
    add_numbers(text, look, level);
    add_way(text, look, way);
    if (look->constant > 0) {
        words_add(text, ", and ");
        add_constants(text, look);
    }
    return level;
}

json_t *verdict_mixing(const struct verdict_look *look, struct words *text,
                       enum mixing_level *level, json_t **unknown)
{
    const struct summary_head *h = &look->context->head;
    struct way way = {.iterations = NAN, .seconds = NAN};
    struct words clause = {0};
    json_t *doc = json_object();
    *level = judge(look, &clause, &way);
    words_add(text, "%s", clause.text);
    json_put(&doc, "level", json_text(mixing_level_name(*level)));
    summary_head_put(&doc, h);
    json_put(&doc, "draws", json_count(look->extent.draws));
    json_put(&doc, "parameters", json_count(h->parameters));
    json_put(&doc, "seconds_to_target", json_number(way.seconds));
    json_put(&doc, "iterations_to_target", json_number(way.iterations));
    json_put(&doc, "text", json_text(clause.text));
    if (look->about.chains == 1 && look->extent.draws >= LEAST_DRAWS)
        json_add(unknown, json_text("whether chains from other starts agree (there is one)"));
    if (look->about.width < look->about.d && look->about.width > 0) {
        struct words w = {0};
        words_add(&w, "mixing of the %zu parameters that are not saved",
                  look->about.d - look->about.width);
        json_add(unknown, json_text(w.text));
    }
    return doc;
}
