/* The memory budgets and their use. */
#ifndef BARKER_SERVER_API_RESERVE_H
#define BARKER_SERVER_API_RESERVE_H

#include "server/base/budget.h"

struct app;
struct call;

#define MEMORY_USES 3

struct memory_use {
    const char *name, *setting;
    struct budget_stats stats;
};

/* For turns (turn.h): while a request waits for its turn, it lends the memory that it has taken to
 * requests that have theirs. */
void call_lend(struct call *call);
void call_lend_end(struct call *call);
enum err call_take_lent(struct call *call, uint64_t bytes, struct err_info *info);

void memory_uses(const struct app *app, struct memory_use out[MEMORY_USES]);

#endif
