/* GET /v1/jobs/{id}/draws: the draws as a stream. */
#include "server/api/api.h"
#include "server/api/query_list.h"
#include "server/base/field.h"
#include "server/base/log.h"
#include "server/base/mistake.h"
#include "server/results/export.h"
#include "server/store/jobfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the stream ---- */

struct download {
    struct auth *auth;
    struct identity who; /* the user who downloads */
    struct jobfile *file;
    struct export *export; /* NULL: the bytes of `copy` */
    struct jobfile_copy copy;
};

/* NULL: answered, because the user has too many downloads under way. */
static struct download *download_new(struct call *call)
{
    struct err_info info;
    struct download *d = calloc(1, sizeof *d);
    if (d == NULL) {
        call_fail(call, ERR_NO_MEMORY, "no memory for the download");
        return NULL;
    }
    if (auth_download_begin(call->app->auth, &call->who, &info) != ERR_OK) {
        call_fail_info(call, &info);
        free(d);
        return NULL;
    }
    *d = (struct download){.auth = call->app->auth, .who = call->who, .copy = {.fd = -1}};
    return d;
}

static void download_close(void *ctx)
{
    struct download *d = ctx;
    auth_download_end(d->auth, &d->who);
    export_free(d->export);
    jobfile_close(d->file);
    jobfile_copy_close(&d->copy);
    free(d);
}

static enum err source_draws(void *ctx, uint32_t chain, uint64_t first, size_t count,
                             const uint32_t *columns, size_t column_count, double *out,
                             struct err_info *info)
{
    return jobfile_draws(ctx, chain, first, count, columns, column_count, out, info);
}

static const char *source_name(void *ctx, size_t column)
{
    return jobfile_name(ctx, column);
}

static ssize_t copy_read(const struct download *d, char *buffer, size_t size)
{
    ssize_t got = read(d->copy.fd, buffer, size);
    return got > 0 ? got : got == 0 ? -1 : -2;
}

static ssize_t download_read(void *ctx, char *buffer, size_t size)
{
    struct download *d = ctx;
    if (d->export == NULL)
        return copy_read(d, buffer, size);
    ssize_t got = export_read(d->export, buffer, size);
    if (got == -2)
        log_event(LOG_WARN, "download.cut", "reason", export_error(d->export)->message, NULL);
    return got;
}

/* Takes over the download. */
static void start_stream(struct call *call, struct download *d, const char *content_type,
                         uint64_t size)
{
    call->reply->status = 200;
    call->reply->content_type = content_type;
    call->reply->streaming = true;
    call->reply->stream =
        (struct stream){.ctx = d, .read = download_read, .close = download_close, .size = size};
}

static void name_file(struct call *call, const char *name, const char *ending)
{
    char text[160];
    snprintf(text, sizeof text, "attachment; filename=\"%.100s.%s\"", name, ending);
    reply_header(call->reply, "Content-Disposition", text);
}

/* ---- the query ---- */

struct selection {
    struct query_numbers columns, chains;
    struct export_chain *ranges; /* one per chain */
    struct export_range range;
    bool warmup;
};

static void selection_release(struct selection *s)
{
    query_numbers_release(&s->columns);
    query_numbers_release(&s->chains);
    free(s->ranges);
}

static bool read_range(struct call *call, const struct jobfile_info *about, struct selection *s)
{
    s->range = (struct export_range){.from = 0, .to = UINT64_MAX, .step = 1};
    if (!call_query_flag(call, "warmup", &s->warmup) ||
        !call_query_count(call, "from", 0, UINT64_MAX, &s->range.from) ||
        !call_query_count(call, "to", 0, UINT64_MAX, &s->range.to) ||
        !call_query_count(call, "thin", 1, UINT32_MAX, &s->range.step))
        return false;
    if (s->range.from > s->range.to) {
        call_fail(call, ERR_INVALID, "\"from\" is after \"to\": no iteration lies between them");
        return false;
    }
    uint64_t first = s->warmup ? 1 : about->warmup + 1;
    if (s->range.from < first)
        s->range.from = first;
    return true;
}

static bool choose_chain(struct call *call, struct jobfile *file, const struct jobfile_info *about,
                         const struct export_range *range, struct export_chain *out)
{
    struct jobfile_chain chain;
    struct err_info info;
    if (jobfile_chain(file, out->chain, &chain, &info) != ERR_OK) {
        call_fail_info(call, &info);
        return false;
    }
    out->iteration = chain.iteration;
    out->seconds = chain.cpu_seconds;
    export_choose(out, range, chain.draws, about->thin);
    return true;
}

/* The number of draws of every chain is read here, once, so that the document does not grow while
 * the job runs. */
static bool choose_draws(struct call *call, struct jobfile *file, const struct jobfile_info *about,
                         struct selection *s)
{
    s->ranges = calloc(s->chains.count, sizeof *s->ranges);
    if (s->ranges == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return false;
    }
    for (size_t c = 0; c < s->chains.count; c++) {
        s->ranges[c].chain = s->chains.at[c];
        if (!choose_chain(call, file, about, &s->range, &s->ranges[c]))
            return false;
    }
    return true;
}

