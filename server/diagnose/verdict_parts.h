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
    struct combined combined;
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

#define VERDICT_NAME_SIZE  120
#define VERDICT_SPREAD_ESS 50.0 /* fewer do not tell the sd of a parameter */

/* A clause that begins with the level ("poor (...)") is added to `text`; the answer is the part of
 * the document, or NULL: out of memory. What cannot be known is added to `unknown`. */
json_t *verdict_mixing(const struct verdict_look *look, struct words *text, json_t **unknown);
json_t *verdict_bias(const struct verdict_look *look, struct words *text, json_t **unknown);
/* Whether the job is as good as it was planned to be; null, and no text, where it was not planned.
 */
json_t *verdict_target(const struct verdict_look *look, struct words *text);

/* ---- evidence of bias ---- */

enum verdict_level { VERDICT_UNKNOWN, VERDICT_NONE_SEEN, VERDICT_MILD, VERDICT_STRONG };

/* Spacing of the lattice that draws of a chain lie on, in sds of the coordinate where that is
 * widest; 0: they lie on none. And whether every chain has started at a place of its own, and so is
 * on a lattice of its own. */
double verdict_lattice(const struct verdict_look *look);
bool verdict_scattered(const struct verdict_look *look);

/* A variance over the one it should be: how far from 1 is worth a word, and how far is bad. */
enum verdict_level verdict_variance_level(double ratio);

struct verdict_evidence {
    const char *check;
    enum verdict_level level;
    struct words text;  /* what it says */
    struct words brief; /* the same in a few words, for when nothing is wrong */
    json_t *numbers;    /* object; owned */
};

#define VERDICT_CHECKS 6
struct verdict_evidences {
    size_t count;
    struct verdict_evidence items[VERDICT_CHECKS];
};

/* An empty one at the end of the list, for whoever has something to say. */
struct verdict_evidence *verdict_evidence_new(struct verdict_evidences *list, const char *check);

/* The checks that were made when the job succeeded, and the reference of the job. */
void verdict_judge_checks(const struct verdict_look *look, struct verdict_evidences *list,
                          json_t **unknown);
/* What the plan saw at half the step size. */
void verdict_judge_half_step(const struct verdict_look *look, struct verdict_evidences *list,
                             json_t **unknown);
void verdict_judge_reference(const struct verdict_look *look, struct verdict_evidences *list,
                             json_t **unknown);

#endif
