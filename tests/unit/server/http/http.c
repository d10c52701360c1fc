/* The HTTP module through real sockets. */
#include "tests/unit/server/http/http_fixture.h"

#define HOST "Host: localhost\r\n"
#define NEXT "GET /hello HTTP/1.1\r\n" HOST "\r\n"

/* Sends the bytes and reads until the other side closes. */
static size_t talk(const char *bytes, size_t size, char *out, size_t room)
{
    int fd = dial(&app);
    cr_assert(fd >= 0);
    put(fd, bytes, size);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < room && (got = recv(fd, out + used, room - used - 1, 0)) > 0)
        used += (size_t)got;
    cr_expect(used + 1 == room || got == 0 || errno != EAGAIN, "the connection was left open");
    out[used] = '\0';
    close(fd);
    return used;
}

static int count(const char *text, const char *what)
{
    int found = 0;
    for (text = strstr(text, what); text; text = strstr(text + 1, what))
        found++;
    return found;
}

Test(http, inline_and_pool_handlers_answer)
{
    start((struct http_config){0});
    cr_expect_str_eq(get("/hello").body, "hello");
    cr_expect_str_eq(get("/pool").body, "hello from the pool");
    cr_expect_str_eq(get("/query?q=a%20b&empty").body,
                     "q=[a b] empty=[] header=[none] client=[127.0.0.1]");
    stop();
}

Test(http, every_reply_carries_the_security_headers_and_its_own_id)
{
    start((struct http_config){0});
    static const char *const paths[] = {"/hello",   "/pool", "/bytes?n=10",
                                        "/refused", "/x%00", "/none"};
    char last_id[64] = "";
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct answer answer = get(paths[i]);
        static const char *const wanted[][2] = {{"X-Content-Type-Options", "nosniff"},
                                                {"Referrer-Policy", "no-referrer"},
                                                {"Cross-Origin-Resource-Policy", "same-origin"},
                                                {"Cache-Control", "no-store"}};
        for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
            const char *value = answer_header(&answer, wanted[w][0]);
            cr_expect(value && strcmp(value, wanted[w][1]) == 0, "%s: %s", paths[i], wanted[w][0]);
        }
        cr_expect_null(answer_header(&answer, "Access-Control-Allow-Origin"));
        const char *id = answer_header(&answer, "X-Request-Id");
        cr_assert(id && strlen(id) >= 8, "%s has no id", paths[i]);
        cr_expect_str_neq(id, last_id);
        snprintf(last_id, sizeof last_id, "%s", id);
    }
    struct answer own = get("/status?is=200");
    cr_expect_str_eq(answer_header(&own, "Cache-Control"), "max-age=60");
    cr_expect_null(strstr(own.head, "no-store"));
    own = get("/hello");
    cr_expect_str_eq(answer_header(&own, "X-Own"), "yes");
    cr_expect_str_eq(answer_header(&own, "Content-Type"), "text/plain");
    stop();
}

Test(http, one_connection_serves_a_thousand_requests)
{
    start((struct http_config){0});
    int fd = dial(&app);
    for (int i = 0; i < 1000; i++) {
        static const char *const paths[] = {"/hello", "/pool", "/bytes?n=100000",
                                            "/bytes?n=70000&known=1", "/status?is=204"};
        struct answer answer;
        cr_assert(ask(fd, "GET", paths[i % 5]) && get_answer(fd, &answer, false), "request %d", i);
        cr_assert_eq(answer.status, i % 5 == 4 ? 204 : 200);
        cr_assert_null(answer_header(&answer, "Connection"));
    }
    close(fd);
    stop();
}

