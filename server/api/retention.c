/* Emptying the trash. */
#include "server/api/retention.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/store/jobfile.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    char id[JOB_ID_SIZE];
    uint64_t deleted_ms, bytes;
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
    piece->bytes = jobfile_bytes(trash->store, row->id);
    return true;
}

static int oldest_first(const void *a, const void *b)
{
    uint64_t x = ((const struct piece *)a)->deleted_ms, y = ((const struct piece *)b)->deleted_ms;
    return x < y ? -1 : x > y;
}

void retention_run(struct store *store, const struct config *config)
{
    struct trash trash = {.store = store};
    struct err_info info;
    struct job_filter filter = {.deleted = true, .limit = SIZE_MAX / 2};
    if (store_jobs(store, &filter, add_piece, &trash, &info) == ERR_OK && trash.count > 0) {
        uint64_t held = 0, now = clock_wall_ms(), keep_ms = (uint64_t)config->trash_hours * 3600000;
        for (size_t i = 0; i < trash.count; i++)
            held += trash.pieces[i].bytes;
        qsort(trash.pieces, trash.count, sizeof *trash.pieces, oldest_first);
        for (size_t i = 0; i < trash.count; i++) {
            const struct piece *piece = &trash.pieces[i];
            bool old = now > piece->deleted_ms + keep_ms,
                 much = held > (uint64_t)config->trash_mb << 20;
            if (!old && !much)
                break;
            if (store_job_purge(store, piece->id, &info) != ERR_OK)
                break;
            held -= piece->bytes;
            log_event(LOG_INFO, "job.purged", "job", piece->id, NULL);
        }
    }
    free(trash.pieces);
}
