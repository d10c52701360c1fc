/* Driving studies. */
#include "server/api/study_driver.h"
#include "server/api/study.h"
#include "server/api/study_steps.h"
#include "server/api/turn.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_MS  500  /* between two looks when nothing has happened: events may be missed */
#define PAUSE_MS 10   /* between two looks whatever happens */
#define RETRY_MS 1000 /* after a quota or a lack of space */

/* One study that has something to be done. */
struct drive {
    char id[JOB_ID_SIZE];
    struct study_drive state;   /* of study_steps.h */
    struct study_status status; /* under the lock */
    uint64_t retry_ms;
    bool seen; /* in the latest list of the catalogue */
    struct drive *next;
};

struct study_driver {
    struct app *app;
    pthread_t thread;
    bool started;
    atomic_bool halt;
    pthread_mutex_t lock; /* guards the list and its reasons, and `woken` */
    pthread_cond_t wake;
    bool woken;
    struct drive *drives;
};

/* ---- which ones ---- */

static struct drive *find(struct study_driver *driver, const char *id)
{
    struct drive *d = driver->drives;
    while (d != NULL && strcmp(d->id, id) != 0)
        d = d->next;
    return d;
}

static bool note_active(void *ctx, const char *id)
{
    struct study_driver *driver = ctx;
    struct drive *d = find(driver, id);
    if (d == NULL && (d = calloc(1, sizeof *d)) != NULL) {
        snprintf(d->id, sizeof d->id, "%s", id);
        pthread_mutex_lock(&driver->lock);
        d->next = driver->drives;
        driver->drives = d;
        pthread_mutex_unlock(&driver->lock);
    }
    if (d != NULL)
        d->seen = true;
    return d != NULL;
}

static void drop_others(struct study_driver *driver)
{
    for (struct drive **at = &driver->drives; *at != NULL;) {
        struct drive *d = *at;
        if (d->seen) {
            at = &d->next;
            continue;
        }
        pthread_mutex_lock(&driver->lock);
        *at = d->next;
        pthread_mutex_unlock(&driver->lock);
        study_drive_release(&d->state);
        free(d);
    }
}

static void list_active(struct study_driver *driver)
{
    struct err_info info;
    for (struct drive *d = driver->drives; d != NULL; d = d->next)
        d->seen = false;
    if (store_studies_active(driver->app->store, note_active, driver, &info) == ERR_OK)
        drop_others(driver);
    else
        log_event(LOG_WARN, "studies.unread", "reason", info.message, NULL);
}

/* ---- one round ---- */

static void set_status(struct study_driver *driver, struct drive *d, const char *why)
{
    pthread_mutex_lock(&driver->lock);
    snprintf(d->status.why, sizeof d->status.why, "%s", why);
    d->status.rate = study_drive_rate(&d->state);
    pthread_mutex_unlock(&driver->lock);
}

/* Whether anything was done. */
static bool drive_once(struct study_driver *driver, struct drive *d)
{
    struct err_info info = {.message = ""};
    bool busy = false;
    if (clock_mono_ms() < d->retry_ms)
        return false;
    enum err code = study_drive_step(&d->state, driver->app, d->id, &driver->halt, &busy, &info);
    if (code == ERR_OK ||
        code == ERR_CONFLICT) { /* a conflict: it has changed, and is read again */
        set_status(driver, d, "");
        return busy || code == ERR_CONFLICT;
    }
    if (strcmp(d->status.why, info.message) != 0)
        log_event(LOG_INFO, "study.waits", "study", d->id, "reason", info.message, NULL);
    set_status(driver, d, info.message);
    d->retry_ms = clock_mono_ms() + RETRY_MS;
    return busy;
}

static void wait_for_work(struct study_driver *driver)
{
    uint64_t until = clock_mono_ms() + IDLE_MS;
    pthread_mutex_lock(&driver->lock);
    for (bool more = true; more && !driver->woken && !atomic_load(&driver->halt);)
        more = clock_wait(&driver->wake, &driver->lock, until);
    driver->woken = false;
    pthread_mutex_unlock(&driver->lock);
}

static void *run(void *arg)
{
    struct study_driver *driver = arg;
    while (!atomic_load(&driver->halt)) {
        bool busy = false;
        list_active(driver);
        for (struct drive *d = driver->drives; d != NULL && !atomic_load(&driver->halt);
             d = d->next)
            busy |= drive_once(driver, d);
        if (!busy) {
            wait_for_work(driver);
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
        }
    }
    for (struct drive *d = driver->drives; d != NULL; d = d->next)
        study_drive_release(&d->state);
    return NULL;
}

/* ---- start and end ---- */

enum err study_driver_start(struct study_driver **out, struct app *app, struct err_info *info)
{
    struct study_driver *driver = calloc(1, sizeof *driver);
    if (driver == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for the driver of studies");
    driver->app = app;
    pthread_mutex_init(&driver->lock, NULL);
    pthread_cond_init(&driver->wake, NULL);
    int rc = pthread_create(&driver->thread, NULL, run, driver);
    driver->started = rc == 0;
    if (rc != 0) {
        study_driver_free(driver);
        return err_set(info, ERR_INTERNAL, "cannot start a thread: %s", strerror(rc));
    }
    pthread_setname_np(driver->thread, "studies");
    *out = driver;
    return ERR_OK;
}

void study_driver_halt(struct study_driver *driver)
{
    if (driver == NULL || !driver->started)
        return;
    pthread_mutex_lock(&driver->lock);
    atomic_store(&driver->halt, true);
    pthread_cond_broadcast(&driver->wake);
    pthread_mutex_unlock(&driver->lock);
    pthread_join(driver->thread, NULL);
    driver->started = false;
}

void study_driver_free(struct study_driver *driver)
{
    if (driver == NULL)
        return;
    study_driver_halt(driver);
    for (struct drive *d = driver->drives, *next; d != NULL; d = next) {
        next = d->next;
        free(d);
    }
    pthread_mutex_destroy(&driver->lock);
    pthread_cond_destroy(&driver->wake);
    free(driver);
}

void study_driver_wake(struct study_driver *driver)
{
    if (driver == NULL)
        return;
    pthread_mutex_lock(&driver->lock);
    driver->woken = true;
    pthread_cond_signal(&driver->wake);
    pthread_mutex_unlock(&driver->lock);
}

void study_driver_status(struct study_driver *driver, const char *study, struct study_status *out)
{
    *out = (struct study_status){.rate = 0.0};
    if (driver == NULL)
        return;
    pthread_mutex_lock(&driver->lock);
    const struct drive *d = find(driver, study);
    if (d != NULL)
        *out = d->status;
    pthread_mutex_unlock(&driver->lock);
}
