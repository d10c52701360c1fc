/* A spec as JSON again, nothing left to default. */
#include "server/spec/describe.h"
#include "server/base/json.h"
#include "server/spec/parts.h"

#include <string.h>

static json_t *name_list(char *const *names, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(&array, json_text(names[i]));
    return array;
}

static json_t *number_list(const double *values, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_add(&array, json_number(values[i]));
    return array;
}

static json_t *sigma(const struct step_size *step)
{
    return step->values != NULL ? number_list(step->values, step->count) : json_number(step->value);
}

/* The shortest of the accepted forms. */
static json_t *step_size(const struct step_size *step, bool own)
{
    if (step->kind == STEP_CONSTANT)
        return sigma(step);
    if (step->kind == STEP_AUTO && !own)
        return json_text("auto");
    json_t *out = json_object();
    json_put(&out, "kind", json_text(spec_step_kinds[step->kind]));
    if (step->kind == STEP_AUTO) {
        json_put(&out, "fraction", json_number(step->fraction));
    } else {
        json_put(&out, "value", sigma(step));
        json_put(&out, "t0", json_number(step->t0));
        json_put(&out, "gamma", json_number(step->gamma));
    }
    return out;
}

static json_t *settings(const char *name, struct param_table table, const double *values,
                        const struct job_spec *job)
{
    json_t *out = json_object();
    json_put(&out, "name", json_text(name));
    for (size_t i = 0; i < table.count; i++) {
        const struct param_spec *spec = &table.specs[i];
        if (values == job->sampler_params && job->variant_open &&
            i == job->sampler->variants->param)
            continue; /* left out, as it was given */
        bool list = spec->list && job->model_list != NULL && job->model_list_at == i;
        json_put(&out, spec->name,
                 list                       ? number_list(job->model_list, job->model_list_count)
                 : spec->kind == PARAM_STEP ? step_size(&job->step, job->step_own)
                                            : describe_value(spec, values[i]));
    }
    return out;
}

static json_t *data(const struct data_spec *data)
{
    if (data->path == NULL)
        return json_null();
    json_t *out = json_object();
    json_put(&out, "path", json_text(data->path));
    json_put(&out, "test", json_text(data->test));
    json_put(&out, "response", json_text(data->response));
    json_put(&out, "offset", json_text(data->offset));
    json_put(&out, "columns",
             data->columns != NULL ? name_list(data->columns, data->column_count) : json_null());
    json_put(&out, "intercept", json_boolean(data->intercept));
    json_put(&out, "standardize", json_boolean(data->standardize));
    json_put(&out, "precision", json_text(spec_precisions[data->precision]));
    return out;
}

static json_t *open_count(uint64_t count)
{
    return count == PLAN_AUTO ? json_text("auto") : json_count(count);
}

static json_t *batch_size(const struct job_spec *spec)
{
    if (spec->batch_default)
        return json_null();
    return spec->batch_size > 0 ? open_count(spec->batch_size) : json_text("full");
}

static json_t *gradient(const struct job_spec *spec)
{
    json_t *out = json_object();
    json_put(&out, "estimator", json_text(spec_estimators[spec->estimator]));
    json_put(&out, "centre", json_text(spec_centres[spec->centre]));
    json_put(&out, "one_in", open_count(spec->one_in > 0 ? spec->one_in : PLAN_AUTO));
    return out;
}

static json_t *init(const struct job_spec *spec)
{
    json_t *out = json_object();
    enum start_kind kind = spec->start_auto ? START_NEAR : spec->start;
    json_put(&out, "kind", json_text(spec_start_kinds[kind]));
    if (spec->start_auto)
        return out;
    if (spec->start == START_VALUES)
        json_put(&out, "values", number_list(spec->start_values, spec->start_count));
    if (spec->start == START_MAP)
        json_put(&out, "steps", json_count(spec->map_steps));
    return out;
}

static json_t *save(const struct job_spec *spec)
{
    json_t *out = json_object();
    json_put(&out, "params",
             spec->save_all ? json_null() : name_list(spec->save_names, spec->save_count));
    return out;
}

static json_t *given(double value)
{
    return value > 0.0 ? json_number(value) : json_null();
}

static json_t *stop_when(const struct stop_when *stop)
{
    if (stop->rhat == 0.0 && stop->ess == 0.0 && stop->seconds == 0.0)
        return json_null();
    json_t *out = json_object();
    json_put(&out, "rhat", given(stop->rhat));
    json_put(&out, "ess", given(stop->ess));
    json_put(&out, "seconds", given(stop->seconds));
    return out;
}

static json_t *target(const struct plan_target *target)
{
    json_t *out = json_object();
    json_put(&out, "sd_error", json_number(target->sd_error));
    json_put(&out, "mean_error", json_number(target->mean_error));
    json_put(&out, "ess", given(target->ess));
    json_put(&out, "seconds", given(target->seconds));
    return out;
}

json_t *spec_resolved(const struct job_spec *spec)
{
    json_t *out = json_object();
    json_put(&out, "name", json_text(spec->name));
    json_put(&out, "note", json_text(spec->note));
    json_put(&out, "tags", json_deep_copy(spec->tags));
    json_put(&out, "model",
             settings(spec->model->name, spec->model->params, spec->model_params, spec));
    json_put(&out, "data", data(&spec->data));
    json_put(&out, "sampler",
             settings(spec->sampler->name, spec->sampler->params, spec->sampler_params, spec));
    json_put(&out, "gradient", gradient(spec));
    json_put(&out, "precondition", json_text(spec_preconditions[spec->precondition]));
    json_put(&out, "batch_size", batch_size(spec));
    json_put(&out, "replacement", json_boolean(spec->replacement));
    json_put(&out, "iterations", open_count(spec->iterations));
    json_put(&out, "warmup", open_count(spec->warmup));
    json_put(&out, "thin", open_count(spec->thin));
    json_put(&out, "chains", open_count(spec->chains_auto ? PLAN_AUTO : spec->chains));
    json_put(&out, "target", target(&spec->target));
    json_put(&out, "seed", json_count(spec->seed));
    json_put(&out, "init", init(spec));
    json_put(&out, "save", save(spec));
    json_put(&out, "metric_every",
             spec->metric_default ? json_null() : json_count(spec->metric_every));
    json_put(&out, "reference", json_text(spec->reference));
    json_put(&out, "check_draws", json_count(spec->check_draws));
    json_put(&out, "stop_when", stop_when(&spec->stop_when));
    json_put(&out, "priority", json_integer(spec->priority));
    json_put(&out, "visibility", json_text(spec->lab ? "lab" : "private"));
    return out;
}
