/* Studies: several jobs as one question.
 *
 * A kind says which jobs a request stands for (`plan`) and what their draws answer together
 * (`result`). All else is the same for every kind: a study is stored with its new jobs in one
 * transaction; its state and progress are those of its jobs; who may see all of its jobs may see
 * it; deleting it keeps them.
 *
 * To add a kind: write server/study_NAME.c with `const struct study_kind study_NAME`, add NAME to
 * STUDY_LIST, and describe its request and its result in schema/openapi.json. */
#ifndef BARKER_SERVER_API_STUDY_H
#define BARKER_SERVER_API_STUDY_H

#include "server/api/api.h"
#include "server/base/field.h"
#include "server/base/mistake.h"

#define STUDY_LIST(X) X(ladder)

/* One job of a study to be. */
struct study_item {
    json_t *job; /* the request of a new job; NULL: the existing one */
    char existing[JOB_ID_SIZE];
    json_t *setting; /* object: what sets this job apart, e.g. {"factor": 0.5} */
};

/* Filled by a kind; all JSON is owned. */
struct study_plan {
    char *name;      /* when none is given */
    json_t *request; /* what the kind understood, with every default; without kind and name */
    size_t count;
    struct study_item items[STUDY_JOBS_MAX];
    char *data_sha256; /* that new jobs must have, because an existing one does; NULL: any */
};
void study_plan_release(struct study_plan *plan);

/* One job of a study, as a user sees it. */
struct study_part {
    char id[JOB_ID_SIZE];
    bool visible;         /* it exists, and the viewer may see it */
    enum job_state state; /* if it is visible */
    json_t *doc;          /* as answered by GET /v1/jobs/{id}; NULL when it is not visible */
    json_t *setting;
};
struct study_view {
    const struct study_row *row; /* borrowed */
    json_t *request;
    size_t count;
    struct study_part parts[STUDY_JOBS_MAX];
};
/* `viewer` NULL: an admin. Released in any case. */
enum err study_view_init(struct study_view *out, struct app *app, const char *viewer,
                         const struct study_row *row, struct err_info *info);
void study_view_release(struct study_view *view);

/* The study without its result. */
json_t *study_json(const struct study_view *view);

struct study_kind {
    const char *name, *help;
    /* Reads the request, in which kind and name are known and checked. False: answered, with all
     * mistakes. `plan` is zeroed before and released after. */
    bool (*plan)(struct call *call, const json_t *json, struct study_plan *plan);
    /* What the jobs say so far. NULL in *out with the reason in words when that is nothing yet.
     * False: answered. The query has `params` and `limit`. */
    bool (*result)(struct call *call, const struct study_view *view, json_t **out, char *reason,
                   size_t size);
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
