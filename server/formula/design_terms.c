/* Terms as columns: how their factors are coded, how many columns there are and what they are called.
 *
 * The rule is that of R's terms.formula (TermCode in model.c): in a term a factor has contrasts where
 * the term without it is empty or part of an earlier term, else an indicator for every level. Then
 * model.matrix gives, without an intercept, all indicators to the first factor of the first term that
 * has one. */
#include "server/formula/design_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t words_of(const struct design *design)
{
    return (design->formula->variable_count + 63) / 64;
}

/* The variable of `set` that is not in `earlier` if it is the only one; SIZE_MAX: there are more. */
static size_t only_difference(const uint64_t *set, const uint64_t *earlier, size_t words)
{
    size_t found = SIZE_MAX;
    for (size_t w = 0; w < words; w++) {
        uint64_t rest = set[w] & ~earlier[w];
        if (rest == 0)
            continue;
        if (found != SIZE_MAX || (rest & (rest - 1)) != 0)
            return SIZE_MAX;
        found = w * 64 + (size_t)__builtin_ctzll(rest);
    }
    return found;
}

static void code_term(struct design *design, size_t t, const uint64_t *sets)
{
    const struct formula_term *term = design->terms[t].formula;
    size_t words = words_of(design);
    bool *full = design->terms[t].full;
    for (size_t k = 0; k < term->count; k++)
        full[k] = design->variables[term->variables[k]].part == PART_FACTOR && term->count > 1;
    for (size_t earlier = 0; earlier < t && term->count > 1; earlier++) {
        size_t only = only_difference(sets + t * words, sets + earlier * words, words);
        for (size_t k = 0; only != SIZE_MAX && k < term->count; k++)
            if (term->variables[k] == only)
                full[k] = false;
    }
}

static void code_without_intercept(struct design *design)
{
    for (size_t t = 0; t < design->formula->term_count; t++) {
        const struct formula_term *term = design->terms[t].formula;
        for (size_t k = 0; k < term->count; k++) {
            if (design->variables[term->variables[k]].part == PART_FACTOR) {
                design->terms[t].full[k] = true;
                return;
            }
        }
    }
}

static enum err code_terms(struct design *design, struct err_info *info)
{
    size_t terms = design->formula->term_count, words = words_of(design);
    uint64_t *sets = calloc(terms * words + 1, sizeof *sets);
    if (sets == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for the terms");
    bool *full = design->full;
    for (size_t t = 0; t < terms; t++) {
        const struct formula_term *term = design->terms[t].formula;
        for (size_t k = 0; k < term->count; k++)
            sets[t * words + term->variables[k] / 64] |= UINT64_C(1) << (term->variables[k] % 64);
        design->terms[t].full = full;
        full += term->count;
        code_term(design, t, sets);
    }
    free(sets);
    if (!design->formula->intercept)
        code_without_intercept(design);
    return ERR_OK;
}

static size_t width_in(const struct design *design, const struct design_term *term, size_t k)
{
    const struct design_variable *v = &design->variables[term->formula->variables[k]];
    return v->part == PART_FACTOR ? v->factor.count - !term->full[k] : v->width;
}

static enum err count_columns(struct design *design, size_t *at, struct err_info *info)
{
    design->column_count = design->formula->intercept;
    for (size_t t = 0; t < design->formula->term_count; t++) {
        struct design_term *term = &design->terms[t];
        size_t width = 1; /* at most 1e5 before each multiplication */
        for (size_t k = 0; k < term->formula->count && width <= DESIGN_COLUMNS_MAX; k++)
            width *= width_in(design, term, k);
        term->width = width;
        design->column_count += width;
        if (width <= DESIGN_COLUMNS_MAX && design->column_count <= DESIGN_COLUMNS_MAX)
            continue;
        const struct formula_variable *variable =
            design->variables[term->formula->variables[0]].formula;
        *at = variable->at;
        return design_fail(
            info, ERR_TOO_LARGE,
            "the formula has more than %d columns; the limit is passed by the term %.150s%s",
            DESIGN_COLUMNS_MAX, variable->label, term->formula->count > 1 ? ":..." : "");
    }
    return ERR_OK;
}

/* Text that is only measured while `to` is NULL. */
struct writer {
    char *to;
    size_t used;
};

static void write_text(struct writer *writer, const char *text)
{
    size_t n = strlen(text);
    if (writer->to != NULL)
        memcpy(writer->to + writer->used, text, n);
    writer->used += n;
}

/* The part of variable k in the name of its column c. */
static void write_part(const struct design *design, const struct design_term *term, size_t k,
                       size_t c, struct writer *writer)
{
    const struct design_variable *v = &design->variables[term->formula->variables[k]];
    write_text(writer, v->formula->label);
    if (v->part == PART_FACTOR) {
        write_text(writer, v->factor.names[c + !term->full[k]]);
    } else if (v->width > 1) {
        char number[24];
        snprintf(number, sizeof number, "%zu", c + 1);
        write_text(writer, number);
    }
}

static void write_end(struct writer *writer)
{
    if (writer->to != NULL)
        writer->to[writer->used] = '\0';
    writer->used++;
}

/* All names, one after the other; stops beyond the limit. */
static void write_names(struct design *design, struct writer *writer)
{
    size_t column = 0;
    if (design->formula->intercept) {
        design->names[column++] = writer->to;
        write_text(writer, "Intercept");
        write_end(writer);
    }
    for (size_t t = 0; t < design->formula->term_count; t++) {
        const struct design_term *term = &design->terms[t];
        for (size_t i = 0; i < term->width && writer->used <= DESIGN_NAME_BYTES_MAX; i++) {
            size_t rest = i;
            if (writer->to != NULL)
                design->names[column++] = writer->to + writer->used;
            for (size_t k = 0; k < term->formula->count; k++) {
                size_t width = width_in(design, term, k);
                if (k > 0)
                    write_text(writer, ":");
                write_part(design, term, k, rest % width, writer);
                rest /= width;
            }
            write_end(writer);
        }
    }
}

static enum err name_columns(struct design *design, struct err_info *info)
{
    design->names = calloc(design->column_count + 1, sizeof *design->names);
    if (design->names == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for the names of the columns");
    struct writer writer = {0};
    write_names(design, &writer);
    if (writer.used > DESIGN_NAME_BYTES_MAX)
        return design_fail(info, ERR_TOO_LARGE,
                           "the names of the formula's columns have more than %u MB",
                           DESIGN_NAME_BYTES_MAX >> 20);
    design->name_text = malloc(writer.used + 1);
    if (design->name_text == NULL)
        return design_fail(info, ERR_NO_MEMORY, "no memory for the names of the columns");
    writer = (struct writer){.to = design->name_text};
    write_names(design, &writer);
    return ERR_OK;
}

enum err design_terms_end(struct design *design, size_t *at, struct err_info *info)
{
    enum err err = code_terms(design, info);
    if (err == ERR_OK)
        err = count_columns(design, at, info);
    return err == ERR_OK ? name_columns(design, info) : err;
}

const char *const *design_names(const struct design *design, size_t *count)
{
    *count = design->column_count;
    return (const char *const *)design->names;
}
