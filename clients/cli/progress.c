/* A job's progress as text. */
#include "clients/cli/progress.h"
#include "clients/cli/get.h"
#include "clients/cli/human.h"
#include "clients/cli/jobs.h"

#include <math.h>
#include <string.h>

enum { WIDEST_BAR = 40, NARROWEST_BAR = 8, LINE_LIMIT = 240 };

static size_t line_width(FILE *file)
{
    size_t columns = term_columns(file);
    return columns < LINE_LIMIT ? columns : LINE_LIMIT;
}

static void add_rate(struct text *out, const json_t *job)
{
    const json_t *progress = get_object(job, "progress");
    double rate = get_number(progress, "iterations_per_second");
    double eta = get_number(progress, "eta_seconds");
    double elapsed = get_number(progress, "elapsed_seconds");
    char buffer[HUMAN_SIZE];
    if (rate > 0)
        text_addf(out, "  %s it/s", human_count(buffer, rate));
    if (job_is_over(job) && isfinite(elapsed))
        text_addf(out, "  in %s", human_seconds(buffer, elapsed));
    else if (isfinite(eta))
        text_addf(out, "  ETA %s", human_seconds(buffer, eta));
}

static void add_rhat(struct text *out, const json_t *job, FILE *file)
{
    const json_t *summary = get_object(job, "summary");
    double rhat = get_number(summary, "max_rhat"), ess = get_number(summary, "min_ess_bulk");
    const char *worst = get_string(summary, "worst");
    struct text value = {0};
    char buffer[HUMAN_SIZE];
    if (isfinite(rhat)) {
        text_addf(&value, "R-hat %s", human_fixed(buffer, rhat, 3));
        text_add(out, "  ");
        term_add(out, file, job_rhat_style(rhat), text_str(&value));
        if (*worst)
            text_addf(out, " (%s)", worst);
    }
    text_release(&value);
    if (isfinite(ess))
        text_addf(out, "  ESS %s", human_count(buffer, ess));
}

/* The reason repeats the state of a running job, except during planning, and of a job that has run
 * all its iterations. */
static void add_reason(struct text *out, const json_t *job)
{
    const char *reason = get_string(job, "reason"), *cause = get_string(job, "stop_cause");
    bool running = strcmp(get_string(job, "state"), "running") == 0;
    bool planning = strcmp(get_string(job, "phase"), "planning") == 0;
    bool early = strcmp(cause, "stop_when") == 0 || strcmp(cause, "time_limit") == 0;
    if (*reason && (!running || planning) && (!job_succeeded(job) || early))
        text_addf(out, "  %s%s", planning ? "planning: " : "", reason);
}

void progress_headline(struct text *out, const json_t *job, FILE *file)
{
    struct text line = {0}, name = {0};
    const char *title = get_string(job, "name"), *id = get_string(job, "id");
    const json_t *progress = get_object(job, "progress");
    char percent[HUMAN_SIZE];
    text_add_cut(&name, *title ? title : id, 32, term_ellipsis());
    term_add(&line, file, STYLE_HEAD, text_str(&name));
    if (*title) {
        text_add(&line, "  ");
        term_add(&line, file, STYLE_DIM, id);
    }
    text_add(&line, "  ");
    term_add(&line, file, job_style(job), get_string(job, "state"));
    double fraction = get_number(progress, "fraction");
    if (isfinite(fraction))
        text_addf(&line, "  %s", human_percent(percent, fraction));
    add_rate(&line, job);
    add_rhat(&line, job, file);
    add_reason(&line, job);
    text_add_cut(out, text_str(&line), line_width(file), term_ellipsis());
    text_release(&line);
    text_release(&name);
}

size_t progress_chain_count(const json_t *job)
{
    return json_array_size(get_array(get_object(job, "progress"), "chains"));
}

/* Warm-up and sampling of one chain. The job's own total counts all chains. */
static double chain_total(const json_t *job, const json_t *chain)
{
    double own = get_number(chain, "total"), all = get_number(get_object(job, "progress"), "total");
    return isfinite(own) ? own : all / (double)progress_chain_count(job);
}

static const char *phase_name(const json_t *chain)
{
    const char *phase = get_string(chain, "phase");
    return strcmp(phase, "warmup") == 0 ? "warm-up" : phase;
}

static void add_chain(struct text *out, const json_t *job, const json_t *chain, FILE *file)
{
    struct text line = {0}, tail = {0};
    char percent[HUMAN_SIZE], done[HUMAN_SIZE], all[HUMAN_SIZE];
    const char *phase = phase_name(chain);
    double iteration = get_number(chain, "iteration"), total = chain_total(job, chain);
    double fraction = total > 0 ? iteration / total : NAN;
    bool warm = strcmp(phase, "warm-up") == 0, full = fraction >= 1;
    text_addf(&tail, " %4s  %-8s  %s/%s", human_percent(percent, fraction), phase,
              human_whole(done, iteration), human_whole(all, total));
    text_addf(&line, "  chain %-3.0f ", get_number(chain, "chain"));
    size_t used = text_columns(text_str(&line)) + text_columns(text_str(&tail));
    size_t room = line_width(file) > used ? line_width(file) - used : 0;
    size_t bar = room > WIDEST_BAR ? WIDEST_BAR : room < NARROWEST_BAR ? NARROWEST_BAR : room;
    term_bar(&line, file, fraction, bar, full ? STYLE_GOOD : warm ? STYLE_WARN : STYLE_BUSY);
    text_add(&line, text_str(&tail));
    text_add_cut(out, text_str(&line), line_width(file), term_ellipsis());
    text_add(out, "\n");
    text_release(&line);
    text_release(&tail);
}

void progress_chains(struct text *out, const json_t *job, FILE *file)
{
    size_t i;
    json_t *chain;
    json_array_foreach (get_array(get_object(job, "progress"), "chains"), i, chain)
        add_chain(out, job, chain, file);
}
