/* Private to formula_rows*.c. */
#ifndef BARKER_SERVER_DATA_FORMULA_ROWS_PARTS_H
#define BARKER_SERVER_DATA_FORMULA_ROWS_PARTS_H

#include "server/data/formula_rows.h"
#include "server/data/records.h"
#include "server/data/table_parts.h"
#include "server/formula/design.h"

struct formula_rows {
    struct formula_source source;
    struct records_options options;
    struct data_file_reader reader;
    char sha256[DATA_FILE_SHA256_HEX];
    uint64_t sum;
    bool whole; /* the content was read to its end once */
    struct records *records;
    struct column_facts *facts; /* one per column of the file */
    size_t column_count;
    struct formula formula;
    struct design_input *inputs;
    struct design *design;
    size_t weight;                      /* column of the file; SIZE_MAX: none */
    uint64_t weightless;                /* rows without a weight, in the last pass, ... */
    uint64_t hidden;                    /* ... of which so many have a response */
    double *row;                        /* a row of the file without its response */
    bool pairs, has_offset, has_weight; /* pairs: a row of cbind becomes two */
    struct table table;
    struct table_input names; /* what the table's names were taken from */
    double *values;           /* rows as the formula makes them */
    const double *next;       /* rows of the file that are not made yet, and their number */
    size_t left;
    char *facts_text;
};

/* A column of the response. */
size_t formula_rows_response(const struct formula_rows *r);
/* What of the design is a mistake: missing values, its size, its names. */
enum err formula_rows_check(const struct formula_rows *r, struct mistakes *mistakes,
                            struct err_info *info);
/* The text of formula_rows_facts; NULL: no memory. */
char *formula_rows_describe(const struct formula_rows *r);

#endif
