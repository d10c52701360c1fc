/* A sweep, from its request: the grid, the jobs by position, what they are measured against.
 *
 * The first `references` positions are exact jobs, one for every posterior of the grid; then come all
 * settings with the first seed, then all with the next. */
#ifndef BARKER_SERVER_API_STUDY_SWEEP_H
#define BARKER_SERVER_API_STUDY_SWEEP_H

#include "server/api/study.h"
#include "server/study/grid_table.h"

#define SWEEP_SEED_MASK ((UINT64_C(1) << 53) - 1) /* seeds of jobs fit into 53 bits */
#define SWEEP_EXACT     "exact"

struct sweep {
    const json_t *request; /* borrowed, as what it holds */
    struct grid grid;
    uint64_t seeds, seed;
    size_t references;
    uint32_t *posterior; /* of every setting; NULL: all have the same */
};

/* Of a request that has been checked. ERR_CORRUPT, ERR_NO_MEMORY; nothing is to be released then. */
enum err sweep_read(struct sweep *out, const json_t *request, struct err_info *info);
void sweep_release(struct sweep *sweep);

uint64_t sweep_jobs(const struct sweep *sweep);
/* The job of a setting, without name and seed; NULL: no memory. */
json_t *sweep_job(const struct sweep *sweep, size_t setting);
/* Which of the references a setting is measured against. */
size_t sweep_reference_of(const struct sweep *sweep, size_t setting);
/* The first setting of a posterior. */
size_t sweep_setting_of(const struct sweep *sweep, size_t reference);
/* What sets a posterior apart from the others: {"/model/alpha": 5}. NULL: no memory. */
json_t *sweep_posterior(const struct sweep *sweep, size_t setting);
/* Whether a pointer changes the posterior, or where it is read from. */
bool sweep_changes_posterior(const char *pointer);
/* How many parameters an outcome shows, at most. */
size_t sweep_params(const struct sweep *sweep);
bool sweep_has_axis(const struct sweep *sweep, const char *pointer);

/* The parts of the kind that are in study_sweep_run.c and study_sweep_result.c. */
enum err sweep_open(struct study_run *run, struct err_info *info);
void sweep_close(struct study_run *run);
enum err sweep_step(struct study_run *run, struct study_step *out, struct err_info *info);
enum err sweep_outcome(struct study_run *run, const struct study_member *member,
                       const struct job_row *job, json_t **out, struct err_info *info);
bool sweep_result(struct call *call, const struct study_view *view, json_t **out, char *reason,
                  size_t size);
void sweep_table(struct call *call, const struct study_row *row);
bool sweep_extend(struct call *call, const struct study_row *row, uint64_t seeds, uint64_t *jobs,
                  char **request);

#endif
