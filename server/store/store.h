/* The catalogue: users, tokens, jobs, their logs, references and studies, in STATE/barkerd.db; and
 * the one writer thread through which everything that changes on disk goes (also the job files,
 * server/store/jobfile.h).
 *
 * A function that changes something returns when the change is on disk (group commit: whatever
 * arrives while a commit is under way shares the next one) and may be called from any thread that
 * may wait: never from an HTTP thread. A function that reads may be called from any thread and uses
 * a pooled read-only connection. */
#ifndef BARKER_SERVER_STORE_STORE_H
#define BARKER_SERVER_STORE_STORE_H

#include "core/base/err.h"
#include "server/store/job_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct store_config {
    const char *directory;   /* STATE; created 0700 when missing */
    uint64_t min_free_bytes; /* below, job files are not written: ERR_NO_SPACE (512 MiB). 0: no
                              * such limit, and no file STATE/reserve either */
    /* Quotas of users who have none of their own; 0: without limit. That of unfinished jobs is kept
     * by the store itself, also under concurrent submissions; that of bytes by its callers. */
    uint64_t user_active_jobs, user_stored_bytes;
};

/* Opens or creates, migrates (schema/migrations, compiled in), checks (quick_check; integrity_check
 * after an unclean stop), locks the directory against a second daemon (ERR_CONFLICT). */
enum err store_open(struct store **out, const struct store_config *config, struct err_info *info);
/* Finishes what is queued, checkpoints, closes. */
void store_close(struct store *store);

/* True once a sync failed or damage was found: nothing is acknowledged any more and the daemon must
 * end with a failure. `why` has room for 200 bytes, or is NULL. */
bool store_broken(struct store *store, char *why);

/* ---- users and tokens ---- */

bool user_name_valid(const char *name);
enum role { ROLE_VIEWER, ROLE_USER, ROLE_ADMIN };

struct user_row {
    char name[USER_NAME_SIZE];
    enum role role;
    uint64_t created_ms;
    char quotas[512]; /* JSON object of overrides, {"active_jobs": 5, "stored_mb": 100} or "{}" */
    double usage;     /* scheduler: decayed seconds at usage_ms */
    uint64_t usage_ms;
};

struct token_row {
    char id[9]; /* public part */
    char user[USER_NAME_SIZE];
    unsigned char hash[32]; /* SHA-256 of the secret */
    char label[65];
    uint64_t created_ms, expires_ms, revoked_ms, used_ms; /* 0: never */
};

/* Creates the user, or sets its role and quotas when it exists. */
enum err store_user_put(struct store *store, const struct user_row *user, struct err_info *info);
enum err store_user_delete(struct store *store, const char *name, struct err_info *info);
enum err store_users(struct store *store, bool (*each)(void *ctx, const struct user_row *user),
                     void *ctx, struct err_info *info);
/* Only usage and usage_ms of the named users; not worth a sync of its own: goes with the next
 * commit. */
void store_usage_note(struct store *store, const char *user, double usage, uint64_t usage_ms);

enum err store_token_add(struct store *store, const struct token_row *token, struct err_info *info);
enum err store_token_revoke(struct store *store, const char *id, uint64_t now_ms,
                            struct err_info *info);
enum err store_tokens(struct store *store, bool (*each)(void *ctx, const struct token_row *token),
                      void *ctx, struct err_info *info);
void store_token_used(struct store *store, const char *id, uint64_t now_ms); /* lazy, as usage */

/* ---- jobs ---- */

/* Inserts job and its first log line in one transaction with its idempotency key (NULL: none). When
 * (owner, key) exists already:
 *
 *     same body hash   ERR_OK, *existing is set and row->id is the id of the first job
 *     another hash     ERR_INVALID
 *
 * ERR_QUOTA when the owner may not have one more unfinished job. */
enum err store_job_create(struct store *store, struct job_row *row, const char *idempotency_key,
                          const unsigned char body_hash[32], bool *existing, struct err_info *info);
/* The job that this owner has submitted under this key, ERR_NOT_FOUND when there is none,
 * ERR_INVALID when it had another body. */
enum err store_job_by_key(struct store *store, const char *owner, const char *idempotency_key,
                          const unsigned char body_hash[32], char id[JOB_ID_SIZE],
                          struct err_info *info);
/* ERR_NOT_FOUND for unknown and for deleted jobs. */
enum err store_job_get(struct store *store, const char *id, struct job_row *row,
                       struct err_info *info);

/* Writes the columns of `fields` (bits of enum job_set). The revision grows by one and `log` (NULL:
 * none; every line of it an entry) is appended to the job's log in the same transaction. ERR_QUOTA
 * when a job that had ended would be one unfinished job too many. On success row->revision is the
 * new revision. */
enum err store_job_update(struct store *store, struct job_row *row, unsigned fields,
                          const char *log, struct err_info *info);
/* Removes the row, its log and its file for good. */
enum err store_job_purge(struct store *store, const char *id, struct err_info *info);

