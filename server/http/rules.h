/* Request rules: which parsed requests are accepted. Pure functions, no I/O, any thread.
 *
 * libmicrohttpd 0.9.75 passes on nearly anything (folded lines appended to the header name, any
 * method bytes, two lengths, paths cut at %00), so every request is checked here before the
 * application sees it. All refusals are ERR_MALFORMED unless said otherwise, with a message fit for
 * the client: bytes outside printable ASCII are shown as \xHH. */
#ifndef BARKER_SERVER_HTTP_RULES_H
#define BARKER_SERVER_HTTP_RULES_H

#include "core/base/err.h"
#include "server/http/http.h"

#define RULES_PARAMS 32

struct rules_param {
    const char *name, *value;
};

struct rules_uri {
    const char *path; /* /[A-Za-z0-9/_.~-]*, without ".." or "//" */
    size_t param_count;
    struct rules_param params[RULES_PARAMS]; /* decoded: UTF-8 without control characters */
};

/* Checks and takes apart the URI as the client wrote it. Decodes in place: `out` points into `raw`.
 */
enum err rules_uri(char *raw, struct rules_uri *out, struct err_info *info);

/* The method with exactly these bytes; otherwise ERR_METHOD. */
enum err rules_method(const char *text, enum http_method *out, struct err_info *info);

struct rules_headers {
    unsigned seen;    /* which of the headers that may come only once have come */
    const char *host; /* borrowed from the header; NULL: none */
    uint64_t length;  /* Content-Length, 0 without one */
    bool chunked;
};

/* Takes one header into account; `headers` starts zeroed. The value's text must outlive it. */
enum err rules_header(struct rules_headers *headers, const char *name, size_t name_size,
                      const char *value, size_t value_size, struct err_info *info);

/* After the last one: what must be there, and what must not be there together. */
enum err rules_headers_end(const struct rules_headers *headers, const char *version,
                           struct err_info *info);

/* The names under which this server may be addressed: loopback, its own address, and `more`
 * (NULL-terminated, or NULL). Any other name in Host may come from a page of another site whose DNS
 * name was pointed at us. NULL: no memory. */
char **rules_hosts_new(const char *address, const char *const *more);
void rules_hosts_free(char **hosts);
/* ERR_MISDIRECTED unless the host (port and brackets aside) is one of `allowed`, NULL-terminated.
 */
enum err rules_host(const char *host, const char *const *allowed, struct err_info *info);

#endif
