/* The ladder: the same job at several step sizes, extrapolated to step size zero.
 *
 * Every job has a seed of its own (that of the job at factor 1, then increasing), so that their
 * errors are independent. With equal seeds the first moves would be alike and the errors
 * correlated to an unknown degree. */
#include "server/api/measure.h"
#include "server/api/query_list.h"
#include "server/api/study.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/base/text.h"
#include "server/diagnose/ladder.h"
#include "server/spec/spec.h"
#include "server/store/jobfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 100, LIMIT_MAX = 1000, MEASURED_MAX = 5000 };

#define FACTOR_MIN 0.01
#define FACTOR_MAX 10.0
#define SEED_MASK  ((UINT64_C(1) << 53) - 1) /* seeds of jobs fit into 53 bits */

/* ---- the request ---- */

struct request_for_ladder {
    const json_t *job; /* an object, or NULL; borrowed */
    const char *id;    /* of a finished job, or NULL; borrowed */
    double factors[LADDER_MAX];
    size_t count;
    bool lengthen;
};

static void read_job(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_ladder *r = ctx;
    if (json_is_object(json))
        r->job = json;
    else if (json_is_string(json) && job_id_valid(json_string_value(json)))
        r->id = json_string_value(json);
    else
        place_mistake(place, MISTAKE_type,
                      "must be a job as it would be submitted, or the id of one that has "
                      "succeeded");
}

static bool listed(const struct request_for_ladder *r, double factor)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->factors[i] == factor)
            return true;
    return false;
}

static void read_factors(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_ladder *r = ctx;
    size_t n = json_array_size(json);
    r->count = 0;
    if (!json_is_array(json) || n < 2 || n > LADDER_MAX) {
        place_mistake(place, MISTAKE_type, "must be an array of 2 to %d numbers", LADDER_MAX);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct place at = place_item(place, i);
        double factor;
        if (!field_number(&at, json_array_get(json, i), &factor))
            continue;
        if (!(factor >= FACTOR_MIN && factor <= FACTOR_MAX))
            place_mistake(&at, MISTAKE_range, "%g is not allowed; it must be from %g to %g", factor,
                          FACTOR_MIN, FACTOR_MAX);
        else if (listed(r, factor))
            place_mistake(&at, MISTAKE_conflict, "%g is in the list twice", factor);
        else
            r->factors[r->count++] = factor;
    }
    if (r->count == n && !listed(r, 1.0))
        place_mistake(place, MISTAKE_required,
                      "must contain 1, the job itself: the other factors show its bias");
}

static void read_lengthen(void *ctx, const struct place *place, const json_t *json)
{
    struct request_for_ladder *r = ctx;
    field_boolean(place, json, &r->lengthen);
}

static bool read_request(struct call *call, const json_t *json, struct request_for_ladder *r)
{
    static const struct field fields[] = {{"kind", NULL},
                                          {"name", NULL},
                                          {"job", read_job},
                                          {"factors", read_factors},
                                          {"lengthen", read_lengthen},
                                          {NULL, NULL}};
    struct mistakes mistakes = {0};
    struct place root = place_root(&mistakes), at = place_key(&root, "job");
    *r = (struct request_for_ladder){.factors = {1.0, 0.5}, .count = 2};
    field_object(&root, json, fields, r);
    if (field_get(json, "job") == NULL)
        place_mistake(&at, MISTAKE_required,
                      "is required: a job as it would be submitted, or the id of one that "
                      "has succeeded");
    if (mistakes.count > 0)
        call_mistakes(call, &mistakes);
    return mistakes.count == 0;
}

/* ---- the job at factor 1 ---- */

struct base {
    struct job_row row; /* of an existing job */
    bool existing;
    struct job_spec spec;
    bool parsed;
    json_t *resolved;
    json_t *sigma; /* step sizes that the chains of an existing job have chosen, or NULL */
};

static void base_release(struct base *base)
{
    if (base->existing)
        job_row_release(&base->row);
    if (base->parsed)
        spec_release(&base->spec);
    json_decref(base->resolved);
    json_decref(base->sigma);
}

