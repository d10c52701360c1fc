/* Tokens, roles, rate limits and sign-in tickets, against a real store. */
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

static char directory[] = "/tmp/barker-auth-XXXXXX";
static struct store *store;
static struct auth *auth;
static struct auth_limits limits = {NO_LIMIT, NO_LIMIT, NO_LIMIT, 0};

static void open_all(void)
{
    struct err_info info = {0};
    struct store_config config = {.directory = directory};
    cr_assert_eq(store_open(&store, &config, &info), ERR_OK, "%s", info.message);
    cr_assert_eq(auth_open(&auth, store, &limits, &info), ERR_OK, "%s", info.message);
}

static void close_all(void)
{
    auth_close(auth);
    store_close(store);
}

static void reopen(void)
{
    close_all();
    open_all();
}

static void setup(void)
{
    cr_assert_not_null(mkdtemp(directory));
    open_all();
}

static void teardown(void)
{
    char command[64];
    close_all();
    snprintf(command, sizeof command, "rm -rf %s", directory);
    cr_assert_eq(system(command), 0);
}

TestSuite(auth, .init = setup, .fini = teardown);

/* Limits other than none. */
static void limit(double writes_per_minute, double reads_per_second, double failures_per_minute)
{
    limits = (struct auth_limits){writes_per_minute, reads_per_second, failures_per_minute, 0};
    reopen();
}

struct made {
    char token[TOKEN_SIZE], id[9];
};

static struct made make_until(const char *user, enum role role, uint64_t expires_ms)
{
    struct made m = {"", ""};
    struct err_info info = {0};
    cr_assert_eq(auth_token_add(auth, user, role, "a test", expires_ms, m.token, m.id, &info),
                 ERR_OK, "%s", info.message);
    return m;
}

static struct made make(const char *user, enum role role)
{
    return make_until(user, role, 0);
}

static enum err try_header(const char *header, const char *address, struct identity *who)
{
    struct err_info info = {0};
    enum err code = auth_check(auth, header, address, who, &info);
    if (code != ERR_OK)
        cr_expect_gt(strlen(info.message), 10, "no reason was given");
    return code;
}

static enum err try_as(const char *token, const char *address, struct identity *who)
{
    char header[200];
    snprintf(header, sizeof header, "Bearer %.100s", token);
    return try_header(header, address, who);
}

static enum err try_from(const char *token, const char *address)
{
    struct identity who;
    return try_as(token, address, &who);
}

static enum err try_token(const char *token)
{
    return try_from(token, HERE);
}

/* ---- tokens ---- */

Test(auth, before_the_first_token_there_is_none)
{
    cr_expect(auth_empty(auth));
    make("ada", ROLE_ADMIN);
    cr_expect_not(auth_empty(auth));
    reopen();
    cr_expect_not(auth_empty(auth));
}

Test(auth, a_token_stands_for_its_user)
{
    struct made m = make("ada", ROLE_USER);
    struct identity who;
    cr_assert_eq(try_as(m.token, HERE, &who), ERR_OK);
    cr_expect_str_eq(who.user, "ada");
    cr_expect_eq(who.role, ROLE_USER);
    cr_expect_str_eq(who.token_id, m.id);
}

Test(auth, tokens_have_a_public_id_and_a_long_secret_and_never_repeat)
{
    enum { count = 50 };
    struct made all[count];
    for (size_t i = 0; i < count; i++) {
        all[i] = make("ada", ROLE_USER);
        cr_assert_eq(strlen(all[i].token), 3 + 8 + 1 + 43);
        cr_expect_eq(strncmp(all[i].token, "bk_", 3), 0);
        cr_expect_eq(strncmp(all[i].token + 3, all[i].id, 8), 0);
        cr_expect_eq(all[i].token[11], '_');
        for (size_t k = 0; k < 8; k++)
            cr_expect(isalnum((unsigned char)all[i].id[k]), "%s", all[i].id);
        for (size_t k = 0; k < i; k++) {
            cr_expect_str_neq(all[i].id, all[k].id);
            cr_expect_str_neq(all[i].token + 12, all[k].token + 12);
        }
    }
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(try_token(all[i].token), ERR_OK);
}

