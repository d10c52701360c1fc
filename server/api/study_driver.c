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

/* One study that has something to be done. Under the lock of the driver: its status, `seen`, `next`. */
struct drive {
    char id[JOB_ID_SIZE];
    struct study_drive state; /* of study_steps.h */
    struct study_status status;
    uint64_t retry_ms;
    bool conflict; /* the latest step ended so */
    bool seen;     /* in the latest list of the catalogue */
    struct drive *next;
};

/* The studies of one owner, with a thread of their own: loading their data or waiting for a turn may
 * take long, and holds up nobody else's. It ends when none is left. */
struct hand {
    struct study_driver *driver;
    char owner[USER_NAME_SIZE];
    pthread_t thread;
    bool started;         /* of the first thread */
    bool over;            /* under the lock: the thread ends and takes no study any more */
    struct drive *drives; /* under the lock */
    struct hand *next;
};

struct study_driver {
    struct app *app;
    pthread_t thread; /* lists the studies and begins and ends the hands, which only it does */
    bool started;
    atomic_bool halt;
    pthread_mutex_t lock;
    pthread_cond_t wake, listed;
    bool woken;     /* something has happened since the list was made */
    uint64_t lists; /* that have been made */
    struct hand *hands;
};

/* ---- which ones ---- */

struct listed {
    char id[JOB_ID_SIZE], owner[USER_NAME_SIZE];
};

struct list {
    struct listed *items;
    size_t count, room;
};

static bool append(void *ctx, const char *id, const char *owner)
{
    struct list *list = ctx;
    if (list->count == list->room) {
        size_t room = 2 * list->room + 16;
        struct listed *items = realloc(list->items, room * sizeof *items);
        if (items == NULL)
            return false; /* the others come with a later list */
        list->items = items;
        list->room = room;
    }
    struct listed *one = &list->items[list->count++];
    snprintf(one->id, sizeof one->id, "%s", id);
    snprintf(one->owner, sizeof one->owner, "%s", owner);
    return true;
}

/* ---- the same, under the lock ---- */

static struct drive *find(const struct hand *hand, const char *id)
{
    struct drive *d = hand->drives;
    while (d != NULL && strcmp(d->id, id) != 0)
        d = d->next;
    return d;
}

static struct hand *hand_of(struct study_driver *driver, const char *owner)
{
    struct hand *hand = driver->hands;
    while (hand != NULL && (hand->over || strcmp(hand->owner, owner) != 0))
        hand = hand->next;
    if (hand != NULL || (hand = calloc(1, sizeof *hand)) == NULL)
        return hand;
    hand->driver = driver;
    snprintf(hand->owner, sizeof hand->owner, "%s", owner);
    hand->next = driver->hands;
    driver->hands = hand;
    return hand;
}

static void note_active(struct study_driver *driver, const struct listed *listed)
{
    struct hand *hand = hand_of(driver, listed->owner);
    struct drive *d = hand != NULL ? find(hand, listed->id) : NULL;
    if (hand != NULL && d == NULL && (d = calloc(1, sizeof *d)) != NULL) {
        snprintf(d->id, sizeof d->id, "%s", listed->id);
        d->next = hand->drives;
        hand->drives = d;
    }
    if (d != NULL)
        d->seen = true;
}

static void note_all(struct study_driver *driver, const struct list *list)
{
    for (struct hand *hand = driver->hands; hand != NULL; hand = hand->next)
        for (struct drive *d = hand->drives; d != NULL; d = d->next)
            d->seen = false;
    for (size_t i = 0; i < list->count; i++)
        note_active(driver, &list->items[i]);
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
    bool changed =
        code == ERR_CONFLICT && !d->conflict; /* by its owner just now: it is read again */
    d->conflict = code == ERR_CONFLICT;
    if (code == ERR_OK || changed) {
        set_status(driver, d, "");
        return busy || changed;
    }
    if (strcmp(d->status.why, info.message) != 0)
        log_event(LOG_INFO, "study.waits", "study", d->id, "reason", info.message, NULL);
    set_status(driver, d, info.message);
    d->retry_ms = clock_mono_ms() + RETRY_MS;
    return busy;
}

/* ---- one owner ---- */

static struct drive *next_drive(struct hand *hand, const struct drive *last)
{
    pthread_mutex_lock(&hand->driver->lock);
    struct drive *d = last != NULL ? last->next : hand->drives;
    pthread_mutex_unlock(&hand->driver->lock);
    return d;
}

