/* The file of one job, STATE/draws/<id>.db: its plan, draws in tiles, running moments and chain
 * states, metrics, the history of its summaries, the checks made at its end.
 *
 * Writing goes through the store's writer thread; one call is one transaction, so that draws,
 * moments and state never disagree. Any thread may read meanwhile; a reader holds no transaction
 * between two calls.
 *
 * Draws of a chain are numbered from 0. A tile holds up to `tile_draws` consecutive draws of up to
 * 128 neighbouring columns, parameter by parameter, so that one parameter of many is read without
 * the rest. */
#ifndef BARKER_SERVER_STORE_JOBFILE_H
#define BARKER_SERVER_STORE_JOBFILE_H

#include "core/model/model.h"
#include "server/store/store.h"

/* Facts that a job file is created with; they make it readable without the catalogue. */
struct jobfile_meta {
    const char *request;      /* resolved request, JSON */
    const char *const *names; /* of the saved columns */
    size_t width;             /* saved columns */
    size_t d;                 /* all parameters: length of moments */
    size_t N;                 /* data terms of the model; 0: none */
    uint32_t chains;
    uint64_t thin, warmup;      /* thin 0: 1 */
    const char *const *metrics; /* names, NULL-terminated, or NULL */
    const struct model_block *blocks;
    size_t block_count; /* 0: coordinates that are not saved have no names */
    const void *plan;   /* plan_save; NULL: the job has none */
    size_t plan_size;
    const char *plan_document; /* JSON text, with `plan` */
    const char *design;        /* JSON text of a job with a formula; NULL: it has none */
};
enum err jobfile_create(struct store *store, const char *job, const struct jobfile_meta *meta,
                        struct err_info *info);

/* One slice of one chain. Blobs are opaque to this module; NULL: unchanged. */
struct jobfile_slice {
    uint32_t chain;
    uint64_t iteration; /* of the state */
    uint32_t status;    /* enum chain_status */
    double cpu_seconds; /* used by this slice */
    const void *state;  /* chain_save */
    size_t state_size;
    uint64_t first_draw; /* must equal the number of draws stored: ERR_CORRUPT otherwise */
    size_t draws;
    const double *values; /* row-major draws x width */
    size_t metrics;
    size_t metric_width; /* numbers per record are 2 * metric_width */
    const uint64_t *metric_iteration;
    const double *metric_values;
    uint64_t moment_count;
    const double *mean, *variance; /* d each; NULL: none yet */
    uint64_t noise_count;
    const double *tau, *beyond; /* d each; NULL: none */
    const double *sigma;        /* d; NULL */
    const char *note; /* JSON object text with small facts (step limits, acceptance), or NULL */
};
/* Slices of several chains in one transaction: all or none. */
enum err jobfile_commit(struct store *store, const char *job, const struct jobfile_slice *slices,
                        size_t count, struct err_info *info);

/* One checkup: the worst of the measured parameters, and R-hat and bulk ESS of the watched
 * columns 0, stride, 2 * stride, ... (the same ones every time). NaN: not known. */
#define JOBFILE_HISTORY 512 /* points kept at most */
#define JOBFILE_WATCHED 100 /* columns */
struct jobfile_history_point {
    uint64_t draws;     /* after warm-up, of every chain */
    uint64_t iteration; /* of all chains together, warm-up included */
    double seconds;     /* since the job was started */
    double max_rhat, min_ess_bulk, min_ess_tail;
    const char *worst; /* the parameter with the largest R-hat, or "" */
    size_t watched, stride;
    const double *rhat, *ess_bulk; /* watched numbers each */
};
/* The history stays bounded: when it is full every other point is dropped, and from then on only
 * every other one is kept (besides the latest). A point at the iteration of the latest replaces it.
 */
enum err jobfile_history_add(struct store *store, const char *job,
                             const struct jobfile_history_point *point, struct err_info *info);

/* Keeps the checks, a JSON document, with the iterations that the chains have reached, and with the
 * errors of means and sds and their bounds: JOBFILE_CERTIFIED numbers per parameter, those of one
 * kind together; NULL: none. */
#define JOBFILE_CERTIFIED 4
enum err jobfile_checks_put(struct store *store, const char *job, const char *document,
                            const double *certified, struct err_info *info);

/* ---- reading ---- */

struct jobfile; /* one reader; one thread at a time */

enum err jobfile_open(struct jobfile **out, struct store *store, const char *job,
                      struct err_info *info);
void jobfile_close(struct jobfile *file);

/* A result computed from the file, kept for later readers as long as the connection is pooled: the
 * latest one, or NULL. Owned and freed by the file. */
void jobfile_keep(struct jobfile *file, void *kept);
const void *jobfile_kept(const struct jobfile *file);

