/* The row of a study in the catalogue, with its members. */
#ifndef BARKER_SERVER_STORE_STUDY_ROW_H
#define BARKER_SERVER_STORE_STUDY_ROW_H

#include "server/base/job_state.h"
#include "server/store/job_row.h"

#include <stddef.h>
#include <stdint.h>

#define STUDY_JOBS_MAX 64

struct study_member {
    char job[JOB_ID_SIZE];
    char *setting; /* JSON object text: what sets this job apart */
};

/* As struct job_row: released with study_row_release when it was read, borrowed for writing. */
struct study_row {
    char id[JOB_ID_SIZE]; /* made like a job's */
    char owner[USER_NAME_SIZE];
    uint64_t created_ms;
    char *kind, *name;
    char *request; /* JSON text */
    struct study_member *members;
    size_t member_count;
};
void study_row_release(struct study_row *row);

#endif
