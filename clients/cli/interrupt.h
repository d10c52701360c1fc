/* Interrupt: SIGINT, SIGTERM and SIGHUP ask the running command to end in good order; a second one
 * ends the program at once. SIGPIPE is ignored: writers look at their errors instead. */
#ifndef BARKER_CLI_INTERRUPT_H
#define BARKER_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_init(void);
bool interrupted(void);
/* Waits until there is something to read; false when interrupted. */
bool interrupt_wait_input(int fd);

/* Seconds on a clock that only goes forward. */
double interrupt_clock(void);

#endif
