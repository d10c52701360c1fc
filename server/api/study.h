/* Studies: several jobs as one question.
 *
 * A kind is a `struct study_kind`. `parse` reads a request; a fixed study brings all of its jobs along,
 * is stored with them in one transaction, and its state is theirs (ladder). Any other submits its jobs by
 * itself, a few at a time: the driver (study_driver.h) asks the kind for the job at the next position,
 * for what is kept of a job that has ended, and, when no job is under way, what is next. Whatever a kind
 * decides follows from the stored request, the memo and the outcomes, so it goes on after a crash as if
 * nothing had happened. `result` says what the jobs answer together.
 *
 * README.md says how a kind is added. */
#ifndef BARKER_SERVER_API_STUDY_H
#define BARKER_SERVER_API_STUDY_H

#include "server/api/api.h"
#include "server/base/field.h"
#include "server/base/mistake.h"
#include "server/store/studies.h"

#define STUDY_LIST(X) X(ladder) X(sweep) X(mamba)

#define STUDY_POSITIONS_MAX 10000 /* jobs of one study */

/* One job of a fixed study to be. */
struct study_item {
    json_t *job; /* the request of a new job; NULL: the existing one */
    char existing[JOB_ID_SIZE];
    json_t *setting; /* object: what sets this job apart, e.g. {"factor": 0.5} */
};

/* Filled by `parse`; all JSON is owned. */
struct study_plan {
    char *name;      /* when none is given */
    json_t *request; /* what the kind understood, with every default; without kind and name */
    size_t count;    /* of items: none of a study that submits its jobs by itself */
    struct study_item items[STUDY_JOBS_MAX];
    char *data_sha256; /* that new jobs must have, because an existing one does; NULL: any */
    uint64_t jobs;     /* in all, of a study that submits them by itself */
    bool lab;          /* its visibility, then */
    json_t *memo;      /* what its kind keeps at first, or NULL */
};
void study_plan_release(struct study_plan *plan);

/* One job of a study, as a user sees it. */
struct study_part {
    char id[JOB_ID_SIZE];
    bool visible;         /* it exists, and the viewer may see it */
    enum job_state state; /* if it is visible */
    json_t *doc; /* state and progress as in GET /v1/jobs/{id}; NULL when it is not visible */
    json_t *setting;
};
struct study_view {
    const struct study_row *row; /* borrowed */
    struct app *app;             /* borrowed */
    json_t *request;
    size_t count;
    struct study_part parts[STUDY_JOBS_MAX];
};
/* `viewer` NULL: an admin. A list has no parts of a study that is not fixed. Released in any case. */
enum err study_view_init(struct study_view *out, struct app *app, const char *viewer,
                         const struct study_row *row, bool list, struct err_info *info);
void study_view_release(struct study_view *view);

/* The study without its result. */
json_t *study_json(const struct study_view *view);
/* Answers with it. */
void study_answer(struct call *call, const struct study_row *row, int status);

/* A study that is being driven. */
struct study_run {
    struct call *call;           /* in the name of the owner; borrowed */
    const struct study_row *row; /* as it is now; borrowed */
    json_t *request;
    const atomic_bool *halt; /* polled by whatever takes long */
    void *state;             /* of the kind: what it has made of the request */
};

/* The job at a position. */
struct study_step {
    json_t *job, *setting; /* owned by the caller */
    uint64_t goal; /* iterations after warm-up that are wanted of it; 0: those of its request */
};

struct study_kind {
    const char *name, *help;
    /* Reads the request, in which kind and name are known and checked. False: answered, with all
     * mistakes. `plan` is zeroed before and released after. */
    bool (*parse)(struct call *call, const json_t *json, struct study_plan *plan);
    /* What the jobs say so far. NULL in *out with the reason in words when that is nothing yet.
     * False: answered. The query has `params` and `limit`. */
    bool (*result)(struct call *call, const struct study_view *view, json_t **out, char *reason,
                   size_t size);

    /* ---- of studies that submit their jobs by themselves; NULL: fixed ---- */

    /* Around all other calls for a study. */
    enum err (*open)(struct study_run *run, struct err_info *info);
    void (*close)(struct study_run *run);
    /* The next job, by run->row->submitted. */
    enum err (*step)(struct study_run *run, struct study_step *out, struct err_info *info);
    /* What is kept of a job that has succeeded; see outcome.h for the members that all kinds have.
     * ERR_UNAVAILABLE: not yet. */
    enum err (*outcome)(struct study_run *run, const struct study_member *member,
                        const struct job_row *job, json_t **out, struct err_info *info);
    /* Every position has an outcome: change->to stays STUDY_running if there is more to be done
     * (`reopened`, `memo`, which are freed by the caller). NULL: the study is over. */
    enum err (*settle)(struct study_run *run, struct study_change *change, struct err_info *info);
    /* How far it is, from 0 to 1; NULL: the fraction of its jobs. */
    double (*fraction)(const struct study_row *row);
    /* GET .../table; NULL: it has none. */
    void (*table)(struct call *call, const struct study_row *row);
    /* Checks more seeds for a study that has ended. False: answered. *jobs: in all, from now on. NULL: it cannot be
     * extended. */
    bool (*extend)(struct call *call, const struct study_row *row, uint64_t seeds, uint64_t *jobs,
                   char **request);
};

#define X(name) extern const struct study_kind study_##name;
STUDY_LIST(X)
#undef X

/* In the same order; both end with NULL. */
extern const struct study_kind *const study_kinds[];
extern const char *const study_names[];
const struct study_kind *study_kind_find(const char *name);

/* Answers with mistakes of a job's request: they are in the field `job` of the study's. */
void study_mistakes(struct call *call, const struct mistakes *found);

#endif
