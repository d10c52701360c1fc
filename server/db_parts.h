/* Private to db*.c and query.c: what a connection is made of. */
#ifndef BARKER_SERVER_DB_PARTS_H
#define BARKER_SERVER_DB_PARTS_H

#include "server/db.h"

#include <sqlite3.h>

#define DB_STATEMENTS 64 /* different statements on one connection */

struct db {
    sqlite3 *handle;
    enum db_role role;
    enum db_health health;
    char label[48];
    size_t page_size;
    size_t wal_pages;       /* in the WAL as of the last commit */
    size_t checkpoint_at;   /* the WAL size, in pages, that calls for the next checkpoint */
    struct db_mover *mover; /* NULL: there was nothing to do for it yet */
    size_t statement_count;
    struct db_statement {
        const char *sql;
        sqlite3_stmt *stmt;
        bool busy;
    } statements[DB_STATEMENTS];
};

/* In the WAL, before it is worth a checkpoint; as many bytes as a cache may keep until then. */
static inline size_t db_checkpoint_pages(const struct db *db)
{
    size_t most = ((size_t)16 << 20) / (db->page_size > 0 ? db->page_size : 4096);
    return most < 1000 ? most : 1000;
}

/* A checkpoint, now and here. True when nothing is left in the WAL to move. */
bool db_move_now(struct db *db, int mode);

/* Begins one that runs beside the writer, unless it is under way; false when there are no means for
 * it. Hear of it, if it is done; wait for it; have it stopped if nobody wants it any more. Whoever
 * hears of it has its health. db_settle ends it. */
bool db_move_begin(struct db *db);
void db_move_hear(struct db *db);
void db_move_wait(struct db *db);
void db_move_stop(struct db *db);

/* The one place where SQLite's codes become ours; also notes what makes the file unfit. */
enum err db_fail(struct db *db, int rc, struct err_info *info);

/* The same for a failure to prepare one of our statements: the file then lacks the tables that its
 * version says it has, which only damage explains. */
enum err db_fail_schema(struct db *db, int rc, struct err_info *info);

#endif
