/* Disk space that is reserved before it is written, so that two writers that read the free space at
 * the same time do not both count on it. One sum for the process, over all file systems. Any
 * thread. */
#ifndef BARKER_SERVER_BASE_DISK_H
#define BARKER_SERVER_BASE_DISK_H

#include "core/base/err.h"

#include <stdint.h>

/* Reserves `bytes` on the file system of `fd` if `keep_bytes` stay free beside all reservations;
 * else ERR_NO_SPACE. `what` is a short name for the message. */
enum err disk_reserve(int fd, uint64_t keep_bytes, uint64_t bytes, const char *what,
                      struct err_info *info);
/* Ends a reservation of this size: the bytes have been written, or will not be. */
void disk_release(uint64_t bytes);

#endif
