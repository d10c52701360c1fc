/* Private to verdict*.c: what all parts of a verdict look at, and the parts. */
#ifndef BARKER_SERVER_DIAGNOSE_VERDICT_PARTS_H
#define BARKER_SERVER_DIAGNOSE_VERDICT_PARTS_H

#include "server/results/bias.h"
#include "server/results/extent.h"
#include "server/results/chain_moments.h"
#include "server/spec/plan_document.h"
#include "server/diagnose/tolerance.h"
#include "server/diagnose/verdict.h"
#include "server/base/sentence.h"

struct verdict_look {
    struct jobfile *file;
    struct jobfile_info about;
    const struct verdict_context *context;
    struct chain_moments chains;
    struct tolerance tolerance;
    struct tolerance_head noise;
    struct extent extent;
    size_t constant; /* parameters that have not moved since warm-up */
    size_t stuck;    /* the first of them */
    json_t *checks;  /* made when the job succeeded; NULL: none */
    struct planning_facts plan;
    struct bias_head bias;
    bool has_reference; /* the job has one and it could be read: `bias` is set */
    bool ended;
};

#define VERDICT_NAME_SIZE     120
#define VERDICT_SPREAD_ESS    50.0 /* fewer do not tell the sd of a parameter */
#define VERDICT_MILD_VARIANCE 0.05 /* a variance that is off by less is no evidence */
#define VERDICT_ENERGY_Z      3.0  /* errors that an energy must be off by */

/* A clause that begins with the level ("poor (...)") is added to `text`; the answer is the part of
 * the document, or NULL: out of memory. What cannot be known is added to `unknown`. */
json_t *verdict_mixing(const struct verdict_look *look, struct words *text,
                       enum mixing_level *level, json_t **unknown);
json_t *verdict_bias(const struct verdict_look *look, struct words *text, enum bias_level *level,
                     json_t **unknown);
/* Whether the job is as good as it was planned to be; null, and no text, where it was not planned.
 */
json_t *verdict_target(const struct verdict_look *look, struct words *text);

/* ---- evidence of bias ---- */

/* X(name, whether it is made for exact samplers too), in the order in which they are made and shown.
 * To add one: a line here, and its function verdict_check_NAME. */
#define BIAS_CHECK_LIST(X) \
    X(reference, true)     \
    X(noise, false)        \
    X(energy, false)       \
    X(stein, false)        \
    X(half_step, false)    \
    X(step_size, false)

enum bias_check {
#define X(name, exact) BIAS_CHECK_##name,
    BIAS_CHECK_LIST(X)
#undef X
        BIAS_CHECKS
};

struct verdict_evidence {
    enum bias_level level; /* BIAS_LEVEL_no_verdict: the check has nothing to say */
    struct words text;     /* what it says */
    struct words brief;    /* the same in a few words, for when nothing is wrong */
    json_t *numbers;       /* object; owned */
};

/* A check fills its own entry of `all`, or leaves it alone, and may look at those of the checks
 * before it. What it cannot tell it adds to `unknown`. */
#define X(name, exact)                                                                        \
    void verdict_check_##name(const struct verdict_look *look, struct verdict_evidence all[], \
                              json_t **unknown);
BIAS_CHECK_LIST(X)
#undef X

/* The entry of a check, with the level that nothing is seen. */
struct verdict_evidence *verdict_evidence_begin(struct verdict_evidence all[],
                                                enum bias_check check);

/* A variance over the one it should be: how far from 1 is worth a word, and how far is bad. */
enum bias_level verdict_variance_level(double ratio);

/* Spacing of the lattice that draws of a chain lie on, in sds of the coordinate where that is
 * widest; 0: they lie on none. And whether every chain has started at a place of its own, and so is
 * on a lattice of its own. */
double verdict_lattice(const struct verdict_look *look);
bool verdict_scattered(const struct verdict_look *look);

#endif
