/* Who is asking now: what was found out when a request came may be over when it is handled. */
#include "tests/unit/server/api/auth_world.h"

#define DAY 86400000ull

static struct identity identity_of(const struct test_token *m)
{
    struct identity who;
    cr_assert_eq(try_as(m->token, HERE, &who), ERR_OK);
    return who;
}

static enum err still(struct identity *who, enum role role)
{
    struct err_info info = {0};
    return auth_recheck(test_auth, who, role, &info);
}

static enum err make(const struct identity *maker, const char *user, uint64_t expires_ms,
                     struct token_made *made)
{
    struct err_info info = {0};
    struct token_wish wish = {
        .maker = maker, .user = user, .role = maker->role, .expires_ms = expires_ms};
    return auth_token_add(test_auth, &wish, made, &info);
}

static enum err put(const struct identity *maker, const char *name, enum role role)
{
    struct err_info info = {0};
    struct user_change change;
    struct user_wish wish = {.name = name, .role = &role};
    return auth_user_put(test_auth, maker, &wish, &change, &info);
}

static enum err delete_as(const struct identity *maker, const char *name)
{
    struct err_info info = {0};
    return auth_user_delete(test_auth, maker, name, false, &info);
}

Test(auth, an_identity_ends_with_its_token)
{
    struct err_info info = {0};
    struct test_token m = token_of("ada", ROLE_USER);
    struct test_token brief = token_until("ada", ROLE_USER, clock_wall_ms() + MINUTE);
    struct identity who = identity_of(&m), short_lived = identity_of(&brief);
    cr_expect_eq(still(&who, ROLE_USER), ERR_OK);
    cr_expect_eq(still(&who, ROLE_ADMIN), ERR_FORBIDDEN);
    cr_expect_eq(still(&short_lived, ROLE_USER), ERR_OK);
    clock_shift(MINUTE);
    cr_expect_eq(still(&short_lived, ROLE_USER), ERR_UNAUTHENTICATED);
    cr_assert_eq(auth_token_revoke(test_auth, NULL, m.id, &info), ERR_OK);
    cr_expect_eq(still(&who, ROLE_VIEWER), ERR_UNAUTHENTICATED);
}

Test(auth, an_identity_has_the_role_of_now)
{
    struct test_token m = token_of("ada", ROLE_ADMIN);
    struct identity who = identity_of(&m);
    cr_assert_eq(put(NULL, "ada", ROLE_VIEWER), ERR_OK);
    cr_expect_eq(still(&who, ROLE_USER), ERR_FORBIDDEN);
    cr_expect_eq(still(&who, ROLE_VIEWER), ERR_OK);
    cr_expect_eq(who.role, ROLE_VIEWER);
}

Test(auth, a_user_who_is_made_again_is_another)
{
    struct test_token m = token_of("ada", ROLE_USER);
    struct identity who = identity_of(&m);
    cr_assert_eq(delete_as(NULL, "ada"), ERR_OK);
    cr_expect_eq(still(&who, ROLE_VIEWER), ERR_UNAUTHENTICATED);
    token_of("ada", ROLE_USER);
    cr_expect_eq(still(&who, ROLE_VIEWER), ERR_UNAUTHENTICATED);
}

Test(auth, who_is_no_longer_valid_changes_nothing)
{
    struct test_token m = token_of("ada", ROLE_ADMIN);
    struct identity who = identity_of(&m);
    struct token_made made;
    struct err_info info = {0};
    cr_assert_eq(delete_as(NULL, "ada"), ERR_OK);
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_UNAUTHENTICATED);
    cr_expect_not(auth_user_get(test_auth, "ada", NULL), "the token brought its user back");
    cr_expect_eq(put(&who, "ada", ROLE_ADMIN), ERR_UNAUTHENTICATED);
    struct test_token bob = token_of("bob", ROLE_USER);
    cr_expect_eq(auth_token_revoke(test_auth, &who, bob.id, &info), ERR_UNAUTHENTICATED);
    cr_expect_eq(delete_as(&who, "bob"), ERR_UNAUTHENTICATED);
    cr_expect_eq(try_token(bob.token), ERR_OK);
}

Test(auth, two_admins_do_not_take_each_others_role)
{
    struct test_token a = token_of("ada", ROLE_ADMIN), b = token_of("bob", ROLE_ADMIN);
    struct identity ada = identity_of(&a), bob = identity_of(&b);
    cr_expect_eq(put(&ada, "ada", ROLE_USER), ERR_CONFLICT);
    cr_expect_eq(delete_as(&ada, "ada"), ERR_CONFLICT);
    cr_expect_eq(put(&ada, "bob", ROLE_USER), ERR_OK);
    cr_expect_eq(put(&bob, "ada", ROLE_USER), ERR_FORBIDDEN);
    cr_expect_eq(delete_as(&bob, "ada"), ERR_FORBIDDEN);
}

