/* The dashboard: files that clients/web/build.mjs made, compiled in gzipped, as they are sent.
 *
 * The content security policy allows the page to load from and call only this daemon, and forbids
 * inline code. */
#include "server/api/api.h"
#include "web/list.h" /* of the build folder: WEB_LIST, with paths relative to WEB_FOLDER */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define X(key, name, type, tag, size, path)       \
    __asm__(".section .rodata, \"a\"\n"           \
            ".balign 16\n"                        \
            "web_begin_" #key ":\n"               \
            ".incbin \"" path "\"\n"              \
            "web_end_" #key ":\n"                 \
            ".previous\n");                       \
    extern const unsigned char web_begin_##key[]; \
    extern const unsigned char web_end_##key[];
WEB_LIST(X)
#undef X

struct web_file {
    const char *name, *type, *tag;
    size_t size; /* unpacked */
    const unsigned char *begin, *end;
};

static const struct web_file files[] = {
#define X(key, name, type, tag, size, path) {name, type, tag, size, web_begin_##key, web_end_##key},
    WEB_LIST(X)
#undef X
};

static const struct web_file *find_file(const char *name)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

/* Whether a list such as "br, gzip;q=0.5" names a coding. Weights are ignored: only q=0 refuses,
 * which no client sends for gzip. */
static bool lists(const char *header, const char *word)
{
    return header != NULL && strstr(header, word) != NULL;
}

static char *unpack(const struct web_file *file)
{
    char *out = malloc(file->size + 1);
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)file->begin,
                       .avail_in = (unsigned)(file->end - file->begin),
                       .next_out = (unsigned char *)out,
                       .avail_out = (unsigned)file->size};
    if (out == NULL || inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) {
        free(out);
        return NULL;
    }
    int code = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    if (code == Z_STREAM_END)
        return out;
    free(out);
    return NULL;
}

static bool put_body(struct call *call, const struct web_file *file)
{
    struct reply *reply = call->reply;
    if (lists(request_header(call->req, "Accept-Encoding"), "gzip")) {
        reply_header(reply, "Content-Encoding", "gzip");
        reply->static_body = file->begin;
        reply->body_size = (size_t)(file->end - file->begin);
        return true;
    }
    reply->body = unpack(file);
    reply->body_size = file->size;
    return reply->body != NULL;
}

/* A weak tag: the same for the compressed and the plain form. */
static void send_file(struct call *call, const struct web_file *file, const char *cache)
{
    char etag[40];
    bool known = lists(request_header(call->req, "If-None-Match"), file->tag);
    if (!known && !put_body(call, file)) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return;
    }
    snprintf(etag, sizeof etag, "W/\"%s\"", file->tag);
    reply_header(call->reply, "ETag", etag);
    reply_header(call->reply, "Cache-Control", cache);
    reply_header(call->reply, "Vary", "Accept-Encoding");
    call->reply->status = known ? 304 : 200;
    call->reply->content_type = known ? NULL : file->type;
}

void api_home(struct call *call)
{
    reply_header(call->reply, "Content-Security-Policy",
                 "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                 "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                 "frame-ancestors 'none'; require-trusted-types-for 'script'");
    reply_header(call->reply, "Cross-Origin-Opener-Policy", "same-origin");
    send_file(call, find_file("index.html"), "no-cache");
}

/* Their names contain a hash of their contents, so that a browser may cache them for ever. */
void api_web_asset(struct call *call)
{
    const struct web_file *file = find_file(call->arg[0]);
    if (file == NULL || strcmp(file->name, "index.html") == 0)
        call_fail(call, ERR_NOT_FOUND, "there is no such file; reload the page /");
    else
        send_file(call, file, "public, max-age=31536000, immutable");
}
