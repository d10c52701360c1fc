/* A store with tokens in it: shared by the tests of auth. */
#ifndef TESTS_UNIT_SERVER_API_AUTH_WORLD_H
#define TESTS_UNIT_SERVER_API_AUTH_WORLD_H

#include "server/api/auth.h"
#include "server/base/clock.h"
#include "tests/support/clock_shift.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HERE     "192.0.2.7"
#define MINUTE   60000
#define NO_LIMIT 1e9

extern char test_directory[];
extern struct store *test_store;
extern struct auth *test_auth;
extern struct auth_limits test_limits;

struct test_token {
    char token[TOKEN_SIZE], id[9];
};

void auth_reopen(void);
void auth_limit(double writes_per_minute, double reads_per_second, double failures_per_minute);
struct test_token token_until(const char *user, enum role role, uint64_t expires_ms);
struct test_token token_of(const char *user, enum role role);
enum err try_header(const char *header, const char *address, struct identity *who);
enum err try_as(const char *token, const char *address, struct identity *who);
enum err try_from(const char *token, const char *address);
enum err try_token(const char *token);

#endif