static void check_sampler(const struct base *base, struct mistakes *mistakes)
{
    const struct job_spec *spec = &base->spec;
    if (spec->sampler_open)
        mistake_add(mistakes, "/sampler", MISTAKE_conflict,
                    "auto may choose an exact sampler, which has no bias to extrapolate: name a "
                    "stochastic-gradient sampler");
    else if (spec->sampler->exact)
        mistake_add(mistakes, "/sampler", MISTAKE_conflict,
                    "%s is exact at every step size: there is no bias to extrapolate",
                    spec->sampler->name);
    else if (sampler_needs_noise(spec->sampler, spec->sampler_params))
        mistake_add(mistakes, "/sampler/variant", MISTAKE_conflict,
                    "this variant does not tend to the posterior as its step size goes to 0: "
                    "there is nothing to extrapolate to");
    else if (spec->step.kind == STEP_AUTO && !base->existing)
        mistake_add(mistakes, "/sampler/step_size", MISTAKE_conflict,
                    "auto is chosen again in every run: give numbers, or run the job first and put "
                    "its id here");
    else if (spec_is_open(spec) && !base->existing)
        mistake_add(mistakes, "", MISTAKE_conflict,
                    "settings that are auto are chosen again in every run: give numbers, or run "
                    "the job first "
                    "and put its id here");
}

static bool find_existing(struct call *call, const char *id, struct base *base)
{
    char detail[200];
    if (!call_job_named(call, id, &base->row, false))
        return false;
    base->existing = true;
    if (base->row.state == JOB_succeeded)
        return true;
    snprintf(detail, sizeof detail, "job %s is %s; a ladder can use it once it has succeeded", id,
             job_state_name(base->row.state));
    call_fail(call, ERR_CONFLICT, detail);
    return false;
}

/* Every chain chose its own step size, and their draws are pooled: the bias of the pool is that
 * of the mean of sigma^2 over the chains. */
static enum err mean_square(struct jobfile *file, double *sigma, struct err_info *info)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    double *one = malloc(about.d * sizeof *one);
    enum err code = ERR_OK;
    if (one == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu step sizes", about.d);
    for (uint32_t c = 1; c <= about.chains && code == ERR_OK; c++) {
        code = jobfile_vector(file, c, JOBFILE_SIGMA, one, info);
        for (size_t j = 0; j < about.d && code == ERR_OK; j++)
            sigma[j] += one[j] * one[j] / (double)about.chains;
    }
    free(one);
    return code;
}

static json_t *chosen_steps(struct jobfile *file, struct err_info *info)
{
    struct jobfile_info about;
    json_t *list = NULL;
    jobfile_info(file, &about);
    double *sigma = calloc(about.d + 1, sizeof *sigma);
    if (sigma != NULL && mean_square(file, sigma, info) == ERR_OK) {
        list = json_array();
        for (size_t j = 0; j < about.d; j++)
            json_add(&list, json_number(sqrt(sigma[j])));
    }
    if (sigma == NULL || (list == NULL && info->code == ERR_OK))
        err_set(info, ERR_NO_MEMORY, "no memory for %zu step sizes", about.d);
    free(sigma);
    return list;
}

/* The steps are in the document of this job and in those of `copies` new ones. */
static bool load_steps(struct call *call, size_t copies, struct base *base)
{
    enum { STEP_BYTES = 128 }; /* a number in a document, and its text */
    struct jobfile *file;
    struct jobfile_info about;
    struct err_info info = {0};
    if (base->spec.step.kind != STEP_AUTO)
        return true;
    if (!call_jobfile(call, base->row.id, &file))
        return false;
    jobfile_info(file, &about);
    bool room = call_reserve(call, STEP_BYTES * (uint64_t)about.d * (copies + 1));
    base->sigma = room ? chosen_steps(file, &info) : NULL;
    jobfile_close(file);
    if (room && base->sigma == NULL)
        call_fail_info(call, &info);
    return base->sigma != NULL;
}

static bool parse_base(struct call *call, const json_t *job, struct base *base)
{
    struct mistakes mistakes = {0};
    enum err code = spec_parse(&base->spec, job, call->app->limits, &mistakes);
    base->parsed = code == ERR_OK;
    if (base->parsed)
        check_sampler(base, &mistakes);
    if (mistakes.count > 0)
        study_mistakes(call, &mistakes);
    else if (code != ERR_OK)
        call_fail(call, code, NULL);
    return code == ERR_OK && mistakes.count == 0;
}

