/* Submissions of jobs. */
#include "core/kernels/kernels.h"
#include "models/models.h"
#include "server/api/submission.h"
#include "server/api/turn.h"
#include "server/base/budget.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/base/mistake.h"
#include "server/data/memory_cache.h"
#include "server/data/scaled_prior.h"
#include "server/sched/sched.h"
#include "server/spec/plan_document.h"
#include "server/spec/spec.h"
#include "server/store/jobfile.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define QUICK_BYTES \
    (UINT64_C(4) << 20) /* models and chains of this size are made in a few milliseconds */

/* ---- from the document to a model ---- */

/* Called before the memory is used: the memory of one user's submissions is bounded, and large
 * ones, which keep a processor busy, take turns. */
static enum err take_memory(struct submission *sub, struct call *call, uint64_t bytes)
{
    if (bytes <= QUICK_BYTES)
        return call_take(call, bytes, &sub->info);
    enum err code = turn_begin(bytes, &sub->info);
    sub->turns += code == ERR_OK;
    return code;
}

static enum err load_data(struct submission *sub, struct call *call, const char *owner)
{
    const struct job_spec *spec = &sub->spec;
    if (spec->model->data == DATA_NONE)
        return ERR_OK;
    enum err code = memory_cache_get(call->app->cache, owner, &spec->data, spec->model->data,
                                     &sub->data, &sub->mistakes, &sub->info);
    return code != ERR_OK
               ? code
               : take_memory(sub, call, spec_model_memory(sub->data->train.N, sub->data->bytes));
}

static enum err load_model(struct submission *sub, struct call *call, const char *owner)
{
    struct job_spec *spec = &sub->spec;
    enum err code = load_data(sub, call, owner);
    if (code != ERR_OK)
        return code;
    const struct dataset *train = sub->data != NULL ? &sub->data->train : NULL;
    const struct dataset *test = sub->data != NULL && sub->data->has_test ? &sub->data->test : NULL;
    char pointer[80];
    snprintf(pointer, sizeof pointer, "%s", spec->model->data != DATA_NONE ? "/data" : "/model");
    code = scaled_prior_check(spec, sub->data, &sub->mistakes, &sub->info);
    if (code != ERR_OK)
        return code;
    code = spec->model->init(&sub->model, spec->model_params, train, test, &sub->info);
    if (code == ERR_OK && spec->model_list != NULL) {
        code = spec_list(spec, sub->model, &sub->info);
        spec_list_pointer(spec, pointer, sizeof pointer);
    }
    if (code == ERR_OK)
        code = scaled_prior_apply(spec, sub->data, sub->model, &sub->mistakes, &sub->info);
    if (sub->mistakes.count > 0)
        return ERR_INVALID;
    if (code == ERR_INVALID || code == ERR_UNSUPPORTED || code == ERR_TOO_LARGE) {
        bool data = strcmp(pointer, "/data") == 0;
        mistake_add(&sub->mistakes, pointer, data ? MISTAKE_data : MISTAKE_conflict, "%s",
                    sub->info.message);
        return ERR_INVALID;
    }
    return code;
}

static enum err bind(struct submission *sub, struct call *call, const struct job_limits *limits)
{
    enum err code = spec_bind(&sub->spec, sub->model, limits, &sub->bound, &sub->mistakes);
    return code != ERR_OK
               ? code
               : take_memory(sub, call, spec_chain_memory(&sub->spec, &sub->bound, sub->model));
}

static enum err check_reference(struct submission *sub, struct app *app, const char *user)
{
    struct reference_row ref;
    if (sub->spec.reference == NULL)
        return ERR_OK;
    enum err code = store_reference_get(app->store, user, sub->spec.reference, &ref, &sub->info);
    if (code == ERR_OK)
        free(ref.document);
    if (code != ERR_NOT_FOUND)
        return code;
    mistake_add(&sub->mistakes, "/reference", MISTAKE_missing,
                "there is no reference \"%s\"; GET /v1/references lists them", sub->spec.reference);
    return ERR_INVALID;
}

/* A job whose length the plan chooses gets the space that its owner has left, if that is enough for
 * any draws. */
#define LEAST_BYTES (UINT64_C(1) << 20)

static void limit_to_quota(struct submission *sub)
{
    const struct owner_totals *totals = &sub->totals;
    uint64_t used = totals->stored_bytes, most = totals->most_stored_bytes;
    uint64_t left = most > used ? most - used : 0, bytes = sub->sizes.disk_bytes;
    if (!sub->sizes.open || bytes <= left)
        return;
    uint64_t least = bytes - SPEC_PLAN_BYTES + LEAST_BYTES;
    sub->sizes.disk_bytes = left > least ? left : least;
}

