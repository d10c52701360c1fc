/* The writer thread: group commit.
 *
 * Operations wait in two queues, for the catalogue and for job files. The thread takes turns: all
 * waiting catalogue operations become one transaction, then the operations on the job file that has
 * waited longest, up to STORE_GROUP_BYTES. Operations that arrive meanwhile share the next one, so
 * that under load a sync serves many operations, and an idle store commits at once. Each operation
 * has its savepoint: one that fails leaves the others alone. Success is reported only after COMMIT
 * has returned.
 *
 * The catalogue and each job file are separate databases and commit separately. The scheduler,
 * which changes both, writes the job file first and the catalogue after it; the job file is then
 * never older, and at the next start the catalogue is updated from it. */
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/store/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAINTENANCE_MS 1000  /* between two rounds of maintenance */
#define NOTES_MS       60000 /* a note waits at most so long for another commit */

static void append(struct write_list *list, struct write *write)
{
    write->next = NULL;
    *list->tail = write;
    list->tail = &write->next;
    list->count++;
}

/* ---- callers ---- */

/* Called with the lock held. */
static enum err refuse(const struct store *store, struct err_info *info)
{
    return err_set(info, ERR_UNAVAILABLE, "the store no longer writes: %s",
                   store->broken ? store->why : "the store is being closed");
}

enum err store_stopping(struct store *store, struct err_info *info)
{
    pthread_mutex_lock(&store->lock);
    bool stopping = store->broken || store->closing;
    enum err code = stopping ? refuse(store, info) : ERR_OK;
    pthread_mutex_unlock(&store->lock);
    return code;
}