Test(http, pipelined_requests_are_answered_in_order)
{
    start((struct http_config){0});
    int fd = dial(&app);
    for (int i = 0; i < 20; i++) {
        char path[64];
        snprintf(path, sizeof path, i % 2 ? "/pool?i=%d" : "/query?i=%d", i);
        cr_assert(ask(fd, "GET", path));
    }
    for (int i = 0; i < 20; i++) {
        struct answer answer;
        char wanted[64];
        snprintf(wanted, sizeof wanted, i % 2 ? "hello from the pool" : "i=[%d] header", i);
        cr_assert(get_answer(fd, &answer, false));
        cr_expect_eq(strncmp(answer.body, wanted, strlen(wanted)), 0, "%d: %s", i, answer.body);
    }
    close(fd);
    stop();
}

Test(http, a_header_that_comes_byte_by_byte_is_a_header)
{
    start((struct http_config){0});
    int fd = dial(&app);
    const char *text =
        "GET /query?a=1 HTTP/1.1\r\nHost: localhost\r\nEmpty:\r\nX-Test: \t 2.385 \r\n\r\n";
    for (const char *p = text; *p; p++) {
        cr_assert(put(fd, p, 1));
        if (p - text < 60 && (p - text) % 3 == 0)
            nap_ms(1);
    }
    struct answer answer;
    cr_assert(get_answer(fd, &answer, false));
    cr_expect_eq(answer.status, 200);
    cr_expect_eq(strncmp(answer.body, "a=[1] header=[2.385", 19), 0, "%s", answer.body);
    close(fd);
    stop();
}

Test(http, head_is_get_without_the_body)
{
    static const struct {
        const char *path, *length;
    } cases[] = {{"/hello", "5"}, {"/pool", "19"}, {"/bytes?n=70000&known=1", "70000"}};
    start((struct http_config){0});
    int fd = dial(&app);
    struct answer answer;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(ask(fd, "HEAD", cases[i].path) && get_answer(fd, &answer, true));
        cr_expect_eq(answer.status, 200);
        cr_expect_str_eq(answer_header(&answer, "Content-Length"), cases[i].length);
    }
    cr_assert(ask(fd, "GET", "/hello") && get_answer(fd, &answer, false));
    cr_expect_str_eq(answer.body, "hello", "a body followed a reply to HEAD");
    close(fd);

    static const char *const streams[] = {"HEAD /bytes?n=70000 HTTP/1.1\r\n" HOST "\r\n",
                                          "HEAD /events HTTP/1.1\r\n" HOST "\r\n"};
    for (int i = 0; i < 2; i++) {
        char out[4096];
        size_t size = talk(streams[i], strlen(streams[i]), out, sizeof out);
        cr_expect_eq(atoi(out + 9), 200);
        cr_expect(size > 4 && strcmp(out + size - 4, "\r\n\r\n") == 0 &&
                      count(out, "\r\n\r\n") == 1,
                  "more than a head: %s", out);
    }
    stop();
}

Test(http, replies_without_a_body_leave_the_connection_usable)
{
    start((struct http_config){0});
    int fd = dial(&app);
    static const int statuses[] = {204, 304, 200};
    for (int i = 0; i < 3; i++) {
        struct answer answer;
        char path[32];
        snprintf(path, sizeof path, "/status?is=%d", statuses[i]);
        cr_assert(ask(fd, "GET", path) && get_answer(fd, &answer, false));
        cr_expect_eq(answer.status, statuses[i]);
        cr_expect_eq(answer.body_size, 0);
    }
    struct answer answer;
    cr_assert(ask(fd, "GET", "/hello") && get_answer(fd, &answer, false));
    cr_expect_str_eq(answer.body, "hello");
    close(fd);
    stop();
}

struct raw {
    const char *what, *text;
    int status; /* 0: closed without a reply */
};

/* Each must get exactly one reply, be closed, and not reach a handler; where a second request was
 * smuggled in, it must not be seen. */