/* Chains that could never run are refused before one is made. */
static enum err check_memory(struct submission *sub, struct app *app)
{
    struct budget_stats stats;
    uint64_t bytes = spec_memory(&sub->spec, &sub->bound, sub->model);
    budget_stats(app->chain_memory, &stats);
    if (stats.per_user == 0 || bytes <= stats.per_user)
        return ERR_OK;
    mistake_add(&sub->mistakes, "/chains", MISTAKE_limit,
                "%" PRIu32 " chains of %zu parameters would need %.1f MB of memory; one user gets "
                "at most %.1f MB (half of chain_memory_mb)",
                sub->spec.chains, sub->bound.d, 1e-6 * (double)bytes,
                1e-6 * (double)stats.per_user);
    return ERR_INVALID;
}

/* Files that are missing are reported together with other mistakes. */
static void check_files_exist(struct submission *sub, const struct app *app, const char *user,
                              const json_t *json)
{
    const json_t *data = json_object_get(json, "data");
    if (!mistake_at(&sub->mistakes, "/data"))
        memory_cache_check_files(app->cache, user, json_string_value(json_object_get(data, "path")),
                                 json_string_value(json_object_get(data, "test")), &sub->mistakes);
}

enum err submission_prepare(struct submission *sub, struct call *call, const json_t *json)
{
    struct app *app = call->app;
    const char *user = call->who.user;
    struct job_limits limits = *app->limits;
    enum err code = spec_parse(&sub->spec, json, &limits, &sub->mistakes);
    sub->parsed = code == ERR_OK;
    if (code == ERR_INVALID)
        check_files_exist(sub, app, user, json);
    if (code == ERR_OK)
        code = load_model(sub, call, user);
    if (code == ERR_OK)
        code = store_owner_totals(app->store, user, &sub->totals, &sub->info);
    if (code == ERR_OK) {
        limits.max_draws_bytes = sub->totals.most_stored_bytes;
        code = bind(sub, call, &limits);
    }
    if (code == ERR_OK)
        code = check_reference(sub, app, user);
    if (code == ERR_OK)
        code = check_memory(sub, app);
    if (code == ERR_OK)
        code = spec_sizes(&sub->spec, &sub->bound, sub->model, &sub->sizes, &sub->info);
    if (code == ERR_OK)
        limit_to_quota(sub);
    return code;
}

void submission_release(struct submission *sub, struct app *app)
{
    spec_bound_release(&sub->bound);
    model_free(sub->model);
    memory_cache_put(app->cache, sub->data);
    if (sub->parsed)
        spec_release(&sub->spec);
    for (; sub->turns > 0; sub->turns--)
        turn_end();
}

const char *submission_precision(const struct submission *sub)
{
    if (sub->data == NULL)
        return "";
    return sub->data->train.precision == PRECISION_SINGLE ? "single" : "double";
}

/* ---- rows ---- */

void submission_id(char id[JOB_ID_SIZE], uint64_t now_ms)
{
    uint32_t random = 0;
    ssize_t got = getrandom(&random, sizeof random, 0);
    (void)got;
    job_id_make(id, now_ms, random);
}

static char *resolved_text(const struct job_spec *spec)
{
    json_t *resolved = spec_resolved(spec);
    char *text = resolved != NULL ? json_write(resolved, NULL) : NULL;
    json_decref(resolved);
    return text;
}

enum err submission_row(struct submission *sub, const char *owner, struct job_row *row)
{
    const struct job_spec *spec = &sub->spec;
    *row = (struct job_row){
        .revision = 1,
        .state = JOB_queued,
        .reason = strdup("waits for a worker"),
        .created_ms = clock_wall_ms(),
        .name = strdup(spec->name),
        .note = strdup(spec->note),
        .tags = json_write(spec->tags, NULL),
        .request = resolved_text(spec),
        .plan = planning_pending(spec),
        .model = strdup(spec->model->name),
        .sampler = strdup(spec_sampler_name(spec)),
        .priority = spec->priority,
        .lab = spec->visibility == VISIBLE_TO_LAB,
        .isa = strdup(kernels->isa),
        .precision = strdup(submission_precision(sub)),
        .data_sha256 = strdup(sub->data != NULL ? sub->data->sha256 : ""),
    };
    memccpy(row->owner, owner, '\0', sizeof row->owner);
    submission_id(row->id, row->created_ms);
    if (row->reason && row->name && row->note && row->tags && row->request && row->model &&
        row->sampler && row->isa && row->precision && row->data_sha256 &&
        (row->plan || !spec_needs_plan(spec)))
        return ERR_OK;
    job_row_release(row);
    return err_set(&sub->info, ERR_NO_MEMORY, "no memory for the job");
}

/* ---- quotas ---- */

struct store_room submission_room(struct app *app, const char *user, uint64_t bytes)
{
    return (struct store_room){.bytes = bytes, .uncounted = sched_grown_bytes(app->sched, user)};
}

