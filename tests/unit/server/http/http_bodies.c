/* Bodies of requests and replies through real sockets: limits, streams, clients that are slow. */
#include "tests/unit/server/http/http_fixture.h"

#define HOST "Host: localhost\r\n"
#define NEXT "GET /hello HTTP/1.1\r\n" HOST "\r\n"

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

/* It takes every piece in time, but all together too slowly. */
Test(http, a_stream_that_is_read_too_slowly_is_cut)
{
    static char waste[65536];
    start((struct http_config){.body_ms = 2000, .read_rate = 1u << 30, .idle_ms = 600000});
    int fd = dial(&app);
    cr_assert(ask(fd, "GET", "/bytes?n=100000000000"));
    while (recv(fd, waste, sizeof waste, 0) > 0 && atomic_load(&app.done) == 0)
        nap_ms(5);
    cr_expect(becomes(&app.done, 1), "the stream is still open");
    cr_expect_eq(atomic_load(&app.streams), 0);
    close(fd);
    stop();
}

Test(http, a_stream_whose_source_is_slow_is_not_cut)
{
    start((struct http_config){.body_ms = 1000, .read_rate = 1u << 30});
    struct answer answer = get("/bytes?n=1000&nap=300");
    cr_expect_eq(answer.body_size, 1000);
    stop();
}

Test(http, a_stream_that_rests_is_asked_again)
{
    start((struct http_config){.header_ms = 40}); /* and with it the ticks */
    struct answer answer = get("/bytes?n=300000&rests=2");
    cr_expect_eq(answer.body_size, 300000);
    answer = get("/bytes?n=300000&rests=1&known=1");
    cr_expect_eq(answer.body_size, 300000);
    int fd = dial(&app);
    cr_assert(fd >= 0 && ask(fd, "GET", "/bytes?n=100&rests=1000000"));
    cr_assert(becomes(&app.streams, 1));
    close(fd);
    cr_expect(becomes(&app.streams, 0), "a client that has gone is still waited for");
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
