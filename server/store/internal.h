/* Private to store*.c and jobfile*.c: the store's parts and how an operation reaches the writer
 * thread. See writer.c for how operations become transactions. */
#ifndef BARKER_SERVER_STORE_INTERNAL_H
#define BARKER_SERVER_STORE_INTERNAL_H

#include "server/base/permit.h"
#include "server/store/query.h"
#include "server/store/store.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    STORE_FILES = 32,            /* job files that the writer keeps open */
    STORE_IDLE_READERS = 16,     /* catalogue connections kept for the next reader */
    STORE_IDLE_JOBFILES = 32,    /* the same for job files */
    STORE_GROUP = 256,           /* operations in one transaction */
    STORE_GROUP_BYTES = 8 << 20, /* bytes after which a transaction is committed */
    STORE_PATH_SIZE = 4096
};

enum write_kind {
    WRITE_CATALOGUE, /* within a transaction of the catalogue, shared with others */
    WRITE_FILE,      /* the same for the file of `job` */
    WRITE_ALONE,     /* on the writer thread, without a transaction */
    WRITE_STEPS      /* the same, repeated while `again` is set, with other operations in between */
};

/* One operation, in the storage of the caller that waits for it. `run` may be called again after a
 * rollback, so it must not change its input. */
struct write {
    enum write_kind kind;
    const char *job;
    enum err (*run)(struct store *store, struct db *db, void *ctx, struct err_info *info);
    void *ctx;
    bool again;                  /* set by `run` */
    size_t bytes;                /* set by `run`: about how many bytes it wrote, if many */
    const struct permit *permit; /* what the caller needs for it */

    struct write *next;
    bool done;
    enum err code;
    struct err_info info;
    pthread_cond_t finished;
};

struct write_list {
    struct write *head, **tail;
    size_t count;
};

/* A value that need not be on disk at once: the latest one per key, written with the next
 * commit. */
struct store_note {
    enum { NOTE_USAGE, NOTE_TOKEN } kind;
    char key[USER_NAME_SIZE]; /* user name or token id */
    double usage;
    uint64_t at_ms;
    struct store_note *next;
};

/* A job file that the writer has open. */
struct store_file {
    char job[JOB_ID_SIZE];
    struct db *db; /* NULL: a free entry */
    uint64_t used_ms;
    unsigned pins; /* copies under way */
};

/* How large an open job file is, for any thread; see store_file_bytes. */
struct store_size {
    char job[JOB_ID_SIZE]; /* "": a free entry */
    uint64_t bytes;
};

struct jobfile;

struct store {
    char directory[STORE_PATH_SIZE]; /* absolute, without symbolic links */
    uint64_t min_free_bytes;
    uint64_t user_active_jobs, user_stored_bytes;      /* UINT64_MAX: without limit */
    uint64_t user_jobs, user_references, user_studies; /* likewise */
    struct budget *copies;
    int lock_fd, draws_fd;
    uint64_t uptime_ms, opened_ms; /* ms of earlier daemons; monotonic time of the opening */
    pthread_t thread;

    pthread_mutex_t commit_lock; /* held by the writer while it writes; before `lock` */
    pthread_mutex_t lock;        /* guards what follows; no other lock is taken under it */
    pthread_cond_t wake;
    struct write_list catalogue, files;
    bool files_next; /* the catalogue had its turn */
    struct store_note *notes;
    uint64_t notes_since_ms;
    bool closing, broken;
    char why[200];
    struct store_stats stats;
    struct store_size sizes[STORE_FILES]; /* of `open` */
    atomic_uint_fast64_t changes;         /* see store_changes */

    /* Used by the writer thread only. */
    struct db *db;
    struct store_file open[STORE_FILES];
    char (*unsealed)[JOB_ID_SIZE]; /* files with a WAL left by a crash */
    size_t unsealed_count;
    bool reserve; /* the file is there, see store_reserve_release */
    uint64_t next_maintenance_ms;
    bool worked; /* since the last maintenance */
    struct store_job_count *job_counts;

    pthread_mutex_t pool_lock; /* guards the idle readers */
    struct db *idle[STORE_IDLE_READERS];
    size_t idle_count;
    struct jobfile *idle_jobfiles[STORE_IDLE_JOBFILES]; /* the longest idle first */
    size_t idle_jobfile_count;
    uint64_t purges; /* job files removed so far */
};

/* ---- writing ---- */

/* Queues the operation and waits for it. Called by any thread but the writer. */
enum err store_write(struct store *store, struct write *write, struct err_info *info);
enum err store_write_catalogue(struct store *store,
                               enum err (*run)(struct store *store, struct db *db, void *ctx,
                                               struct err_info *info),
                               void *ctx, struct err_info *info);

enum err store_writer_start(struct store *store, struct err_info *info);
/* Finishes the queued operations and ends the thread. */
void store_writer_stop(struct store *store);

/* ERR_UNAVAILABLE once the store is broken or being closed. */
enum err store_stopping(struct store *store, struct err_info *info);

/* The rest of this part is for the writer thread. */

/* The open job file, opened when it is not open yet; or made, with such pages. */
enum err store_file_get(struct store *store, const char *job, struct store_file **out,
                        struct err_info *info);
enum err store_file_make(struct store *store, const char *job, enum db_pages pages,
                         struct store_file **out, struct err_info *info);
