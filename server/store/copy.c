/* Copies of the catalogue and of job files, made by the writer thread in steps: other operations run
 * in between. */
#include "server/base/budget.h"
#include "server/base/clock.h"
#include "server/base/disk.h"
#include "server/store/internal.h"
#include "server/store/jobfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_PAGES 256

struct copying {
    struct write write;
    const char *job, *path;
    struct store_file *file; /* pinned */
    struct db_copy *copy;
};

static enum err start_copy(struct store *store, struct copying *c, struct err_info *info)
{
    struct db *from = store->db;
    if (c->job != NULL) {
        enum err code = store_file_get(store, c->job, &c->file, info);
        if (code != ERR_OK)
            return code;
        c->file->pins++;
        from = c->file->db;
    }
    return db_copy_start(&c->copy, from, c->path, info);
}

static void end_copy(struct copying *c)
{
    if (c->copy != NULL)
        db_copy_finish(c->copy);
    if (c->file != NULL) {
        c->file->pins--;
        c->file->used_ms = clock_mono_ms();
    }
}

static enum err run_copy(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct copying *c = ctx;
    bool done = false;
    (void)db;
    enum err code = store_stopping(store, info);
    if (code == ERR_OK && c->copy == NULL)
        code = start_copy(store, c, info);
    if (code == ERR_OK)
        code = db_copy_step(c->copy, STEP_PAGES, &done, info);
    c->write.again = code == ERR_OK && !done;
    if (!c->write.again)
        end_copy(c);
    return code;
}

enum err store_copy(struct store *store, const char *job, const char *path, struct err_info *info)
{
    struct copying c = {.write = {.kind = WRITE_STEPS, .run = run_copy}, .job = job, .path = path};
    c.write.ctx = &c;
    enum err code = store_write(store, &c.write, info);
    if (code != ERR_OK)
        db_unlink(path, NULL);
    return code;
}

/* ---- copies for downloads ---- */

/* The budget for copies is charged to `user` until the copy is closed; disk space is reserved until
 * it is written. */
static enum err reserve_copy(struct jobfile_copy *copy, uint64_t bytes, struct err_info *info)
{
    struct store *store = copy->store;
    enum err code = budget_take(store->copies, copy->user, bytes, 0, info);
    if (code != ERR_OK)
        return code;
    code = disk_reserve(store->draws_fd, store->min_free_bytes, bytes, "a copy of the job", info);
    if (code == ERR_OK)
        copy->reserved = bytes;
    else
        budget_give(store->copies, copy->user, bytes);
    return code;
}

/* The job may have grown since; if the copy is smaller, the rest of the reservation is returned. */
static enum err adjust_copy(struct jobfile_copy *copy, struct err_info *info)
{
    struct budget *copies = copy->store->copies;
    enum err code = ERR_OK;
    if (copy->size > copy->reserved)
        code = budget_take(copies, copy->user, copy->size - copy->reserved, 0, info);
    else
        budget_give(copies, copy->user, copy->reserved - copy->size);
    if (code == ERR_OK)
        copy->reserved = copy->size;
    return code;
}

static enum err make_copy(struct jobfile_copy *copy, const char *job, struct err_info *info)
{
    static _Atomic unsigned serial;
    char path[STORE_PATH_SIZE];
    struct stat st;
    snprintf(path, sizeof path, "%.4000s/tmp/%u.db", copy->store->directory,
             atomic_fetch_add(&serial, 1));
    enum err code = store_copy(copy->store, job, path, info);
    if (code != ERR_OK)
        return code;
    copy->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (copy->fd < 0 || fstat(copy->fd, &st) != 0)
        code = err_set(info, ERR_IO, "the copy of job file %s cannot be opened: %m", job);
    else
        copy->size = (uint64_t)st.st_size;
    db_unlink(path, NULL);
    return code;
}

enum err jobfile_copy_open(struct jobfile_copy *out, struct store *store, const char *user,
                           const char *job, struct err_info *info)
{
    *out = (struct jobfile_copy){.fd = -1, .store = store};
    snprintf(out->user, sizeof out->user, "%s", user);
    if (!job_id_valid(job))
        return err_set(info, ERR_NOT_FOUND, "\"%.40s\" is not the id of a job", job);
    uint64_t bytes = jobfile_bytes(store, job);
    enum err code = reserve_copy(out, bytes, info);
    if (code != ERR_OK)
        return code;
    code = make_copy(out, job, info);
    disk_release(bytes);
    if (code == ERR_OK)
        code = adjust_copy(out, info);
    if (code != ERR_OK)
        jobfile_copy_close(out);
    return code;
}

void jobfile_copy_close(struct jobfile_copy *copy)
{
    if (copy->fd >= 0)
        close(copy->fd);
    copy->fd = -1;
    budget_give(copy->store != NULL ? copy->store->copies : NULL, copy->user, copy->reserved);
    copy->reserved = 0;
}
