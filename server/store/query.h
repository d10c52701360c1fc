/* One use of a prepared statement.
 *
 *     struct query q;
 *     query_open(&q, db, "SELECT name FROM job WHERE id = ?");
 *     query_text(&q, id);
 *     while (query_next(&q))
 *         ... query_get_text(&q, 0) ...
 *     return query_close(&q, info);
 *
 * The first failure sticks: later calls do nothing, query_next returns false and query_close
 * returns the error. Statements are cached per connection by the address of their text, which must
 * therefore be a literal. Values are bound in order and borrowed until query_close. */
#ifndef BARKER_SERVER_STORE_QUERY_H
#define BARKER_SERVER_STORE_QUERY_H

#include "server/store/db.h"

struct query {
    struct db *db;
    struct sqlite3_stmt *stmt;
    bool *busy; /* the statement is in use */
    int bound, rc;
};

void query_open(struct query *q, struct db *db, const char *sql);
/* Ends the use. Must be called also after failures. */
enum err query_close(struct query *q, struct err_info *info);
/* Runs to the end and closes. */
enum err query_run(struct query *q, struct err_info *info);

void query_int(struct query *q, int64_t value);
void query_count(struct query *q, uint64_t value);
void query_real(struct query *q, double value);      /* NaN is stored as NULL */
void query_text(struct query *q, const char *value); /* NULL is NULL */
void query_blob(struct query *q, const void *bytes, size_t size);

/* Steps to the next row; false at the end and after a failure. */
bool query_next(struct query *q);

int64_t query_get_int(const struct query *q, int column);
uint64_t query_get_count(const struct query *q, int column);
double query_get_real(const struct query *q, int column); /* NULL is NaN */
const char *query_get_text(struct query *q, int column);  /* never NULL; until the next step */
const void *query_get_blob(struct query *q, int column, size_t *size);
/* Copies, cut to fit. */
void query_copy_text(struct query *q, int column, char *out, size_t size);
/* malloc'd copy, NULL for NULL; running out of memory is a failure of the query. */
char *query_dup_text(struct query *q, int column);

/* Rows that the last statement inserted, changed or deleted. */
uint64_t query_changes(struct db *db);

/* Parts of blobs of one table and column, row after row. Within a transaction. */
struct blob_reader {
    struct db *db;
    const char *table, *column;
    struct sqlite3_blob *blob;
};
void blob_reader_init(struct blob_reader *reader, struct db *db, const char *table,
                      const char *column);
void blob_reader_release(struct blob_reader *reader);
enum err blob_reader_row(struct blob_reader *reader, int64_t rowid, size_t *size,
                         struct err_info *info);
enum err blob_reader_read(struct blob_reader *reader, size_t offset, void *out, size_t size,
                          struct err_info *info);

#endif
