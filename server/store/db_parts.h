/* Private to db*.c and query.c: what a connection is made of. */
#ifndef BARKER_SERVER_STORE_DB_PARTS_H
#define BARKER_SERVER_STORE_DB_PARTS_H

#include "server/store/db.h"

#include <sqlite3.h>

#define DB_STATEMENTS 128 /* different statements on one connection */

struct db {
    sqlite3 *handle;
    enum db_role role;
    enum db_health health;
    char label[48];
    size_t page_size;
    size_t wal_pages;     /* in the WAL as of the last commit */
    size_t checkpoint_at; /* the WAL size, in pages, that calls for the next checkpoint */
    bool longer;          /* the file is longer than the database, until a complete checkpoint */
    size_t statement_count;
    struct db_statement {
        const char *sql;
        sqlite3_stmt *stmt;
        bool busy;
    } statements[DB_STATEMENTS];
};

/* Size of the WAL that is worth a checkpoint; until then a cache may keep as many bytes. */
static inline size_t db_checkpoint_pages(const struct db *db)
{
    size_t most = ((size_t)16 << 20) / (db->page_size > 0 ? db->page_size : 4096);
    return most < 1000 ? most : 1000;
}

/* The only place that maps SQLite's codes to enum err; also notes failures after which the file
 * must not be written. */
enum err db_fail(struct db *db, int rc, struct err_info *info);

/* The same for a failure to prepare one of our statements: the file then lacks tables that its
 * version has: it is damaged. */
enum err db_fail_schema(struct db *db, int rc, struct err_info *info);

#endif
