/* A quick checksum against accidents: bytes that a disk, a crash or a mistaken copy changed, moved
 * or left out. It keeps up with memory, and keeps nobody out who means harm. */
#ifndef BARKER_SERVER_BASE_CHECKSUM_H
#define BARKER_SERVER_BASE_CHECKSUM_H

#include "core/base/lanes.h"

#define CHECKSUM_BLOCK 64 /* bytes */

struct checksum { /* all zero at the start */
    vu sum, sums;
    uint64_t bytes;
};

/* Appends. Every piece but the last must be a multiple of CHECKSUM_BLOCK. */
void checksum_add(struct checksum *c, const void *bytes, size_t size);
uint64_t checksum_value(const struct checksum *c);

/* Of one piece. */
uint64_t checksum_of(const void *bytes, size_t size);

#endif
