/* Table: tables that fit the terminal. Numbers are right-aligned. If the table is too wide, columns
 * are dropped by rank and text columns are cut with an ellipsis. In a pipe nothing is dropped or
 * cut. */
#ifndef BARKER_CLI_TABLE_H
#define BARKER_CLI_TABLE_H

#include "clients/cli/term.h"

enum { TABLE_COLUMNS = 48 };

struct column {
    const char *title; /* copied */
    bool right;        /* numbers */
    bool shrinks;      /* text that may be cut */
    int drop;          /* 0: never dropped; otherwise the highest rank goes first */
};

struct table;

/* At most TABLE_COLUMNS columns; more are ignored. */
struct table *table_new(const struct column *columns, size_t count);
void table_free(struct table *table);

/* Cells are filled from left to right, row after row; the text is copied. NULL is an empty cell. */
void table_cell(struct table *table, const char *string, enum style style);
size_t table_rows(const struct table *table);
void table_print(const struct table *table, FILE *file);

#endif