Test(auth, a_token_does_not_outlive_its_maker)
{
    uint64_t ends = clock_wall_ms() + 2 * DAY;
    struct test_token m = token_until("ada", ROLE_USER, ends);
    struct identity who = identity_of(&m);
    struct token_made made;
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_OK);
    cr_expect_eq(made.expires_ms, ends);
    cr_expect_eq(make(&who, "ada", ends - DAY, &made), ERR_OK);
    cr_expect_eq(made.expires_ms, ends - DAY);
    cr_expect_eq(make(&who, "ada", ends + 1, &made), ERR_INVALID);
    struct err_info info = {0};
    struct token_wish wish = {
        .maker = &who, .user = "ada", .role = ROLE_USER, .expires_ms = ends + DAY, .shorten = true};
    cr_expect_eq(auth_token_add(test_auth, &wish, &made, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(made.expires_ms, ends);
}

Test(auth, tokens_that_are_over_go_after_a_month)
{
    struct err_info info = {0};
    uint64_t now = clock_wall_ms();
    struct test_token lasting = token_of("ada", ROLE_USER);
    struct test_token brief = token_until("ada", ROLE_USER, now + DAY);
    struct test_token revoked = token_of("ada", ROLE_USER);
    char owner[USER_NAME_SIZE];
    cr_assert_eq(auth_token_revoke(test_auth, NULL, revoked.id, &info), ERR_OK);
    clock_shift(29 * DAY);
    cr_assert_eq(auth_purge(test_auth, &info), ERR_OK);
    cr_expect(auth_token_owner(test_auth, revoked.id, owner));
    clock_shift(DAY + MINUTE);
    for (int reopened = 0; reopened < 2; reopened++) {
        cr_assert_eq(auth_purge(test_auth, &info), ERR_OK);
        cr_expect_not(auth_token_owner(test_auth, revoked.id, owner));
        cr_expect(auth_token_owner(test_auth, brief.id, owner));
        cr_expect(auth_token_owner(test_auth, lasting.id, owner));
        auth_reopen();
    }
    clock_shift(DAY);
    cr_assert_eq(auth_purge(test_auth, &info), ERR_OK);
    cr_expect_not(auth_token_owner(test_auth, brief.id, owner));
    cr_expect_eq(try_token(lasting.token), ERR_OK);
}

Test(auth, a_user_has_so_many_tokens_and_those_that_are_over_make_room)
{
    struct err_info info = {0};
    struct token_made made;
    test_limits.tokens = 3;
    auth_reopen();
    struct test_token first = token_of("ada", ROLE_USER), second = token_of("ada", ROLE_USER),
                      brief = token_until("ada", ROLE_USER, clock_wall_ms() + DAY);
    struct identity who = identity_of(&first);
    token_of("bob", ROLE_USER);
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_QUOTA);
    clock_jump(2 * DAY); /* a clock that was set removes no token that is valid */
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_QUOTA);
    cr_assert_eq(auth_token_revoke(test_auth, &who, second.id, &info), ERR_OK);
    char owner[USER_NAME_SIZE];
    cr_expect(auth_token_owner(test_auth, second.id, owner));
    clock_shift(MINUTE);
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_OK);
    cr_expect_not(auth_token_owner(test_auth, second.id, owner));
    cr_expect(auth_token_owner(test_auth, brief.id, owner));
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_QUOTA);
    clock_shift(2 * DAY);
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_OK);
    auth_reopen();
    cr_expect_not(auth_token_owner(test_auth, brief.id, owner));
    who = identity_of(&first);
    cr_expect_eq(make(&who, "ada", 0, &made), ERR_QUOTA);
    token_of("ada", ROLE_USER); /* the command line: how an administrator gets in */
}

/* ---- deleting a user while they are at work ---- */

static void *delete_ada(void *out)
{
    *(enum err *)out = delete_as(NULL, "ada");
    return NULL;
}

Test(auth, a_deletion_waits_for_changes_and_lets_no_other_begin)
{
    struct test_token m = token_of("ada", ROLE_USER);
    struct identity who = identity_of(&m), other = who;
    struct err_info info = {0};
    enum err code = ERR_OK, deleted = ERR_INTERNAL;
    pthread_t thread;
    cr_assert_eq(auth_change_begin(test_auth, &who, ROLE_USER, &info), ERR_OK);
    cr_assert_eq(pthread_create(&thread, NULL, delete_ada, &deleted), 0);
    while ((code = auth_change_begin(test_auth, &other, ROLE_USER, &info)) == ERR_OK)
        auth_change_end(test_auth, &other); /* until the deletion is under way */
    cr_expect_eq(code, ERR_UNAVAILABLE, "%s", info.message);
    cr_expect_eq(still(&other, ROLE_USER), ERR_OK, "reading goes on");
    auth_change_end(test_auth, &who);
    pthread_join(thread, NULL);
    cr_expect_eq(deleted, ERR_OK);
    cr_expect_eq(auth_change_begin(test_auth, &other, ROLE_USER, &info), ERR_UNAUTHENTICATED);
}

/* ---- a name is used again ---- */

static size_t uploads;

static enum err count_files(void *ctx, const char *user, size_t *count, struct err_info *info)
{
    (void)ctx, (void)user, (void)info;
    *count = uploads;
    return ERR_OK;
}

static enum err remove_files(void *ctx, const char *user, struct err_info *info)
{
    (void)ctx, (void)user, (void)info;
    uploads = 0;
    return ERR_OK;
}

Test(auth, a_new_user_comes_into_nothing)
{
    struct err_info info = {0};
    struct auth_files files = {.count = count_files, .remove = remove_files};
    auth_set_files(test_auth, &files);
    cr_assert_eq(put(NULL, "ada", ROLE_USER), ERR_OK);
    uploads = 2;
    cr_expect_eq(delete_as(NULL, "ada"), ERR_CONFLICT);
    cr_expect(auth_user_get(test_auth, "ada", NULL));
    cr_expect_eq(auth_user_delete(test_auth, NULL, "ada", true, &info), ERR_OK);
    cr_expect_eq(uploads, 0);
    uploads = 1; /* as an earlier version left them */
    cr_expect_eq(put(NULL, "ada", ROLE_USER), ERR_CONFLICT);
    cr_expect_eq(delete_as(NULL, "ada"), ERR_NOT_FOUND);
    cr_expect_eq(auth_user_delete(test_auth, NULL, "ada", true, &info), ERR_OK, "%s", info.message);
    cr_expect_eq(put(NULL, "ada", ROLE_USER), ERR_OK);
}
