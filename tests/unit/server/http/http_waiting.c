/* Requests that wait, many of them, stopping, and other ways to listen. */
#include "tests/unit/server/http/http_fixture.h"

#define HOST "Host: localhost\r\n"
#define NEXT "GET /hello HTTP/1.1\r\n" HOST "\r\n"

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
        char path[32];
        snprintf(path, sizeof path, "/gate?group=%d", i % 8);
        fds[i] = dial(&app);
        cr_assert(fds[i] >= 0 && ask(fds[i], "GET", path));
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
