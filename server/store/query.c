/* Prepared statements and partial blob reads. */
#include "server/store/query.h"
#include "server/store/db_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct db_statement *statement(struct db *db, const char *sql, int *rc)
{
    for (size_t i = 0; i < db->statement_count; i++)
        if (db->statements[i].sql == sql)
            return &db->statements[i];
    assert(db->statement_count < DB_STATEMENTS);
    struct db_statement *s = &db->statements[db->statement_count];
    *rc = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->stmt, NULL);
    if (*rc != SQLITE_OK)
        return NULL;
    s->sql = sql;
    db->statement_count++;
    return s;
}

void query_open(struct query *q, struct db *db, const char *sql)
{
    *q = (struct query){.db = db, .rc = SQLITE_OK};
    struct db_statement *s = statement(db, sql, &q->rc);
    if (s == NULL)
        return;
    assert(!s->busy);
    s->busy = true;
    q->stmt = s->stmt;
    q->busy = &s->busy;
}

enum err query_close(struct query *q, struct err_info *info)
{
    /* The error is read from the connection, and the reset would clear it. */
    enum err code = ERR_OK;
    if (q->stmt == NULL)
        code = db_fail_schema(q->db, q->rc, info);
    else if (q->rc != SQLITE_OK && q->rc != SQLITE_DONE && q->rc != SQLITE_ROW)
        code = db_fail(q->db, q->rc, info);
    if (q->stmt != NULL) {
        sqlite3_reset(q->stmt);
        sqlite3_clear_bindings(q->stmt);
        *q->busy = false;
        q->stmt = NULL;
    }
    return code;
}

enum err query_run(struct query *q, struct err_info *info)
{
    while (query_next(q)) {
    }
    return query_close(q, info);
}

static bool ready(const struct query *q)
{
    return q->rc == SQLITE_OK;
}

void query_int(struct query *q, int64_t value)
{
    if (ready(q))
        q->rc = sqlite3_bind_int64(q->stmt, ++q->bound, value);
}

void query_count(struct query *q, uint64_t value)
{
    query_int(q, (int64_t)value);
}

void query_real(struct query *q, double value)
{
    if (ready(q))
        q->rc = isnan(value) ? sqlite3_bind_null(q->stmt, ++q->bound)
                             : sqlite3_bind_double(q->stmt, ++q->bound, value);
}

void query_text(struct query *q, const char *value)
{
    if (ready(q))
        q->rc = value == NULL ? sqlite3_bind_null(q->stmt, ++q->bound)
                              : sqlite3_bind_text64(q->stmt, ++q->bound, value, strlen(value),
                                                    SQLITE_STATIC, SQLITE_UTF8);
}

void query_blob(struct query *q, const void *bytes, size_t size)
{
    if (ready(q))
        q->rc = bytes == NULL
                    ? sqlite3_bind_null(q->stmt, ++q->bound)
                    : sqlite3_bind_blob64(q->stmt, ++q->bound, bytes, size, SQLITE_STATIC);
}

bool query_next(struct query *q)
{
    if (q->rc != SQLITE_OK && q->rc != SQLITE_ROW)
        return false;
    q->rc = sqlite3_step(q->stmt);
    return q->rc == SQLITE_ROW;
}

static bool is_null(const struct query *q, int column)
{
    return sqlite3_column_type(q->stmt, column) == SQLITE_NULL;
}

int64_t query_get_int(const struct query *q, int column)
{
    return sqlite3_column_int64(q->stmt, column);
}

uint64_t query_get_count(const struct query *q, int column)
{
    return (uint64_t)query_get_int(q, column);
}

double query_get_real(const struct query *q, int column)
{
    return is_null(q, column) ? (double)NAN : sqlite3_column_double(q->stmt, column);
}

/* SQLite answers with a null pointer both for NULL and when it has no memory to answer. */
static const void *answer(struct query *q, int column, const void *value)
{
    if (value == NULL && !is_null(q, column) && sqlite3_errcode(q->db->handle) == SQLITE_NOMEM)
        q->rc = SQLITE_NOMEM;
    return value;
}

const char *query_get_text(struct query *q, int column)
{
    const char *text = answer(q, column, sqlite3_column_text(q->stmt, column));
    return text != NULL ? text : "";
}

const void *query_get_blob(struct query *q, int column, size_t *size)
{
    const void *bytes = answer(q, column, sqlite3_column_blob(q->stmt, column));
    *size = bytes != NULL ? (size_t)sqlite3_column_bytes(q->stmt, column) : 0;
    return bytes;
}

void query_copy_text(struct query *q, int column, char *out, size_t size)
{
    const char *text = query_get_text(q, column);
    size_t length = strnlen(text, size - 1);
    memcpy(out, text, length);
    out[length] = '\0';
}

char *query_dup_text(struct query *q, int column)
{
    if (is_null(q, column))
        return NULL;
    char *copy = strdup(query_get_text(q, column));
    if (copy == NULL)
        q->rc = SQLITE_NOMEM;
    return copy;
}

uint64_t query_changes(struct db *db)
{
    return (uint64_t)sqlite3_changes64(db->handle);
}

void blob_reader_init(struct blob_reader *reader, struct db *db, const char *table,
                      const char *column)
{
    *reader = (struct blob_reader){.db = db, .table = table, .column = column};
}

void blob_reader_release(struct blob_reader *reader)
{
    sqlite3_blob_close(reader->blob);
    reader->blob = NULL;
}

enum err blob_reader_row(struct blob_reader *reader, int64_t rowid, size_t *size,
                         struct err_info *info)
{
    int rc = reader->blob != NULL ? sqlite3_blob_reopen(reader->blob, rowid)
                                  : sqlite3_blob_open(reader->db->handle, "main", reader->table,
                                                      reader->column, rowid, 0, &reader->blob);
    if (rc != SQLITE_OK) {
        enum err code = db_fail_schema(reader->db, rc, info);
        blob_reader_release(reader);
        return code;
    }
    *size = (size_t)sqlite3_blob_bytes(reader->blob);
    return ERR_OK;
}

enum err blob_reader_read(struct blob_reader *reader, size_t offset, void *out, size_t size,
                          struct err_info *info)
{
    int rc = sqlite3_blob_read(reader->blob, out, (int)size, (int)offset);
    return rc == SQLITE_OK ? ERR_OK : db_fail(reader->db, rc, info);
}
