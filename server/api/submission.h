/* A submission: from the document that a client sent to a row that can be stored.
 *
 * May wait for the disk (data are read and hashed): on a thread of the request pool. */
#ifndef BARKER_SERVER_API_SUBMISSION_H
#define BARKER_SERVER_API_SUBMISSION_H

#include "server/api/api.h"
#include "server/base/mistake.h"
#include "server/spec/spec.h"

/* Zeroed before submission_prepare. */
struct submission {
    struct job_spec spec;
    bool parsed; /* spec is to be released */
    const struct data *data;
    struct model *model;
    struct spec_bound bound;
    struct estimate sizes;      /* its times are 0 */
    struct owner_totals totals; /* when the document was checked */
    struct mistakes mistakes;
    unsigned turns;       /* that have begun, see turn.h */
    struct err_info info; /* of an error other than mistakes in the document */
};

/* Checks the document, loads its data, makes the model, binds and estimates what the job will
 * store. Memory for model and a chain is reserved for the call first, and for a large model the
 * call has a turn until the release. ERR_INVALID: the mistakes say why. To be released in any
 * case. */
enum err submission_prepare(struct submission *sub, struct call *call, const json_t *json);
void submission_release(struct submission *sub, struct app *app);

/* "single", "double", or "" for a model without data. */
const char *submission_precision(const struct submission *sub);

/* The row of a new job, queued, with an id of its own; released with job_row_release. */
enum err submission_row(struct submission *sub, const char *owner, struct job_row *row);

/* Room for `bytes` more of the user's draws, which the store checks when it takes the job. */
struct store_room submission_room(struct app *app, const char *user, uint64_t bytes);
/* ERR_NO_SPACE when the server's disk is too full for more jobs. */
enum err submission_disk(struct app *app, struct err_info *info);

/* Whether the job of this row can run what is left of it and `iterations` more: its data are those
 * of the submission (ERR_DATA_CHANGED), and the server's disk has room. *bytes: what it has still to
 * store; 0 for a job that is not planned yet, whose plan will fit into the free space. */
enum err submission_extend(struct call *call, const struct job_row *row, uint64_t iterations,
                           uint64_t *bytes, struct err_info *info);

/* Iterations after warm-up of the furthest chain, at least 1. */
uint64_t submission_iterations(struct app *app, const struct job_row *row,
                               const struct job_spec *spec);

/* A fresh id of a job or a study. */
void submission_id(char id[JOB_ID_SIZE], uint64_t now_ms);

/* The Idempotency-Key of the call, or NULL, and the hash of its body. False: answered, because the
 * key is not valid. */
bool submission_key(struct call *call, const char **key, unsigned char hash[32]);

/* A repeated request is answered with the job or study that the first one made, also if other
 * conditions have changed. `by_key` finds its id, `answer` answers with it. True: answered. */
bool submission_answered(struct call *call,
                         enum err (*by_key)(struct store *store, const char *owner, const char *key,
                                            const unsigned char hash[32], char id[JOB_ID_SIZE],
                                            struct err_info *info),
                         void (*answer)(struct call *call, const char *id, bool existing));

#endif
