/* Permits of threads. */
#include "server/base/permit.h"

#include <stddef.h>

static _Thread_local const struct permit *needed;

void permit_set(const struct permit *permit)
{
    needed = permit;
}

const struct permit *permit_needed(void)
{
    return needed;
}

enum err permit_ask(const struct permit *permit, struct err_info *info)
{
    return permit != NULL ? permit->ask(permit->ctx, info) : ERR_OK;
}
