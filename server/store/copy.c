/* Copies of the catalogue and of job files, made by the writer thread in steps: other operations run
 * in between. */
#include "server/base/clock.h"
#include "server/store/internal.h"

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
