/* The catalogue: users and tokens (server/store/users.h), jobs, their logs, references, studies
 * (server/store/studies.h), in STATE/barkerd.db; and the writer thread, which makes all changes on disk (also of job files,
 * server/store/jobfile.h).
 *
 * A function that changes something returns when the change is on disk (group commit: all
 * operations that arrive during a commit share the next one) and may be called from any thread that
 * may block: never from an HTTP thread. A function that reads may be called from any thread and
 * uses a pooled read-only connection. */
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
    /* Quotas of users who have none of their own; 0: without limit. Both are checked in the
     * transaction of the change that they concern. */
    uint64_t user_active_jobs, user_stored_bytes;
    /* Limits for every user, enforced by the store; 0: without limit. */
    uint64_t user_jobs, user_references, user_studies;
    /* Disk space for the copies that jobfile_copy_open makes, half of it for one user; 0: whatever
     * is free. */
    uint64_t copy_bytes;
};

/* Opens or creates, migrates (schema/migrations, compiled in), checks (quick_check; integrity_check
 * after an unclean stop), locks the directory against a second daemon (ERR_CONFLICT). */
enum err store_open(struct store **out, const struct store_config *config, struct err_info *info);
/* Finishes the queued operations, checkpoints, closes. */
void store_close(struct store *store);
/* Waits for the commit that is under way, until this monotonic time at most, and lets no other
 * begin: the process is about to end with threads that still use the store. Operations still in the
 * queue get no answer. */
void store_settle(struct store *store, uint64_t until_mono_ms);

/* True once a sync failed or damage was found: nothing is acknowledged any more and the daemon must
 * end with a failure. `why` has room for 200 bytes, or is NULL. */
bool store_broken(struct store *store, char *why);

/* How long stores of this directory have been open, in all: a clock that follows no change of the
 * wall clock, for how long jobs stay in the trash. */
uint64_t store_uptime_ms(const struct store *store);
/* Writes it to disk, as store_close does; a crash loses the time since. */
enum err store_uptime_save(struct store *store, struct err_info *info);

/* ---- jobs ---- */

/* Room that a change needs in the disk quota of the job's owner. */
struct store_room {
    uint64_t bytes;     /* beyond what is stored now */
    uint64_t uncounted; /* of unfinished jobs, stored but not in the catalogue yet */
};

/* What a submission has beside the row. */
struct store_claim {
    const char *key;           /* idempotency key; NULL: none */
    const unsigned char *hash; /* of the body: 32 bytes */
    struct store_room room;
};

/* Inserts job and its first log line in one transaction with its idempotency key (claim NULL: no key,
 * and no bytes are needed). When (owner, key) exists already:
 *
 *     same body hash   ERR_OK, *existing is set and row->id is the id of the first job
 *     another hash     ERR_INVALID
 *
 * ERR_QUOTA when the owner may not have one more unfinished job, one more job at all, or
 * so many more bytes. */
enum err store_job_create(struct store *store, struct job_row *row, const struct store_claim *claim,
                          bool *existing, struct err_info *info);
/* The job that this owner has submitted under this key, ERR_NOT_FOUND when there is none,
 * ERR_INVALID when it had another body. */
enum err store_job_by_key(struct store *store, const char *owner, const char *idempotency_key,
                          const unsigned char body_hash[32], char id[JOB_ID_SIZE],
                          struct err_info *info);
/* ERR_NOT_FOUND for unknown and for deleted jobs. */
enum err store_job_get(struct store *store, const char *id, struct job_row *row,
                       struct err_info *info);
/* ERR_NOT_FOUND for those that are not in the trash. */
enum err store_job_get_trashed(struct store *store, const char *id, struct job_row *row,
                               struct err_info *info);

/* Writes the columns of `fields` (bits of enum job_set). The revision grows by one and `log` (NULL:
 * none; every line of it an entry) is appended to the job's log in the same transaction. ERR_QUOTA
 * when a job that had ended would be one unfinished job too many. On success row->revision is the
 * new revision.
 *
 * JOB_SET_DELETED with deleted_ms 0 restores a job: ERR_NOT_FOUND unless it is in the trash. Every
 * other change is for jobs outside of the trash: ERR_NOT_FOUND for one that is in it by now.
 * JOB_IF_UNCHANGED: ERR_CONFLICT when the job has another revision than the row. */
enum err store_job_update(struct store *store, struct job_row *row, unsigned fields,
                          const char *log, struct err_info *info);
/* The same for a change that makes the job store more, or count again: ERR_QUOTA, and no change,
 * when its owner would have more bytes than allowed. room NULL: as store_job_update. */
enum err store_job_admit(struct store *store, struct job_row *row, unsigned fields, const char *log,
                         const struct store_room *room, struct err_info *info);
