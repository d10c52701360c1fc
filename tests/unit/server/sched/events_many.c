/* Events with many streams at once: limits, the end, waking, threads. */
#include "tests/unit/server/sched/events_fixture.h"

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
