/* Interrupt: SIGINT, SIGTERM and SIGHUP request an orderly end of the running command; a second one
 * ends the program at once. SIGPIPE is ignored: writers check for errors instead. */
#ifndef BARKER_CLI_INTERRUPT_H
#define BARKER_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_init(void);
bool interrupted(void);
/* Waits until input is available; false if interrupted. */
bool interrupt_wait_input(int fd);

/* Seconds of the monotonic clock. */
double interrupt_clock(void);

#endif
