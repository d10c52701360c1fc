/* Disk space, promised before it is written: of two writers that read the free space at the same
 * time, the second one does not count on what the first is about to use. One sum for the process,
 * over all file systems. Any thread. */
#ifndef BARKER_SERVER_BASE_DISK_H
#define BARKER_SERVER_BASE_DISK_H

#include "core/base/err.h"

#include <stdint.h>

/* Promises `bytes` on the file system of `fd` if `keep_bytes` stay free beside everything that has
 * been promised; else ERR_NO_SPACE. `what` is a short name for the message. */
enum err disk_promise(int fd, uint64_t keep_bytes, uint64_t bytes, const char *what,
                      struct err_info *info);
/* They have been written by now, or will not be: the same amount. */
void disk_settle(uint64_t bytes);

#endif