struct jobfile_info {
    size_t width, d;
    size_t N; /* data terms; 0: none, or not stored by an older version */
    uint32_t chains;
    uint64_t thin, warmup;
    size_t metric_width;
};
void jobfile_info(const struct jobfile *file, struct jobfile_info *out);
/* Name of a saved column, valid until close ("" when the file is damaged); and the column of a
 * name, or SIZE_MAX. */
const char *jobfile_name(struct jobfile *file, size_t column);
size_t jobfile_column(struct jobfile *file, const char *name);
const char *jobfile_metric_name(struct jobfile *file, size_t k);
/* Name of a coordinate below d, saved or not; "parameter 17" (from 1) when the file has no names.
 * Returns out. */
const char *jobfile_parameter(struct jobfile *file, size_t j, char *out, size_t size);

/* The plan that the file was created with, and the request with the plan's numbers; all malloc'd.
 * ERR_NOT_FOUND when it has none. */
struct jobfile_plan {
    void *bytes; /* for plan_load */
    size_t size;
    char *document, *request;
};
enum err jobfile_plan(struct jobfile *file, struct jobfile_plan *out, struct err_info *info);
void jobfile_plan_release(struct jobfile_plan *plan);
/* The document alone, malloc'd; NULL when there is none. The same of the design. */
enum err jobfile_plan_document(struct jobfile *file, char **out, struct err_info *info);
enum err jobfile_design(struct jobfile *file, char **out, struct err_info *info);

struct jobfile_chain {
    uint64_t iteration, draws, metrics;
    uint32_t status;
    double cpu_seconds;
    uint64_t moment_count, noise_count;
};
/* Chains that have no slice yet are all zero. chain from 1. */
enum err jobfile_chain(struct jobfile *file, uint32_t chain, struct jobfile_chain *out,
                       struct err_info *info);
/* Saved state, malloc'd; *bytes NULL when the chain has none yet. */
enum err jobfile_state(struct jobfile *file, uint32_t chain, void **bytes, size_t *size,
                       struct err_info *info);
/* Draws first..first+count-1 of the chosen columns (increasing; NULL: all) into out: column by
 * column, out[k * count + i]. ERR_INVALID beyond the stored draws. */
enum err jobfile_draws(struct jobfile *file, uint32_t chain, uint64_t first, size_t count,
                       const uint32_t *columns, size_t column_count, double *out,
                       struct err_info *info);
/* A blob of d doubles; ERR_NOT_FOUND when there is none yet. */
enum jobfile_vector { JOBFILE_MEAN, JOBFILE_VARIANCE, JOBFILE_TAU, JOBFILE_BEYOND, JOBFILE_SIGMA };
enum err jobfile_vector(struct jobfile *file, uint32_t chain, enum jobfile_vector which,
                        double *out, struct err_info *info);
/* The note, malloc'd, or NULL. */
enum err jobfile_note(struct jobfile *file, uint32_t chain, char **out, struct err_info *info);
/* Metric records first..first+count-1: iterations and 2 * metric_width numbers each. */
enum err jobfile_metrics(struct jobfile *file, uint32_t chain, uint64_t first, size_t count,
                         uint64_t *iterations, double *values, struct err_info *info);

/* The history, oldest point first; empty for files that have none. The points' arrays lie in
 * `values`. Points with another number of watched columns than the latest have none. */
struct jobfile_history {
    size_t count, watched, stride;
    struct jobfile_history_point *points;
    char (*worst)[MODEL_NAME_SIZE];
    double *values;
};
enum err jobfile_history(struct jobfile *file, struct jobfile_history *out, struct err_info *info);
void jobfile_history_release(struct jobfile_history *history);

/* The checks, malloc'd; NULL when there are none, or when the chains have moved on since. */
enum err jobfile_checks(struct jobfile *file, char **out, struct err_info *info);
/* The certified errors, JOBFILE_CERTIFIED * d numbers, malloc'd; NULL in the same cases, and when
 * nothing was certified. */
enum err jobfile_certified(struct jobfile *file, double **out, struct err_info *info);

/* Size of the file without its write-ahead log, which exists only while it is open; 0 when there is
 * no file. */
uint64_t jobfile_bytes(struct store *store, const char *job);

/* A consistent stand-alone copy of the file (everything in one file, no WAL) as an open, unlinked
 * temporary file. Its disk space is reserved before it is made: from the budget for copies, under
 * the name of `user`, until it is closed. ERR_UNAVAILABLE, ERR_TOO_LARGE: not within the budget;
 * ERR_NO_SPACE. Copies must be closed before the store. */
struct jobfile_copy {
    int fd; /* -1: none */
    uint64_t size;
    struct store *store;
    char user[USER_NAME_SIZE];
    uint64_t reserved;
};
enum err jobfile_copy_open(struct jobfile_copy *out, struct store *store, const char *user,
                           const char *job, struct err_info *info);
void jobfile_copy_close(struct jobfile_copy *copy);

#endif
