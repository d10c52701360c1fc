/* Priors by name. */
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PRIORS_MAX 10000

static const struct param_spec mean_rule = {
    .name = "mean", .kind = PARAM_REAL, .lo = -INFINITY, .hi = INFINITY};
static const struct param_spec sd_rule = {
    .name = "sd", .kind = PARAM_REAL, .lo_open = 1, .hi = INFINITY};
static const struct param_spec scale_rule = {
    .name = "scale", .kind = PARAM_REAL, .lo_open = 1, .hi = INFINITY};

static void read_mean(void *prior, const struct place *place, const json_t *json)
{
    parse_number(place, json, &mean_rule, &((struct named_prior *)prior)->mean);
}

static void read_sd(void *prior, const struct place *place, const json_t *json)
{
    parse_number(place, json, &sd_rule, &((struct named_prior *)prior)->sd);
}

static void read_scale(void *prior, const struct place *place, const json_t *json)
{
    parse_number(place, json, &scale_rule, &((struct named_prior *)prior)->scale);
}

static const struct field fields[] = {
    {"mean", read_mean}, {"sd", read_sd}, {"scale", read_scale}, {0}};

void parse_priors_free(struct job_spec *spec)
{
    for (size_t k = 0; k < spec->prior_count; k++)
        free(spec->priors[k].name);
    free(spec->priors);
    spec->priors = NULL;
    spec->prior_count = 0;
}

static void read_one(struct parse *p, const struct place *place, const char *name,
                     const json_t *json)
{
    struct named_prior *prior = &p->spec->priors[p->spec->prior_count];
    struct place at = place_key(place, name);
    if (strcmp(name, "autoscale") == 0) {
        field_boolean(&at, json, &p->spec->prior_scaled);
        return;
    }
    *prior = (struct named_prior){.name = strdup(name), .mean = NAN, .sd = NAN, .scale = NAN};
    if (prior->name == NULL) {
        p->failure = ERR_NO_MEMORY;
        return;
    }
    p->spec->prior_count++;
    if (!field_object(&at, json, fields, prior))
        return;
    bool normal = !isnan(prior->mean) || !isnan(prior->sd);
    if (!normal && isnan(prior->scale) && !parse_wrong(at.mistakes, ""))
        place_mistake(&at, MISTAKE_required, "is empty; give mean, sd or scale");
    else if (normal && !isnan(prior->scale))
        place_mistake(&at, MISTAKE_conflict,
                      "has a scale, of sigma or phi, and a mean or sd, of a coefficient");
    else if (!isnan(prior->mean) && strcmp(name, PRIOR_DEFAULT) == 0)
        place_mistake(&at, MISTAKE_conflict, "has a mean; give means coefficient by coefficient");
}

void read_prior(struct parse *p, const struct place *place, const json_t *json)
{
    const char *name;
    json_t *value;
    if (!json_is_object(json)) {
        place_mistake(place, MISTAKE_type,
                      "must be an object such as {\"age\": {\"sd\": 2}}, not %s", field_type(json));
        return;
    }
    if (json_object_size(json) > PRIORS_MAX) {
        place_mistake(place, MISTAKE_limit, "has %zu members; at most %d are allowed",
                      json_object_size(json), PRIORS_MAX);
        return;
    }
    parse_priors_free(p->spec);
    p->spec->priors = calloc(json_object_size(json) + 1, sizeof *p->spec->priors);
    if (p->spec->priors == NULL) {
        p->failure = ERR_NO_MEMORY;
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)json, name, value)
        if (!json_is_null(value))
            read_one(p, place, name, value);
}

static void put_number(json_t **out, const char *key, double value)
{
    if (!isnan(value))
        json_put(out, key, json_real(value));
}

json_t *write_prior(const struct job_spec *spec)
{
    json_t *out = json_object();
    if (spec->prior_count == 0 && spec->prior_scaled) {
        json_decref(out);
        return json_null();
    }
    for (size_t k = 0; k < spec->prior_count; k++) {
        const struct named_prior *prior = &spec->priors[k];
        json_t *one = json_object();
        put_number(&one, "mean", prior->mean);
        put_number(&one, "sd", prior->sd);
        put_number(&one, "scale", prior->scale);
        json_put(&out, prior->name, one);
    }
    if (!spec->prior_scaled)
        json_put(&out, "autoscale", json_false());
    return out;
}