Test(auth, one_wrong_character_anywhere_is_refused)
{
    struct made m = make("ada", ROLE_USER);
    for (size_t i = 0; i < strlen(m.token); i++) {
        char wrong[TOKEN_SIZE];
        memcpy(wrong, m.token, sizeof wrong);
        wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
        cr_expect_eq(try_token(wrong), ERR_UNAUTHENTICATED, "position %zu", i);
    }
    cr_expect_eq(try_token(m.token), ERR_OK);
}

Test(auth, the_secret_of_one_token_does_not_open_another)
{
    struct made a = make("ada", ROLE_ADMIN), b = make("bob", ROLE_USER);
    char mixed[TOKEN_SIZE];
    memcpy(mixed, b.token, sizeof mixed);
    memcpy(mixed + 3, a.id, 8);
    cr_expect_eq(try_token(mixed), ERR_UNAUTHENTICATED);
}

Test(auth, only_a_bearer_header_with_a_whole_token_is_taken)
{
    struct made m = make("ada", ROLE_USER);
    static const struct {
        const char *before, *behind;
        enum err code;
    } cases[] = {
        {"Bearer ", "", ERR_OK},
        {"bearer ", "", ERR_OK},
        {"BEARER ", "", ERR_OK},
        {"", "", ERR_UNAUTHENTICATED},
        {"Basic ", "", ERR_UNAUTHENTICATED},
        {"Bearer", "", ERR_UNAUTHENTICATED},
        {"Bearer  ", "", ERR_UNAUTHENTICATED},
        {"Bearer ", " ", ERR_UNAUTHENTICATED},
        {"Bearer ", "A", ERR_UNAUTHENTICATED},
        {"Bearer ", ",Bearer x", ERR_UNAUTHENTICATED},
        {" Bearer ", "", ERR_UNAUTHENTICATED},
    };
    struct identity who;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char header[200];
        snprintf(header, sizeof header, "%s%s%s", cases[i].before, m.token, cases[i].behind);
        cr_expect_eq(try_header(header, HERE, &who), cases[i].code, "%s", header);
    }
    static const char *const bare[] = {"",           "Bearer",      "Bearer ",
                                       "Bearer bk_", "Bearer bk__", "Bearer bk_12345678_"};
    for (size_t i = 0; i < sizeof bare / sizeof bare[0]; i++)
        cr_expect_eq(try_header(bare[i], HERE, &who), ERR_UNAUTHENTICATED, "\"%s\"", bare[i]);
    cr_expect_eq(try_header(NULL, HERE, &who), ERR_UNAUTHENTICATED);
}

