/* Time: wall clock for people, monotonic clock for durations and deadlines. */
#ifndef BARKER_SERVER_BASE_CLOCK_H
#define BARKER_SERVER_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_wall_ms(void);
uint64_t clock_mono_ms(void);
double clock_thread_seconds(void); /* CPU time of the calling thread */

#define CLOCK_TEXT_SIZE 32
/* RFC 3339, UTC, milliseconds: 2026-01-31T09:05:00.120Z. */
void clock_text(uint64_t wall_ms, char out[CLOCK_TEXT_SIZE]);

#endif