static bool load_base(struct call *call, const struct request_for_ladder *r, struct base *base)
{
    if (r->id != NULL && !find_existing(call, r->id, base))
        return false;
    json_t *stored = r->id != NULL ? json_loads(base->row.request, 0, NULL) : NULL;
    if (r->id != NULL && stored == NULL) {
        call_fail(call, ERR_CORRUPT, "the stored request of the job cannot be read");
        return false;
    }
    bool good =
        parse_base(call, r->id != NULL ? stored : r->job, base) && load_steps(call, r->count, base);
    json_decref(stored);
    if (good)
        base->resolved = spec_resolved(&base->spec);
    if (good && base->resolved == NULL)
        call_fail(call, ERR_NO_MEMORY, NULL);
    return base->resolved != NULL;
}

/* ---- the jobs at other factors ---- */

/* A step size as it is submitted, times the factor: a number, an array, or a schedule. */
static json_t *scaled(const json_t *step, double factor)
{
    size_t i;
    json_t *one, *out;
    if (json_is_array(step)) {
        out = json_array();
        json_array_foreach (step, i, one)
            json_add(&out, scaled(one, factor));
        return out;
    }
    if (json_is_number(step))
        return json_number(json_number_value(step) * factor);
    out = json_deep_copy(step);
    json_put(&out, "value", scaled(json_object_get(step, "value"), factor));
    return out;
}

/* With steps f times as long, 1/f^2 times as many iterations cover the same distance. Thinned by
 * the same factor, they store as many draws. */
static void lengthen(json_t **job, double factor)
{
    static const char *const fields[] = {"iterations", "warmup", "thin", "metric_every"};
    double times = round(1.0 / (factor * factor));
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && times > 1.0; i++) {
        double value = json_number_value(json_object_get(*job, fields[i]));
        json_put(job, fields[i], json_number(value * times));
    }
}

static void name_job(json_t **job, const char *name, double factor)
{
    char text[200];
    snprintf(text, sizeof text, "%.160s", name);
    text_trim(text);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, ", step x %g", factor);
    json_put(job, "name", json_text(text));
}

static json_t *job_at(const struct base *base, double factor, uint64_t seed, bool longer)
{
    json_t *job = json_deep_copy(base->resolved), *sampler = json_object_get(job, "sampler");
    const json_t *step = base->sigma != NULL ? base->sigma : json_object_get(sampler, "step_size");
    if (sampler == NULL || json_object_set_new(sampler, "step_size", scaled(step, factor)) != 0) {
        json_decref(job);
        return NULL;
    }
    /* Step sizes that chains chose are in the units of the parameters: they include the scales. */
    if (base->sigma != NULL && base->spec.precondition == PRECONDITION_DIAGONAL)
        json_put(&job, "precondition", json_text("none"));
    json_put(&job, "seed", json_count(seed));
    name_job(&job, base->spec.name, factor);
    if (longer)
        lengthen(&job, factor);
    return job;
}

static json_t *setting(double factor, uint64_t seed)
{
    json_t *doc = json_object();
    json_put(&doc, "factor", json_number(factor));
    json_put(&doc, "seed", json_count(seed));
    return doc;
}

static bool add_items(const struct request_for_ladder *r, const struct base *base,
                      struct study_plan *plan)
{
    uint64_t others = 0;
    bool good = true;
    for (size_t i = 0; i < r->count; i++) {
        struct study_item *item = &plan->items[plan->count++];
        double factor = r->factors[i];
        uint64_t seed = (base->spec.seed + (factor == 1.0 ? 0 : ++others)) & SEED_MASK;
        item->setting = setting(factor, seed);
        if (factor == 1.0 && base->existing)
            memcpy(item->existing, base->row.id, sizeof item->existing);
        else
            item->job = job_at(base, factor, seed, r->lengthen);
        good = good && item->setting != NULL && (item->job != NULL || item->existing[0] != '\0');
    }
    return good;
}

static json_t *request_json(const struct request_for_ladder *r, const struct base *base)
{
    json_t *doc = json_object(), *factors = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_add(&factors, json_number(r->factors[i]));
    json_put(&doc, "job", base->existing ? json_text(base->row.id) : json_incref(base->resolved));
    json_put(&doc, "factors", factors);
    json_put(&doc, "lengthen", json_boolean(r->lengthen));
    return doc;
}

