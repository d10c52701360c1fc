/* Errors as replies: application/problem+json (RFC 9457). The only place that maps error codes to
 * HTTP statuses. */
#ifndef BARKER_SERVER_PROBLEM_H
#define BARKER_SERVER_PROBLEM_H

#include "core/err.h"
#include "server/http.h"
#include "server/spec.h"

/* Replaces whatever the reply holds. `mistakes` may be NULL. */
void problem_reply(struct reply *reply, enum err code, const char *detail,
                   const struct mistakes *mistakes);

#endif
