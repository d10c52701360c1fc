/* How well the draws of an arm fit the posterior, by full-data gradients at some of them: the finite set
 * Stein discrepancy at test points that all arms share, and a check of variances.
 *
 * Units and test points come from all arms: coordinates are divided by the median over the arms of their
 * sds, and test points are normal around the median of their means, so that arms which have run away
 * do not decide. */
#ifndef BARKER_SERVER_STUDY_SCORE_H
#define BARKER_SERVER_STUDY_SCORE_H

#include "core/model/model.h"
#include "server/store/jobfile.h"

#include <stdatomic.h>

/* Draws first .. first + count - 1 of the only chain of a job, of which `draws` are used. */
struct score_arm {
    struct jobfile *file; /* NULL: it cannot be scored, and has no say */
    uint64_t first, count;
};

struct score_wish {
    const struct model *model; /* borrowed, as the arms */
    const struct score_arm *arms;
    size_t arm_count, draws, locations;
    uint64_t seed; /* of the test points */
    const atomic_bool *halt;
};

struct score {
    double fssd, fssd_error; /* error for independent draws */
    double check,
        check_error; /* -E[(theta_j - mean_j) g_j], mean over the parameters: 1 for draws from the
                                * posterior whatever its shape, more where variances are too large */
    double check_worst; /* that of the parameter which is furthest from 1 */
    size_t worst, draws;
};

/* Memory that one score takes. */
uint64_t score_bytes(size_t d, size_t arms, size_t draws, size_t locations);

/* Of one arm; the message says why there is none. ERR_UNAVAILABLE when halted, ERR_NO_MEMORY. */
enum err score_arm(struct score *out, const struct score_wish *wish, size_t arm,
                   struct err_info *info);

#endif