static char *default_name(const char *job)
{
    char text[200];
    snprintf(text, sizeof text, "%.180s", job);
    text_trim(text);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, ": step sizes");
    return strdup(text);
}

static bool fill_plan(const struct request_for_ladder *r, const struct base *base,
                      struct study_plan *plan)
{
    plan->name = default_name(base->spec.name);
    plan->request = request_json(r, base);
    plan->data_sha256 = base->existing ? strdup(base->row.data_sha256) : NULL;
    return plan->name != NULL && plan->request != NULL &&
           (plan->data_sha256 != NULL || !base->existing) && add_items(r, base, plan);
}

static bool parse_ladder(struct call *call, const json_t *json, struct study_plan *plan)
{
    struct request_for_ladder r;
    struct base base = {0};
    bool good = read_request(call, json, &r) && load_base(call, &r, &base);
    if (good && !fill_plan(&r, &base, plan)) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        good = false;
    }
    base_release(&base);
    return good;
}

/* ---- the result ---- */

struct side {
    const struct study_part *part;
    struct jobfile *file;
    struct extent extent;
    struct summary summary;
};

struct climb {
    struct side sides[LADDER_MAX]; /* those with draws after warm-up */
    struct ladder ladder;
    size_t width, d;
    struct query_numbers columns; /* of `params` */
    size_t stride;                /* of the columns, without `params` */
    bool complete;                /* every job has succeeded and is used */
};

static void climb_release(struct climb *c)
{
    for (size_t i = 0; i < c->ladder.side_count; i++) {
        summary_release(&c->sides[i].summary);
        jobfile_close(c->sides[i].file);
    }
    ladder_release(&c->ladder);
    query_numbers_release(&c->columns);
    free(c);
}

/* Adds the job if it has draws; false: answered. */
static bool open_side(struct call *call, struct climb *c, const struct study_part *part)
{
    struct err_info info;
    struct side *side = &c->sides[c->ladder.side_count];
    double factor = json_number_value(json_object_get(part->setting, "factor"));
    *side = (struct side){.part = part};
    enum err code = jobfile_open(&side->file, call->app->store, part->id, &info);
    if (code == ERR_NOT_FOUND)
        return true;
    if (code == ERR_OK)
        code = extent_read(&side->extent, side->file, &info);
    if (code == ERR_OK && side->extent.draws > 0) {
        if (factor == 1.0)
            c->ladder.base = c->ladder.side_count;
        c->ladder.sides[c->ladder.side_count++] =
            (struct ladder_side){.factor = factor, .summary = &side->summary};
        return true;
    }
    if (side->file != NULL)
        jobfile_close(side->file);
    if (code != ERR_OK)
        call_fail_info(call, &info);
    return code == ERR_OK;
}

static bool open_sides(struct call *call, const struct study_view *view, struct climb *c)
{
    size_t succeeded = 0;
    c->ladder.base = SIZE_MAX;
    for (size_t i = 0; i < view->count && i < LADDER_MAX; i++) {
        const struct study_part *part = &view->parts[i];
        succeeded += part->visible && part->state == JOB_succeeded;
        if (part->visible && !open_side(call, c, part))
            return false;
    }
    c->complete = succeeded == view->count && c->ladder.side_count == view->count;
    return true;
}

/* All jobs save the same parameters, because their requests do not differ in that. */
static bool choose_columns(struct call *call, struct climb *c)
{
    struct jobfile_info about;
    jobfile_info(c->sides[c->ladder.base].file, &about);
    c->width = about.width;
    c->d = about.d;
    c->stride = (about.width + MEASURED_MAX - 1) / MEASURED_MAX;
    return request_query(call->req, "params") == NULL ||
           query_parameters(call, c->sides[c->ladder.base].file, 0, LIMIT_MAX, &c->columns);
}

static enum err measure_sides(struct climb *c, struct err_info *info)
{
    enum err code = ERR_OK;
    size_t sides = c->ladder.side_count, count = c->columns.count;
    for (size_t i = 0; i < sides && code == ERR_OK; i++) {
        struct side *s = &c->sides[i];
        if (count > 0) {
            code = measure_columns(&s->summary, s->file, c->columns.at, count,
                                   measure_draws_at_once(&s->extent, count * sides), info);
        } else {
            size_t all = (c->width + c->stride - 1) / c->stride;
            code = measure_stride(&s->summary, s->file, all, c->stride,
                                  measure_draws_at_once(&s->extent, all * sides), info);
        }
        if (code == ERR_OK && s->summary.count != c->sides[0].summary.count)
            code = err_set(info, ERR_CONFLICT, "the jobs of the study save different parameters");
    }
    return code;
}

