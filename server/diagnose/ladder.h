/* The bias of a job from runs at several step sizes: every parameter extrapolated to step size zero
 * (core/diagnostics/extrapolate.h says why and how), the worst first, and one sentence.
 *
 * Pure; the summaries and names are borrowed. */
#ifndef BARKER_SERVER_DIAGNOSE_LADDER_H
#define BARKER_SERVER_DIAGNOSE_LADDER_H

#include "core/diagnostics/extrapolate.h"
#include "server/results/summary.h"

#include <jansson.h>

#define LADDER_MAX EXTRAPOLATE_MAX /* step sizes */

/* The job at one step size. */
struct ladder_side {
    double factor;
    const struct summary *summary; /* of the same columns in the same order as every other's */
};

/* One parameter. */
struct ladder_row {
    size_t at; /* row of the summaries */
    struct extrapolate mean;
    struct extrapolate_spread spread;
    double difference, difference_error; /* of the mean at factor 1, in spread.scale */
    double rank; /* lower bound of the bias: the larger of |difference| and |excess|, each minus
                  * twice its error; -INFINITY: not known, e.g. R-hat > 1.2 */
    bool biased; /* significant at 5 % over all parameters (Bonferroni) */
    bool misfit; /* the same for the quadratic law in the step size, from three sides on */
    double rhat; /* the largest of the sides; NaN: not known */
    size_t rhat_side;
};

struct ladder {
    struct ladder_side sides[LADDER_MAX];
    size_t side_count, base; /* base: the side of factor 1 */
    struct ladder_row *rows; /* largest rank first */
    size_t count, biased, misfits;
    const char *(*name)(void *ctx, size_t column);
    void *name_ctx;
};

/* `out->sides`, `side_count`, `base` and `name` are set by the caller. ERR_NO_MEMORY. */
enum err ladder_init(struct ladder *ladder, struct err_info *info);
void ladder_release(struct ladder *ladder);

/* One sentence about the bias at factor 1. Returns out. */
#define LADDER_TEXT_SIZE 800
const char *ladder_sentence(const struct ladder *ladder, char out[LADDER_TEXT_SIZE]);
/* Notes on the limits of the numbers: an array of sentences. */
json_t *ladder_cautions(const struct ladder *ladder);
/* {"name", "factors": [...], "mean": {...}, "sd": {...}}, with "reason" where a number is missing.
 */
json_t *ladder_row_json(const struct ladder *ladder, const struct ladder_row *row);

#endif
