/* Tokens, users and roles, against a real store. */
#include "tests/unit/server/api/auth_world.h"

/* ---- tokens ---- */

Test(auth, before_the_first_token_there_is_none)
{
    cr_expect(auth_empty(test_auth));
    token_of("ada", ROLE_ADMIN);
    cr_expect_not(auth_empty(test_auth));
    auth_reopen();
    cr_expect_not(auth_empty(test_auth));
}

Test(auth, a_token_stands_for_its_user)
{
    struct test_token m = token_of("ada", ROLE_USER);
    struct identity who;
    cr_assert_eq(try_as(m.token, HERE, &who), ERR_OK);
    cr_expect_str_eq(who.user, "ada");
    cr_expect_eq(who.role, ROLE_USER);
    cr_expect_str_eq(who.token_id, m.id);
}

Test(auth, tokens_have_a_public_id_and_a_long_secret_and_never_repeat)
{
    enum { count = 50 };
    struct test_token all[count];
    for (size_t i = 0; i < count; i++) {
        all[i] = token_of("ada", ROLE_USER);
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
    struct test_token m = token_of("ada", ROLE_USER);
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
    struct test_token a = token_of("ada", ROLE_ADMIN), b = token_of("bob", ROLE_USER);
    char mixed[TOKEN_SIZE];
    memcpy(mixed, b.token, sizeof mixed);
    memcpy(mixed + 3, a.id, 8);
    cr_expect_eq(try_token(mixed), ERR_UNAUTHENTICATED);
}

Test(auth, only_a_bearer_header_with_a_whole_token_is_taken)
{
    struct test_token m = token_of("ada", ROLE_USER);
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
    struct test_token soon = token_until("ada", ROLE_USER, clock_wall_ms() + 5 * MINUTE);
    struct test_token later = token_until("ada", ROLE_USER, clock_wall_ms() + 50 * MINUTE);
    struct test_token never = token_of("ada", ROLE_USER);
    cr_expect_eq(try_token(soon.token), ERR_OK);
    clock_shift(6 * MINUTE);
    cr_expect_eq(try_token(soon.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(later.token), ERR_OK);
    auth_reopen();
    cr_expect_eq(try_token(soon.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(later.token), ERR_OK);
    clock_shift(50 * MINUTE);
    cr_expect_eq(try_token(later.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(never.token), ERR_OK);
}

Test(auth, a_revoked_token_is_refused_at_once_and_stays_so)
{
    struct test_token m = token_of("ada", ROLE_USER), other = token_of("ada", ROLE_USER);
    struct err_info info = {0};
    cr_expect_eq(try_token(m.token), ERR_OK);
    cr_assert_eq(auth_token_revoke(test_auth, NULL, m.id, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
    auth_reopen();
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
}

Test(auth, revoking_what_does_not_exist_is_not_found)
{
    static const char *const ids[] = {"", "12345678", "1234567", "123456789"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct err_info info = {0};
        cr_expect_eq(auth_token_revoke(test_auth, NULL, ids[i], &info), ERR_NOT_FOUND, "\"%s\"",
                     ids[i]);
    }
}

Test(auth, tokens_survive_a_restart)
{
    struct test_token m = token_of("ada", ROLE_ADMIN);
    auth_reopen();
    cr_expect_eq(try_token(m.token), ERR_OK);
}

Test(auth, the_owner_of_a_token_is_known_by_its_id)
{
    struct test_token m = token_of("ada", ROLE_USER);
    char user[USER_NAME_SIZE] = "nobody";
    cr_expect(auth_token_owner(test_auth, m.id, user));
    cr_expect_str_eq(user, "ada");
    static const char *const ids[] = {"", "00000000", "1234567", "123456789"};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        cr_expect_not(auth_token_owner(test_auth, ids[i], user), "\"%s\"", ids[i]);
}

static bool file_contains(const char *name, const char *needle)
{
    char path[400], *bytes = NULL;
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", test_directory, name);
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
    struct test_token m = token_of("ada", ROLE_USER);
    bool id_found = false;
    DIR *dir = opendir(test_directory);
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
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect(user_name_valid(good[i]), "%s", good[i]);
        token_of(good[i], ROLE_USER);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err_info info = {0};
        cr_expect_not(user_name_valid(bad[i]), "%s", bad[i]);
        struct token_wish wish = {.user = bad[i], .role = ROLE_USER};
        struct token_made made;
        cr_expect_eq(auth_token_add(test_auth, &wish, &made, &info), ERR_INVALID, "%s", bad[i]);
        cr_expect_not(auth_user_get(test_auth, bad[i], NULL));
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
    token_of("ada", ROLE_USER);
    struct token_made made = {.token = ""};
    struct err_info info = {0};
    struct token_wish wish = {.user = "ada", .role = ROLE_ADMIN};
    cr_expect_eq(auth_token_add(test_auth, &wish, &made, &info), ERR_CONFLICT);
    cr_expect_not_null(strstr(info.message, "user"), "%s", info.message);
    cr_expect_str_eq(made.token, "");
}

static enum role role_of(const char *token)
{
    struct identity who = {.role = ROLE_VIEWER};
    cr_expect_eq(try_as(token, HERE, &who), ERR_OK);
    return who.role;
}

static void put_user(const char *name, enum role role)
{
    struct user_wish wish = {.name = name, .role = &role};
    struct user_change change;
    struct err_info info = {0};
    cr_assert_eq(auth_user_put(test_auth, NULL, &wish, &change, &info), ERR_OK, "%s", info.message);
}

Test(auth, a_changed_role_holds_for_existing_tokens_at_once)
{
    struct test_token m = token_of("ada", ROLE_ADMIN);
    put_user("ada", ROLE_VIEWER);
    cr_expect_eq(role_of(m.token), ROLE_VIEWER);
    auth_reopen();
    cr_expect_eq(role_of(m.token), ROLE_VIEWER);
}

Test(auth, a_user_is_as_last_put)
{
    static const enum role viewer = ROLE_VIEWER;
    struct user_wish first = {.name = "eve", .quotas = "{\"active_jobs\": 3}"};
    struct user_wish again = {.name = "eve", .role = &viewer, .quotas = "{}"};
    struct user_change change;
    struct user_row got;
    struct err_info info = {0};
    cr_assert_eq(auth_user_put(test_auth, NULL, &first, &change, &info), ERR_OK, "%s",
                 info.message);
    uint64_t created_ms = change.row.created_ms;
    auth_reopen();
    clock_shift(MINUTE);
    cr_assert(auth_user_get(test_auth, "eve", &got));
    cr_expect_eq(got.role, ROLE_USER);
    cr_expect_str_eq(got.quotas, "{\"active_jobs\": 3}");
    cr_assert_eq(auth_user_put(test_auth, NULL, &again, &change, &info), ERR_OK, "%s",
                 info.message);
    cr_expect(change.role_changed);
    cr_assert(auth_user_get(test_auth, "eve", &got));
    cr_expect_str_eq(got.quotas, "{}");
    cr_expect_eq(got.role, ROLE_VIEWER);
    cr_expect_eq(got.created_ms, created_ms, "a user is made once");
}

static struct identity identity_of(const struct test_token *m)
{
    struct identity who;
    cr_assert_eq(try_as(m->token, HERE, &who), ERR_OK);
    return who;
}

static enum err download(const struct identity *who)
{
    struct err_info info = {0};
    return auth_download_begin(test_auth, who, &info);
}

Test(auth, downloads_are_counted_for_each_user)
{
    struct test_token a = token_of("ada", ROLE_USER), b = token_of("bob", ROLE_USER);
    test_limits.downloads = 2;
    auth_reopen();
    struct identity ada = identity_of(&a), bob = identity_of(&b);
    cr_expect_eq(download(&ada), ERR_OK);
    cr_expect_eq(download(&ada), ERR_OK);
    cr_expect_eq(download(&ada), ERR_RATE);
    cr_expect_eq(download(&ada), ERR_RATE, "a refusal is no download");
    cr_expect_eq(download(&bob), ERR_OK);
    auth_download_end(test_auth, &ada);
    cr_expect_eq(download(&ada), ERR_OK);
    cr_expect_eq(download(&ada), ERR_RATE);
    test_limits.downloads = 0;
    auth_reopen();
    ada = identity_of(&a);
    for (int i = 0; i < 100; i++)
        cr_expect_eq(download(&ada), ERR_OK);
}

Test(auth, downloads_of_a_former_user_are_not_those_of_another_of_that_name)
{
    struct err_info info = {0};
    test_limits.downloads = 1;
    auth_reopen();
    struct test_token m = token_of("ada", ROLE_USER);
    struct identity former = identity_of(&m);
    cr_expect_eq(download(&former), ERR_OK);
    cr_assert_eq(auth_user_delete(test_auth, NULL, "ada", false, &info), ERR_OK);
    auth_download_end(test_auth, &former); /* nobody's by now */
    m = token_of("ada", ROLE_USER);
    struct identity ada = identity_of(&m);
    cr_expect_eq(download(&former), ERR_UNAUTHENTICATED);
    cr_expect_eq(download(&ada), ERR_OK);
    auth_download_end(test_auth, &former);
    cr_expect_eq(download(&ada), ERR_RATE);
}

Test(auth, a_deleted_user_has_no_tokens_any_more)
{
    struct test_token m = token_of("ada", ROLE_USER), other = token_of("bob", ROLE_USER);
    struct err_info info = {0};
    cr_assert_eq(auth_user_delete(test_auth, NULL, "ada", false, &info), ERR_OK, "%s",
                 info.message);
    cr_expect_not(auth_user_get(test_auth, "ada", NULL));
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
    put_user("ada", ROLE_USER);
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED, "a new user inherited an old token");
    auth_reopen();
    cr_expect_eq(try_token(m.token), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(other.token), ERR_OK);
}
