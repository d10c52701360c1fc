/* Private to store*.c: use and quotas of users, within a transaction of the writer. */
#ifndef BARKER_SERVER_STORE_QUOTA_H
#define BARKER_SERVER_STORE_QUOTA_H

#include "server/store/internal.h"

/* ERR_QUOTA when the owner may not have so many more jobs, in any state and the trash included. The
 * caller adds them. */
enum err store_check_jobs(struct store *store, struct db *db, const char *owner, size_t more,
                          struct err_info *info);
/* ERR_QUOTA when the owner may not have one more study under way. */
enum err store_check_under_way(struct db *db, const char *owner, struct err_info *info);
void store_job_counts_free(struct store *store);

/* store_owner_totals within a transaction. */
enum err store_read_totals(const struct store *store, struct db *db, const char *owner,
                           struct owner_totals *out, struct err_info *info);
/* Within the transaction that changes what the owner's jobs outside of the trash store. */
enum err store_count_bytes(struct db *db, const char *owner, uint64_t before, uint64_t after,
                           struct err_info *info);
/* The share of references: sets their number and adds their bytes. */
enum err store_reference_totals(struct db *db, const char *owner, struct owner_totals *out,
                                struct err_info *info);
/* The number that a statement with one parameter, the owner, gives. */
enum err store_read_count(struct db *db, const char *sql, const char *owner, uint64_t *out,
                          struct err_info *info);

#endif
