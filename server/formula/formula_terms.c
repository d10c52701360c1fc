/* The algebra of terms, as in terms.formula of R: a term is a set of variables, a formula a list of
 * terms without repeats. */
#include "server/formula/formula_parts.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t *term_at(const struct term_space *space, const struct term_list *list,
                               size_t i)
{
    return list->bits + i * space->words;
}

void terms_release(struct term_space *space, struct term_list *list)
{
    space->room -= list->capacity;
    free(list->bits);
    free(list->slots);
    *list = (struct term_list){0};
}

static uint64_t hash(const struct term_space *space, const uint64_t *term)
{
    uint64_t h = 0;
    for (size_t i = 0; i < space->words; i++) {
        h = (h ^ term[i]) * 0x9e3779b97f4a7c15U;
        h ^= h >> 29;
    }
    return h;
}

/* The slot that holds the term, or the empty one where it would go. */
static size_t slot_of(const struct term_space *space, const struct term_list *list,
                      const uint64_t *term)
{
    size_t mask = 2 * list->capacity - 1, slot = hash(space, term) & mask;
    while (list->slots[slot] != 0 && memcmp(term_at(space, list, list->slots[slot] - 1), term,
                                            space->words * sizeof *term) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

static void fill_slots(const struct term_space *space, struct term_list *list)
{
    memset(list->slots, 0, 2 * list->capacity * sizeof *list->slots);
    for (size_t i = 0; i < list->count; i++)
        list->slots[slot_of(space, list, term_at(space, list, i))] = (uint32_t)(i + 1);
}

static enum err grow(struct term_space *space, struct term_list *list)
{
    size_t capacity = list->capacity == 0 ? 4 : 2 * list->capacity;
    if (space->room + capacity - list->capacity > TERMS_ROOM_MAX) {
        space->spent = true;
        return ERR_TOO_LARGE;
    }
    uint64_t *bits = realloc(list->bits, capacity * space->words * sizeof *bits);
    if (bits == NULL)
        return ERR_NO_MEMORY;
    list->bits = bits;
    uint32_t *slots = realloc(list->slots, 2 * capacity * sizeof *slots);
    if (slots == NULL)
        return ERR_NO_MEMORY;
    list->slots = slots;
    space->room += capacity - list->capacity;
    list->capacity = capacity;
    fill_slots(space, list);
    return ERR_OK;
}

static enum err work(struct term_space *space, size_t terms)
{
    space->work += terms;
    if (space->work <= TERMS_WORK_MAX)
        return ERR_OK;
    space->spent = true;
    return ERR_TOO_LARGE;
}

/* Adds the union of two terms, unless it is there or empty. Neither is a term of `list`. */
static enum err add_union(struct term_space *space, struct term_list *list, const uint64_t *a,
                          const uint64_t *b)
{
    uint64_t term[FORMULA_VARIABLES_MAX / 64 + 1], any = 0;
    for (size_t i = 0; i < space->words; i++)
        any |= term[i] = a[i] | b[i];
    enum err err = work(space, 1);
    if (err != ERR_OK || any == 0)
        return err;
    if (list->capacity > 0 && list->slots[slot_of(space, list, term)] != 0)
        return ERR_OK;
    if (list->count == FORMULA_TERMS_MAX)
        return ERR_TOO_LARGE;
    if (list->count == list->capacity && (err = grow(space, list)) != ERR_OK)
        return err;
    memcpy(list->bits + list->count * space->words, term, space->words * sizeof *term);
    list->slots[slot_of(space, list, term)] = (uint32_t)++list->count;
    return ERR_OK;
}

enum err terms_add_variable(struct term_space *space, struct term_list *list, size_t variable)
{
    uint64_t term[FORMULA_VARIABLES_MAX / 64 + 1] = {0};
    term[variable / 64] = (uint64_t)1 << variable % 64;
    return add_union(space, list, term, term);
}

/* Adds the union of `with` and each term of `list` to `to`. */
static enum err add_each(struct term_space *space, struct term_list *to, const uint64_t *with,
                         const struct term_list *list)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < list->count && err == ERR_OK; i++)
        err = add_union(space, to, with, term_at(space, list, i));
    return err;
}