enum err submission_disk(struct app *app, struct err_info *info)
{
    struct store_stats stats;
    store_stats(app->store, &stats);
    if (stats.free_bytes < 2 * ((uint64_t)app->config->min_free_mb << 20))
        return err_set(info, ERR_NO_SPACE,
                       "the server's disk is nearly full: %" PRIu64
                       " MB left, new jobs need %" PRIu64 " MB (twice min_free_mb)",
                       stats.free_bytes >> 20, 2 * (uint64_t)app->config->min_free_mb);
    return ERR_OK;
}

/* ---- extensions ---- */

static enum err load_again(struct submission *sub, struct call *call, const struct job_row *row)
{
    struct job_limits none = {0};
    enum err code = load_model(sub, call, row->owner);
    if (code == ERR_OK)
        code = bind(sub, call, &none);
    if (code == ERR_NO_MEMORY)
        return err_set(&sub->info, code, "no memory for the job");
    if (code == ERR_INVALID && sub->mistakes.count > 0)
        return err_set(&sub->info, ERR_DATA_CHANGED, "the data can no longer be read: %s",
                       sub->mistakes.items[0].detail);
    if (code == ERR_OK && sub->data != NULL && strcmp(sub->data->sha256, row->data_sha256) != 0)
        return err_set(&sub->info, ERR_DATA_CHANGED,
                       "the content of %s is not that of the submission", sub->spec.data.path);
    return code;
}

uint64_t submission_iterations(struct app *app, const struct job_row *row,
                               const struct job_spec *spec)
{
    struct jobfile *file;
    struct jobfile_chain chain;
    uint64_t furthest = spec->warmup + 1;
    if (jobfile_open(&file, app->store, row->id, NULL) != ERR_OK)
        return 1;
    for (uint32_t k = 1; k <= spec->chains; k++)
        if (jobfile_chain(file, k, &chain, NULL) == ERR_OK && chain.iteration > furthest)
            furthest = chain.iteration;
    jobfile_close(file);
    return furthest - spec->warmup;
}

/* The disk space that the longer job needs beyond what its file has now. */
static enum err added_bytes(struct submission *sub, struct app *app, const struct job_row *row,
                            uint64_t iterations, uint64_t *bytes)
{
    struct estimate longer;
    if (iterations > 0 && job_state_terminal(row->state))
        sub->spec.iterations = submission_iterations(app, row, &sub->spec);
    enum err code = spec_sizes(&sub->spec, &sub->bound, sub->model, &sub->sizes, &sub->info);
    sub->spec.iterations += iterations;
    if (code == ERR_OK)
        code = spec_sizes(&sub->spec, &sub->bound, sub->model, &longer, &sub->info);
    if (code != ERR_OK)
        return code;
    uint64_t so_far = sub->sizes.disk_bytes, stored = jobfile_bytes(app->store, row->id);
    *bytes = longer.disk_bytes - (stored < so_far ? stored : so_far);
    return ERR_OK;
}

enum err submission_extend(struct call *call, const struct job_row *row, uint64_t iterations,
                           uint64_t *bytes, struct err_info *info)
{
    struct app *app = call->app;
    struct submission sub = {0};
    *bytes = 0;
    enum err code = spec_stored(&sub.spec, row->request, &sub.info);
    sub.parsed = code == ERR_OK;
    if (code == ERR_OK && !spec_is_open(&sub.spec))
        code = load_again(&sub, call, row);
    if (code == ERR_OK && !spec_is_open(&sub.spec))
        code = added_bytes(&sub, app, row, iterations, bytes);
    *info = sub.info;
    submission_release(&sub, app);
    return code == ERR_OK ? submission_disk(app, info) : code;
}

/* ---- repeated submissions ---- */

bool submission_key(struct call *call, const char **key, unsigned char hash[32])
{
    *key = request_header(call->req, "Idempotency-Key");
    gnutls_hash_fast(GNUTLS_DIG_SHA256, call->req->body, call->req->body_size, hash);
    if (*key == NULL || ((*key)[0] != '\0' && strlen(*key) <= 200))
        return true;
    call_fail(call, ERR_INVALID, "Idempotency-Key must have 1 to 200 characters");
    return false;
}

bool submission_answered(struct call *call,
                         enum err (*by_key)(struct store *store, const char *owner, const char *key,
                                            const unsigned char hash[32], char id[JOB_ID_SIZE],
                                            struct err_info *info),
                         void (*answer)(struct call *call, const char *id, bool existing))
{
    const char *key;
    unsigned char hash[32];
    char id[JOB_ID_SIZE];
    struct err_info info;
    if (!submission_key(call, &key, hash))
        return true;
    if (key == NULL)
        return false;
    enum err code = by_key(call->app->store, call->who.user, key, hash, id, &info);
    if (code == ERR_OK)
        answer(call, id, true);
    else if (code != ERR_NOT_FOUND)
        call_fail_info(call, &info);
    return code != ERR_NOT_FOUND;
}