enum err store_write(struct store *store, struct write *write, struct err_info *info)
{
    write->done = false;
    write->code = ERR_OK;
    write->permit = permit_needed();
    pthread_cond_init(&write->finished, NULL);
    pthread_mutex_lock(&store->lock);
    if (store->broken || store->closing) {
        write->code = refuse(store, &write->info);
    } else {
        append(write->kind == WRITE_CATALOGUE ? &store->catalogue : &store->files, write);
        pthread_cond_signal(&store->wake);
        while (!write->done)
            pthread_cond_wait(&write->finished, &store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    pthread_cond_destroy(&write->finished);
    if (write->code != ERR_OK && info != NULL)
        *info = write->info;
    return write->code;
}

enum err store_write_catalogue(struct store *store,
                               enum err (*run)(struct store *store, struct db *db, void *ctx,
                                               struct err_info *info),
                               void *ctx, struct err_info *info)
{
    struct write write = {.kind = WRITE_CATALOGUE, .run = run, .ctx = ctx};
    return store_write(store, &write, info);
}

/* ---- transactions ---- */

static enum err run(struct store *store, struct db *db, struct write *op)
{
    enum err code = permit_ask(op->permit, &op->info);
    return code == ERR_OK ? op->run(store, db, op->ctx, &op->info) : code;
}

static enum err run_one(struct store *store, struct db *db, struct write *op, struct err_info *info)
{
    enum err code = db_savepoint(db, info);
    if (code != ERR_OK)
        return code;
    op->code = run(store, db, op);
    if (op->code == ERR_OK)
        return db_savepoint_keep(db, info);
    if (db_in_transaction(db))
        return db_savepoint_undo(db, info);
    /* After a full disk, for example, SQLite has rolled back the whole transaction. */
    return err_set(info, op->code, "%s", op->info.message);
}

static void write_notes(struct db *db, const struct store_note *notes)
{
    if (notes == NULL || db_savepoint(db, NULL) != ERR_OK)
        return;
    if (store_notes_write(db, notes, NULL) == ERR_OK)
        db_savepoint_keep(db, NULL);
    else if (db_in_transaction(db))
        db_savepoint_undo(db, NULL);
}

/* Ends the group after the operation that makes it large enough. */
static void end_group(struct write *op, size_t *bytes, struct write **rest)
{
    *bytes += op->bytes;
    if (*bytes >= STORE_GROUP_BYTES && op->next != NULL) {
        *rest = op->next;
        op->next = NULL;
    }
}

/* One transaction. If it fails, every operation that had succeeded in it fails with the reason.
 * Operations that would make it too large are moved to *rest. */
static enum err commit(struct store *store, struct db *db, struct write *group,
                       const struct store_note *notes, struct write **rest)
{
    struct err_info info = {0};
    size_t bytes = 0;
    *rest = NULL;
    enum err code = db_begin(db, &info);
    for (struct write *op = group; op != NULL && code == ERR_OK; op = op->next) {
        code = run_one(store, db, op, &info);
        end_group(op, &bytes, rest);
    }
    if (code == ERR_OK)
        write_notes(db, notes);
    if (code == ERR_OK)
        code = db_commit(db, &info);
    else
        db_rollback(db);
    for (struct write *op = group; op != NULL && code != ERR_OK; op = op->next) {
        if (op->code == ERR_OK) {
            op->code = code;
            op->info = info;
        }
    }
    return code;
}

static enum err commit_counted(struct store *store, struct db *db, struct write *group,
                               const struct store_note *notes, struct write **rest)
{
    struct timespec from, to;
    uint64_t operations = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    enum err code = commit(store, db, group, notes, rest);
    clock_gettime(CLOCK_MONOTONIC, &to);
    for (const struct write *op = group; op != NULL; op = op->next)
        operations += op->code == ERR_OK;
    uint64_t wal_bytes = db_wal_bytes(store->db) + store_files_wal_bytes(store);
    pthread_mutex_lock(&store->lock);
    store->stats.wal_bytes = wal_bytes;
    store->stats.commits += code == ERR_OK;
    store->stats.operations += operations;
    store->stats.commit_seconds +=
        (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    pthread_mutex_unlock(&store->lock);
    return code;
}

/* Completes a group; afterwards each operation belongs to its caller again. */
static void finish(struct store *store, struct write *group)
{
    pthread_mutex_lock(&store->lock);
    while (group != NULL) {
        struct write *next = group->next;
        group->done = true;
        pthread_cond_signal(&group->finished);
        group = next;
    }
    pthread_mutex_unlock(&store->lock);
}

static void fail_all(struct write *group, enum err code, const struct err_info *info)
{
    for (struct write *op = group; op != NULL; op = op->next) {
        op->code = code;
        op->info = *info;
    }
}

void store_break(struct store *store, const char *why)
{
    pthread_mutex_lock(&store->lock);
    bool first = !store->broken;
    store->broken = true;
    if (first)
        snprintf(store->why, sizeof store->why, "%s", why);
    pthread_mutex_unlock(&store->lock);
    if (first)
        log_event(LOG_ERROR, "store.broken", "reason", why, NULL);
}

void store_note_health(struct store *store, struct db *db, bool fatal)
{
    if (db_health(db) == DB_SYNC_FAILED)
        store_break(store, "the disk failed to sync what was written to it");
    else if (db_health(db) == DB_DAMAGED && fatal)
        store_break(store, STORE_DAMAGED);
}

/* ---- the catalogue ---- */

static struct store_note *take_notes(struct store *store)
{
    pthread_mutex_lock(&store->lock);
    struct store_note *notes = store->notes;
    store->notes = NULL;
    pthread_mutex_unlock(&store->lock);
    return notes;
}

static void free_notes(struct store_note *notes)
{
    while (notes != NULL) {
        struct store_note *next = notes->next;
        free(notes);
        notes = next;
    }
}

static bool lacked_space(enum err code, const struct write *group)
{
    for (const struct write *op = group; op != NULL && code != ERR_NO_SPACE; op = op->next)
        code = op->code;
    return code == ERR_NO_SPACE;
}

/* Notes are written with the group; if the transaction fails they are lost, until newer ones
 * replace them. */
static void run_catalogue(struct store *store, struct write *group)
{
    struct store_note *notes = take_notes(store);
    struct write *rest; /* catalogue operations are small */
    enum err code = commit_counted(store, store->db, group, notes, &rest);
    if (lacked_space(code, group) && store_reserve_release(store)) {
        for (struct write *op = group; op != NULL; op = op->next)
            op->code = ERR_OK;
        code = commit_counted(store, store->db, group, notes, &rest);
    }
    free_notes(notes);
    atomic_fetch_add(&store->changes, 1);
    store_note_health(store, store->db, true);
    finish(store, group);
    db_checkpoint(store->db);
    store_note_health(store, store->db, true);
}

/* ---- job files ---- */

enum err store_check_room(struct store *store, struct err_info *info)
{
    uint64_t room = store_free_bytes(store);
    if (room >= store->min_free_bytes)
        return ERR_OK;
    return err_set(info, ERR_NO_SPACE,
                   "%llu MiB are free on the disk; draws are stored only while at least %llu MiB "
                   "are (min_free_mb)",
                   (unsigned long long)(room >> 20),
                   (unsigned long long)(store->min_free_bytes >> 20));
}

/* Moves operations to the end of the queue. */
static void queue_again(struct store *store, struct write *group)
{
    pthread_mutex_lock(&store->lock);
    while (group != NULL) {
        struct write *next = group->next;
        append(&store->files, group);
        group = next;
    }
    pthread_mutex_unlock(&store->lock);
}

/* One transaction. Operations beyond its size wait again, after the catalogue and other files: the
 * chains of one job may have gigabytes to write. */
static void run_file(struct store *store, struct write *group)
{
    struct err_info info = {0};
    struct store_file *file = NULL;
    struct write *rest;
    enum err code = store_check_room(store, &info);
    if (code == ERR_OK)
        code = store_file_get(store, group->job, &file, &info);
    if (code != ERR_OK) {
        fail_all(group, code, &info);
        finish(store, group);
        return;
    }
    commit_counted(store, file->db, group, NULL, &rest);
    store_note_health(store, file->db, false);
    store_file_measure(store, file);
    finish(store, group);
    store_file_written(store, file);
    queue_again(store, rest);
}

static void run_alone(struct store *store, struct write *op)
{
    if (op->again && op->kind == WRITE_STEPS)
        op->permit = NULL; /* an operation that has begun must be able to clean up */
    op->again = false;
    op->code = run(store, NULL, op);
    if (op->again)
        queue_again(store, op);
    else
        finish(store, op);
}

/* ---- the thread ---- */

/* Takes up to STORE_GROUP operations from the front. */
static struct write *take_front(struct write_list *list)
{
    struct write *group = list->head, **end = &list->head;
    for (size_t n = 0; n < STORE_GROUP && *end != NULL; n++) {
        end = &(*end)->next;
        list->count--;
    }
    list->head = *end;
    *end = NULL;
    if (list->head == NULL)
        list->tail = &list->head;
    return group;
}

/* Takes the first operation and all others for the same file. */
static struct write *take_file(struct write_list *list)
{
    struct write *group = list->head, **end = &group->next;
    size_t count = 1;
    list->head = group->next;
    group->next = NULL;
    list->count--;
    for (struct write **at = &list->head; *at != NULL && group->kind == WRITE_FILE;) {
        struct write *op = *at;
        if (op->kind == WRITE_FILE && strcmp(op->job, group->job) == 0) {
            if (count++ == STORE_GROUP)
                break;
            *at = op->next;
            op->next = NULL;
            *end = op;
            end = &op->next;
            list->count--;
        } else {
            at = &op->next;
        }
    }
    list->tail = &list->head;
    while (*list->tail != NULL)
        list->tail = &(*list->tail)->next;
    return group;
}

/* The next group, or NULL; called with the lock held. */
static struct write *take_group(struct store *store)
{
    if (store->files.head != NULL && (store->files_next || store->catalogue.head == NULL)) {
        store->files_next = false;
        return take_file(&store->files);
    }
    store->files_next = true;
    return store->catalogue.head != NULL ? take_front(&store->catalogue) : NULL;
}

static void run_group(struct store *store, struct write *group)
{
    /* An operation in steps checks for a broken store itself, because it has to clean up. */
    if (group->kind != WRITE_STEPS && store_broken(store, NULL)) {
        struct err_info info = {0};
        fail_all(group, store_stopping(store, &info), &info);
        finish(store, group);
        return;
    }
    switch (group->kind) {
    case WRITE_CATALOGUE:
        run_catalogue(store, group);
        break;
    case WRITE_FILE:
        run_file(store, group);
        break;
    case WRITE_ALONE:
    case WRITE_STEPS:
        run_alone(store, group);
        break;
    }
}

static bool notes_due(struct store *store, uint64_t now_ms)
{
    pthread_mutex_lock(&store->lock);
    bool due = store->notes != NULL && now_ms - store->notes_since_ms >= NOTES_MS && !store->broken;
    pthread_mutex_unlock(&store->lock);
    return due;
}

static void maintain(struct store *store, uint64_t now_ms)
{
    store->next_maintenance_ms = now_ms + MAINTENANCE_MS;
    store_files_maintain(store, now_ms);
    store_reserve_restore(store);
    store->worked = !store_broken(store, NULL) && !db_shrink(store->db);
    store_note_health(store, store->db, true);
    if (notes_due(store, now_ms))
        run_catalogue(store, NULL);
}

static bool needs_maintenance(const struct store *store)
{
    return store->worked || store->notes != NULL || store->unsealed_count > 0 ||
           store_files_open(store) || (store->min_free_bytes > 0 && !store->reserve);
}

/* Waits for work or for the next maintenance. Called with the lock held. */
static void wait_for_work(struct store *store)
{
    if (!needs_maintenance(store)) {
        pthread_cond_wait(&store->wake, &store->lock);
        return;
    }
    clock_wait(&store->wake, &store->lock, store->next_maintenance_ms);
}

static void *writer(void *arg)
{
    struct store *store = arg;
    pthread_mutex_lock(&store->lock);
    for (;;) {
        struct write *group = take_group(store);
        uint64_t now_ms = clock_mono_ms();
        if (group == NULL && store->closing)
            break;
        if (group == NULL && now_ms < store->next_maintenance_ms) {
            wait_for_work(store);
            continue;
        }
        pthread_mutex_unlock(&store->lock);
        pthread_mutex_lock(&store->commit_lock);
        if (group != NULL) {
            run_group(store, group);
            store->worked = true;
        }
        if (now_ms >= store->next_maintenance_ms)
            maintain(store, now_ms);
        pthread_mutex_unlock(&store->commit_lock);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

enum err store_writer_start(struct store *store, struct err_info *info)
{
    store->catalogue.tail = &store->catalogue.head;
    store->files.tail = &store->files.head;
    pthread_cond_init(&store->wake, NULL);
    store->next_maintenance_ms = clock_mono_ms() + MAINTENANCE_MS;
    int rc = pthread_create(&store->thread, NULL, writer, store);
    if (rc != 0)
        return err_set(info, ERR_UNAVAILABLE, "the writer thread cannot be started: %s",
                       strerror(rc));
    pthread_setname_np(store->thread, "store-writer");
    return ERR_OK;
}

void store_settle(struct store *store, uint64_t until_mono_ms)
{
    struct timespec until = clock_mono_at(until_mono_ms);
    pthread_mutex_clocklock(&store->commit_lock, CLOCK_MONOTONIC, &until); /* never unlocked */
}

void store_writer_stop(struct store *store)
{
    pthread_mutex_lock(&store->lock);
    store->closing = true;
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
    pthread_join(store->thread, NULL);
    if (!store->broken)
        run_catalogue(store, NULL); /* the last notes */
}
