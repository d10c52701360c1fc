/* The verdict on a job: assembles its parts and the sentence. */
#include "server/diagnose/verdict.h"
#include "server/base/json.h"
#include "server/base/text.h"
#include "server/diagnose/verdict_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REFERENCE_DRAWS 400000 /* draws that are compared with the reference, at most */

/* A constant has no variance in any chain and the same mean in all of them. */
static void count_constants(struct verdict_input *input)
{
    const struct chain_moments *c = &input->chains;
    for (size_t j = 0; j < c->d; j++) {
        if (c->moments[j].count < 2.0 || c->moments[j].squares != 0.0)
            continue;
        if (input->constant++ == 0)
            input->stuck = j;
    }
}

static enum err read_checks(struct verdict_input *input, struct err_info *info)
{
    char *text = NULL;
    enum err code = jobfile_checks(input->file, &text, info);
    if (code == ERR_OK && text != NULL)
        input->checks = json_loads(text, 0, NULL);
    free(text);
    return code;
}

static enum err read_plan(struct verdict_input *input, struct err_info *info)
{
    char *document = NULL;
    enum err code = jobfile_plan_document(input->file, &document, info);
    planning_facts(document, &input->plan);
    free(document);
    return code;
}

/* A reference that cannot be read leaves its part of the verdict open. */
static enum err read_reference(struct verdict_input *input, struct err_info *info)
{
    const struct verdict_context *c = input->context;
    struct bias_budget budget = {.draws = REFERENCE_DRAWS};
    struct reference_row row;
    if (c->spec->reference == NULL || c->store == NULL)
        return ERR_OK;
    enum err code = store_reference_get(c->store, c->owner, c->spec->reference, &row, info);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND || code == ERR_CONFLICT ? ERR_OK : code;
    code = bias_head(&input->bias, input->file, row.document, &budget, info);
    free(row.document);
    input->has_reference = code == ERR_OK;
    return code == ERR_CORRUPT ? ERR_OK : code;
}

static void input_release(struct verdict_input *input)
{
    chain_moments_release(&input->chains);
    json_decref(input->checks);
}

static enum err input_init(struct verdict_input *input, struct jobfile *file,
                           const struct verdict_context *context, struct err_info *info)
{
    *input = (struct verdict_input){
        .file = file, .context = context, .ended = job_state_terminal(context->state)};
    jobfile_info(file, &input->about);
    enum err code = extent_read(&input->extent, file, info);
    if (code == ERR_OK)
        code = chain_moments_read(&input->chains, file, info);
    if (code == ERR_OK)
        code = read_checks(input, info);
    if (code == ERR_OK)
        code = read_plan(input, info);
    if (code == ERR_OK)
        code = read_reference(input, info);
    if (code != ERR_OK) {
        input_release(input);
        return code;
    }
    tolerance_init(&input->tolerance, &input->chains, context->spec, input->about.N);
    tolerance_head(&input->tolerance, &input->noise);
    count_constants(input);
    return ERR_OK;
}

/* ---- the sentence ---- */

/* Adds the first `count` unknown items. */
static void add_unknown(struct sentence *sentence, const json_t *unknown, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sentence_add(sentence, "%s%s", i == 0 ? "; not known: " : ", ",
                     json_string_value(json_array_get(unknown, i)));
}

/* A chain that reached a NaN or infinity had left the region of the posterior before. */
static void add_divergence(struct sentence *sentence, const struct chain_moments *c)
{
    sentence_add(sentence,
                 "diverged: chain %" PRIu32 " at iteration %" PRIu64
                 "; its draws are not from the posterior; mixing and bias: not judged",
                 c->diverged, c->diverged_at);
}

static void add_end(struct sentence *sentence, const struct verdict_input *input)
{
    uint64_t total = input->about.warmup + input->context->iterations;
    if (input->context->state == JOB_cancelled || input->context->state == JOB_failed)
        sentence_add(sentence, "; %s after %" PRIu64 " of %" PRIu64 " iterations",
                     job_state_name(input->context->state), input->chains.slowest, total);
    else if (input->context->state == JOB_succeeded && input->chains.slowest < total)
        sentence_add(sentence,
                     "; stopped early by stop_when after %" PRIu64 " of %" PRIu64 " iterations%s",
                     input->chains.slowest, total,
                     input->context->stopped_early ? ", which biases the estimates slightly" : "");
}

static json_t *document(const struct verdict_input *input, struct verdict *out)
{
    struct sentence mixing = {0}, bias = {0}, target = {0}, sentence = {0};
    json_t *doc = json_object(), *unknown = json_array();
    json_t *mixing_part = verdict_mixing(input, &mixing, &out->mixing, &unknown);
    size_t said = json_array_size(unknown);
    json_t *bias_part = verdict_bias(input, out->mixing, &bias, &out->bias, &unknown);
    json_t *target_part = verdict_target(input, out->mixing, &target);
    /* With strong evidence of bias, what the other checks leave open does not matter. */
    if (out->bias != BIAS_LEVEL_strong)
        said = json_array_size(unknown);
    if (input->chains.diverged != 0) {
        add_divergence(&sentence, &input->chains);
    } else {
        sentence_add(&sentence, "mixing: %s; bias: %s", mixing.text, bias.text);
        if (target.text[0] != '\0')
            sentence_add(&sentence, "; target %s", target.text);
        add_unknown(&sentence, unknown, said);
        add_end(&sentence, input);
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
    struct verdict_input input;
    enum err code = input_init(&input, file, context, info);
    if (code != ERR_OK)
        return code;
    json_t *made = document(&input, out);
    input_release(&input);
    if (made == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a verdict");
    if (doc != NULL)
        *doc = made;
    else
        json_decref(made);
    return ERR_OK;
}
