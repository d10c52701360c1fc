/* Whether a thread may still do what it has begun.
 *
 * Whoever asked for a change may lose the right to it before it is made: while data are loaded, while a
 * lock or the disk is waited for. So what makes changes last (the store's writer, the end of an upload) asks
 * the permit of the thread that wants them, right before. */
#ifndef BARKER_SERVER_BASE_PERMIT_H
#define BARKER_SERVER_BASE_PERMIT_H

#include "core/base/err.h"

struct permit {
    /* Called by any thread while the one that has the permit waits. A short look: it waits for nothing. */
    enum err (*ask)(void *ctx, struct err_info *info);
    void *ctx;
};

/* What the calling thread does from now on needs this permit, which is borrowed. NULL, as in a new thread:
 * it needs none. */
void permit_set(const struct permit *permit);
/* That of the calling thread. */
const struct permit *permit_needed(void);
/* ERR_OK for NULL. */
enum err permit_ask(const struct permit *permit, struct err_info *info);

#endif
