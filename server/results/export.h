/* Draws as a download: a document that is made piece by piece as it is sent, in constant memory
 * whatever the number of draws.
 *
 * An export knows how many draws each chain has from its beginning, and reads them block by block
 * from its source; between two reads it holds no transaction or connection. One thread at a time.
 *
 * To add a format: README.md and export_parts.h. */
#ifndef BARKER_SERVER_RESULTS_EXPORT_H
#define BARKER_SERVER_RESULTS_EXPORT_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The formats in the order in which they are listed; the first one is the default of the API, and
 * the first one with an ending is the format of files that end so. */
#define EXPORT_FORMATS(X) \
    X(json)               \
    X(csv)                \
    X(npy)                \
    X(stan)               \
    X(posteriordb)        \
    X(sqlite)

struct export;

enum export_next {
    EXPORT_MORE,  /* a piece was appended, or a block is there */
    EXPORT_LATER, /* nothing was appended: another block is needed, but not in this call */
    EXPORT_END,   /* nothing was appended: the document is complete */
    EXPORT_FAILED
};

struct export_format {
    const char *name, *content_type;
    const char *ending; /* of a file's name, without a dot */
    const char *help;   /* what a file holds, in one line for users */
    bool one_chain;     /* exactly one */
    bool shown;         /* a browser displays it instead of saving it */
    /* May change the plan's chains and the order of its columns; allocates scratch. NULL: nothing
     * to do. */
    enum err (*begin)(struct export *e, struct err_info *info);
    uint64_t (*size)(const struct export *e); /* NULL: not known */
    /* Appends a piece of the document to *to (export_parts.h). NULL: the job's own file, as it is. */
    enum export_next (*next)(struct export *e, char **to);
};
extern const struct export_format *const export_formats[]; /* ends with NULL */

/* Which draws of a chain: numbers from 0, draw k is the state after iteration (k + 1) * thin. */
struct export_range {
    uint64_t from, to; /* iterations, both included */
    uint64_t step;     /* every step-th of the draws in between, beginning with the first */
};
struct export_chain {
    uint32_t chain;     /* from 1 */
    uint64_t first;     /* draw */
    uint64_t count;     /* draws that are exported, `step` apart */
    uint64_t iteration; /* that the chain has reached, */
    double seconds;     /* and its CPU time so far; only formats that describe the run use them */
};
/* Sets first and count for a chain that has `stored` draws. */
void export_choose(struct export_chain *chain, const struct export_range *range, uint64_t stored,
                   uint64_t thin);

/* The source of draws: functions as jobfile_draws and jobfile_name. `ctx` outlives the export. */
struct export_source {
    void *ctx;
    enum err (*draws)(void *ctx, uint32_t chain, uint64_t first, size_t count,
                      const uint32_t *columns, size_t column_count, double *out,
                      struct err_info *info);
    const char *(*name)(void *ctx, size_t column);
};

struct export_plan {
    struct export_source source;
    const char *job;         /* id; borrowed while export_new runs, as are the arrays */
    const uint32_t *columns; /* in the order in which they are exported, none twice */
    size_t width;
    const struct export_chain *chains;
    size_t chain_count;
    uint64_t step, thin; /* step of the range, thin of the job */
    bool warmup;         /* whether warm-up draws are among them */
    /* For formats that describe the run. */
    const char *request; /* the job as resolved, a JSON object; borrowed while export_new runs */
    uint64_t warmup_iterations, started_ms;
};

/* Upper bound of the bytes that an export holds until it is freed. */
uint64_t export_memory(const struct export_plan *plan);
enum err export_new(struct export **out, const struct export_format *format,
                    const struct export_plan *plan, struct err_info *info);
void export_free(struct export *export);

/* Bytes of the whole document, or UINT64_MAX when that is known only at its end. */
uint64_t export_size(const struct export *export);

/* The next bytes, at least one and at most `size` > 0; -1 at the end, -2 when the source failed
 * (export_error has the reason). At most one block is read from the source per call. */
ssize_t export_read(struct export *export, char *buffer, size_t size);
const struct err_info *export_error(const struct export *export);

#endif
