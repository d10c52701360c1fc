/* The row of a study in the catalogue, with its members. */
#ifndef BARKER_SERVER_STORE_STUDY_ROW_H
#define BARKER_SERVER_STORE_STUDY_ROW_H

#include "server/base/job_state.h"
#include "server/store/job_row.h"

#include <stddef.h>
#include <stdint.h>

#define STUDIES_UNDER_WAY 100 /* of one owner, paused ones included */
#define STUDY_JOBS_MAX    64  /* of a fixed study; under way at a time in any other */

/* FIXED: all jobs came with it, and its state follows from theirs. Every other study submits its jobs
 * by itself, and has the other states. */
#define STUDY_STATE_LIST(X) \
    X(fixed)                \
    X(running)              \
    X(paused)               \
    X(cancelling)           \
    X(deleting)             \
    X(succeeded)            \
    X(failed)               \
    X(cancelled)
enum study_state {
#define X(name) STUDY_##name,
    STUDY_STATE_LIST(X)
#undef X
};

extern const char *const study_state_names[]; /* ends with NULL */

struct study_member {
    char job[JOB_ID_SIZE];
    char *setting;     /* JSON object text: what sets this job apart */
    uint64_t position; /* in the study */
    uint64_t goal;     /* iterations after warm-up that are wanted of it; 0: those of its request */
};

/* As struct job_row: released with study_row_release when it was read, borrowed for writing. */
struct study_row {
    char id[JOB_ID_SIZE]; /* made like a job's */
    char owner[USER_NAME_SIZE];
    uint64_t created_ms;
    char *kind, *name;
    char *request; /* JSON text */

    enum study_state state;
    bool lab;                         /* unless it is fixed: visible to the whole lab */
    uint64_t jobs, submitted;         /* in all; of these, positions that have been dealt with */
    uint64_t ended, failed, ended_ms; /* members with an outcome; those without success */
    double cpu_seconds;               /* of members with an outcome */
    char *data_sha256;                /* NULL: the grid has several, or none */
    char *memo;                       /* JSON of its kind, or NULL */

    struct study_member *members; /* of a fixed study all, of any other those without an outcome */
    size_t member_count;
};
void study_row_release(struct study_row *row);

#endif