struct job_filter {
    const char *viewer; /* sees own jobs and those of visibility lab; NULL: all (admin) */
    const char *owner;  /* NULL: any that the viewer may see */
    const char *state, *model, *sampler, *tag; /* NULL: any */
    const char *q;      /* substring of the name or id, without regard to case */
    const char *before; /* cursor: only jobs older than this id (exclusive) */
    bool active;        /* only states that are not terminal */
    bool deleted;       /* the trash instead */
    size_t limit;       /* 0: all */
};
/* Newest first. `each` returns false to stop. */
enum err store_jobs(struct store *store, const struct job_filter *filter,
                    bool (*each)(void *ctx, const struct job_row *row), void *ctx,
                    struct err_info *info);
/* What one owner has in jobs that are not deleted, and may have. */
struct owner_totals {
    uint64_t active_jobs, stored_bytes;
    uint64_t most_active_jobs, most_stored_bytes; /* UINT64_MAX: without limit */
};
enum err store_owner_totals(struct store *store, const char *owner, struct owner_totals *out,
                            struct err_info *info);

enum err store_log_add(struct store *store, const char *job, const char *text,
                       struct err_info *info);
enum err store_log(struct store *store, const char *job, uint64_t after, size_t limit,
                   bool (*each)(void *ctx, uint64_t seq, uint64_t at_ms, const char *text),
                   void *ctx, struct err_info *info);

/* ---- reference posteriors: JSON documents by (owner, name) ---- */

struct reference_row {
    char name[65];
    char owner[USER_NAME_SIZE];
    bool lab;
    uint64_t created_ms;
    char *document; /* NULL in lists */
};
enum err store_reference_put(struct store *store, const struct reference_row *ref,
                             struct err_info *info);
/* The viewer's own, or one that is visible to the lab. *ref is released with free(ref->document).
 */
enum err store_reference_get(struct store *store, const char *viewer, const char *name,
                             struct reference_row *ref, struct err_info *info);
enum err store_reference_delete(struct store *store, const char *owner, const char *name,
                                struct err_info *info);
enum err store_references(struct store *store, const char *viewer,
                          bool (*each)(void *ctx, const struct reference_row *ref), void *ctx,
                          struct err_info *info);

/* ---- studies: several jobs as one question ---- */

#define STUDY_JOBS_MAX 64

struct study_member {
    char job[JOB_ID_SIZE];
    char *setting; /* JSON object text: what sets this job apart */
};

/* As struct job_row: released with study_row_release when it was read, borrowed for writing. */
struct study_row {
    char id[JOB_ID_SIZE]; /* made like a job's */
    char owner[USER_NAME_SIZE];
    uint64_t created_ms;
    char *kind, *name;
    char *request; /* JSON text */
    struct study_member *members;
    size_t member_count;
};
void study_row_release(struct study_row *row);

/* Inserts the study, its members and the `count` new jobs among them with their first log lines in
 * one transaction: all or nothing. ERR_CONFLICT when a member that is not new is not there any
 * more. The idempotency key as in store_job_create. */
enum err store_study_create(struct store *store, struct study_row *row, struct job_row *jobs,
                            size_t count, const char *idempotency_key,
                            const unsigned char body_hash[32], bool *existing,
                            struct err_info *info);
enum err store_study_by_key(struct store *store, const char *owner, const char *idempotency_key,
                            const unsigned char body_hash[32], char id[JOB_ID_SIZE],
                            struct err_info *info);
/* ERR_NOT_FOUND also when the viewer (NULL: all) neither owns it nor may see all of its jobs. */
enum err store_study_get(struct store *store, const char *viewer, const char *id,
                         struct study_row *row, struct err_info *info);
/* The study alone: its jobs stay. */
enum err store_study_delete(struct store *store, const char *id, struct err_info *info);

struct study_filter {
    const char *viewer; /* as in store_study_get */
    const char *owner, *kind;
    const char *job;    /* only studies with this job */
    const char *before; /* cursor: only studies older than this id */
    size_t limit;
};
/* Newest first, at most `limit`. `each` returns false to stop. */
enum err store_studies(struct store *store, const struct study_filter *filter,
                       bool (*each)(void *ctx, const struct study_row *row), void *ctx,
                       struct err_info *info);

/* ---- backups, checks, figures ---- */

/* A consistent copy of the catalogue and of every job file of the state directory, whose daemon may
 * be running, into the new directory `path`, which can serve as a state directory; synced and
 * checked. ERR_CONFLICT when `path` exists. */
enum err store_backup_directory(const char *directory, const char *path, struct err_info *info);
/* integrity_check and foreign_key_check of the catalogue and all job files; calls `each` per
 * problem. */
enum err store_check(struct store *store, void (*each)(void *ctx, const char *problem), void *ctx,
                     struct err_info *info);

struct store_stats {
    uint64_t commits, operations; /* group commits and what they carried */
    uint64_t wal_bytes, file_bytes, free_bytes;
    double commit_seconds; /* sum */
    uint64_t queue;        /* operations waiting */
};
void store_stats(struct store *store, struct store_stats *out);

#endif
