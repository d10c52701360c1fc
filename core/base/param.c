/* Parameter tables: defaults, checks, look-up. */
#include "core/base/param.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void param_defaults(struct param_table table, double *values)
{
    for (size_t i = 0; i < table.count; i++)
        values[i] = table.specs[i].fallback;
}

static size_t choice_count(const struct param_spec *spec)
{
    size_t n = 0;
    while (spec->choices[n] != NULL)
        n++;
    return n;
}

static void allowed_range(const struct param_spec *spec, char *out, size_t size)
{
    const char *what = spec->kind == PARAM_INT ? "a whole number" : "a number";
    if (isfinite(spec->lo) && isfinite(spec->hi))
        snprintf(out, size, "%s %s %.10g and at most %.10g", what,
                 spec->lo_open ? "greater than" : "of at least", spec->lo, spec->hi);
    else if (isfinite(spec->lo))
        snprintf(out, size, "%s %s %.10g", what, spec->lo_open ? "greater than" : "of at least",
                 spec->lo);
    else if (isfinite(spec->hi))
        snprintf(out, size, "%s of at most %.10g", what, spec->hi);
    else
        snprintf(out, size, "%s", what);
}

enum err param_check(const struct param_spec *spec, double value, struct err_info *info)
{
    char allowed[120];
    if (spec->kind == PARAM_CHOICE) {
        if (value >= 0 && value < (double)choice_count(spec) && value == floor(value))
            return ERR_OK;
        return err_set(info, ERR_INVALID, "%.17g is not the index of a choice", value);
    }
    if (spec->kind == PARAM_BOOL) {
        if (value == 0.0 || value == 1.0)
            return ERR_OK;
        return err_set(info, ERR_INVALID, "%.17g is neither true nor false", value);
    }
    bool inside = isfinite(value) && value >= spec->lo && value <= spec->hi &&
                  !(spec->lo_open && value == spec->lo);
    if (inside && (spec->kind != PARAM_INT || value == floor(value)))
        return ERR_OK;
    allowed_range(spec, allowed, sizeof allowed);
    return err_set(info, ERR_INVALID, "%.10g is not allowed; it must be %s", value, allowed);
}

size_t param_find(struct param_table table, const char *name)
{
    size_t i = 0;
    while (i < table.count && strcmp(table.specs[i].name, name) != 0)
        i++;
    return i;
}

static enum err check_sigma(double sigma, struct err_info *info)
{
    if (sigma > 0.0 && sigma <= STEP_SIZE_MAX)
        return ERR_OK;
    return err_set(info, ERR_INVALID,
                   "%.10g is not allowed; a step size is a number greater than 0 and at most 1e100",
                   sigma);
}

enum err step_size_check(const struct step_size *step, struct err_info *info)
{
    if (step->kind == STEP_AUTO) {
        if (isfinite(step->fraction) && step->fraction > 0.0 && step->fraction <= 2.0)
            return ERR_OK;
        return err_set(info, ERR_INVALID,
                       "fraction %.10g is not allowed; it must be greater than 0 and at most 2",
                       step->fraction);
    }
    if (step->kind == STEP_SCHEDULE) {
        if (!(isfinite(step->t0) && step->t0 > 0.0))
            return err_set(info, ERR_INVALID, "t0 %.10g is not allowed; it must be greater than 0",
                           step->t0);
        if (!(step->gamma > 0.0 && step->gamma <= 1.0))
            return err_set(info, ERR_INVALID,
                           "gamma %.10g is not allowed; it must be greater than 0 and at most 1",
                           step->gamma);
    }
    if (step->values == NULL)
        return check_sigma(step->value, info);
    for (size_t j = 0; j < step->count; j++) {
        enum err code = check_sigma(step->values[j], info);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}
