/* MAMBA, from its request and its memo: arms, schedule, scores so far. The memo:
 *
 *     {"cost": of a gradient in iterations, "most_draws": ..., "round": the one under way, from 0,
 *      "alive": [arms], "scores": [[score, ...] per round], "chosen": arm | null}
 *
 * A score is as in the result (MambaScore in schema/openapi.json), with "arm". */
#ifndef BARKER_SERVER_API_STUDY_MAMBA_H
#define BARKER_SERVER_API_STUDY_MAMBA_H

#include "server/api/study.h"
#include "server/study/grid.h"
#include "server/study/halving.h"

#define MAMBA_ARMS_MAX 1000
#define MAMBA_STEP     "/sampler/step_size"

struct mamba {
    const json_t *request; /* borrowed, as the axis */
    struct grid_axis arms;
    struct halving plan;
    double cost;
    size_t locations;
    uint64_t seed;
};

/* Of a request and a memo that have been checked; ERR_CORRUPT. Nothing to release. */
enum err mamba_read(struct mamba *out, const json_t *request, const json_t *memo,
                    struct err_info *info);
double mamba_step_size(const struct mamba *mamba, size_t arm);
/* The job of an arm, without name; NULL: no memory. */
json_t *mamba_job(const struct mamba *mamba, size_t arm);
/* Iterations of an arm at the end of a round (from 0). */
uint64_t mamba_iterations(const struct mamba *mamba, size_t round);

enum err mamba_open(struct study_run *run, struct err_info *info);
void mamba_close(struct study_run *run);
enum err mamba_step(struct study_run *run, struct study_step *out, struct err_info *info);
enum err mamba_outcome(struct study_run *run, const struct study_member *member,
                       const struct job_row *job, json_t **out, struct err_info *info);
enum err mamba_settle(struct study_run *run, struct study_change *change, struct err_info *info);
double mamba_fraction(const struct study_row *row);
bool mamba_result(struct call *call, const struct study_view *view, json_t **out, char *reason,
                  size_t size);

#endif
