/* Private to server/spec: what its files share. */
#ifndef BARKER_SERVER_SPEC_PARTS_H
#define BARKER_SERVER_SPEC_PARTS_H

#include "server/base/field.h"
#include "server/spec/spec.h"

/* The context of the readers. `model` and `sampler` of the spec are NULL until they are known. */
struct parse {
    struct job_spec *spec;           /* what is being filled */
    const struct job_limits *limits; /* never NULL */
    const json_t *json;              /* the whole document */
    const struct job_field *rows;    /* of the object that is being read */
    enum err failure;                /* an error other than a mistake of the client */
};

typedef void field_reader(struct parse *parse, const struct place *place, const json_t *json);

enum field_kind {
    FIELD_text,
    FIELD_integer,
    FIELD_number,
    FIELD_boolean,
    FIELD_choice,
    FIELD_own, /* read and write, or rows */
};

/* A row of the lists in fields.h; tables end with a NULL name. */
struct job_field {
    const char *name;
    enum field_kind kind;
    const char *kind_name; /* name of the kind for clients */
    size_t offset, size;   /* in struct job_spec */
    double fallback, lo, hi;
    const char *const *words;
    unsigned flags;
    const char *help;
    field_reader *read;
    json_t *(*write)(const struct job_spec *spec);
    const struct job_field *rows;
};

extern const struct job_field job_rows[];

void rows_default(struct parse *parse, const struct job_field *rows);
void rows_release(struct job_spec *spec, const struct job_field *rows);
/* Reads the fields of an object that are present. With FIELD_CHANGES in `only`, only fields that
 * may change are allowed. False when `json` is not an object. */
bool rows_read(struct parse *parse, const struct place *place, const json_t *json,
               const struct job_field *rows, unsigned only);
json_t *rows_write(const struct job_spec *spec, const struct job_field *rows);

/* Replaces *slot by a copy. */
void parse_copy(struct parse *parse, char **slot, const char *text);
/* Whether the field of the job is present. */
bool parse_given(const struct parse *parse, const char *name);
/* Whether there is a mistake at this place or below it. */
bool parse_wrong(const struct mistakes *mistakes, const char *pointer);

/* A list of at most max_count different names of at most max_characters each. *out is NULL after
 * mistakes. */
struct name_rule {
    size_t max_count, max_characters;
};
void parse_names(struct parse *parse, const struct place *place, const json_t *json,
                 struct name_rule rule, char ***out, size_t *count);
/* A list of numbers that all pass `rule`; *out is NULL after mistakes. */
void parse_numbers(struct parse *parse, const struct place *place, const json_t *json,
                   const struct param_spec *rule, double **out, size_t *count);
bool parse_number(const struct place *place, const json_t *json, const struct param_spec *rule,
                  double *out);
/* A whole number, or "auto": PLAN_AUTO. */
bool parse_open_count(const struct place *place, const json_t *json, double lo, double hi,
                      uint64_t *out);
json_t *write_open_count(uint64_t count);
json_t *write_names(char *const *names, size_t count);
json_t *write_numbers(const double *values, size_t count);

/* Of prior.c. */
field_reader read_prior;
json_t *write_prior(const struct job_spec *spec);
void parse_priors_free(struct job_spec *spec);

/* Rows that settings.c reads and writes. */
field_reader read_model, read_sampler;
json_t *write_model(const struct job_spec *spec), *write_sampler(const struct job_spec *spec);
void parse_sampler_open(struct job_spec *spec); /* as without a sampler */
/* Whether a setting of a model is about a prior that `prior` is about with a formula. */
bool spec_is_prior(const char *setting);

/* Marks the absent fields that the plan chooses as open; then checks combinations of fields. */
void parse_open(struct parse *parse, const struct place *root);

/* Names of the enumerations, in their order. START_NEAR is "auto", since it needs numbers from a
 * plan. */
extern const char *const spec_start_kinds[],
    *const spec_step_kinds[], *const spec_missing[], *const spec_decimals[],
                                                         *const spec_precisions[],
                                                             *const spec_estimators[],
                                                                 *const spec_centres[],
                                                                     *const spec_preconditions[],
                                                                         *const spec_visibilities[];

/* Sets a default metric_every, once the batch size and the length are known. */
void spec_bind_metrics(struct job_spec *spec, const struct model *model);

uint64_t spec_multiply(uint64_t a, uint64_t b); /* UINT64_MAX: too large */

void spec_names_free(char **names, size_t count);

#endif
