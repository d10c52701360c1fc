/* A CmdStan CSV file of one chain, for the readers of rstan, cmdstanr, cmdstanpy and ArviZ.
 *
 * They look for the settings and columns of Stan's sampler, and some fail without them:
 *
 * - lp__ is NaN: the log density at a draw is not stored, and is never computed by samplers that
 * see minibatches. accept_stat__ is 1 where every proposal is accepted, and NaN where it is not,
 * because the probabilities are not stored. stepsize__ is NaN where it is not one number. - thin is
 * 1 and both counts are rows of the file, or would be with the warm-up. What was run is in our own
 * keys, sg_thin and so on. - save_warmup is 0 or 1: some readers do not accept true and false. -
 * Warm-up draws come before the lines about the adaptation. No other # line is among the draws. */
#include "core/samplers/sampler.h"
#include "server/base/clock.h"
#include "server/base/decimal.h"
#include "server/base/json.h"
#include "server/results/export_parts.h"
#include "server/results/stan_names.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD, NAMES, WARMUP, ADAPTATION, SAMPLING, FOOT, OVER };
enum { HEAD_SIZE = 8192, VALUE_SIZE = 64 };

struct stan {
    char step[DECIMAL_SIZE]; /* as text */
    char row[EXPORT_ROW_BEGIN];
    uint64_t warmup; /* rows */
    double warmup_seconds;
    size_t head_size;
    char head[HEAD_SIZE];
    char *name;   /* room for one */
    bool whole[]; /* of each column: an element of an array of which all elements are exported */
};

static struct stan *state_of(const struct export *e)
{
    return e->scratch;
}

/* ---- description of the run ---- */

static void add_text(struct stan *s, const char *text)
{
    size_t n = strlen(text);
    assert(s->head_size + n <= HEAD_SIZE);
    memcpy(s->head + s->head_size, text, n);
    s->head_size += n;
}

static void add_word(struct stan *s, const char *word)
{
    add_text(s, "# ");
    add_text(s, word);
    add_text(s, "\n");
}

static void add_line(struct stan *s, const char *key, const char *value)
{
    add_text(s, "# ");
    add_text(s, key);
    add_text(s, " = ");
    add_text(s, value);
    add_text(s, "\n");
}

static void add_count(struct stan *s, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    add_line(s, key, text);
}

/* A setting as one word without an equals sign, as readers require; false: there is no such
 * setting. */