static const char *column_name(void *ctx, size_t column)
{
    return jobfile_name(ctx, column);
}

static json_t *sides_json(const struct climb *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->ladder.side_count; i++) {
        const struct side *s = &c->sides[i];
        json_t *doc = json_object();
        json_put(&doc, "factor", json_number(c->ladder.sides[i].factor));
        json_put(&doc, "job", json_text(s->part->id));
        json_put(&doc, "chains", json_count(s->extent.chains));
        json_put(&doc, "draws", json_count((uint64_t)s->summary.draws * s->extent.chains));
        json_add(&list, doc);
    }
    return list;
}

static json_t *cautions_json(const struct climb *c, size_t jobs)
{
    char text[200];
    json_t *list = ladder_cautions(&c->ladder);
    if (!c->complete) {
        snprintf(
            text, sizeof text,
            "provisional: not all %zu jobs have succeeded; this is from the draws of %zu so far",
            jobs, c->ladder.side_count);
        json_add(&list, json_text(text));
    }
    if (c->columns.count == 0 && c->stride > 1) {
        snprintf(text, sizeof text, "%zu of %zu saved parameters were measured, evenly spaced",
                 c->ladder.count, c->width);
        json_add(&list, json_text(text));
    }
    return list;
}

static json_t *result_json(const struct climb *c, size_t jobs, uint64_t limit)
{
    char sentence[LADDER_TEXT_SIZE];
    json_t *doc = json_object(), *rows = json_array();
    for (size_t k = 0; k < c->ladder.count && k < limit; k++)
        json_add(&rows, ladder_row_json(&c->ladder, &c->ladder.rows[k]));
    json_put(&doc, "complete", json_boolean(c->complete));
    json_put(&doc, "sentence", json_text(ladder_sentence(&c->ladder, sentence)));
    json_put(&doc, "cautions", cautions_json(c, jobs));
    json_put(&doc, "factors", sides_json(c));
    json_put(&doc, "parameters", rows);
    json_put(&doc, "biased", json_count(c->ladder.biased));
    json_put(&doc, "measured", json_count(c->ladder.count));
    json_put(&doc, "saved", json_count(c->width));
    json_put(&doc, "parameters_total", json_count(c->d));
    return doc;
}

static bool measure(struct call *call, struct climb *c, size_t jobs, uint64_t limit, json_t **out)
{
    struct err_info info;
    c->ladder.name = column_name;
    c->ladder.name_ctx = c->sides[c->ladder.base].file;
    if (!choose_columns(call, c))
        return false;
    enum err code = measure_sides(c, &info);
    if (code == ERR_OK)
        code = ladder_init(&c->ladder, &info);
    if (code != ERR_OK) {
        call_fail_info(call, &info);
        return false;
    }
    *out = result_json(c, jobs, limit);
    if (*out == NULL)
        call_fail(call, ERR_NO_MEMORY, NULL);
    return *out != NULL;
}

static bool result_ladder(struct call *call, const struct study_view *view, json_t **out,
                          char *reason, size_t size)
{
    uint64_t limit = LIMIT;
    struct climb *c = calloc(1, sizeof *c);
    if (c == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return false;
    }
    bool good = call_query_count(call, "limit", 1, LIMIT_MAX, &limit) &&
                call_reserve_rows(call, 2 * limit) && open_sides(call, view, c);
    if (good && c->ladder.base != SIZE_MAX && c->ladder.side_count >= 2)
        good = measure(call, c, view->count, limit, out);
    else if (good)
        snprintf(
            reason, size,
            "draws after warm-up are needed from the job at factor 1 and from one more; %zu of "
            "%zu jobs have some",
            c->ladder.side_count, view->count);
    climb_release(c);
    return good;
}

const struct study_kind study_ladder = {
    .name = "ladder",
    .help = "the same job at several step sizes, extrapolated to step size zero",
    .parse = parse_ladder,
    .result = result_ladder,
};
