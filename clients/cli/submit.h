/* Submit: a job file to the daemon, shared by `submit` and `run`. */
#ifndef BARKER_CLI_SUBMIT_H
#define BARKER_CLI_SUBMIT_H

#include "clients/cli/cli.h"

/* Reads a job from a file ("-": stdin) and checks that it is a JSON object. Returns 0 or an exit
 * code after saying why. */
int submit_read(const char *path, struct text *job);

/* Posts a body. A connection that breaks is tried again with the same idempotency key (a random one
 * when `key` is NULL), so that it is carried out once or not at all. */
int submit_once(struct cli *cli, const char *path, const char *body, const char *key,
                struct response *response);
/* The same with a job; `validate`: only checked, without a key. */
int submit_post(struct cli *cli, const char *job, const char *key, bool validate,
                struct response *response);

#endif
