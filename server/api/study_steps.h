/* One step of a study that submits its jobs by itself: what has ended is taken down, what is next is
 * submitted, what its owner wants is done. Any one thread per study. */
#ifndef BARKER_SERVER_API_STUDY_STEPS_H
#define BARKER_SERVER_API_STUDY_STEPS_H

#include "server/api/study.h"

#define STUDY_ENDS 32

/* Between two steps; zeroed at first. */
struct study_drive {
    const struct study_kind *kind; /* NULL: not opened yet */
    struct study_run run;          /* its request and state; the rest is of one step */
    enum study_state applied;  /* the jobs under way have been told of it; fixed: of nothing yet */
    uint64_t erased;           /* positions whose jobs are deleted */
    uint64_t ends[STUDY_ENDS]; /* monotonic times at which jobs ended: a ring */
    size_t end_count;
};

/* Jobs per second of late; 0: not known. */
double study_drive_rate(const struct study_drive *drive);

/* *busy: something was done, and there may be more to do at once. Errors may pass: the step is tried
 * again after a while. ERR_CONFLICT: the study has changed meanwhile. */
enum err study_drive_step(struct study_drive *drive, struct app *app, const char *study,
                          const atomic_bool *halt, bool *busy, struct err_info *info);
void study_drive_release(struct study_drive *drive);

#endif
