/* Job states, transitions, ids. */
#include "server/base/job_state.h"

#include <string.h>

static const struct {
    const char *name, *text;
} states[] = {
#define X(name, text) {#name, text},
    JOB_STATE_LIST(X)
#undef X
};

static const char *const phases[] = {NULL,
#define X(name, text) #name,
                                     JOB_PHASE_LIST(X)
#undef X
};

static const char *const events[] = {
#define X(name) #name,
    JOB_EVENT_LIST(X)
#undef X
};

static const char *const causes[] = {NULL,
#define X(name) #name,
                                     STOP_CAUSE_LIST(X)
#undef X
};

#define STATE_COUNT (sizeof states / sizeof states[0])
#define EVENT_COUNT (sizeof events / sizeof events[0])

/* transitions[state][event] = next state + 1; 0: not possible. */
#define TO(state) (JOB_##state + 1)
static const unsigned char transitions[STATE_COUNT][EVENT_COUNT] = {
    [JOB_queued] = {[JOB_EVENT_start] = TO(running),
                    [JOB_EVENT_pause] = TO(paused),
                    [JOB_EVENT_cancel] = TO(cancelling),
                    [JOB_EVENT_finish] = TO(succeeded),
                    [JOB_EVENT_fail] = TO(failed),
                    [JOB_EVENT_extend] = TO(queued)},
    [JOB_running] = {[JOB_EVENT_pause] = TO(paused),
                     [JOB_EVENT_cancel] = TO(cancelling),
                     [JOB_EVENT_finish] = TO(succeeded),
                     [JOB_EVENT_fail] = TO(failed),
                     [JOB_EVENT_extend] = TO(running)},
    [JOB_paused] = {[JOB_EVENT_resume] = TO(queued),
                    [JOB_EVENT_cancel] = TO(cancelling),
                    [JOB_EVENT_finish] = TO(succeeded),
                    [JOB_EVENT_fail] = TO(failed),
                    [JOB_EVENT_extend] = TO(paused)},
    [JOB_cancelling] = {[JOB_EVENT_stop] = TO(cancelled), [JOB_EVENT_fail] = TO(failed)},
    [JOB_succeeded] = {[JOB_EVENT_extend] = TO(queued)},
    [JOB_failed] = {[JOB_EVENT_retry] = TO(queued)},
    [JOB_cancelled] = {[JOB_EVENT_extend] = TO(queued)},
};
#undef TO

const char *job_state_name(enum job_state state)
{
    return states[state].name;
}

const char *stop_cause_name(enum stop_cause cause)
{
    return causes[cause];
}

bool stop_cause_parse(const char *name, enum stop_cause *out)
{
    *out = STOP_none;
    for (unsigned i = 1; i < sizeof causes / sizeof causes[0]; i++)
        if (name != NULL && strcmp(name, causes[i]) == 0)
            *out = (enum stop_cause)i;
    return *out != STOP_none || name == NULL || name[0] == '\0';
}

const char *job_state_text(enum job_state state)
{
    return states[state].text;
}

const char *job_phase_name(enum job_phase phase)
{
    return phases[phase];
}

bool job_state_parse(const char *name, enum job_state *out)
{
    for (size_t i = 0; i < STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) {
            *out = (enum job_state)i;
            return true;
        }
    }
    return false;
}

bool job_state_terminal(enum job_state state)
{
    return state == JOB_succeeded || state == JOB_failed || state == JOB_cancelled;
}

enum err job_transition(enum job_state from, enum job_event event, enum job_state *to,
                        struct err_info *info)
{
    if (transitions[from][event] != 0) {
        *to = (enum job_state)(transitions[from][event] - 1);
        return ERR_OK;
    }
    char allowed[120] = "";
    for (size_t e = 0; e < EVENT_COUNT; e++) {
        bool by_people = e == JOB_EVENT_pause || e == JOB_EVENT_resume || e == JOB_EVENT_cancel ||
                         e == JOB_EVENT_extend || e == JOB_EVENT_retry;
        if (!by_people || transitions[from][e] == 0)
            continue;
        strncat(allowed, allowed[0] ? ", " : "", sizeof allowed - strlen(allowed) - 1);
        strncat(allowed, events[e], sizeof allowed - strlen(allowed) - 1);
    }
    return err_set(info, ERR_CONFLICT, "a job that is %s cannot %s; it allows: %s",
                   states[from].name, events[event], allowed[0] ? allowed : "nothing");
}

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz"; /* Crockford's base 32 */

void job_id_make(char id[JOB_ID_SIZE], uint64_t now_ms, uint32_t random)
{
    uint64_t high = now_ms << 16 | random >> 16; /* 64 of the 80 bits, then the last 16 */
    uint32_t low = random & 0xffff;
    for (int i = 15; i >= 0; i--) {
        id[i] = alphabet[low & 31];
        uint64_t rest = (uint64_t)low >> 5 | (high & 31) << 11;
        low = (uint32_t)rest & 0xffff;
        high >>= 5;
    }
    id[16] = '\0';
}

bool job_id_valid(const char *id)
{
    return strlen(id) == JOB_ID_SIZE - 1 && strspn(id, alphabet) == JOB_ID_SIZE - 1;
}
