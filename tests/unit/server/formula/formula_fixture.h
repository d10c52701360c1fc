/* Formulas over one table, printed on one line. */
#ifndef BARKER_TESTS_FORMULA_FIXTURE_H
#define BARKER_TESTS_FORMULA_FIXTURE_H

#include "server/formula/formula.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"y",        "a",   "b",     "c",    "d",     "n",
                                    "odd name", "x.1", "größe", "TRUE", "tick`s"};
static const struct formula_columns table = {names, sizeof names / sizeof *names};

/* "y ~ 1|a b a:b +offset(c)" */
static inline void print_formula(const struct formula *f, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", f->variables[f->response].label);
    if (f->failures != SIZE_MAX)
        n += (size_t)snprintf(out + n, size - n, ", %s", f->variables[f->failures].label);
    n += (size_t)snprintf(out + n, size - n, " ~ %d|", f->intercept);
    for (size_t t = 0; t < f->term_count && n < size; t++)
        for (size_t v = 0; v < f->terms[t].count && n < size; v++)
            n += (size_t)snprintf(out + n, size - n, "%s%s",
                                  v > 0   ? ":"
                                  : t > 0 ? " "
                                          : "",
                                  f->variables[f->terms[t].variables[v]].label);
    for (size_t i = 0; i < f->offset_count && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, " +%s", f->variables[f->offsets[i]].label);
}

#endif
