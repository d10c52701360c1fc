/* The columns of a job's row as SQL. */
#include "server/store/internal.h"
#include "server/store/users.h"

#include <stdlib.h>

/* Parts of a statement for the columns; each begins with a comma. */
#define VALUE(kind, name)  ", ?"
#define ASSIGN(kind, name) ", \"" #name "\" = ?"

/* ---- writing ---- */

static void bind_state(struct query *q, enum job_state value)
{
    query_text(q, job_state_name(value));
}

static void bind_cause(struct query *q, enum stop_cause value)
{
    query_text(q, stop_cause_name(value));
}

static void bind_mixing(struct query *q, enum mixing_level value)
{
    query_text(q, mixing_level_name(value));
}

static void bind_bias(struct query *q, enum bias_level value)
{
    query_text(q, bias_level_name(value));
}

static void bind_string(struct query *q, const char *value)
{
    query_text(q, value != NULL ? value : "");
}

static void bind_array(struct query *q, const char *value)
{
    query_text(q, value != NULL ? value : "[]");
}

#define bind_text  query_text
#define bind_count query_count
#define bind_int   query_int
#define bind_flag  query_int
#define bind_real  query_real

#define BIND(kind, name) bind_##kind(&q, row->name);

enum err job_row_insert(struct db *db, const struct job_row *row, const struct idempotency_key *key,
                        struct err_info *info)
{
    struct query q;
    bool keyed = key != NULL && key->key != NULL;
    query_open(&q, db,
               "INSERT INTO job (id, owner, revision, idempotency_key, body_hash" JOB_COLUMNS(
                   JOB_ROW_NAME) ") VALUES (?, ?, 1, ?, ?" JOB_COLUMNS(VALUE) ")");
    query_text(&q, row->id);
    query_text(&q, row->owner);
    query_text(&q, keyed ? key->key : NULL);
    query_blob(&q, keyed ? key->hash : NULL, 32);
    JOB_COLUMNS(BIND)
    enum err code = query_run(&q, info);
    if (code == ERR_CONFLICT)
        err_set(info, ERR_CONFLICT, "there is a job %s already", row->id);
    return code;
}

#define G(bit, columns)                                                                           \
    static enum err set_##bit(struct db *db, const struct job_row *row, struct err_info *info)    \
    {                                                                                             \
        struct query q;                                                                           \
        query_open(&q, db, "UPDATE job SET revision = revision" columns(ASSIGN) " WHERE id = ?"); \
        columns(BIND) query_text(&q, row->id);                                                    \
        return query_run(&q, info);                                                               \
    }
JOB_SET_LIST(G)
#undef G

enum err job_row_update(struct db *db, const struct job_row *row, unsigned sets,
                        struct err_info *info)
{
    enum err code = ERR_OK;
#define G(bit, columns)                                \
    if (code == ERR_OK && (sets & JOB_SET_##bit) != 0) \
        code = set_##bit(db, row, info);
    JOB_SET_LIST(G)
#undef G
    return code;
}

/* ---- reading ---- */

static bool read_state(struct query *q, int column, enum job_state *out)
{
    return job_state_parse(query_get_text(q, column), out);
}

static bool read_cause(struct query *q, int column, enum stop_cause *out)
{
    return stop_cause_parse(query_get_text(q, column), out);
}

static bool read_mixing(struct query *q, int column, enum mixing_level *out)
{
    return mixing_level_parse(query_get_text(q, column), out);
}

static bool read_bias(struct query *q, int column, enum bias_level *out)
{
    return bias_level_parse(query_get_text(q, column), out);
}

static bool read_text(struct query *q, int column, char **out)
{
    *out = query_dup_text(q, column); /* out of memory is a failure of the query */
    return true;
}

static bool read_count(struct query *q, int column, uint64_t *out)
{
    *out = query_get_count(q, column);
    return true;
}

static bool read_int(struct query *q, int column, int64_t *out)
{
    *out = query_get_int(q, column);
    return true;
}

static bool read_flag(struct query *q, int column, bool *out)
{
    *out = query_get_int(q, column) != 0;
    return true;
}

static bool read_real(struct query *q, int column, double *out)
{
    *out = query_get_real(q, column);
    return true;
}

#define read_string read_text
#define read_array  read_text

enum err job_row_read(struct query *q, struct job_row *row, struct err_info *info)
{
    int column = 0;
    *row = (struct job_row){0};
    query_copy_text(q, column++, row->id, sizeof row->id);
    query_copy_text(q, column++, row->owner, sizeof row->owner);
    row->revision = query_get_count(q, column++);
    if (!user_name_valid(row->owner))
        return err_set(info, ERR_CORRUPT, "job %s belongs to \"%s\", which is not a user name",
                       row->id, row->owner);
#define X(kind, name)                                                                            \
    if (!read_##kind(q, column++, &row->name))                                                   \
        return err_set(info, ERR_CORRUPT, "job %s has the unknown " #name " \"%.20s\"", row->id, \
                       query_get_text(q, column - 1));
    JOB_COLUMNS(X)
#undef X
    return ERR_OK;
}

#define free_text   free
#define free_string free
#define free_array  free
#define free_state(value)
#define free_cause(value)
#define free_mixing(value)
#define free_bias(value)
#define free_count(value)
#define free_int(value)
#define free_flag(value)
#define free_real(value)

void job_row_release(struct job_row *row)
{
#define X(kind, name) free_##kind(row->name);
    JOB_COLUMNS(X)
#undef X
    *row = (struct job_row){0};
}
