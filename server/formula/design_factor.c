/* Factors: which levels complete rows have, their order and their names. */
#include "server/formula/design_parts.h"

#include "server/base/text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err factor_init(struct factor *factor, const struct design_input *input, size_t *left,
                     struct err_info *info)
{
    *factor = (struct factor){.input = input};
    tally_init(&factor->values, DESIGN_COLUMNS_MAX + 1, left);
    if (input == NULL)
        return ERR_OK;
    if (input->level_count > *left)
        return design_fail(info, ERR_TOO_LARGE,
                           "the factors of the formula have more than %zu levels", DESIGN_KEPT_MAX);
    *left -= input->level_count;
    factor->seen = calloc(input->level_count + 1, sizeof *factor->seen);
    if (factor->seen == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for the levels of %s", input->name);
    return ERR_OK;
}

void factor_release(struct factor *factor)
{
    tally_release(&factor->values);
    free(factor->seen);
    free(factor->position);
    free(factor->names);
    free(factor->text);
    *factor = (struct factor){0};
}

void factor_look(struct factor *factor, double value)
{
    if (factor->input == NULL)
        tally_add(&factor->values, value);
    else
        factor->seen[(size_t)value] = true;
}

void design_number_text(double value, char out[DESIGN_NUMBER_TEXT_MAX])
{
    char digits[DESIGN_NUMBER_TEXT_MAX];
    snprintf(digits, sizeof digits, "%.14e", fabs(value));
    char *e = strchr(digits, 'e');
    assert(e != NULL);
    int exponent = (int)strtol(e + 1, NULL, 10), significant = 15;
    while (significant > 1 && e[significant - 16] == '0') /* the last digit is e[-1] */
        significant--;
    int negative = value < 0.0;
    int decimals = significant - exponent - 1 > 0 ? significant - exponent - 1 : 0;
    int fixed = negative + (exponent > 0 ? exponent + 1 : 1) + (decimals > 0 ? decimals + 1 : 0);
    int scientific = negative + (significant > 1 ? significant + 1 : 1) +
                     (exponent >= 100 || exponent <= -100 ? 5 : 4);
    if (fixed <= scientific)
        snprintf(out, DESIGN_NUMBER_TEXT_MAX, "%.*f", decimals, value);
    else
        snprintf(out, DESIGN_NUMBER_TEXT_MAX, "%.*e", significant - 1, value);
}

/* Two values that differ beyond 15 digits are one level, as in R. */
static void name_numbers(struct factor *factor)
{
    char *to = factor->text;
    for (size_t i = 0; i < factor->values.count; i++) {
        design_number_text(factor->values.values[i], to);
        if (factor->count == 0 || strcmp(to, factor->names[factor->count - 1]) != 0) {
            factor->names[factor->count++] = to;
            to += strlen(to) + 1;
        }
        factor->position[i] = factor->count - 1;
    }
    factor->occurring = factor->count;
}

static void name_text(struct factor *factor)
{
    for (size_t i = 0; i < factor->input->level_count; i++) {
        factor->position[i] = SIZE_MAX;
        if (factor->seen[i]) {
            factor->names[factor->count] = factor->input->levels[i];
            factor->position[i] = factor->count++;
        }
    }
    factor->occurring = factor->count;
}

/* A logical column by itself has both levels, whichever occur. */
static void name_logical(struct factor *factor)
{
    factor->names[0] = "FALSE";
    factor->names[1] = "TRUE";
    factor->count = 2;
    for (size_t i = 0; i < factor->input->level_count; i++) {
        factor->position[i] = strcmp(factor->input->levels[i], "TRUE") == 0;
        factor->occurring += factor->seen[i];
    }
}

static enum err unknown_reference(const struct factor *factor,
                                  const struct formula_variable *variable, struct err_info *info)
{
    char list[200] = "", shown[TEXT_SHOWN_MAX];
    size_t used = 0;
    for (size_t i = 0; i < factor->count; i++) {
        const char *name = text_shown(shown, factor->names[i], strlen(factor->names[i]));
        bool fits = used + strlen(name) + sizeof ", ..." + 1 < sizeof list;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 fits ? name : "...");
        if (!fits)
            break;
    }
    return design_fail(info, ERR_INVALID,
                       "%.80s: no complete row has the level \"%s\"; there are %s", variable->label,
                       text_shown(shown, variable->reference, strlen(variable->reference)), list);
}

static enum err reference_first(struct factor *factor, const struct formula_variable *variable,
                                struct err_info *info)
{
    size_t r = 0;
    while (r < factor->count && strcmp(factor->names[r], variable->reference) != 0)
        r++;
    if (r == factor->count)
        return unknown_reference(factor, variable, info);
    const char *name = factor->names[r];
    memmove(factor->names + 1, factor->names, r * sizeof *factor->names);
    factor->names[0] = name;
    size_t n = factor->input != NULL ? factor->input->level_count : factor->values.count;
    for (size_t i = 0; i < n; i++) {
        if (factor->position[i] == r)
            factor->position[i] = 0;
        else if (factor->position[i] < r)
            factor->position[i]++;
    }
    return ERR_OK;
}

enum err factor_end(struct factor *factor, const struct formula_variable *variable,
                    struct err_info *info)
{
    enum err err = tally_end(&factor->values);
    if (err == ERR_TOO_LARGE)
        return design_fail(info, err, "%.200s has more than %d levels; is it a number?",
                           variable->label, DESIGN_COLUMNS_MAX);
    const struct design_input *input = factor->input;
    size_t n = input != NULL ? input->level_count : factor->values.count;
    factor->position = calloc(n + 1, sizeof *factor->position);
    factor->names = calloc(n + 2, sizeof *factor->names);
    factor->text = calloc(input != NULL ? 1 : n + 1, DESIGN_NUMBER_TEXT_MAX);
    if (err != ERR_OK || factor->position == NULL || factor->names == NULL || factor->text == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for the levels of %.200s",
                           variable->label);
    if (input == NULL)
        name_numbers(factor);
    else if (input->logical && variable->kind == VARIABLE_COLUMN)
        name_logical(factor);
    else
        name_text(factor);
    return variable->reference != NULL ? reference_first(factor, variable, info) : ERR_OK;
}

size_t factor_position(const struct factor *factor, double value)
{
    size_t i = factor->input != NULL ? (size_t)value : tally_find(&factor->values, value);
    return i == SIZE_MAX ? SIZE_MAX : factor->position[i];
}

const char *factor_only(const struct factor *factor)
{
    for (size_t i = 0; factor->input != NULL && i < factor->input->level_count; i++)
        if (factor->seen[i])
            return factor->input->levels[i];
    return factor->names[0];
}
