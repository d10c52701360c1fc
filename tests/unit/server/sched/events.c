/* The ring of events and its streams: replay, reset, who sees what, slow readers. */
#include "server/sched/events.h"
#include "tests/support/clock_shift.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RING  4096
#define HELLO ":ok\nretry: 3000\n\n"
#define JOB   "01hq3m8x7k5n2p9r"

static struct events *events;

static void setup(void)
{
    events = events_new(NULL, NULL);
    cr_assert_not_null(events);
}

static void teardown(void)
{
    events_free(events);
}

TestSuite(events, .init = setup, .fini = teardown);

/* ---- a client ---- */

struct client {
    void *stream;
    char *text; /* of the last read */
    size_t size, room;
    bool ended;
};

static enum err try_open(struct client *c, const char *viewer, const char *last_id)
{
    struct err_info info = {0};
    *c = (struct client){.size = 0};
    struct event_reader reader = {.viewer = viewer, .user = "", .token_id = "", .last_id = last_id};
    return event_stream_open(&c->stream, events, &reader, &info);
}

static void open_stream(struct client *c, const char *viewer, const char *last_id)
{
    cr_assert_eq(try_open(c, viewer, last_id), ERR_OK);
}

static void close_stream(struct client *c)
{
    event_stream_close(c->stream);
    free(c->text);
}

static void make_room(struct client *c, size_t more)
{
    if (c->size + more < c->room)
        return;
    c->room = 2 * (c->size + more);
    c->text = realloc(c->text, c->room);
    cr_assert_not_null(c->text);
}

/* What comes until there is nothing more, in pieces of at most `piece` bytes, in place of what was
 * read before. */
static const char *read_pieces(struct client *c, size_t piece)
{
    ssize_t got;
    c->size = 0;
    do {
        make_room(c, piece);
        got = event_stream_read(c->stream, c->text + c->size, piece);
        c->size += got > 0 ? (size_t)got : 0;
        cr_assert_lt(c->size, (size_t)1 << 24, "the stream has no end");
    } while (got > 0);
    c->ended = got == -1;
    c->text[c->size] = '\0';
    return c->text;
}

static const char *read_all(struct client *c)
{
    return read_pieces(c, 500);
}

/* Past the greeting. */
static void open_greeted(struct client *c, const char *viewer, const char *last_id)
{
    char hello[sizeof HELLO];
    open_stream(c, viewer, last_id);
    ssize_t got = event_stream_read(c->stream, hello, sizeof HELLO - 1);
    cr_assert_eq(got, (ssize_t)sizeof HELLO - 1);
}

static void publish(const char *data)
{
    events_publish(events, EVENT_job_progress, JOB, NULL, false, data);
}

static void publish_many(size_t count)
{
    for (size_t i = 0; i < count; i++)
        publish("{}");
}

/* The number of the first event in a text. */
static uint64_t id_in(const char *text)
{
    const char *at = strstr(text, "id: ");
    cr_assert_not_null(at, "no id in \"%s\"", text);
    return strtoull(at + 4, NULL, 10);
}

static const char *id_text(uint64_t id)
{
    static char text[24];
    snprintf(text, sizeof text, "%" PRIu64, id);
    return text;
}

