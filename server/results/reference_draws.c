/* Reading reference posteriors that are given by their draws. */
#include "server/base/moments.h"
#include "server/results/reference_parts.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define MIXING_DRAWS 100000 /* of one parameter; more are thinned for their errors */

/* One parameter's draws: all chains one after the other. */
struct pool {
    double *x;
    const double **starts;
    size_t *lengths;
    size_t chains, total, shortest;
};

static void pool_release(struct pool *p)
{
    free(p->x);
    free(p->starts);
    free(p->lengths);
}

/* Allocates the draws of a parameter; a chain has the same number of draws of each. */
static bool pool_init(struct pool *p, const json_t *chains, const char *name)
{
    *p = (struct pool){.chains = json_array_size(chains), .shortest = SIZE_MAX};
    p->starts = calloc(p->chains, sizeof *p->starts);
    p->lengths = calloc(p->chains, sizeof *p->lengths);
    if (p->starts == NULL || p->lengths == NULL)
        return false;
    for (size_t c = 0; c < p->chains; c++) {
        p->lengths[c] = json_array_size(json_object_get(json_array_get(chains, c), name));
        p->shortest = p->lengths[c] < p->shortest ? p->lengths[c] : p->shortest;
        p->total += p->lengths[c];
    }
    p->x = calloc(p->total + 1, sizeof *p->x);
    for (size_t c = 0, at = 0; p->x != NULL && c < p->chains; at += p->lengths[c++])
        p->starts[c] = p->x + at;
    return p->x != NULL;
}

static void pool_read(struct pool *p, const struct place *root, const json_t *chains,
                      const char *name)
{
    size_t n = 0;
    for (size_t c = 0; c < p->chains; c++) {
        struct place chain = place_item(root, c), at = place_key(&chain, name);
        const json_t *draws = json_object_get(json_array_get(chains, c), name);
        for (size_t k = 0; k < p->lengths[c]; k++) {
            struct place item = place_item(&at, k);
            field_number(&item, json_array_get(draws, k), &p->x[n++]);
        }
    }
}

/* Standard errors and effective sizes, where they can be computed. Before the draws are sorted. */
static void measure_pool(struct reading *rd, size_t i, const struct pool *p)
{
    struct mixing m;
    struct mixing_draws draws = {
        .chains = p->starts, .lengths = p->lengths, .chain_count = p->chains};
    if (p->chains > MIXING_DRAWS / 2 || p->shortest == 0)
        return;
    draws.stride = mixing_stride(p->shortest, MIXING_DRAWS / p->chains);
    size_t room = p->total < MIXING_DRAWS ? p->total : MIXING_DRAWS; /* the same for all */
    if (rd->work == NULL && mixing_work_new(&rd->work, room, NULL) != ERR_OK) {
        rd->no_memory = true;
        return;
    }
    mixing_measure(&m, &draws, rd->work);
    rd->out->mcse_mean[i] = m.mcse_mean;
    rd->out->mcse_sd[i] = m.mcse_sd;
    rd->out->ess[i] = m.ess_bulk;
}

static void take_draws(struct reading *rd, size_t i, double *x, size_t n)
{
    struct reference *r = rd->out;
    struct moments m = {0};
    moments_add(&m, x, n);
    r->mean[i] = moments_mean(&m);
    r->sd[i] = sqrt(moments_variance(&m));
    moments_sort(x, n);
    for (size_t q = 0; q < MIXING_QUANTILES; q++)
        r->quantile[i][q] = moments_quantile(x, n, mixing_probability[q]);
    if (!reference_set_points(r, i, x, n))
        rd->no_memory = true;
}

static void read_draws_of(struct reading *rd, const struct place *root, const json_t *chains,
                          size_t i, const char *name)
{
    struct pool p;
    if (!pool_init(&p, chains, name)) {
        rd->no_memory = true;
    } else if (p.total < 2) {
        place_mistake(root, MISTAKE_range, "%zu draws of \"%.100s\"; at least 2 are needed",
                      p.total, name);
    } else {
        pool_read(&p, root, chains, name);
        measure_pool(rd, i, &p);
        take_draws(rd, i, p.x, p.total);
        if (!isfinite(rd->out->mean[i]) || !isfinite(rd->out->sd[i]))
            place_mistake(root, MISTAKE_range,
                          "draws of \"%.100s\" are so large that their variance is not a number",
                          name);
    }
    pool_release(&p);
}

/* One chain: an object of arrays of one length, with the names of the first chain. */
static void check_chain(const struct place *place, const json_t *chain, const json_t *first)
{
    const char *name;
    json_t *draws;
    size_t length = SIZE_MAX;
    if (!json_is_object(chain)) {
        place_mistake(place, MISTAKE_type,
                      "must be an object with an array of draws per parameter, not %s",
                      field_type(chain));
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)chain, name, draws) {
        struct place at = place_key(place, name);
        if (!json_is_array(draws)) {
            place_mistake(&at, MISTAKE_type, "must be an array of draws, not %s",
                          field_type(draws));
            continue;
        }
        if (length != SIZE_MAX && json_array_size(draws) != length)
            place_mistake(&at, MISTAKE_conflict, "has %zu draws; the parameters before it have %zu",
                          json_array_size(draws), length);
        length = length == SIZE_MAX ? json_array_size(draws) : length;
        if (json_object_get(first, name) == NULL)
            place_mistake(&at, MISTAKE_unknown, "is not a parameter of the first chain");
    }
    json_object_foreach ((json_t *)(uintptr_t)first, name, draws) {
        if (json_object_get(chain, name) == NULL)
            place_mistake(place, MISTAKE_required,
                          "lacks \"%.100s\", a parameter of the first chain", name);
    }
}

void reference_read_chains(struct reading *rd, const struct place *root, const json_t *chains)
{
    const json_t *first = json_array_get(chains, 0);
    size_t i = 0;
    const char *name;
    json_t *draws;
    if (json_array_size(chains) == 0)
        place_mistake(root, MISTAKE_range, "must have one object per chain and is empty");
    for (size_t c = 0; c < json_array_size(chains); c++) {
        struct place at = place_item(root, c);
        check_chain(&at, json_array_get(chains, c), first);
    }
    if (rd->mistakes->count > 0 || !reference_check_count(root, json_object_size(first)))
        return;
    rd->no_memory = !reference_init(rd->out, json_object_size(first));
    json_object_foreach ((json_t *)(uintptr_t)first, name, draws) {
        if (rd->no_memory)
            return;
        reference_set_name(rd, i, name);
        read_draws_of(rd, root, chains, i++, name);
    }
}
