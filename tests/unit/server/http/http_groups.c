/* One group of requests against the others: pool, queue, long polls, uploads. */
#include "tests/unit/server/http/http_fixture.h"

#define HOST "Host: localhost\r\n"

static int ask_new(const char *path)
{
    int fd = dial(&app);
    cr_assert(fd >= 0 && ask(fd, "GET", path));
    return fd;
}

static void expect_status(int fd, int status)
{
    struct answer answer;
    cr_expect(get_answer(fd, &answer, false));
    cr_expect_eq(answer.status, status, "%d %s", answer.status, answer.body);
    close(fd);
}

Test(http_groups, one_group_leaves_threads_of_the_pool_to_others)
{
    start((struct http_config){.pool_threads = 4});
    enum { N = 20 };
    int fds[N];
    for (int i = 0; i < N; i++)
        fds[i] = ask_new("/gate?group=1");
    cr_assert(becomes(&app.admitted, N));
    cr_assert(becomes(&app.in_gate, 3));
    cr_expect_str_eq(get("/pool?group=2").body, "hello from the pool");
    cr_expect_eq(atomic_load(&app.in_gate), 3, "more threads than one group may have");
    atomic_store(&app.gate_open, true);
    for (int i = 0; i < N; i++)
        expect_status(fds[i], 200);
    stop();
}

/* A request that works for long has neither the only thread of the pool nor its priority. */
Test(http_groups, what_works_for_long_gives_its_seat_to_another_thread)
{
    start((struct http_config){.pool_threads = 1});
    enum { N = 5 };
    int fds[N], usual = atoi(get("/priority-pool?group=1").body);
    for (int i = 0; i < N; i++) {
        char path[60];
        snprintf(path, sizeof path, "/priority-pool?long=1&group=%d", i + 2);
        fds[i] = ask_new(path);
        cr_assert(becomes(&app.in_gate, i + 1));
    }
    cr_expect_eq(atoi(get("/priority-pool?group=1").body), usual);
    atomic_store(&app.gate_open, true);
    for (int i = 0; i < N; i++) {
        struct answer answer;
        cr_expect(get_answer(fds[i], &answer, false));
        cr_expect_gt(atoi(answer.body), usual);
        close(fds[i]);
    }
    /* One group at its limit goes on when a thread that had no seat any more has ended. */
    for (int i = 0; i < N; i++)
        fds[i] = ask_new("/priority-pool?long=1&group=1");
    for (int i = 0; i < N; i++)
        expect_status(fds[i], 200);
    cr_expect_eq(atoi(get("/priority-pool?group=1").body), usual);
    stop();
}

/* With one thread, what the second group asks for comes after one request of the first. */
Test(http_groups, groups_with_queued_requests_take_turns)
{
    start((struct http_config){.pool_threads = 1});
    enum { N = 10 };
    int first = ask_new("/gate?group=1"), fds[N];
    cr_assert(becomes(&app.in_gate, 1));
    for (int i = 0; i < N; i++)
        fds[i] = ask_new("/order-pool?group=1");
    cr_assert(becomes(&app.admitted, N + 1));
    int other = ask_new("/order-pool?group=2");
    cr_assert(becomes(&app.admitted, N + 2));
    atomic_store(&app.gate_open, true);
    struct answer answer;
    cr_assert(get_answer(other, &answer, false));
    cr_expect_leq(atol(answer.body), 3, "it was number %s", answer.body);
    close(other);
    for (int i = 0; i < N; i++)
        expect_status(fds[i], 200);
    expect_status(first, 200);
    stop();
}

Test(http_groups, a_group_that_queues_too_much_is_refused_and_others_are_not)
{
    start((struct http_config){.pool_threads = 2});
    enum { N = 300 };
    static int fds[N];
    for (int i = 0; i < N; i++)
        fds[i] = ask_new("/gate?group=1");
    cr_assert(becomes(&app.admitted, N));
    cr_assert(becomes(&app.problems, N - 256 - 1));
    cr_expect_eq(get("/pool?group=2").status, 200);
    atomic_store(&app.gate_open, true);
    int refused = 0;
    for (int i = 0; i < N; i++) {
        struct answer answer;
        cr_assert(get_answer(fds[i], &answer, false));
        refused += answer.status == 503;
        close(fds[i]);
    }
    cr_expect_eq(refused, N - 257);
    stop();
}

Test(http_groups, long_polls_of_one_group_leave_room_for_others)
{
    start((struct http_config){.group_parked = 2});
    int fds[] = {ask_new("/park?group=1"), ask_new("/park-pool?group=1"), -1};
    struct http_stats stats = {0};
    while (stats.parked < 2)
        http_stats(app.http, &stats);
    cr_expect_str_eq(get("/park?group=1").body, "timed out");
    cr_expect_str_eq(get("/park-pool?group=1").body, "timed out");
    fds[2] = ask_new("/park?group=2");
    while (stats.parked < 3)
        http_stats(app.http, &stats);
    atomic_store(&app.ready, true);
    http_wake_parked(app.http, PARK_KEY);
    for (int i = 0; i < 3; i++)
        expect_status(fds[i], 200);
    stop();
}

static int upload(int group, const char *bytes)
{
    char head[200];
    int fd = dial(&app);
    snprintf(head, sizeof head,
             "POST /sink?group=%d HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n", group);
    cr_assert(put_text(fd, head) && put_text(fd, bytes));
    return fd;
}

Test(http_groups, uploads_of_one_group_are_counted)
{
    start((struct http_config){.group_uploads = 2});
    int own[] = {upload(1, "a"), upload(1, "a")};
    cr_assert(becomes(&app.admitted, 2));
    expect_status(upload(1, "a"), 429);
    int other = upload(2, "a");
    cr_assert(becomes(&app.admitted, 4));
    cr_expect_eq(atomic_load(&app.problems), 1);
    close(own[0]);
    cr_assert(becomes(&app.gone, 1));
    int again = upload(1, "a");
    cr_assert(becomes(&app.admitted, 5));
    cr_expect_eq(atomic_load(&app.problems), 1, "an upload that is over still counts");
    close(own[1]);
    close(other);
    close(again);
    cr_assert(becomes(&app.gone, 4));
    stop();
}

/* The sink of the application allows an hour; the idle timeout is as long. */
Test(http_groups, a_body_that_trickles_is_cut)
{
    start((struct http_config){.body_ms = 500});
    int fd = upload(1, "a");
    cr_assert(becomes(&app.admitted, 1));
    for (int i = 0; i < PATIENCE * 50 && atomic_load(&app.gone) == 0; i++) {
        send(fd, "b", 1, MSG_NOSIGNAL);
        nap_ms(20);
    }
    cr_expect_eq(atomic_load(&app.gone), 1, "a byte now and then holds the connection");
    close(fd);
    stop();
}

Test(http_groups, a_body_that_brings_its_thousand_bytes_per_second_is_not_cut)
{
    start((struct http_config){.body_ms = 500});
    static char bytes[20001];
    memset(bytes, 'a', 20000);
    int fd = upload(1, "");
    for (int i = 0; i < 5; i++) {
        cr_expect(put(fd, bytes, 20000));
        nap_ms(300); /* three times what a body without bytes has */
    }
    expect_status(fd, 200);
    stop();
}
