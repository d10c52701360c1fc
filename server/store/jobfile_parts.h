/* Private to jobfile*.c: how a job file is laid out, and what a reader holds. */
#ifndef BARKER_SERVER_STORE_JOBFILE_PARTS_H
#define BARKER_SERVER_STORE_JOBFILE_PARTS_H

#include "server/store/jobfile.h"
#include "server/store/internal.h"

/* A tile is at most 256 KiB: 16 pages, which one read covers. A read of one column reads, of every
 * piece, the pages up to it: with 128 columns a commit of 20 draws of a wide job gives pieces of
 * two pages. Wider blocks have longer pieces, narrower ones more rows to insert. */
enum { TILE_VALUES = 32768, TILE_COLUMNS = 128, TILE_DRAWS = 8192 };
enum { TILE_COLUMNS_MOST = 512 }; /* in files of older versions */

struct jobfile_layout {
    struct jobfile_info info;
    size_t tile_draws, tile_columns;
};

/* The numbers in `meta`: key, member of the layout, whether files of all versions have it. */
#define JOBFILE_NUMBERS(X)              \
    X(width, info.width, true)          \
    X(d, info.d, true)                  \
    X(chains, info.chains, true)        \
    X(thin, info.thin, true)            \
    X(warmup, info.warmup, true)        \
    X(tile_draws, tile_draws, true)     \
    X(tile_columns, tile_columns, true) \
    X(rows, info.N, false)

struct jobfile {
    struct store *store;
    char job[JOB_ID_SIZE];
    struct db *db;
    struct jobfile_layout layout;
    uint64_t purges;              /* of the store, when it was opened */
    char **names, **metric_names; /* NULL until first used */
    struct jobfile_blocks *blocks;
    double *tile; /* scratch, NULL until needed */
    void *kept;   /* NULL: nothing */
};

/* jobfile.c: ERR_INVALID unless `count` of `what` from `first` on are stored. */
enum err jobfile_check_range(const char *what, uint32_t chain, uint64_t first, size_t count,
                             uint64_t stored, struct err_info *info);

/* jobfile_names.c: the text of meta.blocks, malloc'd; NULL: no memory. */
char *jobfile_blocks_write(const struct model_block *blocks, size_t count);
void jobfile_blocks_free(struct jobfile_blocks *blocks);

struct jobfile_layout jobfile_layout_choose(const struct jobfile_meta *meta);
/* ERR_CORRUPT when the numbers are out of range. */
enum err jobfile_layout_read(struct db *db, struct jobfile_layout *out, struct err_info *info);
size_t jobfile_blocks(const struct jobfile_layout *layout);
/* Columns of one block. */
size_t jobfile_block_columns(const struct jobfile_layout *layout, size_t block);

/* A chain as stored; all zero when it has no slice yet. */
struct jobfile_progress {
    struct jobfile_chain chain;
    uint64_t packed;
};
enum err jobfile_progress_read(struct db *db, uint32_t chain, struct jobfile_progress *out,
                               struct err_info *info);

/* jobfile_long.c: a value of any size, whose first bytes are in a table of its own. */
struct jobfile_long {
    const char *head; /* SQL that reads them; ?1 is the key */
    int64_t key;
    char name[24]; /* of its parts */
};
struct jobfile_long jobfile_long_plan(void);
struct jobfile_long jobfile_long_state(uint32_t chain);
/* How many bytes of a value its own table holds. */
size_t jobfile_long_head(size_t size);
/* The rest of it, within the transaction that writes the head. */
enum err jobfile_long_write(struct db *db, const struct jobfile_long *value, const void *bytes,
                            size_t size, struct err_info *info);
/* All of it, within a transaction. *bytes is malloc'd; NULL: there is no such value. */
enum err jobfile_long_read(struct db *db, const struct jobfile_long *value, void **bytes,
                           size_t *size, struct err_info *info);

/* ERR_NOT_FOUND when the file was not created completely, ERR_UNSUPPORTED when it is newer than
 * this program. A writer migrates an older file; a reader does not. */
#define JOBFILE_WITH_HISTORY 2 /* the version that has history and checks */
#define JOBFILE_WITH_PARTS   3 /* the version that has parts of long values */
enum err jobfile_version_check(struct db *db, const char *job, bool writer, struct err_info *info);

#endif
