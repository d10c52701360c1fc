/* The HTTP module through real sockets. */
#include "server/http/http.h"

#include "tests/support/http_app.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <sys/resource.h>

#define HOST "Host: localhost\r\n"
#define NEXT "GET /hello HTTP/1.1\r\n" HOST "\r\n"

static struct app app;

/* Without an idle timeout, which would close what a defect leaves open. */
static void start(struct http_config config)
{
    struct err_info info = {.message = ""};
    if (config.idle_ms == 0)
        config.idle_ms = 3600000;
    enum err err = app_start(&app, config, &info);
    cr_assert_eq(err, ERR_OK, "%s", info.message);
}

/* Everything has ended, and what was opened for it is closed. */
static void stop(void)
{
    cr_assert(http_stop(app.http, PATIENCE * 1000));
    cr_expect_eq(atomic_load(&app.live), 0);
    cr_expect_eq(atomic_load(&app.streams), 0);
    cr_expect_eq(app.done, app.admitted + app.unadmitted, "not every request ended once");
}

static struct answer get(const char *path)
{
    struct answer answer;
    cr_assert(fetch(&app, "GET", path, &answer), "no reply to %s", path);
    return answer;
}

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

static struct answer post(const char *path, const char *headers, const char *body)
{
    struct answer answer;
    char text[8192];
    int fd = dial(&app);
    snprintf(text, sizeof text, "POST %s HTTP/1.1\r\n" HOST "%s\r\n%s", path, headers, body);
    cr_assert(put_text(fd, text) && get_answer(fd, &answer, false), "no reply to %s", path);
    cr_expect_not_null(answer_header(&answer, "Connection"), "kept alive after a body");
    cr_expect(is_closed(fd));
    close(fd);
    return answer;
}

Test(http, bodies_up_to_the_limit_arrive_whole)
{
    start((struct http_config){0});
    char body[ECHO_LIMIT + 1], length[64], chunks[4096] = "";
    for (int i = 0; i < ECHO_LIMIT; i++)
        body[i] = (char)('a' + i % 26);
    body[ECHO_LIMIT] = '\0';
    snprintf(length, sizeof length, "Content-Length: %d\r\n", ECHO_LIMIT);
    for (int i = 0; i < ECHO_LIMIT; i += 125)
        snprintf(chunks + strlen(chunks), sizeof chunks - strlen(chunks), "7d\r\n%.125s\r\n",
                 body + i);
    strcat(chunks, "0\r\n\r\n");
    static const char *const paths[] = {"/echo", "/echo-pool"};
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(post(paths[i], length, body).body, body);
        cr_expect_str_eq(post(paths[i], "Transfer-Encoding: chunked\r\n", chunks).body, body);
    }
    stop();
}

