/* Private to records*.c.
 *
 *     records_first.c     separator, names, row names: what the first lines say
 *     records_split.c     a record of the window -> the cells of used columns; numbers at once
 *     records_cell.c      the text of a cell -> number, logical, missing, text
 *     records_levels.c    the different texts of a column
 *     records_mistakes.c  what is wrong with the file
 *     records.c           passes over the file
 *
 * Columns are counted here as they are in the file: that of row names, if there is one, is the first. */
#ifndef BARKER_SERVER_DATA_RECORDS_PARTS_H
#define BARKER_SERVER_DATA_RECORDS_PARTS_H

#include "server/base/text.h"
#include "server/data/records.h"
#include "server/data/table_bytes.h"

/* ---- cells ---- */

/* Without the quotes; what was doubled or escaped inside still is. */
struct cell {
    const char *text;
    size_t size;
    char quote;     /* 0: none */
    bool escaped;   /* has quotes inside */
    bool backslash; /* a backslash escapes a quote */
    bool open;      /* its quote is not closed */
    bool trailed;   /* there is text after the closing quote */
};

enum role {
    ROLE_SKIPPED,
    ROLE_NUMBER,  /* numbers are read at once */
    ROLE_TEXT,    /* levels */
    ROLE_LOGICAL, /* in passes that give values */
};

/* What a pass looks at in a column. */
struct role_of {
    unsigned char role; /* enum role */
    char mark;          /* '.' or ',': of decimals in this column; 0: not known yet */
};

enum kind { KIND_SKIPPED, KIND_NUMBER, KIND_CELL };

/* The first cells of a record, `columns` at most, and how many it has. */
struct record {
    const char *next;     /* behind it */
    size_t cells;         /* 0: a blank line or a comment */
    uint64_t lines;       /* line feeds in it */
    size_t open;          /* column + 1 whose quote is not closed; 0: none */
    unsigned char *kinds; /* enum kind */
    double *values;       /* of KIND_NUMBER; moved so that row names have no place: see `first` */
    struct cell *texts;   /* of KIND_CELL */
};

/* How a file is written. */
struct shape {
    char separator;
    char comment;
    bool stops[256]; /* bytes that end a cell without quotes */
    size_t columns;
    size_t first; /* 1: the first column has row names */
    const struct role_of *roles;
    const double *missing; /* numbers that stand for a missing value */
    size_t missing_count;
};

void records_shape_separator(struct shape *shape, char separator);

/* Splits what begins at `text`. False: the record does not end before `end`, and more may follow. */
bool records_split(const struct shape *shape, const char *text, const char *end, bool last,
                   struct record *record);

/* Takes one cell as records_split does, whatever it holds: where it ends, NULL as above. */
const char *records_take_cell(const struct shape *shape, const char *p, const char *end, bool last,
                              struct cell *cell, uint64_t *lines);
/* Behind the end of the line at `p`; NULL: there is none at `p`, or (`*more`) that is not known. */
const char *records_line_end(const char *p, const char *end, bool last, bool *more);

static inline bool records_is_blank(char c, char separator)
{
    return c == ' ' || (c == '\t' && separator != '\t');
}

/* ---- what a cell is ---- */

enum cell_class { CLASS_MISSING, CLASS_NUMBER, CLASS_FALSE, CLASS_TRUE, CLASS_ODD, CLASS_TEXT };

enum fault { /* MARK to LONG_NUMBER: of CLASS_ODD */
             FAULT_MARK,
             FAULT_GROUPS,
             FAULT_INFINITE,
             FAULT_HEX,
             FAULT_RANGE,
             FAULT_LONG_NUMBER,
             FAULT_CELLS,
             FAULT_OPEN,
             FAULT_TRAILED,
             FAULT_ENCODING,
             FAULT_NUL,
             FAULT_LONG_TEXT,
             FAULT_LEVELS,
             FAULT_LEVEL_BYTES,
             FAULT_LONG_LINE,
             FAULT_TWO_MARKS,
};

/* A cell that was looked at. Its text is without blanks around it, unless those are quoted and the
 * text is no number; it may be in `copy`. */
struct seen {
    enum cell_class class;
    enum fault fault; /* of CLASS_ODD */
    double value;     /* of CLASS_NUMBER */
    char mark;        /* '.', ',' or 0: the decimal mark it has */
    const char *text;
    size_t size;
    char copy[2 * RECORDS_LEVEL_MAX];
};