/* Files of one chain each must be equally long too: a chain is cut to the shortest of the job. */
static bool cut_chain(struct call *call, struct jobfile *file, const struct jobfile_info *about,
                      struct selection *s)
{
    struct export_chain other = {.chain = 1};
    for (; other.chain <= about->chains; other.chain++) {
        if (!choose_chain(call, file, about, &s->range, &other))
            return false;
        if (other.count < s->ranges[0].count)
            s->ranges[0].count = other.count;
    }
    return true;
}

static bool has_one_chain(struct call *call, const struct jobfile_info *about,
                          const struct selection *s)
{
    struct mistakes mistakes = {0};
    if (s->chains.count == 1)
        return true;
    mistake_add(
        &mistakes, "?chains", MISTAKE_conflict,
        "a file of this format holds one chain; choose one of the %u: chains=1 to chains=%u",
        about->chains, about->chains);
    call_mistakes(call, &mistakes);
    return false;
}

static bool read_selection(struct call *call, struct jobfile *file,
                           const struct jobfile_info *about, const struct export_format *format,
                           struct selection *s)
{
    bool one = format->one_chain;
    return read_range(call, about, s) && query_chains(call, about->chains, &s->chains) &&
           (!one || has_one_chain(call, about, s)) &&
           query_parameters(call, file, SIZE_MAX, SIZE_MAX, &s->columns) &&
           choose_draws(call, file, about, s) && (!one || cut_chain(call, file, about, s));
}

/* ---- formats ---- */

static bool send_export(struct call *call, const struct job_row *row, struct download *d,
                        const struct jobfile_info *about, const struct selection *s,
                        const struct export_format *format)
{
    struct err_info info;
    struct export_plan plan = {
        .source = {.ctx = d->file, .draws = source_draws, .name = source_name},
        .job = row->id,
        .columns = s->columns.at,
        .width = s->columns.count,
        .chains = s->ranges,
        .chain_count = s->chains.count,
        .step = s->range.step,
        .thin = about->thin,
        .warmup = s->warmup,
        .request = row->request,
        .warmup_iterations = about->warmup,
        .started_ms = row->started_ms,
    };
    if (!call_reserve(call, export_memory(&plan)))
        return false;
    if (export_new(&d->export, format, &plan, &info) != ERR_OK) {
        call_fail(call, ERR_NO_MEMORY, "no memory for the download");
        return false;
    }
    start_stream(call, d, format->content_type, export_size(d->export));
    return true;
}

/* The job's own file as a whole. */
static bool send_copy(struct call *call, const char *id, struct download *d,
                      const struct export_format *format)
{
    static const char *const selecting[] = {"chains", "params", "from", "to", "thin", "warmup"};
    struct err_info info;
    struct mistakes mistakes = {0};
    for (size_t i = 0; i < sizeof selecting / sizeof selecting[0]; i++) {
        char pointer[16];
        snprintf(pointer, sizeof pointer, "?%s", selecting[i]);
        if (request_query(call->req, selecting[i]) != NULL)
            mistake_add(&mistakes, pointer, MISTAKE_conflict,
                        "cannot be combined with format=sqlite, which gives "
                        "the whole file");
    }
    if (mistakes.count > 0) {
        call_mistakes(call, &mistakes);
        return false;
    }
    enum err code = jobfile_copy_open(&d->copy, call->app->store, d->who.user, id, &info);
    if (code != ERR_OK) {
        if (code == ERR_NOT_FOUND)
            call_fail(call, ERR_CONFLICT, "the job has no draws");
        else
            call_fail_info(call, &info);
        return false;
    }
    start_stream(call, d, format->content_type, d->copy.size);
    name_file(call, id, format->ending);
    return true;
}

/* <id>.<ending>, and <model>_<chain>.<ending> for files of one chain. */
static void name_export(struct call *call, const struct job_row *row, const struct selection *s,
                        const struct export_format *format)
{
    char name[100];
    if (format->shown)
        return;
    if (format->one_chain)
        snprintf(name, sizeof name, "%.80s_%u", row->model, s->chains.at[0]);
    else
        snprintf(name, sizeof name, "%s", row->id);
    name_file(call, name, format->ending);
}

static bool send_draws(struct call *call, const struct job_row *row, struct download *d,
                       const struct export_format *format)
{
    struct jobfile_info about;
    struct selection s = {0};
    if (!call_jobfile(call, row->id, &d->file))
        return false;
    jobfile_info(d->file, &about);
    bool sent = read_selection(call, d->file, &about, format, &s) &&
                send_export(call, row, d, &about, &s, format);
    if (sent)
        name_export(call, row, &s, format);
    selection_release(&s);
    return sent;
}

void api_draws(struct call *call)
{
    static const char *const names[] = {
#define X(name) #name,
        EXPORT_FORMATS(X)
#undef X
            NULL};
    size_t chosen = 0;
    struct job_row row;
    if (!call_query_choice(call, "format", names, &chosen) || !call_job(call, &row, false))
        return;
    const struct export_format *format = export_formats[chosen];
    struct download *d = download_new(call);
    bool sent = d != NULL && (format->next == NULL ? send_copy(call, row.id, d, format)
                                                   : send_draws(call, &row, d, format));
    if (d != NULL && !sent)
        download_close(d);
    job_row_release(&row);
}
