/* A clock that tests can move, so that what depends on minutes is tested without waiting: the
 * program's clock_gettime is ours (tests/unit/server/base/clock_shift.c) and adds what was asked
 * for. */
#ifndef BARKER_TESTS_CLOCK_SHIFT_H
#define BARKER_TESTS_CLOCK_SHIFT_H

#include <stdint.h>

/* Moves the wall clock and the monotonic clock of this process forward. Other clocks, and whoever
 * waits in the kernel, do not notice. */
void clock_shift(uint64_t ms);
/* Moves the wall clock alone, as when it is set. */
void clock_jump(uint64_t ms);

#endif
