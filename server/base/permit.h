/* Whether a thread may still do what it has begun.
 *
 * The user who requested a change may lose the right to it before it is made: while data are
 * loaded, or while a thread waits for a lock or the disk. The code that makes a change durable (the
 * store's writer, the end of an upload) therefore checks the permit of the requesting thread right
 * before. */
#ifndef BARKER_SERVER_BASE_PERMIT_H
#define BARKER_SERVER_BASE_PERMIT_H

#include "core/base/err.h"

struct permit {
    /* Called by any thread while the one that has the permit waits. Must not block. */
    enum err (*ask)(void *ctx, struct err_info *info);
    void *ctx;
};

/* From now on changes by the calling thread need this permit, which is borrowed. NULL, as in a new
 * thread: they need none. */
void permit_set(const struct permit *permit);
/* That of the calling thread. */
const struct permit *permit_needed(void);
/* ERR_OK for NULL. */
enum err permit_ask(const struct permit *permit, struct err_info *info);

#endif
