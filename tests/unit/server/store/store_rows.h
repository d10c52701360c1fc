/* Rows of the catalogue: written, listed, compared. */
#ifndef BARKER_TESTS_STORE_ROWS_H
#define BARKER_TESTS_STORE_ROWS_H

#include "tests/unit/server/store/store_fixture.h"

#include "server/store/internal.h"
#include "server/store/users.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static inline void add_jobs(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job_row row = store_test_row(i, "ana");
        store_test_add(&t, &row);
    }
}

static inline void overwrite(const char *name, off_t at, size_t bytes)
{
    char path[200];
    char *junk = malloc(bytes);
    memset(junk, 0xa5, bytes);
    snprintf(path, sizeof path, "%s/%s", t.directory, name);
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, junk, bytes, at), (ssize_t)bytes);
    close(fd);
    free(junk);
}

static inline void put_user(const char *name, enum role role, const char *quotas)
{
    struct user_row user = {.role = role, .created_ms = 1234};
    snprintf(user.name, sizeof user.name, "%s", name);
    snprintf(user.quotas, sizeof user.quotas, "%s", quotas);
    expect_ok(store_user_put(t.store, &user, &t.info), &t.info);
}

static inline void expect_same(const char *what, const char *got, const char *want)
{
    if (want == NULL)
        cr_expect_null(got, "%s is \"%s\"", what, got);
    else
        cr_expect(got != NULL && strcmp(got, want) == 0, "%s is \"%s\", not \"%s\"", what,
                  got != NULL ? got : "NULL", want);
}

static inline void expect_row(const struct job_row *got, const struct job_row *want)
{
    expect_same("id", got->id, want->id);
    expect_same("owner", got->owner, want->owner);
    cr_expect_eq(got->state, want->state);
    expect_same("reason", got->reason, want->reason);
    expect_same("verdict", got->verdict, want->verdict);
    cr_expect_eq(got->mixing, want->mixing);
    cr_expect_eq(got->bias, want->bias);
    cr_expect_eq(got->created_ms, want->created_ms);
    cr_expect_eq(got->started_ms, want->started_ms);
    cr_expect_eq(got->ended_ms, want->ended_ms);
    cr_expect_eq(got->deleted_ms, want->deleted_ms);
    expect_same("name", got->name, want->name);
    expect_same("note", got->note, want->note);
    expect_same("tags", got->tags, want->tags);
    expect_same("request", got->request, want->request);
    expect_same("model", got->model, want->model);
    expect_same("sampler", got->sampler, want->sampler);
    cr_expect_eq(got->priority, want->priority);
    cr_expect_eq(got->lab, want->lab);
    expect_same("isa", got->isa, want->isa);
    expect_same("precision", got->precision, want->precision);
    expect_same("progress", got->progress, want->progress);
    expect_same("summary", got->summary, want->summary);
    expect_same("data_sha256", got->data_sha256, want->data_sha256);
    cr_expect_eq(got->cpu_seconds, want->cpu_seconds);
    cr_expect_eq(got->stored_bytes, want->stored_bytes);
}

static inline struct owner_totals totals_of(const char *owner)
{
    struct owner_totals totals;
    expect_ok(store_owner_totals(t.store, owner, &totals, &t.info), &t.info);
    return totals;
}

static inline void count_problem(void *ctx, const char *problem)
{
    ++*(size_t *)ctx;
    cr_log_info("%s", problem);
}

static inline size_t problems(void)
{
    size_t count = 0;
    expect_ok(store_check(t.store, count_problem, &count, &t.info), &t.info);
    return count;
}

static inline void expect_stored(const struct job_row *want)
{
    struct job_row row;
    expect_ok(store_job_get(t.store, want->id, &row, &t.info), &t.info);
    expect_row(&row, want);
    job_row_release(&row);
}

struct id_list {
    size_t numbers[400], count, stop_at;
};

static inline bool keep_id(void *ctx, const struct job_row *row)
{
    struct id_list *list = ctx;
    list->numbers[list->count++] = (size_t)(row->created_ms - 1700000000000);
    return list->count != list->stop_at;
}

static inline struct id_list list_jobs(const struct job_filter *filter)
{
    struct id_list list = {0};
    expect_ok(store_jobs(t.store, filter, keep_id, &list, &t.info), &t.info);
    return list;
}

#endif
