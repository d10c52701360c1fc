/* Formulas made by hand and tables of a few rows. */
#ifndef BARKER_TESTS_DESIGN_FIXTURE_H
#define BARKER_TESTS_DESIGN_FIXTURE_H

#include "server/formula/design.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HAND_VARIABLES = 12, HAND_TERMS = 12 };

/* Variables are columns or functions of one; `variables` as written: "a|log(a)" is not parsed. */
struct hand {
    struct formula formula;
    struct formula_variable variables[HAND_VARIABLES];
    struct formula_node nodes[HAND_VARIABLES];
    struct formula_term terms[HAND_TERMS];
    size_t members[HAND_TERMS][HAND_VARIABLES];
    size_t offsets[HAND_VARIABLES];
};

static inline void hand_init(struct hand *hand, bool intercept)
{
    memset(hand, 0, sizeof *hand);
    hand->formula = (struct formula){.intercept = intercept,
                                     .variables = hand->variables,
                                     .terms = hand->terms,
                                     .offsets = hand->offsets,
                                     .response = SIZE_MAX,
                                     .failures = SIZE_MAX};
}

static inline size_t hand_variable(struct hand *hand, enum formula_kind kind, const char *label,
                                   size_t column, size_t degree)
{
    size_t i = hand->formula.variable_count++;
    hand->nodes[i] = (struct formula_node){.op = OP_COLUMN, .column = column};
    hand->variables[i] = (struct formula_variable){.kind = kind,
                                                   .label = (char *)(uintptr_t)label,
                                                   .nodes = &hand->nodes[i],
                                                   .node_count = 1,
                                                   .degree = degree,
                                                   .at = 10 * i};
    return i;
}

static inline void hand_term(struct hand *hand, size_t count, size_t a, size_t b, size_t c)
{
    size_t t = hand->formula.term_count++;
    memcpy(hand->members[t], (size_t[]){a, b, c}, 3 * sizeof a);
    hand->terms[t] = (struct formula_term){.variables = hand->members[t], .count = count};
}

/* Every pass over the rows. */
static inline enum err look_at_all(struct design *design, const double *rows, size_t n, size_t *at,
                                   struct err_info *info)
{
    while (design_pass(design)) {
        design_look(design, rows, n);
        enum err err = design_pass_end(design, at, info);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

#endif
