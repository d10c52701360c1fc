/* Emptying the trash. */
#include "server/api/retention.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/store/jobfile.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    char id[JOB_ID_SIZE];
    uint64_t deleted_ms, uptime_ms, bytes; /* when it was deleted, by both clocks */
};

struct trash {
    struct store *store;
    struct piece *pieces;
    size_t count;
};

static bool add_piece(void *ctx, const struct job_row *row)
{
    struct trash *trash = ctx;
    struct piece *more = realloc(trash->pieces, (trash->count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    trash->pieces = more;
    struct piece *piece = &more[trash->count++];
    memcpy(piece->id, row->id, sizeof piece->id);
    piece->deleted_ms = row->deleted_ms;
    piece->uptime_ms = row->deleted_uptime_ms;
    piece->bytes = jobfile_bytes(trash->store, row->id);
    return true;
}

static int oldest_first(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->uptime_ms != y->uptime_ms)
        return x->uptime_ms < y->uptime_ms ? -1 : 1;
    return x->deleted_ms < y->deleted_ms ? -1 : x->deleted_ms > y->deleted_ms;
}

static void empty(const struct trash *trash, const struct config *config)
{
    uint64_t held = 0, now = store_uptime_ms(trash->store),
             keep_ms = (uint64_t)config->trash_hours * 3600000;
    for (size_t i = 0; i < trash->count; i++)
        held += trash->pieces[i].bytes;
    for (size_t i = 0; i < trash->count; i++) {
        const struct piece *piece = &trash->pieces[i];
        struct err_info info;
        bool old = now > piece->uptime_ms + keep_ms, much = held > (uint64_t)config->trash_mb << 20;
        if (!old && !much)
            return;
        enum err code = store_job_purge(trash->store, piece->id, piece->deleted_ms, &info);
        if (code != ERR_OK && code != ERR_CONFLICT && code != ERR_NOT_FOUND)
            return;
        held -= piece->bytes; /* restored or purged since: no longer in the trash */
        if (code == ERR_OK)
            log_event(LOG_INFO, "job.purged", "job", piece->id, NULL);
    }
}

void retention_run(struct store *store, const struct config *config)
{
    struct trash trash = {.store = store};
    struct err_info info;
    struct job_filter filter = {.deleted = true, .limit = SIZE_MAX / 2};
    if (store_jobs(store, &filter, add_piece, &trash, &info) == ERR_OK && trash.count > 0) {
        store_uptime_save(store, &info); /* a crash later makes the trash younger, not older */
        qsort(trash.pieces, trash.count, sizeof *trash.pieces, oldest_first);
        empty(&trash, config);
    }
    free(trash.pieces);
}
