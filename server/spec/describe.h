/* Samplers and models as JSON, from their parameter tables: the replies of GET /v1/samplers and GET
 * /v1/models, which the command line and the dashboard read.
 *
 *     {"name", "help", "parameters": [...],
 *      "exact", "schedule"                                 of a sampler
 *      "data": "none" | "regression" | "rows" | "triplets", "metrics": [names], "default_init",
 *      "prior": [...]}                                     of a model
 *
 * A parameter: {"name", "kind": "number" | "integer" | "boolean" | "choice" | "step_size",
 * "default", "minimum" or "exclusive_minimum", "maximum", "choices", "help"}; bounds only where
 * they are finite, choices only of a choice. A prior: {"block", "family", "mean", "sd"}, where mean
 * and sd are a number, the name of a parameter, or null (struct model_prior). All functions return
 * NULL when out of memory. */
#ifndef BARKER_SERVER_SPEC_DESCRIBE_H
#define BARKER_SERVER_SPEC_DESCRIBE_H

#include "core/model/model.h"
#include "core/samplers/sampler.h"

#include <jansson.h>

json_t *describe_sampler(const struct sampler_type *sampler);
json_t *describe_model(const struct model_type *model);

/* The fields of a job (server/spec/fields.h), an array for GET /v1/fields: {"pointer", "kind",
 * "default", bounds and "choices" as above, "max_length" of a text, "auto": "auto" is allowed,
 * "required", "changes": PATCH may change it, "help"}. A default that depends on other fields is
 * null; that of /data/response applies to regressions. */
json_t *describe_fields(void);

/* A value of the table as a client writes it: the word of a choice, true or false, a number. Null
 * for a step size, whose value is not in the table. */
json_t *describe_value(const struct param_spec *spec, double value);

#endif