Test(http, clients_that_expect_100_are_told_to_go_on_or_refused_at_once)
{
    start((struct http_config){0});
    int fd = dial(&app);
    struct answer answer;
    cr_assert(put_text(fd, "POST /echo HTTP/1.1\r\n" HOST
                           "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
    cr_assert(get_head(fd, &answer));
    cr_expect_eq(answer.status, 100);
    cr_assert(put_text(fd, "abc") && get_answer(fd, &answer, false));
    cr_expect_str_eq(answer.body, "abc");
    close(fd);
    fd = dial(&app);
    cr_assert(put_text(fd, "POST /echo HTTP/1.1\r\n" HOST
                           "Expect: 100-continue\r\nContent-Length: 3000000\r\n\r\n"));
    cr_assert(get_answer(fd, &answer, false));
    cr_expect_eq(answer.status, 413);
    cr_expect(is_closed(fd));
    close(fd);
    stop();
}

Test(http, an_empty_post_is_not_a_body)
{
    start((struct http_config){0});
    int fd = dial(&app);
    struct answer answer;
    for (int i = 0; i < 2; i++) {
        cr_assert(put_text(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"));
        cr_assert(get_answer(fd, &answer, false));
        cr_expect_eq(answer.status, 200);
        cr_expect_eq(answer.body_size, 0);
    }
    close(fd);
    stop();
}

Test(http, chunked_bodies_above_the_limit_get_413)
{
    start((struct http_config){0});
    char body[4096] = "";
    for (int i = 0; i < 11; i++)
        snprintf(body + strlen(body), sizeof body - strlen(body), "64\r\n%0100d\r\n", i);
    strcat(body, "0\r\n\r\n");
    struct answer answer = post("/echo", "Transfer-Encoding: chunked\r\n", body);
    cr_expect_eq(answer.status, 413);
    cr_expect_not_null(strstr(answer.body, "1000 bytes"));
    cr_expect_eq(atomic_load(&app.handled), 0);
    stop();
}

Test(http, endless_bodies_are_cut)
{
    start((struct http_config){0});
    int fd = dial(&app);
    static char chunk[4096 + 8];
    cr_assert(put_text(fd, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"));
    memset(chunk, 'x', sizeof chunk);
    memcpy(chunk, "1000\r\n", 6);
    memcpy(chunk + 6 + 4096, "\r\n", 2);
    long sent = 0;
    while (sent < 100000 && put(fd, chunk, 6 + 4096 + 2))
        sent++;
    cr_expect_lt(sent, 100000, "400 MB were taken");
    cr_expect(becomes(&app.done, 1));
    cr_expect_eq(atomic_load(&app.gone), 1);
    close(fd);
    stop();
}

/* Without care the kernel answers what the client goes on sending with a reset, and the reply may
 * be lost with it. */
Test(http, a_refused_upload_gets_its_reply_while_it_still_sends)
{
    start((struct http_config){0});
    int fd = dial(&app);
    struct answer answer;
    static char piece[20000];
    cr_assert(put_text(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 400000\r\n\r\n"));
    for (int i = 0; i < 20; i++) {
        nap_ms(5);
        cr_assert(put(fd, piece, sizeof piece), "reset after %d pieces", i);
    }
    cr_assert(get_answer(fd, &answer, false));
    cr_expect_eq(answer.status, 413);
    close(fd);
    stop();
}

Test(http, sinks_are_finished_or_aborted)
{
    start((struct http_config){0});
    cr_expect_str_eq(post("/sink", "Content-Length: 6\r\n", "abcdef").body, "taken");
    cr_expect_eq(atomic_load(&app.sinks_aborted), 0);

    atomic_store(&app.sink_fails, 3);
    struct answer answer = post("/sink", "Content-Length: 6\r\n", "abcdef");
    cr_expect_eq(answer.status, 507);
    cr_expect_str_eq(answer.body, "the sink is full");
    atomic_store(&app.sink_fails, 0);
    cr_expect(becomes(&app.sinks_aborted, 1), "after a failed write");

    cr_expect_eq(post("/sink", "Content-Length: 99999999\r\n", "abc").status, 413);
    cr_expect(becomes(&app.sinks_aborted, 2), "after 413");

    int fd = dial(&app);
    cr_assert(put_text(fd, "POST /sink HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\nabc"));
    cr_assert(becomes(&app.admitted, 4));
    close(fd);
    cr_expect(becomes(&app.sinks_aborted, 3), "after half a body");
    stop();
}

Test(http, slow_clients_are_cut)
{
    static const char *const beginnings[] = {
        "",
        "GET /hello HT",
        "GET /hello HTTP/1.1\r\nHost: loc",
        "GET /hello HTTP/1.1\r\n" HOST "X: ",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 900\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n300\r\nabc"};
    enum { N = sizeof beginnings / sizeof *beginnings };
    start((struct http_config){.header_ms = 1500, .body_ms = 1500, .idle_ms = 600000});
    int fds[N], open = N;
    for (int i = 0; i < N; i++) {
        fds[i] = dial(&app);
        cr_assert(put_text(fds[i], beginnings[i]));
    }
    for (int tick = 0; open > 0 && tick < PATIENCE * 20; tick++) {
        nap_ms(50);
        for (int i = 0; i < N; i++) {
            char waste;
            if (fds[i] < 0 || (put(fds[i], "x", 1) &&
                               (recv(fds[i], &waste, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)))
                continue;
            close(fds[i]);
            fds[i] = -1;
            open--;
        }
    }
    for (int i = 0; i < N; i++)
        cr_expect_lt(fds[i], 0, "still open: %s", beginnings[i]);
    cr_expect_eq(atomic_load(&app.handled), 0);
    cr_expect_str_eq(get("/hello").body, "hello");
    stop();
}

Test(http, a_slow_second_header_is_cut_too)
{
    start((struct http_config){.header_ms = 1500, .idle_ms = 1500});
    int fd = dial(&app);
    struct answer answer;
    char waste;
    cr_assert(ask(fd, "GET", "/hello") && get_answer(fd, &answer, false));
    bool open = put_text(fd, "GET /");
    for (int tick = 0; open && tick < PATIENCE * 20; tick++) {
        nap_ms(50);
        open = put(fd, "x", 1) && recv(fd, &waste, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
    }
    cr_expect_not(open);
    close(fd);
    stop();
}

Test(http, a_reader_that_does_not_read_is_cut)
{
    start((struct http_config){.body_ms = 300, .idle_ms = 600000});
    int fd = dial(&app);
    cr_assert(ask(fd, "GET", "/bytes?n=1000000000"));
    cr_expect(becomes(&app.done, 1), "the stream is still open");
    cr_expect_eq(atomic_load(&app.streams), 0);
    close(fd);
    stop();
}

Test(http, streams_arrive_whole_or_visibly_broken)
{
    start((struct http_config){0});
    struct answer answer = get("/bytes?n=3000000");
    cr_expect_eq(answer.body_size, 3000000);
    cr_expect_str_eq(answer_header(&answer, "Transfer-Encoding"), "chunked");
    answer = get("/bytes?n=3000000&known=1");
    cr_expect_eq(answer.body_size, 3000000);
    cr_expect_eq(strncmp(answer.body, "abcdefghijklmnopqrstuvwxyzabc", 29), 0);
    for (int known = 0; known < 2; known++) {
        char path[64];
        snprintf(path, sizeof path, "/bytes?n=3000000&fail=1&known=%d", known);
        cr_expect_not(fetch(&app, "GET", path, &answer), "half was taken for the whole");
        cr_expect_eq(answer.status, 200);
    }
    stop();
}

Test(http, unsendable_replies_become_500)
{
    start((struct http_config){0});
    static const char *const paths[] = {"/many", "/split", "/none"};
    for (int i = 0; i < 3; i++) {
        struct answer answer = get(paths[i]);
        cr_expect_eq(answer.status, 500, "%s", paths[i]);
        cr_expect_null(answer_header(&answer, "X-Forged"));
    }
    stop();
}

Test(http, errors_end_the_connection)
{
    static const int statuses[] = {400, 404, 409, 500, 503};
    start((struct http_config){0});
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        char path[32];
        struct answer answer;
        int fd = dial(&app);
        snprintf(path, sizeof path, "/status?is=%d", statuses[i]);
        cr_assert(ask(fd, "GET", path) && get_answer(fd, &answer, false));
        cr_expect_eq(answer.status, statuses[i]);
        cr_expect(is_closed(fd), "open after %d", statuses[i]);
        close(fd);
    }
    stop();
}

Test(http, refusals_by_the_application_keep_their_words)
{
    start((struct http_config){0});
    struct answer answer = get("/refused");
    cr_expect_eq(answer.status, 404);
    cr_expect_str_eq(answer.body, "refused");
    answer = post("/refused", "Content-Length: 3\r\n", "abc");
    cr_expect_eq(answer.status, 404);
    cr_expect_eq(atomic_load(&app.handled), 0);
    stop();
}

static bool parked(uint64_t wanted)
{
    struct http_stats stats = {0};
    for (int i = 0; i < PATIENCE * 500; i++) {
        http_stats(app.http, &stats);
        if (stats.parked == wanted)
            return true;
        nap_ms(2);
    }
    return false;
}

Test(http, parked_requests_are_woken_by_their_key)
{
    start((struct http_config){0});
    static const char *const paths[] = {"/park", "/park-pool"};
    for (int i = 0; i < 2; i++) {
        int fd = dial(&app);
        struct answer answer;
        atomic_store(&app.ready, false);
        cr_assert(ask(fd, "GET", paths[i]));
        cr_assert(parked(1));
        long calls = atomic_load(&app.handled);
        for (uint64_t key = 1; key <= 3000; key++)
            http_wake_parked(app.http, PARK_KEY + key);
        http_wake_streams(app.http);
        http_wake_parked(app.http, PARK_KEY);
        cr_assert(becomes(&app.handled, calls + 1), "woken by its key only");
        cr_assert(parked(1));
        atomic_store(&app.ready, true);
        http_wake_parked(app.http, PARK_KEY);
        cr_assert(get_answer(fd, &answer, false));
        cr_expect_str_eq(answer.body, "woken");
        cr_assert(ask(fd, "GET", "/hello") && get_answer(fd, &answer, false));
        close(fd);
    }
    stop();
}

Test(http, parked_requests_time_out)
{
    start((struct http_config){0});
    cr_expect_str_eq(get("/park?ms=50").body, "timed out");
    cr_expect_str_eq(get("/park-pool?ms=50").body, "timed out");
    cr_expect(parked(0));
    stop();
}

Test(http, long_polls_beyond_the_limit_are_answered_at_once)
{
    start((struct http_config){.max_parked = 2});
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = dial(&app);
        cr_assert(ask(fds[i], "GET", i ? "/park" : "/park-pool"));
    }
    cr_assert(parked(2));
    cr_expect_str_eq(get("/park").body, "timed out");
    cr_expect_str_eq(get("/park-pool").body, "timed out");
    close(fds[0]);
    close(fds[1]);
    cr_expect(parked(0), "clients that left still count");
    stop();
}

Test(http, wake_ups_between_the_look_and_the_waiting_are_not_lost)
{
    start((struct http_config){.heartbeat_ms = 3600000});
    cr_expect_str_eq(get("/park-race").body, "woken");
    cr_expect_str_eq(get("/events-race?last=1").body, "0\n1\n");
    stop();
}

Test(http, waiting_streams_are_read_at_every_heartbeat)
{
    start((struct http_config){.heartbeat_ms = 100});
    int fd = dial(&app);
    struct answer answer;
    cr_assert(ask(fd, "GET", "/events?last=1") && get_head(fd, &answer));
    cr_assert_eq(get_chunk(fd, &answer), 2);
    atomic_store(&app.events, 1); /* without waking anybody */
    cr_expect_eq(get_chunk(fd, &answer), 2);
    cr_expect_eq(get_chunk(fd, &answer), 0);
    close(fd);
    stop();
}

#define CLIENTS 200
#define EVENTS  100

static void *publish(void *arg)
{
    (void)arg;
    for (int i = 0; i < EVENTS; i++) {
        atomic_fetch_add(&app.events, 1);
        http_wake_streams(app.http);
        if (i % 7 == 0)
            nap_ms(1);
    }
    return NULL;
}

Test(http, no_event_is_lost_with_two_hundred_streams)
{
    start((struct http_config){.heartbeat_ms = 3600000});
    int fds[CLIENTS];
    char path[64], wanted[1024] = "";
    snprintf(path, sizeof path, "/events?last=%d", EVENTS);
    for (int i = 0; i <= EVENTS; i++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%d\n", i);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = dial(&app);
        cr_assert(ask(fds[i], "GET", path));
    }
    cr_assert(becomes(&app.streams, CLIENTS));
    pthread_t publishers[2];
    pthread_create(&publishers[0], NULL, publish, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        struct answer answer;
        cr_assert(get_answer(fds[i], &answer, false), "stream %d broke", i);
        cr_expect_str_eq(answer.body, wanted, "stream %d", i);
        close(fds[i]);
    }
    pthread_join(publishers[0], NULL);
    stop();
}

static void reset_connection(int fd)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

Test(http, clients_that_vanish_leave_nothing_behind)
{
    static const char *const paths[] = {"/park", "/park-pool", "/events", "/gate"};
    start((struct http_config){.heartbeat_ms = 3600000});
    int fds[24];
    for (int i = 0; i < 24; i++) {
        fds[i] = dial(&app);
        cr_assert(ask(fds[i], "GET", paths[i % 4]));
    }
    cr_assert(parked(12));
    cr_assert(becomes(&app.streams, 6));
    cr_assert(becomes(&app.in_gate, 6));
    for (int i = 0; i < 24; i++)
        i % 8 < 4 ? close(fds[i]) : reset_connection(fds[i]);
    cr_expect(becomes(&app.done, 18), "%ld of 18 noticed", atomic_load(&app.done));
    cr_expect_eq(atomic_load(&app.streams), 0);
    atomic_store(&app.gate_open, true);
    cr_expect(becomes(&app.done, 24));
    cr_expect_eq(atomic_load(&app.live), 0);
    cr_expect_str_eq(get("/hello").body, "hello");
    stop();
}

Test(http, more_than_the_pool_can_queue_is_refused)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 4096)
        cr_skip_test("skipped: needs 4096 file descriptors");
    start((struct http_config){.pool_threads = 1});
    enum { N = 1100 };
    static int fds[N];
    for (int i = 0; i < N; i++) {
        fds[i] = dial(&app);
        cr_assert(fds[i] >= 0 && ask(fds[i], "GET", "/gate"));
    }
    cr_assert(becomes(&app.admitted, N));
    cr_assert(becomes(&app.problems, N - 1024 - 1));
    atomic_store(&app.gate_open, true);
    int served = 0, refused = 0;
    for (int i = 0; i < N; i++) {
        struct answer answer;
        cr_assert(get_answer(fds[i], &answer, false));
        served += answer.status == 200;
        refused += answer.status == 503;
        close(fds[i]);
    }
    cr_expect_eq(served, 1025);
    cr_expect_eq(refused, N - 1025);
    stop();
}

Test(http, stopping_answers_whoever_waits)
{
    static const char *const paths[] = {"/park", "/park-pool", "/events", "/gate"};
    start((struct http_config){.heartbeat_ms = 3600000});
    int fds[40];
    struct answer answers[40];
    for (int i = 0; i < 40; i++) {
        fds[i] = dial(&app);
        cr_assert(ask(fds[i], "GET", paths[i % 4]));
    }
    cr_assert(parked(20));
    cr_assert(becomes(&app.streams, 10));
    cr_assert(becomes(&app.in_gate, 10));
    cr_expect_not(http_stop(app.http, 100), "stopped while handlers were running");
    atomic_store(&app.gate_open, true);
    stop();
    static const char *const wanted[] = {"timed out", "timed out", "0\n", "through the gate"};
    for (int i = 0; i < 40; i++) {
        cr_expect(get_answer(fds[i], &answers[i], false), "%s got no whole reply", paths[i % 4]);
        cr_expect_str_eq(answers[i].body, wanted[i % 4]);
        close(fds[i]);
    }
}

Test(http, stopping_does_not_wait_for_requests_that_are_not_complete, .timeout = 300)
{
    start((struct http_config){.idle_ms = 3600000, .header_ms = 3600000, .body_ms = 3600000});
    int header = dial(&app), body = dial(&app), idle = dial(&app);
    struct answer answer;
    cr_assert(put_text(header, "GET /hello HTTP/1.1\r\nHo"));
    cr_assert(put_text(body, "POST /sink HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabc"));
    cr_assert(ask(idle, "GET", "/hello") && get_answer(idle, &answer, false));
    cr_assert(becomes(&app.admitted, 2));
    cr_assert(http_stop(app.http, 3600000));
    cr_expect_eq(app.sinks_aborted, 1);
    cr_expect_eq(app.done, 2);
    cr_expect(is_closed(header) && is_closed(body) && is_closed(idle));
    close(header);
    close(body);
    close(idle);
}

Test(http, a_quiet_server_takes_nobody_new_but_serves_on)
{
    start((struct http_config){0});
    int fd = dial(&app);
    struct answer answer;
    cr_assert(ask(fd, "GET", "/hello") && get_answer(fd, &answer, false));
    http_quiesce(app.http);
    cr_assert(ask(fd, "GET", "/park") && get_answer(fd, &answer, false));
    cr_expect_str_eq(answer.body, "timed out");
    cr_expect_not_null(answer_header(&answer, "Connection"));
    cr_expect(is_closed(fd));
    close(fd);
    stop();
}

Test(http, figures_are_kept)
{
    start((struct http_config){0});
    int fds[3];
    struct answer answer;
    for (int i = 0; i < 3; i++) {
        fds[i] = dial(&app);
        cr_assert(ask(fds[i], "GET", i == 0 ? "/events" : "/park"));
    }
    cr_assert(get_head(fds[0], &answer));
    cr_assert(parked(2));
    get("/hello%00");
    struct http_stats stats;
    http_stats(app.http, &stats);
    cr_expect_eq(stats.streams, 1);
    cr_expect_eq(stats.parked, 2);
    cr_expect_eq(stats.refused_requests, 1);
    cr_expect_geq(stats.connections, 3);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    stop();
}

Test(http, starting_fails_with_a_reason)
{
    struct err_info info;
    cr_expect_eq(app_start(&app, (struct http_config){.address = "localhost"}, &info), ERR_INVALID);
    cr_expect_not_null(strstr(info.message, "localhost"));
    start((struct http_config){0});
    static struct app second;
    cr_expect_eq(app_start(&second, (struct http_config){.port = http_port(app.http)}, &info),
                 ERR_IO);
    cr_expect_not_null(strstr(info.message, "in use"), "%s", info.message);
    cr_expect_eq(
        app_start(&second, (struct http_config){.tls_cert_pem = "no", .tls_key_pem = "no"}, &info),
        ERR_IO);
    stop();
}

Test(http, ipv6_is_served)
{
    struct err_info info;
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (probe < 0 || bind(probe, (struct sockaddr *)&to, sizeof to) != 0)
        cr_skip_test("skipped: no IPv6 here");
    close(probe);
    cr_assert_eq(app_start(&app, (struct http_config){.address = "::1", .threads = 1}, &info),
                 ERR_OK, "%s", info.message);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct answer answer;
    to.sin6_port = htons(http_port(app.http));
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    cr_assert(put_text(fd, "GET /query HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"));
    cr_assert(get_answer(fd, &answer, false));
    cr_expect_str_eq(answer.body, "header=[none] client=[::1]");
    close(fd);
    stop();
}

static void make_certificate(char *cert_pem, char *key_pem, size_t room)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    unsigned char serial = 1;
    gnutls_x509_privkey_init(&key);
    gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                 GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    gnutls_x509_crt_init(&cert);
    gnutls_x509_crt_set_version(cert, 3);
    gnutls_x509_crt_set_key(cert, key);
    gnutls_x509_crt_set_serial(cert, &serial, 1);
    gnutls_x509_crt_set_activation_time(cert, time(NULL) - 60);
    gnutls_x509_crt_set_expiration_time(cert, time(NULL) + 3600);
    gnutls_x509_crt_set_dn(cert, "CN=localhost", NULL);
    cr_assert_eq(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
    size_t size = room;
    cr_assert_eq(gnutls_x509_crt_export(cert, GNUTLS_X509_FMT_PEM, cert_pem, &size), 0);
    size = room;
    cr_assert_eq(gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, key_pem, &size), 0);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

/* The reply to GET /pool over TLS, or "" when there is no agreement on the protocol. */
static void fetch_tls(const char *priority, char *out, size_t room)
{
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    int fd = dial(&app), rc;
    out[0] = '\0';
    gnutls_certificate_allocate_credentials(&credentials);
    gnutls_init(&session, GNUTLS_CLIENT);
    cr_assert_eq(gnutls_priority_set_direct(session, priority, NULL), 0);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_int(session, fd);
    do
        rc = gnutls_handshake(session);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    static const char request[] = "GET /pool HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n";
    if (rc == 0 && gnutls_record_send(session, request, sizeof request - 1) > 0) {
        size_t used = 0;
        ssize_t got;
        while (used + 1 < room &&
               (got = gnutls_record_recv(session, out + used, room - used - 1)) > 0)
            used += (size_t)got;
        out[used] = '\0';
    }
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    close(fd);
}

Test(http, tls_is_served_from_version_1_2_on)
{
    static char cert[8192], key[8192], out[8192];
    make_certificate(cert, key, sizeof cert);
    start((struct http_config){.tls_cert_pem = cert, .tls_key_pem = key, .header_ms = 5000});
    fetch_tls("NORMAL:-VERS-ALL:+VERS-TLS1.3", out, sizeof out);
    cr_expect_not_null(strstr(out, "hello from the pool"), "TLS 1.3: %s", out);
    fetch_tls("NORMAL:-VERS-ALL:+VERS-TLS1.2", out, sizeof out);
    cr_expect_not_null(strstr(out, "hello from the pool"), "TLS 1.2: %s", out);
    fetch_tls("NORMAL:-VERS-ALL:+VERS-TLS1.1:%COMPAT", out, sizeof out);
    cr_expect_str_eq(out, "", "TLS 1.1 was accepted");
    int fd = dial(&app);
    cr_expect(is_closed(fd), "a client that never shakes hands is kept");
    close(fd);
    stop();
}
