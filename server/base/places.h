/* A few places that users share, each with the name of the user who has it (borrowed) or NULL. */
#ifndef BARKER_SERVER_BASE_PLACES_H
#define BARKER_SERVER_BASE_PLACES_H

#include <stddef.h>

/* A free place for this user; `count`: there is none, or the user has `each` already, the most that
 * one user may have. */
size_t places_find(const char *const *places, size_t count, size_t each, const char *user);

#endif