static bool write_value(const json_t *value, char out[VALUE_SIZE])
{
    const char *text =
        json_string_value(json_is_object(value) ? json_object_get(value, "kind") : value);
    if (text == NULL && (value == NULL || json_is_null(value) || json_is_object(value)))
        return false;
    if (json_is_integer(value))
        snprintf(out, VALUE_SIZE, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        out[decimal_write(json_real_value(value), out)] = '\0';
    else if (json_is_boolean(value))
        snprintf(out, VALUE_SIZE, "%s", json_is_true(value) ? "true" : "false");
    else
        snprintf(out, VALUE_SIZE, "%s", text != NULL ? text : "per_coordinate");
    for (char *c = out; *c != '\0'; c++)
        if (*c <= ' ' || *c == '=' || *c == '#')
            *c = '_';
    return true;
}

static void add_setting(struct stan *s, const char *key, const json_t *value)
{
    char text[VALUE_SIZE], name[VALUE_SIZE + 20];
    if (strcmp(key, "name") == 0 || !write_value(value, text))
        return;
    snprintf(name, sizeof name, "        sg_%.60s", key);
    add_line(s, name, text);
}

static void add_algorithm(struct export *e, struct stan *s, const json_t *request)
{
    const json_t *sampler = json_object_get(request, "sampler"), *value;
    const char *name = json_string_value(json_object_get(sampler, "name")), *key;
    char line[80];
    add_line(s, "    algorithm", name != NULL ? name : "unknown");
    snprintf(line, sizeof line, "      %.60s", name != NULL ? name : "unknown");
    add_word(s, line);
    add_line(s, "        max_depth", "10");
    add_line(s, "        metric", "unit_e");
    json_object_foreach ((json_t *)(uintptr_t)sampler, key, value)
        add_setting(s, key, value);
    add_setting(s, "batch_size", json_object_get(request, "batch_size"));
    add_setting(s, "replacement", json_object_get(request, "replacement"));
    add_count(s, "        sg_thin", e->plan.thin * e->plan.step);
    add_count(s, "        sg_warmup", e->plan.warmup_iterations);
    add_line(s, "        sg_job", e->plan.job);
    add_line(s, "        sg_lp", "not_stored");
    add_line(s, "        sg_elapsed", "cpu_seconds_split_by_iterations");
}

static void add_sample(struct stan *s, const struct export *e)
{
    const struct export_chain *chain = &e->plan.chains[0];
    uint64_t spacing = e->plan.thin * e->plan.step;
    add_line(s, "method", "sample (Default)");
    add_word(s, "  sample");
    add_count(s, "    num_samples", chain->count - s->warmup);
    add_count(s, "    num_warmup",
              e->plan.warmup ? s->warmup : e->plan.warmup_iterations / spacing);
    add_line(s, "    save_warmup", e->plan.warmup ? "1" : "0 (Default)");
    add_line(s, "    thin", "1 (Default)");
}

static void make_head(struct export *e, struct stan *s, const json_t *request)
{
    const char *model =
        json_string_value(json_object_get(json_object_get(request, "model"), "name"));
    char text[80], time[CLOCK_TEXT_SIZE];
    add_line(s, "stan_version_major", "2");
    add_line(s, "stan_version_minor", "35");
    add_line(s, "stan_version_patch", "0");
    snprintf(text, sizeof text, "%.60s_model", model != NULL ? model : "unknown");
    add_line(s, "model", text);
    clock_text(e->plan.started_ms, time);
    snprintf(text, sizeof text, "%.10s %.8s UTC", time, time + 11);
    add_line(s, "start_datetime", text);
    add_sample(s, e);
    add_algorithm(e, s, request);
    add_count(s, "id", e->plan.chains[0].chain);
    add_word(s, "random");
    add_count(s, "  seed", (uint64_t)json_integer_value(json_object_get(request, "seed")));
    add_word(s, "output");
    add_line(s, "  refresh", "100 (Default)");
    add_text(s, "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__");
}

static void make_row(struct stan *s, const json_t *request)
{
    const json_t *sampler = json_object_get(request, "sampler");
    const char *name = json_string_value(json_object_get(sampler, "name"));
    const struct sampler_type *type = name != NULL ? sampler_find(name) : NULL;
    bool accepts_all = type != NULL && type->acceptance == NULL;
    s->step[decimal_write(json_number_at(sampler, "step_size"), s->step)] = '\0';
    snprintf(s->row, sizeof s->row, "NaN,%s,%s,0,1,0", accepts_all ? "1" : "NaN", s->step);
}

/* Rows of the warm-up: draws after iteration `warmup_iterations` are not. */
static uint64_t warmup_rows(const struct export_plan *plan)
{
    const struct export_chain *chain = &plan->chains[0];
    uint64_t draws = plan->warmup_iterations / plan->thin; /* stored ones, from 0 on */
    uint64_t rows = draws > chain->first ? (draws - chain->first - 1) / plan->step + 1 : 0;
    return rows < chain->count ? rows : chain->count;
}

/* ---- columns ---- */

static bool arrange(struct export *e, struct stan *s)
{
    size_t width = e->plan.width;
    uint32_t *columns = (uint32_t *)(uintptr_t)e->plan.columns;
    const char **names = malloc((width + 1) * sizeof *names);
    size_t *order = malloc((width + 1) * sizeof *order);
    uint32_t *given = malloc((width + 1) * sizeof *given);
    bool good = names != NULL && order != NULL && given != NULL;
    for (size_t k = 0; good && k < width; k++) {
        names[k] = export_name(e, k);
        given[k] = columns[k];
    }
    good = good && stan_names_arrange(names, width, order, s->whole);
    for (size_t k = 0; good && k < width; k++)
        columns[k] = given[order[k]];
    free(names);
    free(order);
    free(given);
    return good;
}

static enum err begin(struct export *e, struct err_info *info)
{
    size_t longest = export_longest_name(e);
    struct stan *s = calloc(1, sizeof *s + e->plan.width + longest + 2);
    e->scratch = s;
    json_t *request = json_loads(e->plan.request, 0, NULL);
    if (s == NULL || request == NULL || !arrange(e, s)) {
        json_decref(request);
        return err_set(info, ERR_NO_MEMORY, "no memory");
    }
    const struct export_chain *chain = &e->plan.chains[0];
    s->name = (char *)(s->whole + e->plan.width);
    s->warmup = e->plan.warmup ? warmup_rows(&e->plan) : 0;
    if (chain->iteration > e->plan.warmup_iterations)
        s->warmup_seconds =
            chain->seconds * (double)e->plan.warmup_iterations / (double)chain->iteration;
    else
        s->warmup_seconds = chain->seconds;
    make_row(s, request);
    make_head(e, s, request);
    json_decref(request);
    return ERR_OK;
}

/* ---- the document ---- */

static char *put_row_begin(const struct export *e, char *to)
{
    return export_put_text(to, state_of(e)->row);
}

static char *put_head(struct export *e, char *to)
{
    e->text = state_of(e)->head;
    e->text_size = state_of(e)->head_size;
    e->at.state = NAMES;
    return to;
}

static char *put_names(struct export *e, char *to)
{
    struct stan *s = state_of(e);
    size_t k = e->at.column;
    if (k == e->plan.width) {
        e->at.column = 0;
        e->at.state = WARMUP;
        return export_put_text(to, "\n");
    }
    s->name[0] = ',';
    e->text = s->name;
    e->text_size = 1 + stan_name_write(export_name(e, k), s->whole[k], s->name + 1);
    e->at.column++;
    return to;
}

static char *put_adaptation(struct export *e, char *to)
{
    e->at.state = SAMPLING;
    to = export_put_text(to, "# Adaptation terminated\n# Step size = ");
    to = export_put_text(to, state_of(e)->step);
    return export_put_text(to, "\n");
}

static char *put_seconds(char *to, const char *before, double seconds, const char *after)
{
    to = export_put_text(to, before);
    to += decimal_write(seconds, to);
    return export_put_text(to, after);
}

/* Readers take the numbers from column 17 on. */
static char *put_foot(struct export *e, char *to)
{
    double all = e->plan.chains[0].seconds, warmup = state_of(e)->warmup_seconds;
    e->at.state = OVER;
    to = put_seconds(to, "# \n#  Elapsed Time: ", warmup, " seconds (Warm-up)\n");
    to = put_seconds(to, "#                ", all - warmup, " seconds (Sampling)\n");
    return put_seconds(to, "#                ", all, " seconds (Total)\n# \n");
}

static enum export_next put_rows(struct export *e, char **to)
{
    uint64_t end = e->at.state == WARMUP ? state_of(e)->warmup : e->plan.chains[0].count;
    if (e->at.draw == end) {
        e->at.state++;
        return EXPORT_MORE;
    }
    enum export_next next = export_load_rows(e, 0, e->at.draw);
    if (next == EXPORT_MORE)
        *to = export_put_rows(e, *to, end, put_row_begin);
    return next;
}

static enum export_next next(struct export *e, char **to)
{
    static char *(*const put[])(struct export * e, char *to) = {
        [HEAD] = put_head, [NAMES] = put_names, [ADAPTATION] = put_adaptation, [FOOT] = put_foot};
    if (e->at.state == OVER)
        return EXPORT_END;
    if (e->at.state == WARMUP || e->at.state == SAMPLING)
        return put_rows(e, to);
    *to = put[e->at.state](e, *to);
    return EXPORT_MORE;
}

const struct export_format export_stan = {
    .name = "stan",
    .content_type = "text/csv; charset=utf-8",
    .ending = "csv",
    .help = "CmdStan's CSV for rstan, cmdstanr, cmdstanpy and ArviZ, one chain per file",
    .one_chain = true,
    .begin = begin,
    .next = next,
};
