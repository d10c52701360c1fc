/* Work at a lower priority of the operating system than that of quick requests and the writer:
 * sampling, reading data, measuring draws. It runs on processors that no quick request uses. */
#ifndef BARKER_SERVER_BASE_BACKGROUND_H
#define BARKER_SERVER_BASE_BACKGROUND_H

#include <stdbool.h>

/* From now on for the calling thread. An unprivileged thread cannot raise its priority again. */
void background_enter(void);

/* When the calling thread enters, must_wait(ctx) decides whether the user for whom it works comes
 * after others: the thread then gets the lowest of the priorities used here. NULL: never. */
void background_for(bool (*must_wait)(void *ctx), void *ctx);
/* The same, if that user comes after others: short work of anybody else keeps its priority. */
void background_yield(void);
/* The lowest of them at once. */
void background_enter_last(void);

/* Sets a function that the calling thread runs before it enters: a thread of the request pool is
 * replaced by a new one. When that fails it returns false, and the thread keeps its priority. */
void background_before(bool (*leave)(void *ctx), void *ctx);

#endif
