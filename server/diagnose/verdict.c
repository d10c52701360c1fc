/* The verdict on a job: its parts put into one sentence. */
#include "server/diagnose/verdict.h"
#include "server/base/json.h"
#include "server/base/text.h"
#include "server/diagnose/verdict_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REFERENCE_DRAWS 400000 /* looked at for biases */

/* A constant has no variance in any chain and the same mean in all of them. */
static void count_constants(struct verdict_look *look)
{
    const struct chain_moments *c = &look->chains;
    for (size_t j = 0; j < c->d; j++) {
        if (c->moments[j].count < 2.0 || c->moments[j].squares != 0.0)
            continue;
        if (look->constant++ == 0)
            look->stuck = j;
    }
}

static enum err read_checks(struct verdict_look *look, struct err_info *info)
{
    char *text = NULL;
    enum err code = jobfile_checks(look->file, &text, info);
    if (code == ERR_OK && text != NULL)
        look->checks = json_loads(text, 0, NULL);
    free(text);
    return code;
}

static enum err read_plan(struct verdict_look *look, struct err_info *info)
{
    char *document = NULL;
    enum err code = jobfile_plan_document(look->file, &document, info);
    planning_facts(document, &look->plan);
    free(document);
    return code;
}

/* Without a reference that can be read, its part of the verdict stays open. */
static enum err read_reference(struct verdict_look *look, struct err_info *info)
{
    const struct verdict_context *c = look->context;
    struct bias_budget budget = {.draws = REFERENCE_DRAWS};
    struct reference_row row;
    if (c->spec->reference == NULL || c->store == NULL)
        return ERR_OK;
    enum err code = store_reference_get(c->store, c->owner, c->spec->reference, &row, info);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? ERR_OK : code;
    code = bias_head(&look->bias, look->file, row.document, &budget, info);
    free(row.document);
    look->has_reference = code == ERR_OK;
    return code == ERR_CORRUPT ? ERR_OK : code;
}

static void look_release(struct verdict_look *look)
{
    chain_moments_release(&look->chains);
    json_decref(look->checks);
}

static enum err look_init(struct verdict_look *look, struct jobfile *file,
                          const struct verdict_context *context, struct err_info *info)
{
    *look = (struct verdict_look){
        .file = file, .context = context, .ended = job_state_terminal(context->state)};
    jobfile_info(file, &look->about);
    enum err code = extent_read(&look->extent, file, info);
    if (code == ERR_OK)
        code = chain_moments_read(&look->chains, file, info);
    if (code == ERR_OK)
        code = read_checks(look, info);
    if (code == ERR_OK)
        code = read_plan(look, info);
    if (code == ERR_OK)
        code = read_reference(look, info);
    if (code != ERR_OK) {
        look_release(look);
        return code;
    }
    tolerance_init(&look->tolerance, &look->chains, context->spec, look->about.N);
    tolerance_head(&look->tolerance, &look->noise);
    count_constants(look);
    return ERR_OK;
}

/* ---- the sentence ---- */

/* The first `count` of what is not known. */
static void add_unknown(struct words *sentence, const json_t *unknown, size_t count)
{
    for (size_t i = 0; i < count; i++)
        words_add(sentence, "%s%s", i == 0 ? "; not known: " : ", ",
                  json_string_value(json_array_get(unknown, i)));
}

/* A chain that ran into numbers that are none was leaving the posterior before it got there. */
static void add_divergence(struct words *sentence, const struct chain_moments *c)
{
    words_add(sentence,
              "diverged: chain %" PRIu32 " at iteration %" PRIu64
              "; its draws are no sample of the posterior; mixing and bias: not judged",
              c->diverged, c->diverged_at);
}

static void add_end(struct words *sentence, const struct verdict_look *look)
{
    uint64_t total = look->about.warmup + look->context->iterations;
    if (look->context->state == JOB_cancelled || look->context->state == JOB_failed)
        words_add(sentence, "; %s after %" PRIu64 " of %" PRIu64 " iterations",
                  job_state_name(look->context->state), look->chains.slowest, total);
    else if (look->context->state == JOB_succeeded && look->chains.slowest < total)
        words_add(sentence,
                  "; stopped early by stop_when after %" PRIu64 " of %" PRIu64 " iterations%s",
                  look->chains.slowest, total,
                  look->context->stopped_early ? ", which biases the estimates slightly" : "");
}

static json_t *document(const struct verdict_look *look, struct verdict *out)
{
    struct words mixing = {0}, bias = {0}, target = {0}, sentence = {0};
    json_t *doc = json_object(), *unknown = json_array();
    json_t *mixing_part = verdict_mixing(look, &mixing, &out->mixing, &unknown);
    size_t said = json_array_size(unknown);
    json_t *bias_part = verdict_bias(look, &bias, &out->bias, &unknown);
    json_t *target_part = verdict_target(look, &target);
    /* Beside a strong bias, what finer checks would say does not matter yet. */
    if (out->bias != BIAS_LEVEL_strong)
        said = json_array_size(unknown);
    if (look->chains.diverged != 0) {
        add_divergence(&sentence, &look->chains);
    } else {
        words_add(&sentence, "mixing: %s; bias: %s", mixing.text, bias.text);
        if (target.text[0] != '\0')
            words_add(&sentence, "; target %s", target.text);
        add_unknown(&sentence, unknown, said);
        add_end(&sentence, look);
    }
    snprintf(out->sentence, sizeof out->sentence, "%s", sentence.text);
    text_trim(out->sentence);
    json_put(&doc, "sentence", json_text(out->sentence));
    json_put(&doc, "mixing", mixing_part);
    json_put(&doc, "bias", bias_part);
    json_put(&doc, "target", target_part);
    json_put(&doc, "unknown", unknown);
    return doc;
}

enum err verdict_make(struct verdict *out, json_t **doc, struct jobfile *file,
                      const struct verdict_context *context, struct err_info *info)
{
    struct verdict_look look;
    enum err code = look_init(&look, file, context, info);
    if (code != ERR_OK)
        return code;
    json_t *made = document(&look, out);
    look_release(&look);
    if (made == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a verdict");
    if (doc != NULL)
        *doc = made;
    else
        json_decref(made);
    return ERR_OK;
}
