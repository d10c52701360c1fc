/* What the files of spec_parse share. Private to server/spec*.c and describe.c. */
#ifndef BARKER_SERVER_SPEC_PARTS_H
#define BARKER_SERVER_SPEC_PARTS_H

#include "server/base/field.h"
#include "server/spec/spec.h"

#define SPEC_NAMES_MAX 100000 /* columns or saved parameters in one list */

/* The context of the readers. `model` and `sampler` of the spec are NULL until they are known. */
struct parse {
    struct job_spec *spec;           /* what is being filled */
    const struct job_limits *limits; /* never NULL */
    bool warmup_given, seed_given, batch_given, data_given;
    bool iterations_given, thin_given, chains_given, estimator_given, precondition_given;
    bool variant_given;
    bool run_wrong, step_wrong; /* no use in drawing conclusions from them */
    enum err failure;           /* other than a mistake */
};

/* Replaces *slot by a copy. */
void parse_copy(struct parse *parse, char **slot, const char *text);
/* Replaces *slot by a text that follows the rule. */
void parse_text(struct parse *parse, const struct place *place, const json_t *json,
                struct field_text rule, char **slot);

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
bool parse_open_count(const struct place *place, const json_t *json, int64_t lo, int64_t hi,
                      uint64_t *out);

/* Readers of the larger fields. */
void parse_model(void *parse, const struct place *place, const json_t *json);
void parse_sampler(void *parse, const struct place *place, const json_t *json);
void parse_data(void *parse, const struct place *place, const json_t *json);
void parse_init(void *parse, const struct place *place, const json_t *json);
void parse_save(void *parse, const struct place *place, const json_t *json);
void parse_stop_when(void *parse, const struct place *place, const json_t *json);
void parse_gradient(void *parse, const struct place *place, const json_t *json);
void parse_precondition(void *parse, const struct place *place, const json_t *json);
void parse_target(void *parse, const struct place *place, const json_t *json);

/* Fields that were not given and are ours to choose become so; then what cannot go together. */
void parse_open(struct parse *parse, const struct place *root);

/* Words of enum start_kind, enum step_kind, enum data_precision, enum plan_estimator, enum
 * plan_centre and enum plan_precondition, in their order; START_NEAR is "auto", since only a plan
 * has what it needs. */
extern const char *const spec_start_kinds[], *const spec_step_kinds[], *const spec_precisions[];
extern const char *const spec_estimators[], *const spec_centres[], *const spec_preconditions[];

/* Sets a default metric_every, once the batch size and the length are known. */
void spec_bind_metrics(struct job_spec *spec, const struct model *model);

void spec_names_free(char **names, size_t count);

#endif
