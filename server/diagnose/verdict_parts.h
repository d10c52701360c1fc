/* Private to verdict*.c: the input of all parts of a verdict, and the parts. */
#ifndef BARKER_SERVER_DIAGNOSE_VERDICT_PARTS_H
#define BARKER_SERVER_DIAGNOSE_VERDICT_PARTS_H

#include "server/results/bias.h"
#include "server/results/extent.h"
#include "server/results/chain_moments.h"
#include "server/spec/plan_document.h"
#include "server/diagnose/tolerance.h"
#include "server/diagnose/verdict.h"
#include "server/base/sentence.h"

struct verdict_input {
    struct jobfile *file;
    struct jobfile_info about;
    const struct verdict_context *context;
    struct chain_moments chains;
    struct tolerance tolerance;
    struct tolerance_head noise;
    struct extent extent;
    size_t constant; /* parameters that have not changed since warm-up */
    size_t stuck;    /* the first of these */
    json_t *checks;  /* stored when the job succeeded; NULL: none */
    struct planning_facts plan;
    struct bias_head bias;
    bool has_reference; /* the job's reference was read and `bias` is set */
    bool ended;
};

#define VERDICT_NAME_SIZE     120
#define VERDICT_SPREAD_ESS    50.0 /* a smaller ESS is not enough to estimate an sd */
#define VERDICT_MILD_VARIANCE 0.05 /* a smaller relative error of a variance is no evidence */
#define VERDICT_ENERGY_Z \
    3.0 /* standard errors by which an energy must differ to be
                                    * evidence */

/* Adds a clause that begins with the level ("poor (...)") to `text`, and returns its part of the
 * document, or NULL: out of memory. What remains unknown is added to `unknown`. */
json_t *verdict_mixing(const struct verdict_input *input, struct sentence *text,
                       enum mixing_level *level, json_t **unknown);
json_t *verdict_bias(const struct verdict_input *input, enum mixing_level mixing,
                     struct sentence *text, enum bias_level *level, json_t **unknown);
/* Whether the job meets the target of its plan; null, and no text, without a plan. */
json_t *verdict_target(const struct verdict_input *input, enum mixing_level mixing,
                       struct sentence *text);

/* ---- evidence of bias ---- */

/* X(name, whether the check applies to exact samplers too), in the order in which they run and
 * are shown. To add one: a line here, and its function verdict_check_NAME. */
#define BIAS_CHECK_LIST(X) \
    X(reference, true)     \
    X(certificate, true)   \
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
    enum bias_level level; /* BIAS_LEVEL_no_verdict: the check does not apply */
    struct sentence text;  /* a sentence */
    struct sentence brief; /* the same in a few words, used when no bias was found */
    json_t *numbers;       /* object; owned */
};

/* A check fills its own entry of `all` or leaves it unchanged, and may read the entries of
 * earlier checks. What it cannot decide it adds to `unknown`. */
#define X(name, exact)                                                                          \
    void verdict_check_##name(const struct verdict_input *input, struct verdict_evidence all[], \
                              json_t **unknown);
BIAS_CHECK_LIST(X)
#undef X

/* The entry of a check, set to the level "none seen". */
struct verdict_evidence *verdict_evidence_begin(struct verdict_evidence all[],
                                                enum bias_check check);

/* The certificate of the means ("mean") or of the sds ("sd"); false: there is none. */
struct verdict_certified {
    double bound;                   /* of all parameters, in sds or relative; NaN: none */
    const char *parameter;          /* where it is so large */
    size_t open;                    /* parameters that are not resolved ... */
    const char *first_open, *worst; /* ... the first of them; and the one most certainly off, */
    double error, se, at_least;     /* by so much. Names are borrowed from the checks, or "" */
};
bool verdict_certified(const struct verdict_input *input, const char *part,
                       struct verdict_certified *out);
/* Why there is no certificate, in a few words. */
const char *verdict_not_certified(const struct verdict_input *input);
/* "the mean of theta[7] is off by 0.14 ± 0.02 sd"; "certified: means within 0.008 sd, sds within
 * 0.7 %". */
void verdict_add_error(struct sentence *text, const struct verdict_certified *c, bool mean);
void verdict_add_bounds(struct sentence *text, const struct verdict_certified *mean,
                        const struct verdict_certified *sd);

/* Whether checks of the draws can show bias: draws of chains that have not mixed are not from the
 * target, whether or not the sampler is biased. */
bool verdict_has_mixed(const struct verdict_input *input);

/* The level for a ratio of a variance to its true value. */
enum bias_level verdict_variance_level(double ratio);

/* Spacing of the lattice of a chain's draws, in sds of the coordinate where it is largest; 0: no
 * lattice. And whether chains started at different positions and so are on different lattices. */
double verdict_lattice(const struct verdict_input *input);
bool verdict_scattered(const struct verdict_input *input);
/* Whether chains started so far apart that they could have found different modes. */
bool verdict_dispersed(const struct verdict_input *input);

#endif
