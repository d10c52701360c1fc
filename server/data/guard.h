/* Mapped files whose pages cannot be read: the file was truncated, or the disk fails. The kernel
 * sends SIGBUS to the thread that touches such a page. A handler puts zeros in place of the file
 * and marks the mapping as broken, so that the thread continues, finds the mark and discards its
 * result. */
#ifndef BARKER_SERVER_DATA_GUARD_H
#define BARKER_SERVER_DATA_GUARD_H

#include "server/data/layout.h"

/* Maps the first `size` bytes of the file for reading, guarded, as the image of `data`. `ample`:
 * whether it fits into `room` bytes together with all other mappings for which `ample` is true. The
 * first call installs the handler of SIGBUS; other causes of the signal still end the process.
 * NO_MEMORY; UNAVAILABLE: too many are mapped, or descriptors open. */
enum err cache_file_map(struct data *data, int fd, size_t size, uint64_t room, bool *ample,
                        struct err_info *info);
void cache_file_unmap(struct data *data);

#endif
