/* Private to export*.c: the parts of an export that formats use.
 *
 * A format is a state machine whose `next` appends one piece of the document at each call, either
 * by writing up to EXPORT_PIECE bytes to *to and moving it behind them, or by pointing `e->text` at
 * a longer text that does not change until it has been sent. Its own state is `e->at`, zero in the
 * beginning. */
#ifndef BARKER_SERVER_RESULTS_EXPORT_PARTS_H
#define BARKER_SERVER_RESULTS_EXPORT_PARTS_H

#include "server/results/export.h"

#define EXPORT_PIECE 4096 /* bytes that one call of `next` may write */
/* Bytes of draws that are read at a time. A client that stalls keeps them in memory, so they are
 * few; more than two tiles make nothing faster. */
#define EXPORT_BLOCK ((size_t)512 << 10)
#define EXPORT_ROWS  16 /* but at least so many draws: reading fewer of many columns is slow */

/* Draws in memory: of one chain, `count` exported draws from number `first` on (counted among the
 * exported ones), columns `column` .. `column + columns - 1` of the plan. */
struct export_block {
    size_t chain;
    uint64_t first, count;
    size_t column, columns;
    double *values;   /* column by column, as they are stored */
    size_t room;      /* numbers that fit */
    size_t span;      /* stored draws from the first to the last: numbers per column */
    uint32_t *sorted; /* the columns in increasing order, as they are read */
    size_t *place;    /* where column k of the block is among them */
    bool loaded;
};

/* Position of a format in its document; each uses the members that it needs. */
struct export_position {
    int state;
    size_t chain, column;
    uint64_t draw;  /* among the exported ones of the chain */
    uint64_t total; /* draws of the chains before */
};

struct export
{
    const struct export_format *format;
    struct export_plan plan; /* its arrays are owned, `job` is the copy below */
    char job[40];
    struct export_block block;
    struct export_position at;
    void *scratch; /* of the format, one allocation, freed with the export */
    const char *text;
    size_t text_size; /* left of `text` to be sent */
    char spill[EXPORT_PIECE];
    bool block_read; /* during this call of export_read */
    bool failed;
    struct err_info info;
};

#define X(name) extern const struct export_format export_##name;
EXPORT_FORMATS(X)
#undef X

const char *export_name(const struct export *e, size_t column);
size_t export_longest_name(const struct export *e);
/* Cuts chains to equal length, for formats that require it. */
void export_cut(struct export *e);

/* Reads a block of all columns that starts with this draw, with as many draws as fit. */
enum export_next export_load_rows(struct export *e, size_t chain, uint64_t draw);
/* Reads a block that starts with this draw of this column: all its draws and further columns if
 * they fit, else as many draws as fit. */
enum export_next export_load_column(struct export *e, size_t chain, uint64_t draw, size_t column);

/* A number of the block. */
static inline double export_value(const struct export *e, uint64_t draw, size_t column)
{
    const struct export_block *b = &e->block;
    return b->values[b->place[column - b->column] * b->span + (draw - b->first) * e->plan.step];
}

/* Writes a number of either kind and returns the end. */
char *export_put_count(char *to, uint64_t value);
char *export_put_text(char *to, const char *text); /* short */

/* A table with one row per draw: `begin` writes what comes before the first parameter. Appends what
 * is in the block, up to the draw `end` and as much as fits into a piece. */
#define EXPORT_ROW_BEGIN 64 /* bytes that `begin` may write */
char *export_put_rows(struct export *e, char *to, uint64_t end,
                      char *(*begin)(const struct export *e, char *to));

#endif
