/* Submit: sends a job file to the daemon, shared by `submit` and `run`. */
#ifndef BARKER_CLI_SUBMIT_H
#define BARKER_CLI_SUBMIT_H

#include "clients/cli/cli.h"

/* Reads a job from a file ("-": stdin) and checks that it is a JSON object. Returns 0, or an
 * exit code after reporting the error. */
int submit_read(const char *path, struct text *job);

/* Posts a body. After a broken connection the request is repeated with the same idempotency key (a
 * random one if `key` is NULL), so that it takes effect at most once. */
int submit_once(struct cli *cli, const char *path, const char *body, const char *key,
                struct response *response);
/* The same for a job; `validate`: check only, without a key. */
int submit_post(struct cli *cli, const char *job, const char *key, bool validate,
                struct response *response);

#endif
