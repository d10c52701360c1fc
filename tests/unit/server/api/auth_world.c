/* A store with tokens in it. */
#include "tests/unit/server/api/auth_world.h"

char test_directory[] = "/tmp/barker-auth-XXXXXX";
struct store *test_store;
struct auth *test_auth;
struct auth_limits test_limits = {
    .writes_per_minute = NO_LIMIT, .reads_per_second = NO_LIMIT, .failures_per_minute = NO_LIMIT};

static void open_all(void)
{
    struct err_info info = {0};
    struct store_config config = {.directory = test_directory};
    cr_assert_eq(store_open(&test_store, &config, &info), ERR_OK, "%s", info.message);
    cr_assert_eq(auth_open(&test_auth, test_store, &test_limits, &info), ERR_OK, "%s",
                 info.message);
}

static void close_all(void)
{
    auth_close(test_auth);
    store_close(test_store);
}

void auth_reopen(void)
{
    close_all();
    open_all();
}

static void setup(void)
{
    cr_assert_not_null(mkdtemp(test_directory));
    open_all();
}

static void teardown(void)
{
    char command[64];
    close_all();
    snprintf(command, sizeof command, "rm -rf %s", test_directory);
    cr_assert_eq(system(command), 0);
}

TestSuite(auth, .init = setup, .fini = teardown);

/* Limits other than none. */
void auth_limit(double writes_per_minute, double reads_per_second, double failures_per_minute)
{
    test_limits = (struct auth_limits){.writes_per_minute = writes_per_minute,
                                       .reads_per_second = reads_per_second,
                                       .failures_per_minute = failures_per_minute};
    auth_reopen();
}

struct test_token token_until(const char *user, enum role role, uint64_t expires_ms)
{
    struct test_token m = {"", ""};
    struct err_info info = {0};
    struct token_made made;
    struct token_wish wish = {
        .user = user, .role = role, .label = "a test", .expires_ms = expires_ms};
    cr_assert_eq(auth_token_add(test_auth, &wish, &made, &info), ERR_OK, "%s", info.message);
    memcpy(m.token, made.token, sizeof m.token);
    memcpy(m.id, made.id, sizeof m.id);
    return m;
}

struct test_token token_of(const char *user, enum role role)
{
    return token_until(user, role, 0);
}

enum err try_header(const char *header, const char *address, struct identity *who)
{
    struct err_info info = {0};
    enum err code = auth_check(test_auth, header, address, who, &info);
    if (code != ERR_OK)
        cr_expect_gt(strlen(info.message), 10, "no reason was given");
    return code;
}

enum err try_as(const char *token, const char *address, struct identity *who)
{
    char header[200];
    snprintf(header, sizeof header, "Bearer %.100s", token);
    return try_header(header, address, who);
}

enum err try_from(const char *token, const char *address)
{
    struct identity who;
    return try_as(token, address, &who);
}

enum err try_token(const char *token)
{
    return try_from(token, HERE);
}