static const struct raw hostile[] = {
    {"length and chunked",
     "POST /echo HTTP/1.1\r\n" HOST
     "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"chunked and length",
     "POST /echo HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"two lengths",
     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" NEXT, 400},
    {"two equal lengths",
     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\na" NEXT, 400},
    {"two encodings",
     "POST /echo HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT,
     400},
    {"gzip, chunked",
     "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"unknown encoding",
     "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"chunked in HTTP/1.0",
     "POST /echo HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" NEXT, 400},
    {"a folded line that forges a header",
     "GET /hello HTTP/1.1\r\n" HOST "X: a\r\n Authorization: Bearer b\r\n\r\n", 400},
    {"a folded line that completes a name",
     "GET /hello HTTP/1.1\r\n" HOST "Auth: Bearer b\r\n orization\r\n\r\n", 400},
    {"a fold with a tab", "GET /hello HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\nY: c\r\n\r\n", 400},
    {"a fold before the first header", "GET /hello HTTP/1.1\r\n Host: localhost\r\n\r\n", 400},
    {"a blank before the colon", "GET /hello HTTP/1.1\r\n" HOST "Authorization : b\r\n\r\n", 400},
    {"a control byte in a name", "GET /hello HTTP/1.1\r\n" HOST "X\x01Y: b\r\n\r\n", 400},
    {"a control byte in a value", "GET /hello HTTP/1.1\r\n" HOST "X: b\x1b[31m\r\n\r\n", 400},
    {"two Authorizations",
     "GET /hello HTTP/1.1\r\n" HOST "Authorization: a\r\nAuthorization: b\r\n\r\n", 400},
    {"two types", "GET /hello HTTP/1.1\r\n" HOST "Content-Type: a\r\nContent-Type: b\r\n\r\n", 400},
    {"no host", "GET /hello HTTP/1.1\r\n\r\n" NEXT, 400},
    {"no host, HTTP/1.0", "GET /hello HTTP/1.0\r\n\r\n" NEXT, 400},
    {"two hosts", "GET /hello HTTP/1.1\r\n" HOST HOST "\r\n" NEXT, 400},
    {"a foreign host", "GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n" NEXT, 421},
    {"a foreign host with port", "GET /hello HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", 421},
    {"an empty host", "GET /hello HTTP/1.1\r\nHost:\r\n\r\n", 400},
    {"TRACE", "TRACE /hello HTTP/1.1\r\n" HOST "\r\n" NEXT, 405},
    {"lower case", "get /hello HTTP/1.1\r\n" HOST "\r\n" NEXT, 405},
    {"method bytes", "G\x01\xffT /hello HTTP/1.1\r\n" HOST "\r\n" NEXT, 405},
    {"CONNECT", "CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"OPTIONS *", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"absolute form", "GET http://localhost/hello HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"%00 in the path", "GET /hello%00x HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"%00 in the query", "GET /hello?a=b%00c HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"%0d%0a in the path", "GET /hello%0d%0aX:%20y HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"%0d%0a in the query", "GET /hello?a=%0d%0aX:%20y HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"..", "GET /a/../hello HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"%2e%2e", "GET /a/%2e%2e/hello HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"%2f", "GET /a%2fhello HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"%5c", "GET /a%5chello HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"//", "GET //hello HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"a blank in the path", "GET /hello x HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"escape codes in the path", "GET /\x1b[31mhello HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"a parameter twice", "GET /hello?a=1&a=2 HTTP/1.1\r\n" HOST "\r\n" NEXT, 400},
    {"a body for GET", "GET /hello HTTP/1.1\r\n" HOST "Content-Length: 44\r\n\r\n" NEXT, 413},
    {"a body for PATCH", "PATCH /hello HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\na" NEXT, 413},
    {"a chunked body where none is allowed",
     "PUT /hello HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" NEXT,
     413},
    {"a length above the limit", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n" NEXT,
     413},
    {"a gigabyte", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1073741824\r\n\r\n" NEXT, 413},
    {"HTTP/2.0", "GET /hello HTTP/2.0\r\n" HOST "\r\n" NEXT, 505},
    {"no version", "GET /hello\r\n" HOST "\r\n" NEXT, 400},
    {"no colon", "GET /hello HTTP/1.1\r\n" HOST "nonsense\r\n\r\n" NEXT, 400},
    {"TLS to a plain port", "\x16\x03\x01\x02\x01\x01\x01\xfc\x03\x03\r\n\r\n", 0},
};

Test(http, hostile_requests_get_one_reply_and_the_door)
{
    start((struct http_config){0});
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        const struct raw *raw = &hostile[i];
        char out[8192];
        size_t size = talk(raw->text, strlen(raw->text), out, sizeof out);
        if (raw->status == 0)
            cr_expect_eq(size, 0, "%s: %s", raw->what, out);
        else
            cr_expect(atoi(out + 9) == raw->status && count(out, "HTTP/1.1 ") == 1, "%s: %s",
                      raw->what, out);
        if (raw->status && raw->status != 505 && !strstr(out, "<html>"))
            cr_expect(strstr(out, "Connection: close") || strstr(out, "Connection: Close"),
                      "%s: %s", raw->what, out);
        for (const char *p = out; *p; p++)
            cr_expect(*p == '\r' || *p == '\n' || (*p >= 0x20 && *p < 0x7f),
                      "%s: byte %02x in the reply", raw->what, (unsigned char)*p);
    }
    cr_expect_eq(atomic_load(&app.handled), 0, "a hostile request reached a handler");
    cr_expect_str_eq(get("/hello").body, "hello");
    stop();
}

/* libmicrohttpd answers these itself, with the status line twice; the connection ends with it. */
Test(http, unreadable_lengths_never_reach_a_handler)
{
    start((struct http_config){0});
    static const char *const lengths[] = {"+6", "-1", "6, 6", "", "0x6", "99999999999999999999"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char text[256], out[8192];
        snprintf(text, sizeof text,
                 "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %s\r\n\r\nabcdef" NEXT,
                 lengths[i]);
        talk(text, strlen(text), out, sizeof out);
        int status = atoi(out + 9);
        cr_expect(status == 400 || status == 413, "%s: %s", lengths[i], out);
    }
    cr_expect_eq(atomic_load(&app.handled), 0);
    stop();
}

Test(http, nul_bytes_do_not_shorten_the_target)
{
    start((struct http_config){0});
    static const char text[] = "GET /hello\0/x HTTP/1.1\r\n" HOST "\r\n";
    char out[8192];
    talk(text, sizeof text - 1, out, sizeof out);
    cr_expect_eq(atoi(out + 9), 400, "%s", out);
    cr_expect_eq(atomic_load(&app.handled), 0);
    stop();
}

Test(http, oversized_heads_are_refused)
{
    start((struct http_config){0});
    static char text[60000], out[8192];
    char filler[40001];
    memset(filler, 'x', 40000);
    filler[40000] = '\0';
    snprintf(text, sizeof text, "GET /%s HTTP/1.1\r\n" HOST "\r\n", filler);
    talk(text, strlen(text), out, sizeof out);
    cr_expect_eq(atoi(out + 9), 414, "%s", out);
    snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\n" HOST "X: %s\r\n\r\n", filler);
    talk(text, strlen(text), out, sizeof out);
    cr_expect_eq(atoi(out + 9), 431, "%s", out);
    size_t used = (size_t)snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 2000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "X-%d: y\r\n", i);
    snprintf(text + used, sizeof text - used, "\r\n");
    talk(text, strlen(text), out, sizeof out);
    cr_expect_eq(atoi(out + 9), 431, "%s", out);
    cr_expect_eq(atomic_load(&app.handled), 0);
    stop();
}

Test(http, configured_hosts_are_served)
{
    static const char *const hosts[] = {"lab.example", NULL};
    start((struct http_config){.hosts = hosts});
    static const char *const good[] = {"lab.example", "LAB.example:8080", "127.0.0.1", "[::1]:1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[128];
        struct answer answer;
        int fd = dial(&app);
        snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", good[i]);
        cr_assert(put_text(fd, text) && get_answer(fd, &answer, false));
        cr_expect_eq(answer.status, 200, "%s", good[i]);
        close(fd);
    }
    stop();
}
