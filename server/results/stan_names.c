/* Order and spelling of names in CmdStan files. */
#include "server/results/stan_names.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 4 };

struct element {
    const char *name;
    size_t base; /* length of the name without indices */
    size_t dims;
    unsigned long index[DIMS];
    size_t group, column;
};

/* Brackets without valid indices are part of the name of a scalar parameter. */
static void read_element(struct element *e, const char *name)
{
    const char *at = strchr(name, '[');
    e->name = name;
    e->base = at != NULL ? (size_t)(at - name) : strlen(name);
    while (at != NULL && *at != ']' && e->dims < DIMS) {
        char *end;
        bool digit = isdigit((unsigned char)*++at);
        e->index[e->dims++] = digit ? strtoul(at, &end, 10) : 0;
        at = digit && (*end == ',' || *end == ']') ? end : NULL;
    }
    if (e->dims > 0 && (at == NULL || at[0] != ']' || at[1] != '\0')) {
        e->dims = 0;
        e->base = strlen(name);
    }
}

static bool same_array(const struct element *a, const struct element *b)
{
    return a->dims == b->dims && a->base == b->base && memcmp(a->name, b->name, a->base) == 0;
}

/* Numbers the arrays. They are few, and neighbouring columns mostly belong to the same one. */
static bool number_groups(struct element *elements, size_t count)
{
    size_t groups = 0;
    const struct element **first = malloc((count + 1) * sizeof *first);
    if (first == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t group = i > 0 ? elements[i - 1].group : 0;
        if (i == 0 || !same_array(&elements[i], &elements[i - 1]))
            for (group = 0; group < groups && !same_array(&elements[i], first[group]);)
                group++;
        if (group == groups)
            first[groups++] = &elements[i];
        elements[i].group = group;
    }
    free(first);
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct element *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    for (size_t k = x->dims; k-- > 0;)
        if (x->index[k] != y->index[k])
            return x->index[k] < y->index[k] ? -1 : 1;
    return x->column < y->column ? -1 : 1;
}

/* Whether the sorted elements have all indices from 1 up to those of the last. */
static bool is_whole(const struct element *e, size_t count)
{
    const unsigned long *extent = e[count - 1].index;
    unsigned long wanted[DIMS] = {1, 1, 1, 1};
    for (size_t i = 0; i < count; i++) {
        if (memcmp(e[i].index, wanted, e->dims * sizeof *wanted) != 0)
            return false;
        for (size_t k = 0; k < e->dims && ++wanted[k] > extent[k]; k++)
            wanted[k] = 1;
    }
    return e->dims > 0;
}

bool stan_names_arrange(const char *const *names, size_t count, size_t *order, bool *whole)
{
    struct element *elements = calloc(count + 1, sizeof *elements);
    for (size_t i = 0; elements != NULL && i < count; i++) {
        elements[i].column = i;
        read_element(&elements[i], names[i]);
    }
    if (elements == NULL || !number_groups(elements, count)) {
        free(elements);
        return false;
    }
    qsort(elements, count, sizeof *elements, by_place);
    for (size_t i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && elements[i + n].group == elements[i].group;)
            n++;
        bool all = is_whole(&elements[i], n);
        for (size_t k = i; k < i + n; k++) {
            order[k] = elements[k].column;
            whole[k] = all;
        }
    }
    free(elements);
    return true;
}

size_t stan_name_write(const char *name, bool whole, char *out)
{
    char *to = out;
    bool index = false;
    for (; *name != '\0'; name++) {
        index = index || *name == '[';
        if (isalnum((unsigned char)*name))
            *to++ = *name;
        else if (*name != ']')
            *to++ = whole && index ? '.' : '_';
    }
    return (size_t)(to - out);
}
