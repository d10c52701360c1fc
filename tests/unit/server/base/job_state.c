/* The life of a job and its public id. */
#include "server/base/job_state.h"

#include <criterion/criterion.h>
#include <string.h>

#define STATES (JOB_cancelled + 1)
#define EVENTS (JOB_EVENT_retry + 1)

/* Every move that is allowed; all others are not. */
static const struct move {
    enum job_state from;
    enum job_event event;
    enum job_state to;
} moves[] = {
    {JOB_queued, JOB_EVENT_start, JOB_running},
    {JOB_queued, JOB_EVENT_pause, JOB_paused},
    {JOB_queued, JOB_EVENT_cancel, JOB_cancelling},
    {JOB_queued, JOB_EVENT_finish, JOB_succeeded},
    {JOB_queued, JOB_EVENT_fail, JOB_failed},
    {JOB_queued, JOB_EVENT_extend, JOB_queued},
    {JOB_running, JOB_EVENT_pause, JOB_paused},
    {JOB_running, JOB_EVENT_cancel, JOB_cancelling},
    {JOB_running, JOB_EVENT_finish, JOB_succeeded},
    {JOB_running, JOB_EVENT_fail, JOB_failed},
    {JOB_running, JOB_EVENT_extend, JOB_running},
    {JOB_paused, JOB_EVENT_resume, JOB_queued},
    {JOB_paused, JOB_EVENT_cancel, JOB_cancelling},
    {JOB_paused, JOB_EVENT_finish, JOB_succeeded},
    {JOB_paused, JOB_EVENT_fail, JOB_failed},
    {JOB_paused, JOB_EVENT_extend, JOB_paused},
    {JOB_cancelling, JOB_EVENT_stop, JOB_cancelled},
    {JOB_cancelling, JOB_EVENT_fail, JOB_failed},
    {JOB_succeeded, JOB_EVENT_extend, JOB_queued},
    {JOB_failed, JOB_EVENT_retry, JOB_queued},
    {JOB_cancelled, JOB_EVENT_extend, JOB_queued},
};

static const struct move *find(enum job_state from, enum job_event event)
{
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++)
        if (moves[i].from == from && moves[i].event == event)
            return &moves[i];
    return NULL;
}

Test(job, every_pair_of_state_and_event_moves_as_listed_or_not_at_all)
{
    for (unsigned from = 0; from < STATES; from++) {
        for (unsigned event = 0; event < EVENTS; event++) {
            struct err_info info = {0};
            enum job_state to = JOB_failed;
            const struct move *move = find((enum job_state)from, (enum job_event)event);
            enum err code = job_transition((enum job_state)from, (enum job_event)event, &to, &info);
            cr_expect_eq(code, move != NULL ? ERR_OK : ERR_CONFLICT, "%s, event %u",
                         job_state_name((enum job_state)from), event);
            if (move != NULL)
                cr_expect_eq(to, move->to, "%s, event %u", job_state_name(move->from), event);
        }
    }
}

Test(job, a_refused_event_names_the_state_and_what_it_allows)
{
    struct err_info info = {0};
    enum job_state to;
    job_transition(JOB_succeeded, JOB_EVENT_pause, &to, &info);
    cr_expect_str_eq(info.message, "a job that is succeeded cannot pause; it allows: extend");
    job_transition(JOB_cancelling, JOB_EVENT_cancel, &to, &info);
    cr_expect_str_eq(info.message, "a job that is cancelling cannot cancel; it allows: nothing");
}

Test(job, terminal_states_are_left_only_by_extend_and_retry)
{
    for (unsigned from = 0; from < STATES; from++) {
        for (unsigned event = 0; event < EVENTS; event++) {
            enum job_state to;
            if (!job_state_terminal((enum job_state)from) || event == JOB_EVENT_extend ||
                event == JOB_EVENT_retry)
                continue;
            cr_expect_neq(job_transition((enum job_state)from, (enum job_event)event, &to, NULL),
                          ERR_OK);
        }
    }
}

Test(job, state_names_are_read_back)
{
    for (unsigned i = 0; i < STATES; i++) {
        enum job_state state;
        cr_assert(job_state_parse(job_state_name((enum job_state)i), &state));
        cr_expect_eq(state, (enum job_state)i);
        cr_expect_gt(strlen(job_state_text(state)), 0);
    }
    enum job_state state;
    cr_expect(!job_state_parse("Running", &state));
    cr_expect(!job_state_parse("", &state));
    cr_expect(!job_state_parse("run", &state));
}

Test(job, ids_sort_by_time_whatever_their_random_part)
{
    static const uint64_t times[] = {0, 1, 31, 32, 1700000000000, 1700000000001, 281474976710655};
    static const uint32_t randoms[] = {0, 1, 0x7fff, 0x10000, 0xdeadbeef, UINT32_MAX};
    char last[JOB_ID_SIZE] = "";
    for (size_t t = 0; t < sizeof times / sizeof times[0]; t++) {
        for (size_t r = 0; r < sizeof randoms / sizeof randoms[0]; r++) {
            char id[JOB_ID_SIZE];
            job_id_make(id, times[t], randoms[r]);
            cr_expect(job_id_valid(id), "%s", id);
            cr_expect_gt(strcmp(id, last), 0, "%s after %s", id, last);
            strcpy(last, id);
        }
    }
}

Test(job, only_sixteen_characters_of_the_alphabet_are_an_id)
{
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"01hf7yat00m5x3qz", true},  {"0000000000000000", true},
        {"zzzzzzzzzzzzzzzz", true},  {"", false},
        {"01hf7yat00m5x3q", false},  {"01hf7yat00m5x3qzz", false},
        {"01HF7YAT00M5X3QZ", false}, {"01hf7yat00m5x3qi", false},
        {"01hf7yat00m5x3ql", false}, {"01hf7yat00m5x3qo", false},
        {"01hf7yat00m5x3qu", false}, {"../../../etc/pwd", false},
        {"01hf7yat00m5x3q/", false}, {"01hf7yat00m5x3q.", false},
        {"01hf7yat00m5x3q ", false}, {"01hf7yat00m5x3q\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(job_id_valid(cases[i].text), cases[i].valid, "\"%s\"", cases[i].text);
}
