/* How much memory there is for this process: that of the machine, or the limit of its control group
 * where that is less. */
#ifndef BARKER_SERVER_BASE_MEMORY_H
#define BARKER_SERVER_BASE_MEMORY_H

#include <stdint.h>

/* Bytes; read from the system at each call. Any thread. */
uint64_t memory_limit(void);

#endif