static size_t occurrences(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* Publishes one event and takes it back: its number. */
static uint64_t last_id(void)
{
    struct client c;
    open_greeted(&c, NULL, NULL);
    publish("{}");
    uint64_t id = id_in(read_all(&c));
    close_stream(&c);
    return id;
}

/* ---- what goes over the wire ---- */

Test(events, a_stream_greets_and_then_waits)
{
    struct client c;
    open_stream(&c, "ada", NULL);
    cr_expect_str_eq(read_all(&c), HELLO);
    cr_expect_not(c.ended);
    cr_expect_str_eq(read_all(&c), "");
    close_stream(&c);
}

Test(events, an_event_has_a_number_a_type_and_data)
{
    struct client c;
    char expected[200];
    open_greeted(&c, "ada", NULL);
    events_publish(events, EVENT_job_state, JOB, "ada", false, "{\"state\":\"running\"}");
    uint64_t id = id_in(read_all(&c));
    snprintf(expected, sizeof expected,
             "id: %" PRIu64 "\nevent: job.state\ndata: {\"state\":\"running\"}\n\n", id);
    cr_expect_str_eq(c.text, expected);
    close_stream(&c);
}

Test(events, numbers_grow_by_one)
{
    uint64_t first = last_id();
    for (uint64_t i = 1; i < 50; i++)
        cr_expect_eq(last_id(), first + i);
}

Test(events, what_was_before_the_stream_is_not_in_it)
{
    struct client c;
    publish("{\"old\":1}");
    open_greeted(&c, "ada", NULL);
    cr_expect_str_eq(read_all(&c), "");
    publish("{\"new\":1}");
    cr_expect_not_null(strstr(read_all(&c), "{\"new\":1}"));
    cr_expect_null(strstr(c.text, "old"));
    close_stream(&c);
}

Test(events, the_size_of_the_buffer_does_not_matter)
{
    static const size_t pieces[] = {1, 2, 7, 64, 4000};
    char expected[8192];
    uint64_t before = last_id();
    for (int i = 0; i < 20; i++)
        publish("{\"text\":\"a value long enough to be cut here and there\"}");
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        struct client c;
        open_stream(&c, "ada", id_text(before));
        read_pieces(&c, pieces[i]);
        if (i == 0)
            snprintf(expected, sizeof expected, "%s", c.text);
        cr_expect_str_eq(c.text, expected, "pieces of %zu", pieces[i]);
        cr_expect_eq(occurrences(c.text, "event: "), 20);
        close_stream(&c);
    }
}

Test(events, a_stream_has_its_own_copy_of_what_it_is_sending)
{
    struct client c;
    char part[10];
    open_greeted(&c, "ada", NULL);
    publish("{\"first\":true}");
    cr_assert_eq(event_stream_read(c.stream, part, sizeof part), 10);
    publish_many(RING + 10); /* its place in the ring is long taken */
    read_all(&c);
    cr_expect_not_null(strstr(c.text, "{\"first\":true}\n\n"), "%s", c.text);
    cr_expect_not_null(strstr(c.text, "event: reset"));
    close_stream(&c);
}

/* ---- coming back ---- */

Test(events, a_client_that_comes_back_gets_what_it_missed)
{
    struct client c;
    uint64_t before = last_id();
    publish("{\"n\":1}");
    publish("{\"n\":2}");
    publish("{\"n\":3}");
    open_greeted(&c, "ada", id_text(before + 1));
    read_all(&c);
    cr_expect_eq(id_in(c.text), before + 2);
    cr_expect_eq(occurrences(c.text, "event: "), 2);
    cr_expect_null(strstr(c.text, "{\"n\":1}"));
    cr_expect_not_null(strstr(c.text, "{\"n\":3}"));
    cr_expect_null(strstr(c.text, "reset"));
    close_stream(&c);
}

Test(events, a_client_that_missed_nothing_gets_nothing)
{
    struct client c;
    open_greeted(&c, "ada", id_text(last_id()));
    cr_expect_str_eq(read_all(&c), "");
    close_stream(&c);
}

Test(events, a_number_that_we_never_gave_starts_with_a_reset)
{
    uint64_t newest = last_id();
    char ahead[24], far_behind[24], with_text[32];
    snprintf(ahead, sizeof ahead, "%" PRIu64, newest + 100000);
    snprintf(far_behind, sizeof far_behind, "%" PRIu64, newest - 100000);
    snprintf(with_text, sizeof with_text, "%" PRIu64 "x", newest);
    const char *const unknown[] = {"",
                                   "0",
                                   "1",
                                   "-1",
                                   "x",
                                   "1x",
                                   "18446744073709551615",
                                   "99999999999999999999999",
                                   ahead,
                                   far_behind,
                                   with_text};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct client c;
        open_greeted(&c, "ada", unknown[i]);
        read_all(&c);
        cr_expect_not_null(strstr(c.text, "event: reset\ndata: {}\n\n"), "\"%s\": %s", unknown[i],
                           c.text);
        cr_expect_eq(occurrences(c.text, "event: "), 1, "\"%s\"", unknown[i]);
        publish("{\"next\":1}");
        cr_expect_not_null(strstr(read_all(&c), "{\"next\":1}"), "\"%s\"", unknown[i]);
        close_stream(&c);
    }
}

