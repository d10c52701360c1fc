/* Idempotency keys: a submission that is repeated with the same key returns the first job or
 * study. */
#include "server/store/internal.h"

#include <string.h>

struct idempotency_key idempotency_of(enum idempotency_kind of, const char *owner,
                                      const struct store_claim *claim)
{
    return (struct idempotency_key){.of = of,
                                    .owner = owner,
                                    .key = claim != NULL ? claim->key : NULL,
                                    .hash = claim != NULL ? claim->hash : NULL};
}

enum err idempotency_find(struct db *db, const struct idempotency_key *k,
                          struct idempotency_match *out, struct err_info *info)
{
    static const char *const sql[] = {
        [IDEMPOTENCY_JOB] = "SELECT id, body_hash FROM job WHERE owner = ? AND idempotency_key = ?",
        [IDEMPOTENCY_STUDY] =
            "SELECT id, body_hash FROM study WHERE owner = ? AND idempotency_key = ?"};
    struct query q;
    bool same = true;
    *out = (struct idempotency_match){0};
    if (k->key == NULL)
        return ERR_OK;
    query_open(&q, db, sql[k->of]);
    query_text(&q, k->owner);
    query_text(&q, k->key);
    if (query_next(&q)) {
        size_t size;
        const void *hash = query_get_blob(&q, 1, &size);
        same = size == 32 && memcmp(hash, k->hash, size) == 0;
        out->found = true;
        query_copy_text(&q, 0, out->id, sizeof out->id);
    }
    enum err code = query_close(&q, info);
    if (code == ERR_OK && !same)
        code = err_set(info, ERR_INVALID,
                       "the idempotency key \"%.60s\" belongs to %s %s, which was submitted with "
                       "another body",
                       k->key, k->of == IDEMPOTENCY_JOB ? "job" : "study", out->id);
    return code;
}

enum err idempotency_read(struct store *store, const struct idempotency_key *k,
                          char id[JOB_ID_SIZE], struct err_info *info)
{
    struct db *db;
    struct idempotency_match earlier;
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    code = idempotency_find(db, k, &earlier, info);
    store_reader_give(store, db);
    if (code == ERR_OK && !earlier.found)
        code = err_set(info, ERR_NOT_FOUND, "nothing was submitted under this key");
    memcpy(id, earlier.id, sizeof earlier.id);
    return code;
}
