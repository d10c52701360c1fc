/* States of a job, and the table of transitions between them. Pure. */
#ifndef BARKER_SERVER_BASE_JOB_STATE_H
#define BARKER_SERVER_BASE_JOB_STATE_H

#include "core/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOB_STATE_LIST(X)                                                         \
    X(queued, "waits for its first slice")                                        \
    X(running, "its chains get slices")                                           \
    X(paused, "stopped by its owner; resume continues its chains")                \
    X(cancelling, "cancelled; the slices under way are being finished and saved") \
    X(succeeded, "all chains are complete, or stop_when was met")                 \
    X(failed, "stopped by an error, see the reason; draws are kept")              \
    X(cancelled, "stopped for good by its owner; draws are kept")

enum job_state {
#define X(name, text) JOB_##name,
    JOB_STATE_LIST(X)
#undef X
};

/* The phase of a running job. */
#define JOB_PHASE_LIST(X)                                                   \
    X(loading, "its data and model are being read, or are queued for that") \
    X(planning, "the settings that its request left open are being chosen") \
    X(sampling, "its chains get slices")                                    \
    X(checking, "no more slices: its draws are checked before it ends")

enum job_phase {
    JOB_PHASE_none, /* the job is not running */
#define X(name, text) JOB_PHASE_##name,
    JOB_PHASE_LIST(X)
#undef X
};

/* Why a job has ended: a value for programs, beside the reason for people. */
#define STOP_CAUSE_LIST(X)                                                  \
    X(completed)  /* all chains have run their iterations */                \
    X(stop_when)  /* R-hat and ESS of stop_when were reached */             \
    X(time_limit) /* the seconds of stop_when or of the target were over */ \
    X(cancelled)                                                            \
    X(failed)

enum stop_cause {
    STOP_none, /* it has not ended */
#define X(name) STOP_##name,
    STOP_CAUSE_LIST(X)
#undef X
};

const char *stop_cause_name(enum stop_cause cause); /* NULL for STOP_none */
/* NULL and "" are STOP_none. False: not a name. */
bool stop_cause_parse(const char *name, enum stop_cause *out);

/* Events that change the state of a job. */
#define JOB_EVENT_LIST(X)                                      \
    X(start) /* a chain gets its first slice */                \
    X(pause) /* the owner */                                   \
    X(resume)                                                  \
    X(cancel)                                                  \
    X(stop)   /* the last slice of a cancelled job is saved */ \
    X(finish) /* the last chain is complete */                 \
    X(fail)                                                    \
    X(extend) /* more iterations */                            \
    X(retry)  /* after a failure of the machine */

enum job_event {
#define X(name) JOB_EVENT_##name,
    JOB_EVENT_LIST(X)
#undef X
};

const char *job_state_name(enum job_state state);
const char *job_state_text(enum job_state state);
const char *job_phase_name(enum job_phase phase); /* NULL: none */
bool job_state_parse(const char *name, enum job_state *out);
bool job_state_terminal(enum job_state state);

/* ERR_CONFLICT, naming the state and what it allows, when the event is not possible. */
enum err job_transition(enum job_state from, enum job_event event, enum job_state *to,
                        struct err_info *info);

/* Time-ordered public id: 16 characters of [0-9a-hjkmnp-tv-z], 48 bits of milliseconds and 32
 * random. */
#define JOB_ID_SIZE     17
#define JOB_REASON_SIZE 520
void job_id_make(char id[JOB_ID_SIZE], uint64_t now_ms, uint32_t random);
bool job_id_valid(const char *id);

#endif
