/* Drives studies which submit their jobs by themselves: a few jobs of each are under way at a time, and
 * of what has ended the outcome is stored. Every owner who has such studies has a thread for them, so
 * that nobody waits for somebody else's. Everything that it needs is in the catalogue, so it goes on
 * after a crash where it was; each step is one transaction that checks what it was decided on, so
 * nothing is done twice. */
#ifndef BARKER_SERVER_API_STUDY_DRIVER_H
#define BARKER_SERVER_API_STUDY_DRIVER_H

#include "server/api/api.h"

struct study_driver;

enum err study_driver_start(struct study_driver **out, struct app *app, struct err_info *info);
/* Ends the steps under way and the threads; the studies stay as they are for the next start. */
void study_driver_halt(struct study_driver *driver);
void study_driver_free(struct study_driver *driver);

/* A study was created or changed, or a job has moved on. Any thread; waits for nothing. NULL: nothing. */
void study_driver_wake(struct study_driver *driver);

/* What the driver knows of a study. */
struct study_status {
    char why[JOB_REASON_SIZE]; /* it does not go on just now; "" when it does */
    double rate;               /* jobs per second of late; 0: not known */
};
void study_driver_status(struct study_driver *driver, const char *study, struct study_status *out);

#endif