bool store_file_pinned(struct store *store, const char *job);
/* Closes the file, if it is open, before its removal. */
void store_file_drop(struct store *store, const char *job);
/* Closes all files, sealed as far as possible. */
void store_files_close(struct store *store);
/* Closes files that were idle for a while. */
void store_files_maintain(struct store *store, uint64_t now_ms);
bool store_files_open(const struct store *store);
uint64_t store_files_wal_bytes(const struct store *store);
/* ERR_NO_SPACE when less than min_free_mb is free. */
enum err store_check_room(struct store *store, struct err_info *info);
/* After a transaction, before its callers continue: updates the size of the file. */
void store_file_measure(struct store *store, const struct store_file *file);
/* After that: a checkpoint if one is due. */
void store_file_written(struct store *store, struct store_file *file);

/* Marks the store as broken if the database is. `fatal`: also when it is only damaged. */
void store_note_health(struct store *store, struct db *db, bool fatal);
void store_break(struct store *store, const char *why);
#define STORE_DAMAGED "the catalogue is damaged; restore it from a backup"

/* The size of an open file once its WAL is checkpointed, for any thread; 0 when it
 * is not open. */
uint64_t store_file_bytes(struct store *store, const char *job);

/* idempotency.c: whether an owner has submitted something under an idempotency key before. */
enum idempotency_kind { IDEMPOTENCY_JOB, IDEMPOTENCY_STUDY };
struct idempotency_key {
    enum idempotency_kind of;
    const char *owner, *key;   /* key NULL: none was given */
    const unsigned char *hash; /* of the body: 32 bytes */
};
struct idempotency_match {
    bool found;
    char id[JOB_ID_SIZE];
};
struct idempotency_key idempotency_of(enum idempotency_kind of, const char *owner,
                                      const struct store_claim *claim);
/* ERR_INVALID when it was submitted with another body. */
enum err idempotency_find(struct db *db, const struct idempotency_key *key,
                          struct idempotency_match *out, struct err_info *info);
/* The same by any thread; ERR_NOT_FOUND when there is nothing. */
enum err idempotency_read(struct store *store, const struct idempotency_key *key,
                          char id[JOB_ID_SIZE], struct err_info *info);

/* Inserts a job and its first log line within a transaction. */
enum err store_job_insert(struct db *db, const struct job_row *row, const char *log,
                          struct err_info *info);
/* Within a transaction: ERR_QUOTA when the owner may not have so many more unfinished jobs. */
enum err store_check_active(struct store *store, struct db *db, const char *owner, size_t more,
                            struct err_info *info);
/* Within a transaction, after its change: ERR_QUOTA when the owner has no room for what is needed
 * (NULL: nothing). */
enum err store_check_bytes(struct store *store, struct db *db, const char *owner,
                           const struct store_room *room, struct err_info *info);
/* Writes notes within a transaction. */
enum err store_notes_write(struct db *db, const struct store_note *notes, struct err_info *info);

/* ---- reading ---- */

/* job_row.c: the columns of a job's row. */
#define JOB_ROW_NAME(kind, name) ", \"" #name "\""
#define JOB_ROW_SELECT           "id, owner, revision" JOB_COLUMNS(JOB_ROW_NAME)
/* The row that the query is at, made with JOB_ROW_SELECT. ERR_CORRUPT: it holds a value that this
 * program does not know. Released by the caller in either case. */
enum err job_row_read(struct query *q, struct job_row *row, struct err_info *info);
/* With revision 1; `key` may be NULL. */
enum err job_row_insert(struct db *db, const struct job_row *row, const struct idempotency_key *key,
                        struct err_info *info);
/* Writes the columns of `sets` (enum job_set). */
enum err job_row_update(struct db *db, const struct job_row *row, unsigned sets,
                        struct err_info *info);

/* A catalogue connection for one call; give it back after the statements are closed. */
enum err store_reader_take(struct store *store, struct db **out, struct err_info *info);
void store_reader_give(struct store *store, struct db *db);

/* jobfile.c: closes idle readers of a job file, or all of them when job is NULL. */
void jobfile_forget(struct store *store, const char *job);

/* ---- places ---- */

/* STATE/draws/<job>.db; ERR_NOT_FOUND when `job` cannot be an id. */
enum err store_job_path(const struct store *store, const char *job, char out[STORE_PATH_SIZE],
                        struct err_info *info);
uint64_t store_free_bytes(const struct store *store);
/* Removes the file STATE/reserve (64 MiB) so that the last commits have room on a full disk; false
 * when there is none. */
bool store_reserve_release(struct store *store);
/* Creates it again when there is space. */
void store_reserve_restore(struct store *store);
/* Calls `each` with the id of every job file in the open directory. */
enum err store_each_jobfile(int draws_fd, bool (*each)(void *ctx, const char *job), void *ctx,
                            struct err_info *info);

/* A copy of the catalogue (job NULL) or of a job file, made by the writer between commits; not
 * synced yet. */
enum err store_copy(struct store *store, const char *job, const char *path, struct err_info *info);

/* Whether a row, also one in the trash, has this id. */
bool store_in_catalogue(struct db *db, const char *job);

/* jobfile_check.c: rules that SQLite does not check: draws without gaps, blobs of the right
 * size. */
enum err jobfile_check(struct store *store, const char *job,
                       void (*each)(void *ctx, const char *problem), void *ctx,
                       struct err_info *info);

#endif
