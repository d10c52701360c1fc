/* Storms the HTTP module for some seconds: several clients with every kind of request, some of
 * which vanish, while other threads wake streams and parked requests; then stops it in the middle.
 * Exits 0 when every request ended exactly once. Seconds: the first argument, 3 by default. */
#include "tests/support/http_app.h"

#define CLIENTS 6

static struct app app;
static _Atomic bool over;
static _Atomic long replies, broken;

static bool chance(unsigned *seed, int percent)
{
    return rand_r(seed) % 100 < percent;
}

static void one_request(unsigned *seed, int *fd)
{
    static const char *const paths[] = {"/hello",
                                        "/pool",
                                        "/priority-pool",
                                        "/priority-pool?long=1",
                                        "/park?ms=20",
                                        "/park-pool?ms=20",
                                        "/park-race?ms=20",
                                        "/bytes?n=100000",
                                        "/bytes?n=50000&known=1",
                                        "/bytes?n=200000&fail=1",
                                        "/refused",
                                        "/x%00",
                                        "/many",
                                        "/gate"};
    struct answer answer;
    if (*fd < 0)
        *fd = dial(&app);
    if (*fd < 0)
        return;
    bool vanishes = chance(seed, 20), asked;
    if (chance(seed, 15)) {
        asked = put_text(*fd, "POST /echo-pool HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Length: 3\r\n\r\nabc");
    } else if (chance(seed, 10)) {
        asked = put_text(*fd, "POST /sink HTTP/1.1\r\nHost: localhost\r\n"
                              "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        asked = asked && (vanishes || put_text(*fd, "0\r\n\r\n"));
    } else {
        asked = ask(*fd, "GET", paths[(size_t)rand_r(seed) % (sizeof paths / sizeof *paths)]);
    }
    bool stays = asked && !vanishes && get_answer(*fd, &answer, false);
    if (stays)
        atomic_fetch_add(&replies, 1);
    if (!stays || answer_header(&answer, "Connection")) {
        close(*fd);
        *fd = -1;
    }
}

static void *client(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    int fd = -1;
    while (!atomic_load(&over))
        one_request(&seed, &fd);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* Follows events; every line must be the successor of the one before. */
static void *follower(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    while (!atomic_load(&over)) {
        struct answer answer;
        int fd = dial(&app);
        if (fd < 0)
            break;
        int lines = rand_r(&seed) % 200;
        long next = 0;
        if (ask(fd, "GET", "/events") && get_head(fd, &answer))
            for (int i = 0; i < lines; i++) {
                answer.body_size = 0;
                memset(answer.body, 0, 32);
                if (get_chunk(fd, &answer) <= 0)
                    break;
                if (strtol(answer.body, NULL, 10) != next++)
                    atomic_fetch_add(&broken, 1);
            }
        close(fd);
    }
    return NULL;
}

static void *waker(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; !atomic_load(&over); i++) {
        atomic_fetch_add(&app.events, 1);
        http_wake_streams(app.http);
        atomic_store(&app.ready, i % 3 == 0);
        http_wake_parked(app.http, i % 2 ? PARK_KEY : i);
        struct http_stats stats;
        http_stats(app.http, &stats);
        nap_ms(1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct err_info info;
    pthread_t threads[2 * CLIENTS + 1];
    size_t count = 0;
    if (app_start(&app, (struct http_config){.pool_threads = 4, .heartbeat_ms = 200}, &info)) {
        fprintf(stderr, "%s\n", info.message);
        return 1;
    }
    atomic_store(&app.gate_open, true);
    for (uintptr_t i = 0; i < CLIENTS; i++) {
        pthread_create(&threads[count++], NULL, client, (void *)(i + 1));
        pthread_create(&threads[count++], NULL, follower, (void *)(i + 100));
    }
    pthread_create(&threads[count++], NULL, waker, NULL);
    nap_ms(argc > 1 ? 1000 * atol(argv[1]) : 3000);
    /* The waker may not outlive the module; everybody else may. */
    atomic_store(&over, true);
    pthread_join(threads[--count], NULL);
    bool stopped = http_stop(app.http, 10000);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    long ends = atomic_load(&app.done), begun = atomic_load(&app.admitted) + app.unadmitted;
    printf("%ld replies, %ld of %ld requests ended, %ld events out of order\n",
           atomic_load(&replies), ends, begun, atomic_load(&broken));
    bool good =
        stopped && ends == begun && app.live == 0 && app.streams == 0 && broken == 0 && replies > 0;
    puts(good ? "1 passed, 0 failed" : "0 passed, 1 failed");
    return good ? 0 : 1;
}