/* Adds the unions of all pairs, the terms of `left` in the outer loop. */
static enum err add_products(struct term_space *space, struct term_list *to,
                             const struct term_list *left, const struct term_list *right)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < left->count && err == ERR_OK; i++)
        err = add_each(space, to, term_at(space, left, i), right);
    return err;
}

/* All variables of a list as one term. */
static void unite(const struct term_space *space, const struct term_list *list, uint64_t *out)
{
    memset(out, 0, space->words * sizeof *out);
    for (size_t i = 0; i < list->count; i++)
        for (size_t w = 0; w < space->words; w++)
            out[w] |= term_at(space, list, i)[w];
}

/* `made` takes the place of `list`; on an error it is released. */
static enum err replace(struct term_space *space, struct term_list *list, struct term_list *made,
                        enum err err)
{
    if (err != ERR_OK) {
        terms_release(space, made);
        return err;
    }
    terms_release(space, list);
    *list = *made;
    return ERR_OK;
}

enum err terms_plus(struct term_space *space, struct term_list *left, const struct term_list *right)
{
    static const uint64_t none[FORMULA_VARIABLES_MAX / 64 + 1];
    return add_each(space, left, none, right);
}

enum err terms_minus(struct term_space *space, struct term_list *left,
                     const struct term_list *right)
{
    size_t kept = 0, size = space->words * sizeof *left->bits;
    bool any = false;
    enum err err = work(space, right->count);
    for (size_t i = 0; i < right->count && left->count > 0 && !any; i++)
        any = left->slots[slot_of(space, left, term_at(space, right, i))] != 0;
    if (err != ERR_OK || !any)
        return err;
    if ((err = work(space, left->count)) != ERR_OK)
        return err;
    for (size_t i = 0; i < left->count; i++) {
        const uint64_t *term = term_at(space, left, i);
        if (right->slots[slot_of(space, right, term)] == 0)
            memmove(left->bits + kept++ * space->words, term, size);
    }
    left->count = kept;
    fill_slots(space, left);
    return ERR_OK;
}

enum err terms_interact(struct term_space *space, struct term_list *left,
                        const struct term_list *right)
{
    struct term_list made = {0};
    return replace(space, left, &made, add_products(space, &made, left, right));
}

enum err terms_cross(struct term_space *space, struct term_list *left,
                     const struct term_list *right)
{
    struct term_list made = {0};
    enum err err = terms_plus(space, &made, left);
    if (err == ERR_OK)
        err = terms_plus(space, &made, right);
    if (err == ERR_OK)
        err = add_products(space, &made, left, right);
    return replace(space, left, &made, err);
}

enum err terms_nest(struct term_space *space, struct term_list *left, const struct term_list *right)
{
    uint64_t all[FORMULA_VARIABLES_MAX / 64 + 1];
    unite(space, left, all);
    enum err err = work(space, left->count);
    return err != ERR_OK ? err : add_each(space, left, all, right);
}

enum err terms_within(struct term_space *space, struct term_list *left,
                      const struct term_list *right)
{
    uint64_t all[FORMULA_VARIABLES_MAX / 64 + 1];
    struct term_list made = {0};
    unite(space, right, all);
    enum err err = work(space, right->count);
    return err != ERR_OK ? err : replace(space, left, &made, add_each(space, &made, all, left));
}

enum err terms_power(struct term_space *space, struct term_list *left, double power)
{
    struct term_list all = {0};
    enum err err = terms_plus(space, &all, left);
    /* Each step is a function of the list alone: once it changes nothing, no later one does. */
    bool changed = true;
    for (double i = 1; i < power && err == ERR_OK && changed; i++) {
        struct term_list next = {0};
        err = add_products(space, &next, left, &all);
        changed = err == ERR_OK &&
                  (next.count != all.count ||
                   (all.count > 0 &&
                    memcmp(next.bits, all.bits, all.count * space->words * sizeof *all.bits) != 0));
        err = replace(space, &all, &next, err);
    }
    return replace(space, left, &all, err);
}

bool terms_has(const struct term_space *space, const struct term_list *list, size_t term,
               size_t variable)
{
    return term_at(space, list, term)[variable / 64] >> variable % 64 & 1;
}

size_t terms_degree(const struct term_space *space, const struct term_list *list, size_t term)
{
    size_t degree = 0;
    for (size_t w = 0; w < space->words; w++)
        degree += (size_t)__builtin_popcountll(term_at(space, list, term)[w]);
    return degree;
}