Test(events, the_number_of_the_next_event_is_not_known_yet)
{
    struct client c;
    open_greeted(&c, "ada", id_text(last_id() + 1));
    cr_expect_not_null(strstr(read_all(&c), "event: reset"));
    close_stream(&c);
}

Test(events, the_number_of_a_reset_can_be_come_back_with)
{
    struct client c;
    publish_many(3);
    open_greeted(&c, "ada", "0");
    uint64_t id = id_in(read_all(&c));
    close_stream(&c);
    publish("{\"missed\":1}");
    open_greeted(&c, "ada", id_text(id));
    read_all(&c);
    cr_expect_null(strstr(c.text, "reset"), "%s", c.text);
    cr_expect_not_null(strstr(c.text, "{\"missed\":1}"));
    close_stream(&c);
}

Test(events, a_reset_before_the_first_event_can_be_come_back_with_too)
{
    struct client c;
    open_greeted(&c, "ada", "0");
    uint64_t id = id_in(read_all(&c));
    close_stream(&c);
    publish("{\"missed\":1}");
    open_greeted(&c, "ada", id_text(id));
    cr_expect_null(strstr(read_all(&c), "reset"), "%s", c.text);
    cr_expect_not_null(strstr(c.text, "{\"missed\":1}"));
    close_stream(&c);
}

Test(events, numbers_of_an_earlier_process_are_told_to_reset)
{
    struct client c;
    publish_many(100);
    uint64_t old = last_id();
    events_free(events);
    clock_shift(1000);
    events = events_new(NULL, NULL);
    publish_many(200);
    open_greeted(&c, "ada", id_text(old));
    cr_expect_not_null(strstr(read_all(&c), "event: reset"));
    close_stream(&c);
}

/* ---- the ring ---- */

/* The number of events that a reader gets which is there from the start but reads nothing before
 * `count` have been published. */
static size_t received_of(size_t count, bool *reset)
{
    struct client c;
    open_greeted(&c, "ada", NULL);
    publish_many(count);
    size_t received = occurrences(read_all(&c), "event: job.progress");
    *reset = strstr(c.text, "event: reset") != NULL;
    close_stream(&c);
    return received;
}

Test(events, a_slow_reader_loses_nothing_while_the_ring_has_it)
{
    bool reset;
    cr_expect_eq(received_of(RING, &reset), RING);
    cr_expect_not(reset);
    cr_expect_eq(received_of(RING, &reset), RING, "nor the second time round");
    cr_expect_not(reset);
}

Test(events, a_reader_that_falls_out_of_the_ring_is_told_so)
{
    bool reset;
    cr_expect_eq(received_of(RING + 1, &reset), 0);
    cr_expect(reset);
    cr_expect_eq(received_of(3 * RING, &reset), 0);
    cr_expect(reset);
}

Test(events, a_client_can_come_back_to_the_edge_of_the_ring_and_no_further)
{
    struct client c;
    uint64_t edge = last_id(); /* after the next lines the newest that is gone */
    publish_many(RING);
    open_greeted(&c, "ada", id_text(edge));
    cr_expect_eq(occurrences(read_all(&c), "event: job.progress"), RING);
    close_stream(&c);
    open_greeted(&c, "ada", id_text(edge - 1));
    cr_expect_not_null(strstr(read_all(&c), "event: reset"));
    close_stream(&c);
}

/* ---- who sees what ---- */

