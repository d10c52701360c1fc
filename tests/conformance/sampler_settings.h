/* Every sampler of the registry with every combination of its choices, so that a test covers
 * whatever is added to the registry.
 *
 *     struct setting s = {0};
 *     while (setting_next(&s))
 *         ... s.sampler, s.params, s.name ... */
#ifndef BARKER_TESTS_SAMPLER_SETTINGS_H
#define BARKER_TESTS_SAMPLER_SETTINGS_H

#include "core/samplers/sampler.h"

#include <stdio.h>

struct setting {
    size_t at, combination; /* of the registry, of the choices */
    const struct sampler_type *sampler;
    double params[PARAM_MAX];
    char name[200];
};

/* Trees of at most 32 points: in scales that do not fit, deeper ones take minutes. */
#define SETTING_TREEDEPTH 5

/* The combination of choices of that number; false when there are no more. */
static inline bool setting_choose(struct setting *s, size_t k)
{
    struct param_table table = s->sampler->params;
    int used = snprintf(s->name, sizeof s->name, "%s", s->sampler->name);
    size_t depth = param_find(table, "max_treedepth");
    param_defaults(table, s->params);
    if (depth < table.count)
        s->params[depth] = SETTING_TREEDEPTH;
    for (size_t i = 0; i < table.count; i++) {
        if (table.specs[i].kind != PARAM_CHOICE)
            continue;
        size_t n = 0;
        while (table.specs[i].choices[n] != NULL)
            n++;
        s->params[i] = (double)(k % n);
        used += snprintf(s->name + used, sizeof s->name - (size_t)used, " %s",
                         table.specs[i].choices[k % n]);
        k /= n;
    }
    return k == 0;
}

static inline bool setting_next(struct setting *s)
{
    for (; s->at < sampler_count; s->at++, s->combination = 0) {
        s->sampler = samplers[s->at];
        if (setting_choose(s, s->combination)) {
            s->combination++;
            return true;
        }
    }
    return false;
}

#endif
