/* Studies in the catalogue: several jobs as one question. Those that submit their jobs by themselves are
 * driven by server/api/study_driver.c; every step of theirs is one transaction that checks the state
 * it was decided on. */
#ifndef BARKER_SERVER_STORE_STUDIES_H
#define BARKER_SERVER_STORE_STUDIES_H

#include "server/store/store.h"
#include "server/store/study_row.h"

/* Inserts the study, its members and the `count` new jobs among them with their first log lines in
 * one transaction: all or nothing. ERR_CONFLICT when a member that is not new is not there any
 * more. The claim as in store_job_create. ERR_QUOTA as there, and when the owner has too many
 * studies. */
enum err store_study_create(struct store *store, struct study_row *row, struct job_row *jobs,
                            size_t count, const struct store_claim *claim, bool *existing,
                            struct err_info *info);
enum err store_study_by_key(struct store *store, const char *owner, const char *idempotency_key,
                            const unsigned char body_hash[32], char id[JOB_ID_SIZE],
                            struct err_info *info);
/* ERR_NOT_FOUND also when the viewer (NULL: all) neither owns it nor may see it: all of the jobs of a
 * fixed one, one of visibility lab of the others. One that is being deleted is not found, unless the
 * id is asked for by store_study_get_any. */
enum err store_study_get(struct store *store, const char *viewer, const char *id,
                         struct study_row *row, struct err_info *info);
enum err store_study_get_any(struct store *store, const char *id, struct study_row *row,
                             struct err_info *info);
/* The study alone: its jobs stay. */
enum err store_study_delete(struct store *store, const char *id, struct err_info *info);

struct study_filter {
    const char *viewer; /* as in store_study_get */
    const char *owner, *kind;
    const char *job;    /* only studies with this job */
    const char *before; /* cursor: only studies older than this id */
    size_t limit;
};
/* Newest first, at most `limit`. `each` returns false to stop. */
enum err store_studies(struct store *store, const struct study_filter *filter,
                       bool (*each)(void *ctx, const struct study_row *row), void *ctx,
                       struct err_info *info);

/* ---- those that submit their jobs by themselves ---- */

/* Those with something to be done: running, paused, cancelling, deleting. */
enum err store_studies_active(struct store *store,
                              bool (*each)(void *ctx, const char *id, const char *owner), void *ctx,
                              struct err_info *info);

/* The job at position `member->position`, which must be the next one of a running study
 * (ERR_CONFLICT): job, member and the study's count in one transaction, so that no position is run
 * twice. job NULL: the setting cannot be run; `outcome` says why. Quotas as in store_job_create. */
enum err store_study_add(struct store *store, const char *study, const struct study_member *member,
                         const struct job_row *job, const char *outcome,
                         const struct store_room *room, struct err_info *info);

/* What is kept of a member that has ended, and has no outcome yet (ERR_CONFLICT). */
struct study_outcome {
    uint64_t position, goal;
    const char *text; /* JSON */
    bool failed;
    double cpu_seconds;
};
enum err store_study_outcome(struct store *store, const char *study,
                             const struct study_outcome *outcome, struct err_info *info);

/* Outcomes of the positions first .. first + count - 1, in their order; `outcome` NULL: none yet. */
enum err store_study_outcomes(struct store *store, const char *study, uint64_t first,
                              uint64_t count,
                              bool (*each)(void *ctx, uint64_t position, const char *job,
                                           const char *outcome),
                              void *ctx, struct err_info *info);

/* A change of the study as a whole, if its state is still `from` (ERR_CONFLICT). */
struct study_change {
    enum study_state from, to;
    const char *memo, *request; /* NULL: as they are */
    uint64_t jobs;              /* in all, from now on; 0: as they are */
    uint64_t more; /* iterations that are wanted in addition of every member that has succeeded */
    /* Members that are wanted again, with this goal: their outcomes go. */
    const uint64_t *reopened;
    size_t reopened_count;
    uint64_t goal;
};
enum err store_study_change(struct store *store, const char *study,
                            const struct study_change *change, struct err_info *info);

#endif
