/* The memory budgets and their use. */
#ifndef BARKER_SERVER_API_RESERVE_H
#define BARKER_SERVER_API_RESERVE_H

#include "server/base/budget.h"

struct app;

#define MEMORY_USES 3

struct memory_use {
    const char *name, *setting;
    struct budget_stats stats;
};

void memory_uses(const struct app *app, struct memory_use out[MEMORY_USES]);

#endif
