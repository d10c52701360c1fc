/* Problem documents. */
#include "server/api/problem.h"
#include "server/base/mistake.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int status_of(enum err code)
{
    switch (code) {
    case ERR_OK:
        return 200;
    case ERR_MALFORMED:
        return 400;
    case ERR_UNAUTHENTICATED:
        return 401;
    case ERR_FORBIDDEN:
        return 403;
    case ERR_NOT_FOUND:
        return 404;
    case ERR_METHOD:
        return 405;
    case ERR_TIMEOUT:
        return 408;
    case ERR_CONFLICT:
        return 409;
    case ERR_TOO_LARGE:
        return 413;
    case ERR_MEDIA_TYPE:
        return 415;
    case ERR_MISDIRECTED:
        return 421;
    case ERR_INVALID:
    case ERR_UNSUPPORTED:
    case ERR_DATA_CHANGED:
    case ERR_DIVERGED:
    case ERR_QUOTA:
        return 422;
    case ERR_RATE:
        return 429;
    case ERR_CORRUPT:
    case ERR_IO:
    case ERR_INTERNAL:
        return 500;
    case ERR_NO_MEMORY:
    case ERR_UNAVAILABLE:
        return 503;
    case ERR_NO_SPACE:
        return 507;
    }
    return 500;
}

static json_t *mistakes_json(const struct mistakes *mistakes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < mistakes->count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s}", "pointer", mistakes->items[i].pointer,
                                        "detail", mistakes->items[i].detail, "kind",
                                        mistake_kind_name(mistakes->items[i].kind)));
    return list;
}

void problem_reply(struct reply *reply, enum err code, const char *detail,
                   const struct mistakes *mistakes)
{
    int status = status_of(code);
    json_t *doc = json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", "about:blank", "title",
                            err_text(code), "status", status, "detail",
                            detail != NULL ? detail : err_text(code), "code", err_name(code));
    if (doc != NULL && mistakes != NULL && mistakes->count > 0)
        json_object_set_new(doc, "errors", mistakes_json(mistakes));
    free(reply->body);
    reply->body = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    reply->body_size = reply->body != NULL ? strlen(reply->body) : 0;
    reply->status = status;
    reply->content_type = "application/problem+json";
    reply->streaming = false;
    reply->park_ms = 0;
    if (code == ERR_UNAUTHENTICATED)
        reply_header(reply, "WWW-Authenticate", "Bearer");
    if (code == ERR_RATE || code == ERR_UNAVAILABLE || code == ERR_NO_SPACE)
        reply_header(reply, "Retry-After", code == ERR_RATE ? "10" : "5");
}
