/* Requests to one daemon over HTTP, one at a time or several at once. */
#include "clients/cli/client.h"
#include "clients/cli/get.h"
#include "clients/cli/interrupt.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Limit of a reply kept in memory; far above any reply of the daemon. */
#define BODY_LIMIT ((size_t)256 << 20)

enum { CONNECT_MS = 10000, SILENCE_S = 120 };

struct client {
    CURLM *multi;
    char *url, *token, *cacert;
    bool loopback;
};

struct call {
    struct client *client;
    CURL *easy;
    struct curl_slist *headers;
    struct response *response;
    struct request request;
    char error[CURL_ERROR_SIZE];
    bool sink_refused, done;
};

static char *url_part(CURLU *url, CURLUPart part)
{
    char *value = NULL;
    curl_url_get(url, part, &value, 0);
    return value;
}

static const char *why_not(CURLU *url)
{
    char *scheme = url_part(url, CURLUPART_SCHEME), *user = url_part(url, CURLUPART_USER);
    char *query = url_part(url, CURLUPART_QUERY), *fragment = url_part(url, CURLUPART_FRAGMENT);
    const char *reason = NULL;
    if (!scheme || (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        reason = "only http:// and https:// are supported";
    else if (user)
        reason = "a user name in the address is not supported; use --token-file";
    else if (query || fragment)
        reason = "an address with ? or # is not supported";
    curl_free(scheme);
    curl_free(user);
    curl_free(query);
    curl_free(fragment);
    return reason;
}

char *client_clean_url(const char *text, const char **reason)
{
    CURLU *url = curl_url();
    struct text full = {0};
    char *clean = NULL;
    text_addf(&full, "%s%s", strstr(text, "://") ? "" : "http://", text);
    *reason = "not an address such as http://127.0.0.1:8080";
    if (url && curl_url_set(url, CURLUPART_URL, text_str(&full), 0) == CURLUE_OK) {
        *reason = why_not(url);
        if (!*reason) {
            while (full.size && full.data[full.size - 1] == '/')
                full.data[--full.size] = '\0';
            clean = text_take(&full);
        }
    }
    curl_url_cleanup(url);
    text_release(&full);
    return clean;
}

bool client_url_is_loopback(const char *text)
{
    CURLU *url = curl_url();
    bool loopback = false;
    if (url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK) {
        char *host = url_part(url, CURLUPART_HOST);
        unsigned a, b, c, d;
        char rest;
        loopback =
            host && (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
                     (sscanf(host, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &rest) == 4 && a == 127));
        curl_free(host);
    }
    curl_url_cleanup(url);
    return loopback;
}

struct client *client_new(const struct client_config *config)
{
    struct client *client = mem_new(1, sizeof *client);
    client->multi = mem_check(curl_multi_init());
    client->url = mem_copy(config->url);
    client->token = mem_copy(config->token);
    client->cacert = mem_copy(config->cacert);
    client->loopback = client_url_is_loopback(config->url);
    return client;
}

void client_free(struct client *client)
{
    if (!client)
        return;
    curl_multi_cleanup(client->multi);
    if (client->token)
        explicit_bzero(client->token, strlen(client->token));
    free(client->url);
    free(client->token);
    free(client->cacert);
    free(client);
}

const char *client_url(const struct client *client)
{
    return client->url;
}

bool client_has_token(const struct client *client)
{
    return client->token != NULL;
}

void route_start(struct route *route, const char *literal)
{
    *route = (struct route){0};
    text_add(&route->text, literal);
}

void route_add(struct route *route, const char *literal)
{
    text_add(&route->text, literal);
}

void route_part(struct route *route, const char *segment)
{
    text_add(&route->text, "/");
    text_add_encoded(&route->text, segment);
}

void route_query(struct route *route, const char *name, const char *value)
{
    if (!value)
        return;
    text_addf(&route->text, "%c%s=", route->has_query ? '&' : '?', name);
    text_add_encoded(&route->text, value);
    route->has_query = true;
}

void route_release(struct route *route)
{
    text_release(&route->text);
}

void response_release(struct response *response)
{
    text_release(&response->body);
    json_decref(response->json);
    free(response->etag);
    free(response->location);
    free(response->content_type);
    *response = (struct response){0};
}

static size_t on_body(char *bytes, size_t unit, size_t count, void *ctx)
{
    struct call *call = ctx;
    size_t size = unit * count;
    long status = 0;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (call->request.sink && status >= 200 && status < 300) {
        if (call->request.sink(call->request.sink_ctx, bytes, size))
            return size;
        call->sink_refused = true;
        return 0;
    }
    if (size > BODY_LIMIT - call->response->body.size)
        return 0;
    text_add_bytes(&call->response->body, bytes, size);
    return size;
}

static void keep_header(char **slot, const char *value, size_t size)
{
    struct text text = {0};
    text_add_bytes(&text, value, size);
    free(*slot);
    *slot = text_take(&text);
}

static size_t on_header(char *line, size_t unit, size_t count, void *ctx)
{
    struct response *response = ((struct call *)ctx)->response;
    size_t size = unit * count;
    char *colon = memchr(line, ':', size);
    if (!colon)
        return size;
    size_t name = (size_t)(colon - line);
    char *value = colon + 1, *end = line + size;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    size_t length = (size_t)(end - value);
    if (name == 4 && strncasecmp(line, "ETag", name) == 0)
        keep_header(&response->etag, value, length);
    else if (name == 8 && strncasecmp(line, "Location", name) == 0)
        keep_header(&response->location, value, length);
    else if (name == 12 && strncasecmp(line, "Content-Type", name) == 0)
        keep_header(&response->content_type, value, length);
    else if (name == 11 && strncasecmp(line, "Retry-After", name) == 0 && length)
        response->retry_after_s = strtol(value, NULL, 10);
    return size;
}

static size_t on_upload(char *buffer, size_t unit, size_t count, void *ctx)
{
    struct call *call = ctx;
    size_t got = fread(buffer, unit, count, call->request.upload);
    return !got && ferror(call->request.upload) ? CURL_READFUNC_ABORT : got;
}

static int on_progress(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    (void)up_total;
    struct call *call = ctx;
    if (call->request.progress)
        call->request.progress(call->request.progress_ctx, up, down, down_total);
    return interrupted();
}

static void add_header(struct call *call, const char *name, const char *value)
{
    if (!value)
        return;
    struct text line = {0};
    text_addf(&line, "%s: %s", name, value);
    call->headers = curl_slist_append(call->headers, text_str(&line));
    explicit_bzero(line.data, line.size);
    text_release(&line);
}

static void set_headers(struct call *call)
{
    const struct request *request = &call->request;
    if (call->client->token) {
        struct text bearer = {0};
        text_addf(&bearer, "Bearer %s", call->client->token);
        add_header(call, "Authorization", text_str(&bearer));
        explicit_bzero(bearer.data, bearer.size);
        text_release(&bearer);
    }
    add_header(call, "If-None-Match", request->if_none_match);
    add_header(call, "Idempotency-Key", request->idempotency_key);
    if (request->body)
        add_header(call, "Content-Type", "application/json");
    else if (request->upload)
        add_header(call, "Content-Type", "application/octet-stream");
    else /* otherwise curl declares an empty POST as a form */
        call->headers = curl_slist_append(call->headers, "Content-Type:");
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
}

static void set_method(struct call *call)
{
    const struct request *request = &call->request;
    if (request->upload) {
        curl_easy_setopt(call->easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(call->easy, CURLOPT_READFUNCTION, on_upload);
        curl_easy_setopt(call->easy, CURLOPT_READDATA, call);
        curl_easy_setopt(call->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->upload_size);
    } else if (strcmp(request->method, "GET") != 0) {
        const char *body = request->body ? request->body : "";
        if (request->body || strcmp(request->method, "POST") == 0) {
            curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
            curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, body);
        }
    }
    curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, request->method);
}

static void set_transport(struct call *call)
{
    const struct client *client = call->client;
    curl_easy_setopt(call->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(call->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(call->easy, CURLOPT_USERAGENT, "barker");
    /* ".." as a job id must reach the daemon and be refused, not change the path. */
    curl_easy_setopt(call->easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(call->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(call->easy, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_S);
    if (call->request.timeout_ms)
        curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, call->request.timeout_ms);
    if (client->cacert)
        curl_easy_setopt(call->easy, CURLOPT_CAINFO, client->cacert);
    /* A proxy cannot reach the loopback interface of this machine. */
    if (client->loopback)
        curl_easy_setopt(call->easy, CURLOPT_PROXY, "");
}

struct call *client_begin(struct client *client, const struct request *request,
                          struct response *response)
{
    struct call *call = mem_new(1, sizeof *call);
    struct text url = {0};
    *call = (struct call){.client = client, .request = *request, .response = response};
    *response = (struct response){0};
    call->easy = mem_check(curl_easy_init());
    text_addf(&url, "%s%s", client->url, request->path);
    curl_easy_setopt(call->easy, CURLOPT_URL, text_str(&url));
    curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->error);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(call->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(call->easy, CURLOPT_XFERINFODATA, call);
    set_transport(call);
    set_method(call);
    set_headers(call);
    curl_multi_add_handle(client->multi, call->easy);
    text_release(&url);
    return call;
}

bool call_done(const struct call *call)
{
    return call->done;
}

void call_end(struct call *call)
{
    if (!call)
        return;
    curl_multi_remove_handle(call->client->multi, call->easy);
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    free(call);
}

static enum outcome outcome_of(const struct call *call, CURLcode code)
{
    if (code == CURLE_OK)
        return OUTCOME_REPLY;
    if (interrupted())
        return OUTCOME_INTERRUPTED;
    if (call->sink_refused)
        return OUTCOME_SINK;
    switch (code) { /* only with these codes the daemon has certainly not seen the request */
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
        return OUTCOME_UNREACHABLE;
    default:
        return OUTCOME_LOST;
    }
}

static void finish(struct call *call, CURLcode code)
{
    struct response *response = call->response;
    long status = 0;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    response->status = (int)status;
    response->outcome = outcome_of(call, code);
    if (code != CURLE_OK)
        snprintf(response->reason, sizeof response->reason, "%s",
                 call->error[0] ? call->error : curl_easy_strerror(code));
    response->json = json_loadb(text_str(&response->body), response->body.size, 0, NULL);
    get_clean(response->json);
    call->done = true;
}

/* Returns whether a call has completed. */
static bool perform(struct client *client)
{
    int running, left;
    bool any = false;
    CURLMsg *message;
    curl_multi_perform(client->multi, &running);
    while ((message = curl_multi_info_read(client->multi, &left))) {
        struct call *call = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        finish(call, message->data.result);
        any = true;
    }
    return any;
}

void client_step(struct client *client, int ms)
{
    if (perform(client))
        return;
    curl_multi_poll(client->multi, NULL, 0, ms, NULL);
    perform(client);
}

void client_send(struct client *client, const struct request *request, struct response *response)
{
    struct call *call = client_begin(client, request, response);
    while (!call_done(call) && !interrupted())
        client_step(client, 250);
    if (!call_done(call))
        response->outcome = OUTCOME_INTERRUPTED;
    call_end(call);
}
