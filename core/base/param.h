/* Parameters as data: a sampler or model describes its settings in a table, and everything else
 * (JSON decoding, range errors, GET /v1/samplers, --help, the web form) is derived from it.
 *
 * The values that belong to a table are an array of doubles in table order: a number as it is, a
 * whole number exactly (|x| < 2^53), a boolean as 0 or 1, a choice as its index. A setting of kind
 * PARAM_STEP has its value in a `struct step_size` beside the array; its slot stays 0. */
#ifndef BARKER_CORE_BASE_PARAM_H
#define BARKER_CORE_BASE_PARAM_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum param_kind { PARAM_REAL, PARAM_INT, PARAM_BOOL, PARAM_CHOICE, PARAM_STEP };

struct param_spec {
    const char *name;
    enum param_kind kind;
    double fallback; /* the default: number, 0/1, or index of the choice */
    double lo, hi;   /* allowed range of numbers; lo is excluded when lo_open */
    unsigned lo_open;
    unsigned noise; /* of a model: changes the noise of its gradient, not the target */
    unsigned list;  /* PARAM_REAL: may be a list of numbers, which is passed outside the array */
    const char *const *choices; /* NULL-terminated; PARAM_CHOICE only */
    const char *help;           /* one sentence */
};

struct param_table {
    const struct param_spec *specs;
    size_t count;
};

#define PARAM_MAX 16 /* settings in one table */

/* Fills `values` with the defaults. */
void param_defaults(struct param_table table, double *values);

/* Checks one number against its spec. The message states the value and what is allowed; callers
 * put the setting's name before it, as in "step_size: ". */
enum err param_check(const struct param_spec *spec, double value, struct err_info *info);

/* Index in the table, or table.count. */
size_t param_find(struct param_table table, const char *name);

/* The step size sigma: one number or one per coordinate, constant or on the schedule
 * sigma_t = sigma_0 (1 + t/t0)^(-gamma), or chosen during warm-up and then frozen (STEP_AUTO). */
enum step_kind { STEP_CONSTANT, STEP_SCHEDULE, STEP_AUTO };

struct step_size {
    enum step_kind kind;
    double value;         /* sigma_0 of every coordinate when values == NULL */
    const double *values; /* borrowed; sigma_0 per coordinate */
    size_t count;         /* length of `values` */
    double t0, gamma;     /* STEP_SCHEDULE */
    double fraction;      /* STEP_AUTO: step size over posterior scale; default STEP_FRACTION */
};

#define STEP_FRACTION 0.2
#define STEP_SIZE_MAX 1e100

/* Checks everything except `count`, which the chain compares with its dimension. */
enum err step_size_check(const struct step_size *step, struct err_info *info);

#endif