/* Takes one that is over out of the list; NULL: there is none. */
static struct drive *take_over(struct hand *hand)
{
    pthread_mutex_lock(&hand->driver->lock);
    struct drive **at = &hand->drives, *d;
    while (*at != NULL && (*at)->seen)
        at = &(*at)->next;
    if ((d = *at) != NULL)
        *at = d->next;
    pthread_mutex_unlock(&hand->driver->lock);
    return d;
}

static void drive_free(struct drive *d)
{
    study_drive_release(&d->state);
    free(d);
}

/* Until a list has been made after number *last. False: the hand is over. */
static bool wait_for_list(struct hand *hand, uint64_t *last)
{
    struct study_driver *driver = hand->driver;
    pthread_mutex_lock(&driver->lock);
    while (driver->lists == *last && !atomic_load(&driver->halt))
        pthread_cond_wait(&driver->listed, &driver->lock);
    *last = driver->lists;
    hand->over = hand->drives == NULL || atomic_load(&driver->halt);
    pthread_mutex_unlock(&driver->lock);
    return !hand->over;
}

static void *run_hand(void *arg)
{
    struct hand *hand = arg;
    struct study_driver *driver = hand->driver;
    uint64_t last = 0;
    bool busy = false;
    pthread_setname_np(pthread_self(), "study");
    while (wait_for_list(hand, &last)) {
        do {
            busy = false;
            for (struct drive *d; (d = take_over(hand)) != NULL;)
                drive_free(d);
            for (struct drive *d = NULL;
                 (d = next_drive(hand, d)) != NULL && !atomic_load(&driver->halt);)
                busy |= drive_once(driver, d);
        } while (busy && !atomic_load(&driver->halt));
    }
    return NULL;
}

/* ---- all of them ---- */

/* Again with the next list when a thread cannot be started. */
static void start_hands(struct study_driver *driver)
{
    for (struct hand *hand = driver->hands; hand != NULL; hand = hand->next)
        if (!hand->started)
            hand->started = pthread_create(&hand->thread, NULL, run_hand, hand) == 0;
}

static void hand_free(struct hand *hand)
{
    if (hand->started)
        pthread_join(hand->thread, NULL);
    for (struct drive *d = hand->drives, *next; d != NULL; d = next) {
        next = d->next;
        drive_free(d);
    }
    free(hand);
}

/* Frees those whose threads have nothing left to do. */
static void end_hands(struct study_driver *driver)
{
    for (struct hand **at = &driver->hands, *hand; (hand = *at) != NULL;) {
        pthread_mutex_lock(&driver->lock);
        bool over = hand->over;
        if (over)
            *at = hand->next;
        else
            at = &hand->next;
        pthread_mutex_unlock(&driver->lock);
        if (over)
            hand_free(hand);
    }
}

static void list_active(struct study_driver *driver)
{
    struct list list = {0};
    struct err_info info;
    enum err code = store_studies_active(driver->app->store, append, &list, &info);
    end_hands(driver);
    pthread_mutex_lock(&driver->lock);
    if (code == ERR_OK)
        note_all(driver, &list);
    driver->lists++;
    pthread_cond_broadcast(&driver->listed);
    pthread_mutex_unlock(&driver->lock);
    if (code != ERR_OK)
        log_event(LOG_WARN, "studies.unread", "reason", info.message, NULL);
    start_hands(driver);
    free(list.items);
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
        list_active(driver);
        wait_for_work(driver);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
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
    pthread_cond_init(&driver->listed, NULL);
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
    pthread_cond_broadcast(&driver->listed);
    pthread_mutex_unlock(&driver->lock);
    pthread_join(driver->thread, NULL);
    driver->started = false;
    for (struct hand *hand = driver->hands; hand != NULL; hand = hand->next) {
        if (hand->started)
            pthread_join(hand->thread, NULL);
        hand->started = false;
    }
}

void study_driver_free(struct study_driver *driver)
{
    if (driver == NULL)
        return;
    study_driver_halt(driver);
    for (struct hand *hand = driver->hands, *next; hand != NULL; hand = next) {
        next = hand->next;
        hand_free(hand);
    }
    pthread_mutex_destroy(&driver->lock);
    pthread_cond_destroy(&driver->wake);
    pthread_cond_destroy(&driver->listed);
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
    for (const struct hand *hand = driver->hands; hand != NULL; hand = hand->next) {
        const struct drive *d = find(hand, study);
        if (d != NULL)
            *out = d->status;
    }
    pthread_mutex_unlock(&driver->lock);
}
