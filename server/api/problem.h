/* Errors as replies: application/problem+json (RFC 9457). The only place that maps error codes to
 * HTTP statuses. */
#ifndef BARKER_SERVER_API_PROBLEM_H
#define BARKER_SERVER_API_PROBLEM_H

#include "core/base/err.h"
#include "server/base/mistake.h"
#include "server/http/http.h"

/* Replaces the content of the reply. `mistakes` may be NULL. */
void problem_reply(struct reply *reply, enum err code, const char *detail,
                   const struct mistakes *mistakes);

#endif