/* What else stands for a missing value. */
struct missing {
    const struct records_options *options;
    double *numbers; /* those of the texts that are numbers */
    size_t number_count;
};

void records_see(struct seen *seen, const struct cell *cell, char mark,
                 const struct missing *missing);
/* Undoes doubled and escaped quotes; writes at most `room` bytes and returns how many. */
size_t records_unquote(char *to, size_t room, const struct cell *cell);
bool records_is_missing_number(const double *numbers, size_t count, double value);

/* ---- levels ---- */

struct level {
    size_t offset; /* of its text, which ends in NUL */
    uint32_t size, hash;
    uint32_t position; /* when sorted; see records_levels_finish */
    uint64_t rows;
};

struct levels {
    char *texts;
    size_t text_bytes, text_room;
    struct level *list;
    size_t count, room;
    uint32_t *slots; /* of a hash table: index + 1 */
    size_t slot_count;
};

/* The level of the text; NULL: there is none. */
struct level *records_levels_find(const struct levels *levels, uint64_t seed, const char *text,
                                  size_t size);
/* Adds one that is not there. TOO_LARGE or NO_MEMORY: the budget. */
enum err records_levels_add(struct levels *levels, struct table_input *input, uint64_t seed,
                            const char *text, size_t size, struct err_info *info);
/* Sorts, sets positions and fills the facts. */
enum err records_levels_finish(struct levels *levels, struct table_input *input,
                               struct column_facts *facts, struct err_info *info);
void records_levels_release(struct levels *levels, struct table_input *input);

/* malloc and realloc against the budget: from `*room` items to `wanted`. */
enum err records_grow(struct table_input *input, void **items, size_t *room, size_t wanted,
                      size_t item_bytes, struct err_info *info);

/* ---- mistakes ---- */

struct mistake {
    uint64_t line;
    size_t column; /* SIZE_MAX: of the whole line */
    enum fault fault;
    uint64_t number;
    char text[TEXT_SHOWN_MAX];
};

#define RECORDS_MISTAKES_KEPT 1280

/* Mistakes of numbers are none when their column turns out to be text: more are kept than reported. */
struct mistakes {
    struct mistake *list;
    size_t count, room;
    uint64_t lasting; /* those that are mistakes whatever their column is */
    char *text;       /* all that are reported */
    size_t text_room;
};

static inline bool records_fault_is_odd(enum fault fault)
{
    return fault <= FAULT_LONG_NUMBER;
}

struct column {
    bool used;
    bool text;   /* has a text, or is collected as one from the beginning (mixed) */
    bool mixed;  /* a text came after other cells: their texts are not known */
    bool failed; /* too many levels */
    bool whole;
    char mark;
    uint64_t mark_line;
    double least, most;
    uint64_t numbers, missing, odd, logical[2];
    struct levels levels;
};

struct records {
    struct table_bytes bytes;
    struct missing missing;
    struct shape shape;
    size_t names_count;
    const char **names; /* of the columns without row names */
    char *name_text;
    size_t name_room, name_text_room;
    bool header;
    uint64_t header_hash;
    struct column *columns;
    struct role_of *roles;
    size_t column_room, role_room;

    uint64_t line; /* of the record that comes next */
    uint64_t seed;
    uint64_t rows, scanned_rows;
    uint64_t level_bytes; /* of all levels */
    bool again;           /* the next scan collects the texts of mixed columns */
    bool scanned;
    struct mistakes mistakes;

    struct record record;
    size_t kind_room, value_room, text_room;
    double *block;
    size_t block_rows, block_room;
};

/* Separator, names, shape; leaves the window at the first row. */
enum err records_read_first(struct records *records, struct err_info *info);
/* At the beginning of the file: to the first row. CONFLICT: another first line than before. */
enum err records_skip_first(struct records *records, struct err_info *info);

/* Notes what is wrong with the text of a column (SIZE_MAX: with the line). */
enum err records_mistake(struct records *records, const struct mistake *mistake, const char *text,
                         size_t size, struct err_info *info);
/* Writes records->mistakes.text and the message. ERR_OK: there are none. */
enum err records_report(struct records *records, struct err_info *info);

#endif