Test(auth, a_token_ends_when_it_expires)
{
    struct made soon = make_until("ada", ROLE_USER, clock_wall_ms() + 5 * MINUTE);
    struct made later = make_until("ada", ROLE_USER, clock_wall_ms() + 50 * MINUTE);
    struct made never = make("ada", ROLE_USER);
    cr_expect_eq(try_token(soon.token), ERR_OK);
    clock_shift(6 * MINUTE);
    cr_expect_eq(try_token(soon.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(later.token), ERR_OK);
    reopen();
    cr_expect_eq(try_token(soon.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(later.token), ERR_OK);
    clock_shift(50 * MINUTE);
    cr_expect_eq(try_token(later.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(never.token), ERR_OK);
}

Test(auth, a_revoked_token_is_refused_at_once_and_stays_so)
{
    struct made m = make("ada", ROLE_USER), other = make("ada", ROLE_USER);
    struct err_info info = {0};
    cr_expect_eq(try_token(m.token), ERR_OK);
    cr_assert_eq(auth_token_revoke(auth, m.id, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
    reopen();
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
}

Test(auth, revoking_what_does_not_exist_is_not_found)
{
    static const char *const ids[] = {"", "12345678", "1234567", "123456789"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct err_info info = {0};
        cr_expect_eq(auth_token_revoke(auth, ids[i], &info), ERR_NOT_FOUND, "\"%s\"", ids[i]);
    }
}

Test(auth, tokens_survive_a_restart)
{
    struct made m = make("ada", ROLE_ADMIN);
    reopen();
    cr_expect_eq(try_token(m.token), ERR_OK);
}

Test(auth, the_owner_of_a_token_is_known_by_its_id)
{
    struct made m = make("ada", ROLE_USER);
    char user[USER_NAME_SIZE] = "nobody";
    cr_expect(auth_token_owner(auth, m.id, user));
    cr_expect_str_eq(user, "ada");
    static const char *const ids[] = {"", "00000000", "1234567", "123456789"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        cr_expect_not(auth_token_owner(auth, ids[i], user), "\"%s\"", ids[i]);
}

static bool file_contains(const char *name, const char *needle)
{
    char path[400], *bytes = NULL;
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY);
    bool found = false;
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        size_t size = (size_t)about.st_size;
        bytes = malloc(size + 1);
        ssize_t got = read(fd, bytes, size);
        found = got > 0 && memmem(bytes, (size_t)got, needle, strlen(needle)) != NULL;
    }
    free(bytes);
    close(fd);
    return found;
}

Test(auth, the_secret_is_in_no_file)
{
    struct made m = make("ada", ROLE_USER);
    bool id_found = false;
    DIR *dir = opendir(directory);
    cr_assert_not_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        id_found |= file_contains(entry->d_name, m.id);
        cr_expect_not(file_contains(entry->d_name, m.token + 12), "%s", entry->d_name);
    }
    closedir(dir);
    cr_expect(id_found, "the test looks in the wrong place");
}

/* ---- users and roles ---- */

Test(auth, names_of_users_are_short_and_plain)
{
    static const char *const good[] = {"a", "ada_l-2", "0", "abcdefghijklmnopqrstuvwxyz012345"};
    static const char *const bad[] = {"",   "Ada", "a b",      "a/b",
                                      "..", "a.b", "\xc3\xa4", "abcdefghijklmnopqrstuvwxyz0123456"};
    struct made m;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect(user_name_valid(good[i]), "%s", good[i]);
        make(good[i], ROLE_USER);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err_info info = {0};
        cr_expect_not(user_name_valid(bad[i]), "%s", bad[i]);
        cr_expect_eq(auth_token_add(auth, bad[i], ROLE_USER, NULL, 0, m.token, m.id, &info),
                     ERR_INVALID, "%s", bad[i]);
        cr_expect_not(auth_user_get(auth, bad[i], NULL));
    }
}

Test(auth, roles_have_names)
{
    static const char *const names[] = {"viewer", "user", "admin"};
    enum role role;
    for (size_t i = 0; i < 3; i++) {
        cr_expect_str_eq(role_name((enum role)i), names[i]);
        cr_expect(role_parse(names[i], &role));
        cr_expect_eq(role, (enum role)i);
    }
    static const char *const bad[] = {"", "Admin", "root", "users"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_not(role_parse(bad[i], &role), "\"%s\"", bad[i]);
}

Test(auth, a_token_never_changes_the_role_of_its_user)
{
    make("ada", ROLE_USER);
    struct made m = {"", ""};
    struct err_info info = {0};
    cr_expect_eq(auth_token_add(auth, "ada", ROLE_ADMIN, NULL, 0, m.token, m.id, &info),
                 ERR_CONFLICT);
    cr_expect_not_null(strstr(info.message, "user"), "%s", info.message);
    cr_expect_str_eq(m.token, "");
}

static enum role role_of(const char *token)
{
    struct identity who = {.role = ROLE_VIEWER};
    cr_expect_eq(try_as(token, HERE, &who), ERR_OK);
    return who.role;
}

static void put_user(const char *name, enum role role)
{
    struct user_row row = {.role = role, .created_ms = clock_wall_ms(), .quotas = "{}"};
    struct err_info info = {0};
    snprintf(row.name, sizeof row.name, "%s", name);
    cr_assert_eq(auth_user_put(auth, &row, &info), ERR_OK, "%s", info.message);
}

Test(auth, a_changed_role_holds_for_existing_tokens_at_once)
{
    struct made m = make("ada", ROLE_ADMIN);
    put_user("ada", ROLE_VIEWER);
    cr_expect_eq(role_of(m.token), ROLE_VIEWER);
    reopen();
    cr_expect_eq(role_of(m.token), ROLE_VIEWER);
}

Test(auth, a_user_is_as_last_put)
{
    struct user_row row = {.role = ROLE_USER, .created_ms = 5, .quotas = "{\"active_jobs\": 3}"};
    struct user_row again = {.role = ROLE_VIEWER, .created_ms = 9, .quotas = "{}"}, got;
    struct err_info info = {0};
    snprintf(row.name, sizeof row.name, "eve");
    snprintf(again.name, sizeof again.name, "eve");
    cr_assert_eq(auth_user_put(auth, &row, &info), ERR_OK, "%s", info.message);
    reopen();
    cr_assert(auth_user_get(auth, "eve", &got));
    cr_expect_str_eq(got.quotas, "{\"active_jobs\": 3}");
    cr_assert_eq(auth_user_put(auth, &again, &info), ERR_OK, "%s", info.message);
    cr_assert(auth_user_get(auth, "eve", &got));
    cr_expect_str_eq(got.quotas, "{}");
    cr_expect_eq(got.role, ROLE_VIEWER);
    cr_expect_eq(again.created_ms, 5, "a user is made once");
    cr_expect_eq(got.created_ms, 5);
}

Test(auth, downloads_are_counted_for_each_user)
{
    struct identity ada = {.user = "ada"}, bob = {.user = "bob"}, nobody = {.user = "nobody"};
    struct err_info info = {0};
    limits.downloads = 2;
    put_user("ada", ROLE_USER);
    put_user("bob", ROLE_USER);
    reopen();
    cr_expect_eq(auth_download_begin(auth, &ada, &info), ERR_OK);
    cr_expect_eq(auth_download_begin(auth, &ada, &info), ERR_OK);
    cr_expect_eq(auth_download_begin(auth, &ada, &info), ERR_RATE);
    cr_expect_eq(auth_download_begin(auth, &ada, &info), ERR_RATE, "a refusal is no download");
    cr_expect_eq(auth_download_begin(auth, &bob, &info), ERR_OK);
    auth_download_end(auth, "ada");
    cr_expect_eq(auth_download_begin(auth, &ada, &info), ERR_OK);
    cr_expect_eq(auth_download_begin(auth, &ada, &info), ERR_RATE);
    for (int i = 0; i < 5; i++)
        auth_download_end(auth, "bob"); /* of a user of this name who was deleted */
    cr_expect_eq(auth_download_begin(auth, &bob, &info), ERR_OK);
    cr_expect_eq(auth_download_begin(auth, &bob, &info), ERR_OK);
    cr_expect_eq(auth_download_begin(auth, &bob, &info), ERR_RATE);
    auth_download_end(auth, "nobody");
    cr_expect_eq(auth_download_begin(auth, &nobody, &info), ERR_OK);
    limits.downloads = 0;
    reopen();
    for (int i = 0; i < 100; i++)
        cr_expect_eq(auth_download_begin(auth, &ada, &info), ERR_OK);
}

Test(auth, a_deleted_user_has_no_tokens_any_more)
{
    struct made m = make("ada", ROLE_USER), other = make("bob", ROLE_USER);
    struct err_info info = {0};
    cr_assert_eq(auth_user_delete(auth, "ada", &info), ERR_OK, "%s", info.message);
    cr_expect_not(auth_user_get(auth, "ada", NULL));
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
    put_user("ada", ROLE_USER);
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED, "a new user inherited an old token");
    reopen();
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
}

/* ---- how often ---- */

static const char wrong[] = "bk_AAAAAAAA_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

Test(auth, after_too_many_wrong_tokens_others_from_there_have_to_wait)
{
    limit(NO_LIMIT, NO_LIMIT, 10);
    for (int i = 0; i < 10; i++)
        cr_expect_eq(try_from(wrong, HERE), ERR_UNAUTHENTICATED, "try %d", i);
    cr_expect_eq(try_from(wrong, HERE), ERR_RATE);
    cr_expect_eq(try_from(wrong, "192.0.2.8"), ERR_UNAUTHENTICATED, "others must not suffer");
    clock_shift(MINUTE);
    cr_expect_eq(try_from(wrong, HERE), ERR_UNAUTHENTICATED);
}

Test(auth, wrong_tokens_never_keep_a_right_one_out)
{
    limit(NO_LIMIT, NO_LIMIT, 10);
    struct made m = make("ada", ROLE_USER);
    for (int i = 0; i < 30; i++)
        try_from(wrong, HERE);
    cr_expect_eq(try_from(m.token, HERE), ERR_OK);
    cr_expect_eq(try_from(wrong, HERE), ERR_RATE, "a right one must not open the way for guesses");
}

Test(auth, right_tokens_are_no_failures)
{
    limit(NO_LIMIT, NO_LIMIT, 3);
    struct made m = make("ada", ROLE_USER);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(try_from(m.token, HERE), ERR_OK, "request %d", i);
    cr_expect_eq(try_from(wrong, HERE), ERR_UNAUTHENTICATED);
}

Test(auth, a_missing_header_is_no_guess)
{
    limit(NO_LIMIT, NO_LIMIT, 2);
    struct made m = make("ada", ROLE_USER);
    struct identity who;
    for (int i = 0; i < 20; i++)
        cr_expect_eq(try_header(NULL, HERE, &who), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_from(m.token, HERE), ERR_OK);
}

static enum err take(const char *user, bool write)
{
    struct identity who = {.role = ROLE_USER};
    struct err_info info = {0};
    snprintf(who.user, sizeof who.user, "%s", user);
    return auth_allow(auth, &who, write, &info);
}

static int take_until_refused(const char *user, bool write)
{
    int taken = 0;
    while (taken < 1000 && take(user, write) == ERR_OK)
        taken++;
    return taken;
}

/* The allowance refills while the test runs, by one in ten seconds. */
Test(auth, writes_of_one_user_are_limited_per_minute)
{
    limit(6, NO_LIMIT, NO_LIMIT);
    make("ada", ROLE_USER);
    make("bob", ROLE_USER);
    cr_expect_eq(take_until_refused("ada", true), 6);
    cr_expect_eq(take("ada", true), ERR_RATE);
    cr_expect_eq(take("ada", false), ERR_OK, "reads are counted apart");
    cr_expect_eq(take("bob", true), ERR_OK, "users are counted apart");
    clock_shift(10000);
    cr_expect_eq(take("ada", true), ERR_OK);
    cr_expect_eq(take("ada", true), ERR_RATE);
    clock_shift(60 * MINUTE);
    cr_expect_eq(take_until_refused("ada", true), 6, "what is not used does not pile up");
}

/* So slow that the time which the test itself takes adds nothing. */
Test(auth, reads_of_one_user_may_burst_to_twice_the_rate)
{
    limit(NO_LIMIT, 0.5, NO_LIMIT);
    make("ada", ROLE_USER);
    cr_expect_eq(take_until_refused("ada", false), 1);
    clock_shift(MINUTE);
    cr_expect_eq(take_until_refused("ada", false), 1);
    cr_expect_eq(take("ada", true), ERR_OK);
}

Test(auth, tokens_of_one_user_share_the_allowance)
{
    limit(4, NO_LIMIT, NO_LIMIT);
    make("ada", ROLE_USER);
    make("ada", ROLE_USER);
    cr_expect_eq(take_until_refused("ada", true), 4);
}

/* ---- tickets ---- */

static const struct identity *identity_of(const struct made *m)
{
    static struct identity who;
    cr_assert_eq(try_as(m->token, HERE, &who), ERR_OK);
    return &who;
}

static enum err ticket_for(const struct made *m, char ticket[TOKEN_SIZE])
{
    struct err_info info = {0};
    return auth_ticket_make(auth, identity_of(m), ticket, &info);
}

static enum err redeem(const char *ticket, struct identity *who)
{
    struct err_info info = {0};
    return auth_ticket_redeem(auth, ticket, HERE, who, &info);
}

Test(auth, a_ticket_works_once)
{
    struct made m = make("ada", ROLE_USER);
    char ticket[TOKEN_SIZE];
    struct identity who;
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    cr_assert_eq(redeem(ticket, &who), ERR_OK);
    cr_expect_str_eq(who.user, "ada");
    cr_expect_eq(who.role, ROLE_USER);
    cr_expect_eq(redeem(ticket, &who), ERR_UNAUTHENTICATED);
}

Test(auth, each_ticket_stands_for_who_made_it)
{
    struct made ada = make("ada", ROLE_ADMIN), bob = make("bob", ROLE_VIEWER);
    char a[TOKEN_SIZE], b[TOKEN_SIZE];
    struct identity who;
    cr_assert_eq(ticket_for(&ada, a), ERR_OK);
    cr_assert_eq(ticket_for(&bob, b), ERR_OK);
    cr_expect_str_neq(a, b);
    cr_assert_eq(redeem(b, &who), ERR_OK);
    cr_expect_str_eq(who.user, "bob");
    cr_assert_eq(redeem(a, &who), ERR_OK);
    cr_expect_str_eq(who.user, "ada");
}

Test(auth, a_ticket_lasts_a_minute)
{
    struct made m = make("ada", ROLE_USER);
    char ticket[TOKEN_SIZE];
    struct identity who;
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    clock_shift(MINUTE - 5000);
    cr_assert_eq(redeem(ticket, &who), ERR_OK);
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    clock_shift(MINUTE + 1);
    cr_expect_eq(redeem(ticket, &who), ERR_UNAUTHENTICATED);
}

Test(auth, a_ticket_is_no_token_and_a_token_no_ticket)
{
    struct made m = make("ada", ROLE_USER);
    char ticket[TOKEN_SIZE];
    struct identity who;
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    cr_expect_eq(try_token(ticket), ERR_UNAUTHENTICATED);
    static const char *const no_tickets[] = {"", "x",
                                             "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    for (size_t i = 0; i < sizeof no_tickets / sizeof no_tickets[0]; i++)
        cr_expect_eq(redeem(no_tickets[i], &who), ERR_UNAUTHENTICATED);
    cr_expect_eq(redeem(m.token, &who), ERR_UNAUTHENTICATED);
    ticket[20] ^= 1;
    cr_expect_eq(redeem(ticket, &who), ERR_UNAUTHENTICATED);
}

Test(auth, wrong_tickets_count_as_guesses)
{
    limit(NO_LIMIT, NO_LIMIT, 5);
    struct identity who;
    for (int i = 0; i < 5; i++)
        cr_expect_eq(redeem("no such ticket", &who), ERR_UNAUTHENTICATED);
    cr_expect_eq(redeem("no such ticket", &who), ERR_RATE);
}

Test(auth, open_tickets_are_few_and_their_places_come_back)
{
    struct made m = make("ada", ROLE_USER);
    char first[TOKEN_SIZE], ticket[TOKEN_SIZE];
    struct identity who;
    int made = 1;
    cr_assert_eq(ticket_for(&m, first), ERR_OK);
    while (made < 1000 && ticket_for(&m, ticket) == ERR_OK)
        made++;
    cr_expect(made >= 16 && made < 1000, "%d tickets", made);
    cr_expect_eq(ticket_for(&m, ticket), ERR_RATE);
    cr_expect_eq(redeem(first, &who), ERR_OK);
    cr_expect_eq(ticket_for(&m, ticket), ERR_OK, "a used one leaves its place");
    clock_shift(MINUTE + 1);
    cr_expect_eq(ticket_for(&m, ticket), ERR_OK, "and so does an old one");
}

/* A ticket stands for an existing token: what ends the token ends the ticket. */
Test(auth, a_ticket_of_a_revoked_token_is_worth_nothing)
{
    struct made m = make("ada", ROLE_USER);
    char ticket[TOKEN_SIZE];
    struct identity who;
    struct err_info info = {0};
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    cr_assert_eq(auth_token_revoke(auth, m.id, &info), ERR_OK);
    cr_expect_eq(redeem(ticket, &who), ERR_UNAUTHENTICATED);
}

Test(auth, a_ticket_of_a_deleted_user_is_worth_nothing)
{
    struct made m = make("ada", ROLE_ADMIN);
    char ticket[TOKEN_SIZE];
    struct identity who;
    struct err_info info = {0};
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    cr_assert_eq(auth_user_delete(auth, "ada", &info), ERR_OK);
    cr_expect_eq(redeem(ticket, &who), ERR_UNAUTHENTICATED);
}

/* ---- all at once ---- */

static void *keep_checking(void *token)
{
    size_t refused = 0;
    for (int i = 0; i < 3000; i++) {
        struct identity who;
        char header[100];
        snprintf(header, sizeof header, "Bearer %.80s", (const char *)token);
        refused += auth_check(auth, header, HERE, &who, NULL) != ERR_OK;
        refused += auth_allow(auth, &who, i % 2 == 0, NULL) != ERR_OK;
    }
    return (void *)refused;
}

Test(auth, requests_go_on_while_tokens_and_users_come_and_go)
{
    struct made m = make("ada", ROLE_USER);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, keep_checking, m.token), 0);
    for (int i = 0; i < 20; i++) {
        struct err_info info = {0};
        struct made other = make("bob", ROLE_USER);
        cr_expect_eq(auth_token_revoke(auth, other.id, &info), ERR_OK);
        cr_expect_eq(auth_user_delete(auth, "bob", &info), ERR_OK);
    }
    for (size_t i = 0; i < 4; i++) {
        void *refused;
        pthread_join(threads[i], &refused);
        cr_expect_null(refused, "%zu refused", (size_t)refused);
    }
}
