/* Designs: what kind each variable is, the passes over the rows, what they counted. */
#include "server/formula/design_parts.h"

#include "server/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err design_fail(struct err_info *info, enum err code, const char *format, ...)
{
    char message[sizeof info->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    text_trim(message);
    return err_set(info, code, "%s", message);
}

/* The column that a variable is or is made of, without arithmetic; NULL. */
static const struct design_input *column_of(const struct design *design,
                                            const struct formula_variable *variable)
{
    bool alone = variable->node_count == 1 && variable->nodes[0].op == OP_COLUMN;
    return alone ? &design->inputs[variable->nodes[0].column] : NULL;
}

/* Whether the positions of a logical column's levels are 0 for FALSE and 1 for TRUE. */
static bool counts_as_number(const struct design_input *input)
{
    return input->levels == NULL ||
           (input->logical && (input->level_count != 1 || strcmp(input->levels[0], "FALSE") == 0));
}

static enum err numbers_only(const struct design *design, const struct formula_variable *variable,
                             struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    for (size_t i = 0; i < variable->node_count; i++) {
        if (variable->nodes[i].op != OP_COLUMN)
            continue;
        const struct design_input *input = &design->inputs[variable->nodes[i].column];
        if (counts_as_number(input))
            continue;
        if (input->logical)
            return design_fail(info, ERR_INVALID,
                               "%.150s: %.100s has only one value (TRUE); leave it out",
                               variable->label, input->name);
        const char *first = input->level_count > 0 ? input->levels[0] : "";
        return design_fail(info, ERR_INVALID,
                           "%.150s needs numbers, but the column %.100s holds text (\"%s\"%s)",
                           variable->label, input->name, text_shown(shown, first, strlen(first)),
                           input->level_count > 1 ? ", ..." : "");
    }
    return ERR_OK;
}

static enum err init_variable(struct design *design, struct design_variable *v,
                              struct err_info *info)
{
    const struct formula_variable *variable = v->formula;
    const struct design_input *input = column_of(design, variable);
    bool text = input != NULL && input->levels != NULL;
    bool factor = variable->kind == VARIABLE_FACTOR || (variable->kind == VARIABLE_COLUMN && text);
    if (!factor || !text) {
        enum err err = numbers_only(design, variable, info);
        if (err != ERR_OK)
            return err;
    }
    v->width = 1;
    if (factor) {
        v->part = PART_FACTOR;
        return factor_init(&v->factor, text ? input : NULL, &design->left, info);
    }
    switch (variable->kind) {
    case VARIABLE_POLY:
    case VARIABLE_SCALE:
        v->part = PART_POLY;
        v->width = variable->kind == VARIABLE_POLY ? variable->degree : 1;
        return polynomial_init(&v->poly, v->width, info);
    case VARIABLE_NS:
        v->part = PART_NS;
        v->width = variable->degree;
        return spline_init(&v->spline, v->width, &design->left, info);
    case VARIABLE_COLUMN:
    case VARIABLE_NUMBER:
    case VARIABLE_FACTOR:
        break;
    }
    v->part = PART_NUMBER;
    return ERR_OK;
}

/* The response may be a factor; halves of cbind and offsets are numbers; none is a basis. */
static enum err check_use(const struct design_variable *v, const char *use, bool factor,
                          struct err_info *info)
{
    if (v->part == PART_FACTOR && !factor)
        return design_fail(info, ERR_INVALID, "%s needs a number, but %.200s is a factor", use,
                           v->formula->label);
    if (v->formula->kind == VARIABLE_POLY || v->formula->kind == VARIABLE_NS)
        return design_fail(info, ERR_INVALID,
                           "%s needs one number, but %.200s has columns of its own", use,
                           v->formula->label);
    return ERR_OK;
}

static enum err check_uses(const struct design *design, size_t *at, struct err_info *info)
{
    const struct formula *formula = design->formula;
    bool pair = formula->failures != SIZE_MAX;
    for (size_t i = 0; i < 2 + formula->offset_count; i++) {
        size_t which = i == 0   ? formula->response
                       : i == 1 ? formula->failures
                                : formula->offsets[i - 2];
        if (which == SIZE_MAX)
            continue;
        const char *use = i > 1 ? "offset()" : pair ? "cbind()" : "the left side";
        *at = design->variables[which].formula->at;
        enum err err = check_use(&design->variables[which], use, i == 0 && !pair, info);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

static void mark_used(struct design *design)
{
    const struct formula *formula = design->formula;
    for (size_t t = 0; t < formula->term_count; t++) {
        design->terms[t].formula = &formula->terms[t];
        for (size_t k = 0; k < formula->terms[t].count; k++) {
            struct design_variable *v = &design->variables[formula->terms[t].variables[k]];
            v->used = v->in_term = true;
        }
    }
    for (size_t i = 0; i < formula->offset_count; i++)
        design->variables[formula->offsets[i]].used = true;
    if (formula->response != SIZE_MAX)
        design->variables[formula->response].used = true;
    if (formula->failures != SIZE_MAX)
        design->variables[formula->failures].used = true;
}

static bool allocate(struct design *design)
{
    const struct formula *formula = design->formula;
    size_t in_terms = 0;
    for (size_t t = 0; t < formula->term_count; t++)
        in_terms += formula->terms[t].count;
    design->variables = calloc(formula->variable_count + 1, sizeof *design->variables);
    design->terms = calloc(formula->term_count + 1, sizeof *design->terms);
    design->full = calloc(in_terms + 1, sizeof *design->full);
    design->arguments = calloc(formula->variable_count + 1, sizeof *design->arguments);
    design->missing = calloc(design->input_count + 1, sizeof *design->missing);
    design->counted_at = calloc(design->input_count + 1, sizeof *design->counted_at);
    return design->variables != NULL && design->terms != NULL && design->full != NULL &&
           design->arguments != NULL && design->missing != NULL && design->counted_at != NULL;
}

static bool label_response(struct design *design)
{
    const struct formula *formula = design->formula;
    if (formula->response == SIZE_MAX)
        return true;
    const char *label = formula->variables[formula->response].label;
    if (formula->failures == SIZE_MAX)
        return (design->response_label = strdup(label)) != NULL;
    const char *failures = formula->variables[formula->failures].label;
    return asprintf(&design->response_label, "cbind(%s, %s)", label, failures) >= 0;
}

static enum err init(struct design *design, size_t *at, struct err_info *info)
{
    const struct formula *formula = design->formula;
    if (!allocate(design) || !label_response(design))
        return design_fail(info, ERR_NO_MEMORY, "no memory for the design");
    for (size_t i = 0; i < formula->variable_count; i++)
        design->variables[i].formula = &formula->variables[i];
    mark_used(design);
    size_t values = 0;
    for (size_t i = 0; i < formula->variable_count; i++) {
        struct design_variable *v = &design->variables[i];
        if (!v->used)
            continue;
        *at = v->formula->at;
        enum err err = init_variable(design, v, info);
        if (err != ERR_OK)
            return err;
        v->start = values;
        values += v->width;
    }
    design->values = calloc(values + 1, sizeof *design->values);
    if (design->values == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for the design");
    return check_uses(design, at, info);
}

enum err design_new(struct design **out, const struct formula *formula,
                    const struct design_input *inputs, size_t input_count, size_t *at,
                    struct err_info *info)
{
    *out = NULL;
    *at = 0;
    struct design *design = calloc(1, sizeof *design);
    if (design == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for the design");
    *design = (struct design){
        .formula = formula, .inputs = inputs, .input_count = input_count, .left = DESIGN_KEPT_MAX};
    enum err err = init(design, at, info);
    if (err != ERR_OK)
        design_free(design);
    else
        *out = design;
    return err;
}

void design_free(struct design *design)
{
    if (design == NULL)
        return;
    for (size_t i = 0; design->variables != NULL && i < design->formula->variable_count; i++) {
        factor_release(&design->variables[i].factor);
        polynomial_release(&design->variables[i].poly);
        spline_release(&design->variables[i].spline);
    }
    free(design->variables);
    free(design->terms);
    free(design->full);
    free(design->arguments);
    free(design->values);
    free(design->missing);
    free(design->counted_at);
    free(design->response_label);
    free(design->names);
    free(design->name_text);
    free(design);
}

/* Passes */

bool design_pass(const struct design *design)
{
    if (design->pass == 0)
        return true;
    for (size_t i = 0; i < design->formula->variable_count; i++) {
        const struct design_variable *v = &design->variables[i];
        if (v->used && v->part == PART_POLY && !polynomial_known(&v->poly))
            return true;
    }
    return false;
}

/* Every column of the variable that is missing; where arithmetic went wrong, all of them. */
static void count_missing(struct design *design, const struct formula_variable *variable,
                          const double *row)
{
    bool any = false;
    for (size_t k = 0; k < variable->node_count; k++)
        any |= variable->nodes[k].op == OP_COLUMN && isnan(row[variable->nodes[k].column]);
    for (size_t k = 0; k < variable->node_count; k++) {
        size_t column = variable->nodes[k].column;
        if (variable->nodes[k].op != OP_COLUMN || (any && !isnan(row[column])) ||
            design->counted_at[column] == design->rows)
            continue;
        design->counted_at[column] = design->rows;
        design->missing[column]++;
    }
}

static void note_infinite(const struct design *design, struct design_variable *v, double value,
                          const double *row)
{
    if (v->bad_row != 0)
        return;
    v->bad_row = design->rows;
    v->bad_value = value;
    for (size_t k = 0; k < v->formula->node_count; k++)
        if (v->formula->nodes[k].op == OP_COLUMN)
            v->bad_input = row[v->formula->nodes[k].column];
}

/* Levels are those of complete rows; bases are made wherever their argument is known. */
static void look_first(struct design *design, const double *row)
{
    bool complete = design_arguments(design, row);
    design->rows++;
    design->complete += complete;
    for (size_t i = 0; i < design->formula->variable_count; i++) {
        struct design_variable *v = &design->variables[i];
        double value = design->arguments[i];
        if (!v->used)
            continue;
        if (isnan(value)) {
            count_missing(design, v->formula, row);
            continue;
        }
        bool basis = v->part == PART_POLY || v->part == PART_NS;
        if (isinf(value)) {
            if (complete || basis)
                note_infinite(design, v, value, row);
        } else if (v->part == PART_FACTOR && complete) {
            factor_look(&v->factor, value);
        } else if (v->part == PART_POLY) {
            polynomial_look(&v->poly, value);
        } else if (v->part == PART_NS) {
            tally_add(&v->spline.sample, value);
        }
    }
}

static void look_again(struct design *design, const double *row)
{
    design_arguments(design, row);
    for (size_t i = 0; i < design->formula->variable_count; i++) {
        struct design_variable *v = &design->variables[i];
        if (v->used && v->part == PART_POLY && isfinite(design->arguments[i]))
            polynomial_look(&v->poly, design->arguments[i]);
    }
}

void design_look(struct design *design, const double *rows, size_t n)
{
    for (size_t i = 0; i < n; i++, rows += design->input_count) {
        if (design->pass == 0)
            look_first(design, rows);
        else
            look_again(design, rows);
    }
}

static enum err check_finite(const struct design *design, size_t *at, struct err_info *info)
{
    for (size_t i = 0; i < design->formula->variable_count; i++) {
        const struct design_variable *v = &design->variables[i];
        if (v->bad_row == 0)
            continue;
        const char *name = NULL;
        bool several = false;
        for (size_t k = 0; k < v->formula->node_count; k++) {
            if (v->formula->nodes[k].op != OP_COLUMN)
                continue;
            const char *other = design->inputs[v->formula->nodes[k].column].name;
            several |= name != NULL && name != other;
            name = other;
        }
        *at = v->formula->at;
        if (name == NULL || several || v->bad_input == v->bad_value)
            return design_fail(info, ERR_INVALID, "%.200s is %g in row %ju", v->formula->label,
                               v->bad_value, (uintmax_t)v->bad_row);
        return design_fail(info, ERR_INVALID, "%.200s is %g in row %ju, where %.100s is %.15g",
                           v->formula->label, v->bad_value, (uintmax_t)v->bad_row, name,
                           v->bad_input);
    }
    return ERR_OK;
}

static enum err check_complete(const struct design *design, struct err_info *info)
{
    if (design->complete > 0)
        return ERR_OK;
    size_t most = 0;
    for (size_t i = 1; i < design->input_count; i++)
        if (design->missing[i] > design->missing[most])
            most = i;
    if (design->rows == 0)
        return design_fail(info, ERR_INVALID, "the table has no rows");
    return design_fail(
        info, ERR_INVALID,
        "no row is complete: every one has a missing value in a column of the formula "
        "(%.100s: missing in %ju of %ju rows)",
        design->inputs[most].name, (uintmax_t)design->missing[most], (uintmax_t)design->rows);
}

static enum err end_variable(struct design_variable *v, bool first, struct err_info *info)
{
    if (v->part == PART_POLY)
        return polynomial_end(&v->poly, v->formula, info);
    if (v->part == PART_NS && first)
        return spline_end(&v->spline, v->formula, info);
    if (v->part != PART_FACTOR || !first)
        return ERR_OK;
    enum err err = factor_end(&v->factor, v->formula, info);
    if (err != ERR_OK || !v->in_term || v->factor.occurring > 1)
        return err;
    char shown[TEXT_SHOWN_MAX];
    const char *only = factor_only(&v->factor);
    return design_fail(info, ERR_INVALID,
                       "%.150s has only one value (%s) in the complete rows; leave it out",
                       v->formula->label, text_shown(shown, only, strlen(only)));
}

enum err design_pass_end(struct design *design, size_t *at, struct err_info *info)
{
    bool first = design->pass++ == 0;
    *at = 0;
    enum err err = ERR_OK;
    if (first && ((err = check_finite(design, at, info)) != ERR_OK ||
                  (err = check_complete(design, info)) != ERR_OK))
        return err;
    for (size_t i = 0; i < design->formula->variable_count; i++) {
        struct design_variable *v = &design->variables[i];
        if (!v->used)
            continue;
        *at = v->formula->at;
        if ((err = end_variable(v, first, info)) != ERR_OK)
            return err;
    }
    *at = 0;
    return first ? design_terms_end(design, at, info) : ERR_OK;
}

void design_counts(const struct design *design, struct design_counts *out)
{
    *out = (struct design_counts){
        .rows = design->rows, .complete = design->complete, .missing = design->missing};
}

void design_response(const struct design *design, struct design_response *out)
{
    *out = (struct design_response){.label = ""};
    if (design->formula->response == SIZE_MAX)
        return;
    const struct design_variable *v = &design->variables[design->formula->response];
    out->label = design->response_label;
    if (v->part == PART_FACTOR) {
        out->levels = (const char *const *)v->factor.names;
        out->level_count = v->factor.count;
    }
}
