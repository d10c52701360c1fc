/* Rows of the design. */
#include "server/formula/design_parts.h"

#include <math.h>
#include <string.h>

/* A position that is none counts as missing. */
static double argument(const struct design_variable *v, const double *row)
{
    const struct formula_variable *variable = v->formula;
    double value = variable->node_count == 1 && variable->nodes[0].op == OP_COLUMN
                       ? row[variable->nodes[0].column]
                       : formula_value(variable->nodes, variable->node_count, row);
    if (v->part == PART_FACTOR && v->factor.input != NULL &&
        !(value >= 0.0 && value < (double)v->factor.input->level_count))
        return NAN;
    return value;
}

bool design_arguments(const struct design *design, const double *row)
{
    bool complete = true;
    for (size_t i = 0; i < design->formula->variable_count; i++) {
        if (!design->variables[i].used)
            continue;
        design->arguments[i] = argument(&design->variables[i], row);
        complete &= !isnan(design->arguments[i]);
    }
    return complete;
}

/* Arguments become values: of a factor the position of its level. */
static bool expand(const struct design *design, const double *row)
{
    if (!design_arguments(design, row))
        return false;
    for (size_t i = 0; i < design->formula->variable_count; i++) {
        const struct design_variable *v = &design->variables[i];
        double value = design->arguments[i], *to = design->values + v->start;
        if (!v->used)
            continue;
        if (!isfinite(value))
            return false;
        if (v->part == PART_NUMBER) {
            *to = value;
        } else if (v->part == PART_FACTOR) {
            size_t position = factor_position(&v->factor, value);
            if (position == SIZE_MAX)
                return false;
            *to = (double)position;
        } else if (v->part == PART_POLY) {
            polynomial_fill(&v->poly, value, to);
        } else {
            spline_fill(&v->spline, value, to);
        }
    }
    return true;
}

/* The `n` products so far times each column of the variable: the earlier ones vary faster. From the
 * last column on, so that the products, which are the first block, are overwritten last. */
static size_t multiply(const struct design_variable *v, bool full, const double *values, double *x,
                       size_t n)
{
    const double *value = values + v->start;
    if (v->part == PART_FACTOR) {
        size_t width = v->factor.count - !full, level = (size_t)*value;
        size_t column = full ? level : level - 1; /* the reference has none: SIZE_MAX */
        if (column < width && column > 0)
            memcpy(x + column * n, x, n * sizeof *x);
        for (size_t c = 0; c < width; c++)
            if (c != column)
                memset(x + c * n, 0, n * sizeof *x);
        return n * width;
    }
    for (size_t c = v->width; c-- > 0;)
        for (size_t i = 0; i < n; i++)
            x[c * n + i] = x[i] * value[c];
    return n * v->width;
}

bool design_fill(const struct design *design, const double *row, struct design_row *out)
{
    const struct formula *formula = design->formula;
    if (!expand(design, row))
        return false;
    double *x = out->x;
    if (formula->intercept)
        *x++ = 1.0;
    for (size_t t = 0; t < formula->term_count; t++) {
        const struct formula_term *term = &formula->terms[t];
        size_t n = 1;
        *x = 1.0;
        for (size_t k = 0; k < term->count; k++)
            n = multiply(&design->variables[term->variables[k]], design->terms[t].full[k],
                         design->values, x, n);
        x += n;
    }
    out->response = out->failures = out->offset = 0.0;
    if (formula->response != SIZE_MAX)
        out->response = design->values[design->variables[formula->response].start];
    if (formula->failures != SIZE_MAX)
        out->failures = design->values[design->variables[formula->failures].start];
    for (size_t i = 0; i < formula->offset_count; i++)
        out->offset += design->values[design->variables[formula->offsets[i]].start];
    return true;
}
