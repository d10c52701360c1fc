/* Mapped files whose pages cannot be read: the file was truncated, or the disk fails. The
 * kernel sends SIGBUS to the thread that touches such a page. A handler puts zeros in place of the
 * file and marks the mapping as broken, so that the thread goes on, finds the mark and throws its
 * result away. */
#ifndef BARKER_SERVER_DATA_GUARD_H
#define BARKER_SERVER_DATA_GUARD_H

#include "server/data/layout.h"

/* Maps the first `size` bytes of the file for reading, guarded, as the image of `data`. `ample`
 * tells whether it fits into `room` bytes together with all others for which that was so. The first
 * call takes SIGBUS over; other causes of the signal end the process as before. NO_MEMORY;
 * UNAVAILABLE: too many are mapped, or descriptors open. */
enum err cache_file_map(struct data *data, int fd, size_t size, uint64_t room, bool *ample,
                        struct err_info *info);
void cache_file_unmap(struct data *data);

#endif
