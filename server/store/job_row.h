/* The row of a job in the catalogue. The list below makes the struct and, in job_row.c, the SQL, the
 * binding, the reading and the release: a new column is a migration (schema/README.md) and one line
 * here. */
#ifndef BARKER_SERVER_STORE_JOB_ROW_H
#define BARKER_SERVER_STORE_JOB_ROW_H

#include "server/base/job_state.h"
#include "server/base/levels.h"

#include <stdbool.h>
#include <stdint.h>

#define USER_NAME_SIZE 33 /* [a-z0-9_-]{1,32} */

/* Kinds of columns. A text that is NULL stays NULL; a string that is NULL is stored as '', an array
 * as '[]'. Texts, strings and arrays of a row that was read are owned by it, see job_row_release;
 * for writing they are borrowed. */
#define JOB_COLUMN_state  enum job_state
#define JOB_COLUMN_cause  enum stop_cause
#define JOB_COLUMN_mixing enum mixing_level
#define JOB_COLUMN_bias   enum bias_level
#define JOB_COLUMN_text   char *
#define JOB_COLUMN_string char *
#define JOB_COLUMN_array  char *
#define JOB_COLUMN_count  uint64_t
#define JOB_COLUMN_int    int64_t
#define JOB_COLUMN_flag   bool
#define JOB_COLUMN_real   double

/* X(kind, name), by the bit of store_job_update that writes them. Times are 0 while not yet. */

#define JOB_STATE_COLUMNS(X)                                           \
    X(state, state)                                                    \
    X(cause, stop_cause) /* STOP_none while the job is not finished */ \
    X(string, reason)    /* for people */                              \
    X(count, started_ms)                                               \
    X(count, ended_ms)

#define JOB_TEXT_COLUMNS(X)         \
    X(string, name)                 \
    X(string, note)                 \
    X(array, tags) /* JSON array */ \
    X(int, priority)                \
    X(flag, lab) /* visible to the whole lab */

#define JOB_REQUEST_COLUMNS(X) X(text, request) /* resolved request, JSON */

#define JOB_RESULT_COLUMNS(X)                                   \
    X(text, progress) /* JSON, as of the last state change */   \
    X(text, summary)  /* JSON: max_rhat, min_ess_bulk, worst */ \
    X(text, verdict)  /* one sentence */                        \
    X(mixing, mixing) /* its levels */                          \
    X(bias, bias)                                               \
    X(text, isa)                                                \
    X(text, precision)                                          \
    X(real, cpu_seconds)                                        \
    X(count, stored_bytes)

#define JOB_DELETED_COLUMNS(X)                                                \
    X(count, deleted_ms)        /* when it went to the trash; 0: not there */ \
    X(count, deleted_uptime_ms) /* the same by store_uptime_ms; set by the store */

#define JOB_PLAN_COLUMNS(X)                               \
    X(text, plan)    /* JSON; NULL: the job needs none */ \
    X(text, sampler) /* a name, for filtering; "auto" until a plan has chosen it */

/* Never changed after the job was created. */
#define JOB_FIXED_COLUMNS(X)                                                        \
    X(count, created_ms)                                                            \
    X(text, model)         /* a name, for filtering */                              \
    X(string, data_sha256) /* of train and test, "" when none; checked on resume */ \
    X(text, study)         /* that it belongs to, and is listed with; NULL: none */

/* G(bit, its columns) */
#define JOB_SET_LIST(G)             \
    G(STATE, JOB_STATE_COLUMNS)     \
    G(TEXTS, JOB_TEXT_COLUMNS)      \
    G(REQUEST, JOB_REQUEST_COLUMNS) \
    G(RESULTS, JOB_RESULT_COLUMNS)  \
    G(DELETED, JOB_DELETED_COLUMNS) \
    G(PLAN, JOB_PLAN_COLUMNS)

#define JOB_COLUMNS(X)     \
    JOB_FIXED_COLUMNS(X)   \
    JOB_STATE_COLUMNS(X)   \
    JOB_TEXT_COLUMNS(X)    \
    JOB_REQUEST_COLUMNS(X) \
    JOB_RESULT_COLUMNS(X)  \
    JOB_DELETED_COLUMNS(X) \
    JOB_PLAN_COLUMNS(X)

struct job_row {
    char id[JOB_ID_SIZE];
    char owner[USER_NAME_SIZE];
    uint64_t revision; /* grows with every change of the row */
#define X(kind, name) JOB_COLUMN_##kind name;
    JOB_COLUMNS(X)
#undef X
};
void job_row_release(struct job_row *row);

/* Which columns store_job_update writes: JOB_SET_STATE and so on. */
enum job_set_index {
#define G(bit, columns) JOB_SET_INDEX_##bit,
    JOB_SET_LIST(G)
#undef G
};
enum job_set {
#define G(bit, columns) JOB_SET_##bit = 1 << JOB_SET_INDEX_##bit,
    JOB_SET_LIST(G)
#undef G
        JOB_IF_UNCHANGED = 1 << 30, /* nothing, unless row->revision is still that of the job */
};

#endif
