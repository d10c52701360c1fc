/* Functions of every model: release, full log density and gradient, names of coordinates. */
#include "core/model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void model_free(struct model *m)
{
    if (m == NULL)
        return;
    if (m->type->release != NULL)
        m->type->release(m);
    free(m);
}

struct model_type model_type_derived(const struct model_type *inner)
{
    return (struct model_type){.name = inner->name,
                               .help = inner->help,
                               .data = inner->data,
                               .params = inner->params,
                               .start = inner->start};
}

double model_log_density(const struct model *m, const double *theta, void *work)
{
    double log_density = m->type->log_fixed(m, theta, work);
    if (m->N > 0)
        log_density += m->type->log_batch(m, theta, NULL, m->N, work);
    return log_density;
}

static bool counts_rows(const struct model *m)
{
    return m->type->full != NULL && m->full_terms < m->N;
}

void model_gradient(const struct model *m, const double *theta, double *g, double *scratch,
                    void *work)
{
    if (counts_rows(m)) {
        m->type->full(m, theta, g, NULL, scratch, work);
        return;
    }
    m->type->grad_fixed(m, theta, g, work);
    if (m->N == 0)
        return;
    m->type->grad_batch(m, theta, NULL, m->N, scratch, NULL, work);
    for (size_t j = 0; j < m->d; j++)
        g[j] += scratch[j];
}

double model_gradient_density(const struct model *m, const double *theta, double *g,
                              double *scratch, void *work)
{
    double log_density;
    if (m->type->full != NULL && m->one_pass) {
        m->type->full(m, theta, g, &log_density, scratch, work);
        return log_density;
    }
    model_gradient(m, theta, g, scratch, work);
    return model_log_density(m, theta, work);
}

static size_t block_size(const struct model_block *b)
{
    size_t size = 1;
    for (size_t r = 0; r < b->rank; r++)
        size *= b->shape[r];
    return size;
}

int model_parameter_name(const struct model *m, size_t index, char *out, size_t size)
{
    assert(index < m->d);
    const struct model_block *b = m->blocks;
    if (index < m->name_count)
        return snprintf(out, size, "%s", m->names[index]);
    while (index - b->offset >= block_size(b))
        b++;
    index -= b->offset;
    if (b->rank == 0)
        return snprintf(out, size, "%s", b->name);
    if (b->rank == 1)
        return snprintf(out, size, "%s[%zu]", b->name, index + 1);
    return snprintf(out, size, "%s[%zu,%zu]", b->name, index / b->shape[1] + 1,
                    index % b->shape[1] + 1);
}

/* Reads a number 1..limit without sign, blanks or leading zeros, so that a coordinate has one name.
 * Returns what follows it, or NULL. */
static const char *read_subscript(const char *text, size_t limit, size_t *value)
{
    if (*text < '1' || *text > '9')
        return NULL;
    size_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        n = 10 * n + (size_t)(*text - '0');
        if (n > limit)
            return NULL;
    }
    *value = n;
    return text;
}

/* The position within the block of subscripts such as "[3,7]", or SIZE_MAX. */
static size_t read_position(const struct model_block *b, const char *text)
{
    size_t position = 0;
    for (size_t r = 0; r < b->rank; r++) {
        size_t subscript;
        if (*text != (r == 0 ? '[' : ','))
            return SIZE_MAX;
        text = read_subscript(text + 1, b->shape[r], &subscript);
        if (text == NULL)
            return SIZE_MAX;
        position = position * b->shape[r] + subscript - 1;
    }
    if (b->rank > 0 && *text++ != ']')
        return SIZE_MAX;
    return *text == '\0' ? position : SIZE_MAX;
}

size_t model_parameter_index(const struct model *m, const char *name)
{
    size_t length = strcspn(name, "[");
    for (size_t j = 0; j < m->name_count; j++)
        if (strcmp(m->names[j], name) == 0)
            return j;
    for (size_t i = 0; i < m->block_count; i++) {
        const struct model_block *b = &m->blocks[i];
        if (strlen(b->name) != length || strncmp(b->name, name, length) != 0)
            continue;
        size_t position = read_position(b, name + length);
        return position == SIZE_MAX ? SIZE_MAX : b->offset + position;
    }
    return SIZE_MAX;
}