Test(events, private_events_are_for_their_owner_and_admins)
{
    static const struct {
        const char *viewer, *owner;
        bool lab, seen;
    } cases[] = {
        {"ada", "ada", false, true},   {"ada", "bob", false, false},  {"ada", "bob", true, true},
        {"ada", NULL, false, true},    {NULL, "bob", false, true},    {NULL, NULL, false, true},
        {"ada", "adam", false, false}, {"adam", "ada", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct client c;
        open_greeted(&c, cases[i].viewer, NULL);
        events_publish(events, EVENT_job_state, JOB, cases[i].owner, cases[i].lab, "{}");
        cr_expect_eq(read_all(&c)[0] != '\0', cases[i].seen, "case %zu", i);
        close_stream(&c);
    }
}

Test(events, a_replay_hides_what_is_not_for_the_viewer)
{
    struct client c;
    uint64_t before = last_id();
    for (int i = 0; i < 30; i++)
        events_publish(events, EVENT_job_state, JOB, i % 3 == 0 ? "ada" : "bob", false, "{}");
    open_greeted(&c, "ada", id_text(before));
    cr_expect_eq(occurrences(read_all(&c), "event: "), 10);
    cr_expect_eq(id_in(c.text), before + 1);
    close_stream(&c);
}

/* ---- pings ---- */

Test(events, silence_is_broken_by_a_ping)
{
    struct client c;
    open_greeted(&c, "ada", NULL);
    clock_shift(2000);
    cr_expect_str_eq(read_all(&c), "");
    clock_shift(13000);
    cr_expect_str_eq(read_all(&c), ": ping\n\n");
    cr_expect_str_eq(read_all(&c), "", "one is enough");
    clock_shift(15000);
    cr_expect_str_eq(read_all(&c), ": ping\n\n");
    close_stream(&c);
}

Test(events, an_event_makes_the_next_ping_later)
{
    struct client c;
    open_greeted(&c, "ada", NULL);
    clock_shift(13000);
    publish("{}");
    cr_expect_neq(read_all(&c)[0], '\0');
    clock_shift(3000);
    cr_expect_str_eq(read_all(&c), "");
    clock_shift(12000);
    cr_expect_str_eq(read_all(&c), ": ping\n\n");
    close_stream(&c);
}

/* ---- many ---- */

Test(events, every_reader_gets_every_event)
{
    enum { readers = 100 };
    static struct client c[readers];
    for (size_t i = 0; i < readers; i++) {
        char viewer[USER_NAME_SIZE];
        snprintf(viewer, sizeof viewer, "user%zu", i / 10);
        open_greeted(&c[i], viewer, NULL);
    }
    cr_expect_eq(events_streams(events), readers);
    for (int k = 0; k < 5; k++)
        publish("{}");
    for (size_t i = 0; i < readers; i++)
        cr_expect_eq(occurrences(read_all(&c[i]), "event: "), 5, "reader %zu", i);
    for (size_t i = 0; i < readers; i++)
        close_stream(&c[(i * 37) % readers]); /* in no particular order */
    cr_expect_eq(events_streams(events), 0);
}

Test(events, one_viewer_has_a_limited_number_of_streams)
{
    static struct client c[64], other;
    size_t count = 0;
    while (count < 64 && try_open(&c[count], "ada", NULL) == ERR_OK)
        count++;
    cr_expect(count >= 6 && count < 64, "%zu streams", count);
    cr_expect_eq(try_open(&other, "ada", NULL), ERR_RATE);
    cr_expect_null(other.stream);
    cr_expect_eq(events_streams(events), count);
    open_stream(&other, "bob", NULL);
    close_stream(&other);
    close_stream(&c[0]);
    open_stream(&c[0], "ada", NULL);
    for (size_t i = 0; i < count; i++)
        close_stream(&c[i]);
}

Test(events, all_streams_together_are_limited)
{
    enum { most = 5000 };
    struct client *c = calloc(most, sizeof *c);
    size_t count = 0;
    cr_assert_not_null(c);
    while (count < most && try_open(&c[count], NULL, NULL) == ERR_OK)
        count++;
    cr_expect(count >= 2000 && count < most, "%zu streams", count);
    struct client one;
    cr_expect_eq(try_open(&one, "ada", NULL), ERR_RATE);
    for (size_t i = 0; i < count; i++)
        close_stream(&c[i]);
    free(c);
}

/* ---- the end ---- */

Test(events, closing_ends_every_stream)
{
    struct client a, b;
    open_greeted(&a, "ada", NULL);
    open_greeted(&b, NULL, NULL);
    events_close(events);
    cr_expect_str_eq(read_all(&a), "");
    cr_expect(a.ended);
    read_all(&b);
    cr_expect(b.ended);
    close_stream(&a);
    close_stream(&b);
}

Test(events, an_event_that_is_half_sent_is_finished_before_the_end)
{
    struct client c;
    char part[12];
    open_greeted(&c, "ada", NULL);
    publish("{\"whole\":true}");
    cr_assert_eq(event_stream_read(c.stream, part, sizeof part), 12);
    events_close(events);
    read_all(&c);
    cr_expect(c.size > 3 && strcmp(c.text + c.size - 3, "}\n\n") == 0, "%s", c.text);
    cr_expect(c.ended);
    close_stream(&c);
}

Test(events, a_stream_that_comes_after_the_end_ends)
{
    struct client c;
    events_close(events);
    open_stream(&c, "ada", NULL);
    read_all(&c);
    cr_expect(c.ended);
    close_stream(&c);
}

/* ---- waking ---- */

static uint64_t keys[4];
static size_t key_count;

static void note_key(void *ctx, uint64_t key)
{
    cr_assert_eq(ctx, &key_count);
    keys[key_count++] = key;
}

Test(events, whoever_waits_is_woken_with_the_key_of_the_job)
{
    struct events *e = events_new(note_key, &key_count);
    events_publish(e, EVENT_job_state, JOB, "ada", false, "{}");
    events_publish(e, EVENT_queue_changed, NULL, NULL, false, "{}");
    cr_assert_eq(key_count, 2);
    cr_expect_eq(keys[0], event_key(JOB));
    cr_expect_eq(keys[1], 0);
    events_free(e);
}

Test(events, keys_of_jobs_differ_and_are_never_zero)
{
    uint64_t seen[200];
    for (size_t i = 0; i < 200; i++) {
        char job[20];
        snprintf(job, sizeof job, "%016zu", i);
        seen[i] = event_key(job);
        cr_expect_neq(seen[i], 0);
        cr_expect_eq(seen[i], event_key(job));
        for (size_t k = 0; k < i; k++)
            cr_expect_neq(seen[i], seen[k]);
    }
    cr_expect_neq(event_key(""), 0);
}

/* ---- threads ---- */

#define EACH 2000

static void *keep_publishing(void *data)
{
    for (int i = 0; i < EACH; i++)
        publish(data);
    return NULL;
}

/* Reads until it has seen 2 * EACH events, fewer than the ring holds; the numbers must be without a
 * gap. NULL, or what was wrong. */
static void *keep_reading(void *ctx)
{
    struct client *c = ctx;
    uint64_t expected = 0;
    size_t seen = 0;
    while (seen < 2 * EACH) {
        read_pieces(c, 4000);
        if (strstr(c->text, "event: reset") != NULL)
            return (void *)"a reset";
        for (const char *at = c->text; (at = strstr(at, "id: ")) != NULL; at += 4) {
            uint64_t id = strtoull(at + 4, NULL, 10);
            if (expected != 0 && id != expected)
                return (void *)"a gap";
            expected = id + 1;
            seen++;
        }
    }
    return NULL;
}

Test(events, readers_and_publishers_do_not_disturb_each_other)
{
    static struct client c[3];
    static char first[] = "{\"from\":1}", second[] = "{\"from\":2}";
    pthread_t readers[3], publishers[2];
    for (size_t i = 0; i < 3; i++) {
        open_greeted(&c[i], NULL, NULL);
        cr_assert_eq(pthread_create(&readers[i], NULL, keep_reading, &c[i]), 0);
    }
    cr_assert_eq(pthread_create(&publishers[0], NULL, keep_publishing, first), 0);
    cr_assert_eq(pthread_create(&publishers[1], NULL, keep_publishing, second), 0);
    for (size_t i = 0; i < 2; i++)
        pthread_join(publishers[i], NULL);
    for (size_t i = 0; i < 3; i++) {
        void *complaint;
        pthread_join(readers[i], &complaint);
        cr_expect_null(complaint, "reader %zu: %s", i, (char *)complaint);
        close_stream(&c[i]);
    }
}
