/* The ring of events and its streams: replay, reset, who sees what, slow readers. */
#include "tests/unit/server/sched/events_fixture.h"

struct events *events;

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

static void publish_many(size_t count)
{
    for (size_t i = 0; i < count; i++)
        publish("{}");
}

static const char *id_text(uint64_t id)
{
    static char text[24];
    snprintf(text, sizeof text, "%" PRIu64, id);
    return text;
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