/* Removes the row, its log and its file for good if the job's deleted_ms is still what the caller saw
 * (0: it is not in the trash); ERR_CONFLICT, and nothing is removed, when it is not. */
enum err store_job_purge(struct store *store, const char *id, uint64_t deleted_ms,
                         struct err_info *info);

struct job_filter {
    const char *viewer; /* sees own jobs and those of visibility lab; NULL: all (admin) */
    const char *owner;  /* NULL: any that the viewer may see */
    const char *state, *model, *sampler, *tag; /* NULL: any */
    const char *q;      /* substring of the name or id, without regard to case */
    const char *before; /* cursor: only jobs older than this id (exclusive) */
    const char *study;  /* only jobs of this study */
    bool listed;        /* only jobs that belong to no study; needless with `study` */
    bool active;        /* only states that are not terminal */
    bool deleted;       /* the trash instead */
    size_t limit;       /* 0: all */
};
/* Newest first. `each` returns false to stop. So many rows are in memory at a time. */
#define STORE_JOBS_READ 16
enum err store_jobs(struct store *store, const struct job_filter *filter,
                    bool (*each)(void *ctx, const struct job_row *row), void *ctx,
                    struct err_info *info);
/* Use and quotas of one owner: jobs that are not deleted, and references. */
struct owner_totals {
    uint64_t active_jobs, references;
    uint64_t stored_bytes;                        /* of both */
    uint64_t most_active_jobs, most_stored_bytes; /* UINT64_MAX: without limit */
};
/* Grows with every commit to the catalogue, from 1 on: as long as it is the same, what was read is
 * still valid. */
uint64_t store_changes(const struct store *store);
enum err store_owner_totals(struct store *store, const char *owner, struct owner_totals *out,
                            struct err_info *info);

enum err store_log_add(struct store *store, const char *job, const char *text,
                       struct err_info *info);
enum err store_log(struct store *store, const char *job, uint64_t after, size_t limit,
                   bool (*each)(void *ctx, uint64_t seq, uint64_t at_ms, const char *text),
                   void *ctx, struct err_info *info);

/* ---- reference posteriors: JSON documents by (owner, name) ----
 *
 * Where a reference is looked for, "owner/name" is that one, and a plain name the viewer's own or
 * else the only one of that name that is visible to the lab. */

#define REFERENCE_DOCUMENT_MAX ((size_t)16 << 20) /* the largest text that the store takes */

struct reference_row {
    char name[65];
    char owner[USER_NAME_SIZE];
    bool lab;
    uint64_t created_ms;
    char *document; /* NULL in lists */
    uint64_t
        more_bytes; /* for store_reference_put: of the owner's jobs, not in the catalogue yet */
};
/* ERR_QUOTA beyond the owner's bytes or number of references, ERR_NO_SPACE when the disk is nearly
 * full, ERR_CONFLICT when it would be the second one of that name in the lab. */
enum err store_reference_put(struct store *store, const struct reference_row *ref,
                             struct err_info *info);
/* ERR_CONFLICT when the name is ambiguous; the message lists the candidates. *ref is released with
 * free(ref->document). */
enum err store_reference_get(struct store *store, const char *viewer, const char *name,
                             struct reference_row *ref, struct err_info *info);
enum err store_reference_delete(struct store *store, const char *owner, const char *name,
                                struct err_info *info);
enum err store_references(struct store *store, const char *viewer,
                          bool (*each)(void *ctx, const struct reference_row *ref), void *ctx,
                          struct err_info *info);

/* ---- backups, checks, figures ---- */

/* A consistent copy of the catalogue and of every job file of the state directory, whose daemon may
 * be running, into the new directory `path`, which can serve as a state directory; synced and
 * checked. A job file that is damaged or cannot be read is left out: `skipped` (may be NULL) is
 * called with each, and the reason. ERR_CONFLICT when `path` exists. */
enum err store_backup_directory(const char *directory, const char *path,
                                void (*skipped)(void *ctx, const char *job, const char *why),
                                void *ctx, struct err_info *info);
/* integrity_check and foreign_key_check of the catalogue and all job files; calls `each` per
 * problem. */
enum err store_check(struct store *store, void (*each)(void *ctx, const char *problem), void *ctx,
                     struct err_info *info);

struct store_stats {
    uint64_t commits, operations; /* group commits and what they carried */
    uint64_t wal_bytes, file_bytes, free_bytes;
    uint64_t copy_bytes;   /* reserved for copies that are being downloaded */
    double commit_seconds; /* sum */
    uint64_t queue;        /* operations waiting */
};
void store_stats(struct store *store, struct store_stats *out);

#endif
