/* The studies of one owner do not wait for those of another. */
/* The driver of the daemon is linked too, so this one gets other names. */
#define study_driver_start  start_driver
#define study_driver_halt   halt_driver
#define study_driver_free   free_driver
#define study_driver_wake   wake_driver
#define study_driver_status status_of
#include "server/api/study_driver.h"
#include "server/api/study_steps.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>

/* The driver with another catalogue and other steps. */
static enum err listed(struct store *store,
                       bool (*each)(void *ctx, const char *id, const char *owner), void *ctx,
                       struct err_info *info);
static enum err stepped(struct study_drive *drive, struct app *app, const char *study,
                        const atomic_bool *halt, bool *busy, struct err_info *info);
#define store_studies_active       listed
#define study_drive_step           stepped
#define study_drive_release(drive) ((void)(drive))
#define study_drive_rate(drive)    ((void)(drive), 0.0)
#include "server/api/study_driver.c"

static const struct {
    const char *id, *owner;
} studies[] = {{"a-slow", "ann"}, {"b-quick", "bob"}, {"c-quick", "bob"}, {"d-conflict", "dan"}};
enum { STUDIES = sizeof studies / sizeof studies[0] };

static atomic_int steps[STUDIES], at_once[STUDIES], most_at_once;
static atomic_bool gone[STUDIES];

static enum err listed(struct store *store,
                       bool (*each)(void *ctx, const char *id, const char *owner), void *ctx,
                       struct err_info *info)
{
    (void)store;
    (void)info;
    for (size_t i = 0; i < STUDIES; i++)
        if (!atomic_load(&gone[i]))
            each(ctx, studies[i].id, studies[i].owner);
    return ERR_OK;
}

static size_t number_of(const char *study)
{
    size_t i = 0;
    while (strcmp(studies[i].id, study) != 0)
        i++;
    return i;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* That of the first study lasts until the end. */
static enum err stepped(struct study_drive *drive, struct app *app, const char *study,
                        const atomic_bool *halt, bool *busy, struct err_info *info)
{
    size_t i = number_of(study);
    (void)drive;
    (void)app;
    int now = atomic_fetch_add(&at_once[i], 1) + 1;
    if (now > atomic_load(&most_at_once))
        atomic_store(&most_at_once, now);
    atomic_fetch_add(&steps[i], 1);
    while (i == 0 && !atomic_load(halt))
        rest();
    *busy = i < 3 && atomic_load(&steps[i]) < 5;
    atomic_fetch_sub(&at_once[i], 1);
    return i < 3 ? ERR_OK : err_set(info, ERR_CONFLICT, "dan has two jobs of this name");
}

static void wait_for_steps(size_t study, int count)
{
    while (atomic_load(&steps[study]) < count)
        rest();
}

Test(study_driver, a_step_that_takes_long_delays_no_other_owner, .timeout = 60)
{
    struct app app = {0};
    struct study_driver *driver;
    cr_assert_eq(start_driver(&driver, &app, NULL), ERR_OK);
    wait_for_steps(0, 1);
    wait_for_steps(1, 7);
    wait_for_steps(2, 7);
    cr_expect_eq(atomic_load(&steps[0]), 1);
    free_driver(driver);
    cr_expect_eq(atomic_load(&most_at_once), 1, "a study was driven by two threads");
}

Test(study_driver, a_conflict_that_stays_is_shown_and_does_not_keep_a_thread_busy, .timeout = 60)
{
    struct app app = {0};
    struct study_driver *driver;
    struct study_status status = {.rate = 0.0};
    cr_assert_eq(start_driver(&driver, &app, NULL), ERR_OK);
    wait_for_steps(3, 2);
    while (status.why[0] == '\0') {
        status_of(driver, "d-conflict", &status);
        rest();
    }
    cr_expect_str_eq(status.why, "dan has two jobs of this name");
    for (int i = 0; i < 50; i++)
        rest();
    cr_expect_leq(atomic_load(&steps[3]), 3);
    free_driver(driver);
}

Test(study_driver, an_owner_whose_studies_ended_may_have_others, .timeout = 60)
{
    struct app app = {0};
    struct study_driver *driver;
    atomic_store(&gone[1], true);
    atomic_store(&gone[2], true);
    cr_assert_eq(start_driver(&driver, &app, NULL), ERR_OK);
    wait_for_steps(0, 1);
    for (int round = 1; round <= 20; round++) {
        int before = atomic_load(&steps[1]);
        atomic_store(&gone[1], false);
        wake_driver(driver);
        wait_for_steps(1, before + 1);
        atomic_store(&gone[1], true);
        wake_driver(driver);
    }
    cr_expect_eq(atomic_load(&steps[2]), 0);
    free_driver(driver);
    cr_expect_eq(atomic_load(&most_at_once), 1, "a study was driven by two threads");
}
