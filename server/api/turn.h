/* Turns at work that keeps a processor busy for long: measuring draws, looking into files, parsing
 * large documents. A few requests have one at a time, and one user at most half of the processors,
 * so that processors remain for samplers and other users. Those of a user who has used more than others
 * whose chains run have less priority than samplers (base/background.h).
 *
 * A waiting request holds a thread of the request pool, so the number of waiting requests is
 * bounded. It lends its memory to requests that have a turn. Turns of one thread nest. */
#ifndef BARKER_SERVER_API_TURN_H
#define BARKER_SERVER_API_TURN_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct call;

/* Sets the request that this thread works for (borrowed; NULL: none). */
void turn_as(struct call *call);

/* A turn, with so many bytes of the user's memory for requests until it ends; a request that needs
 * more than the share of one user takes all of it and runs alone. ERR_UNAVAILABLE after waiting too
 * long. Ends with turn_end, on the same thread and for the same request. */
enum err turn_begin(uint64_t bytes, struct err_info *info);
void turn_end(void);

/* Seconds of a processor in turns of this request, which are bounded by themselves. */
double turn_seconds(void);

/* Called at shutdown: nobody waits for a turn any more. Any thread. */
void turn_halt(void);

/* Turns that one user may have at a time. */
size_t turn_each(void);

#endif
