/* Rate limits and sign-in tickets, against a real store. */
#include "tests/unit/server/api/auth_world.h"

/* ---- how often ---- */

static const char wrong[] = "bk_AAAAAAAA_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

Test(auth, after_too_many_wrong_tokens_others_from_there_have_to_wait)
{
    auth_limit(NO_LIMIT, NO_LIMIT, 10);
    for (int i = 0; i < 10; i++)
        cr_expect_eq(try_from(wrong, HERE), ERR_UNAUTHENTICATED, "try %d", i);
    cr_expect_eq(try_from(wrong, HERE), ERR_RATE);
    cr_expect_eq(try_from(wrong, "192.0.2.8"), ERR_UNAUTHENTICATED, "others must not suffer");
    clock_shift(MINUTE);
    cr_expect_eq(try_from(wrong, HERE), ERR_UNAUTHENTICATED);
}

Test(auth, wrong_tokens_never_keep_a_right_one_out)
{
    auth_limit(NO_LIMIT, NO_LIMIT, 10);
    struct test_token m = token_of("ada", ROLE_USER);
    for (int i = 0; i < 30; i++)
        try_from(wrong, HERE);
    cr_expect_eq(try_from(m.token, HERE), ERR_OK);
    cr_expect_eq(try_from(wrong, HERE), ERR_RATE, "a right one must not open the way for guesses");
}

Test(auth, right_tokens_are_no_failures)
{
    auth_limit(NO_LIMIT, NO_LIMIT, 3);
    struct test_token m = token_of("ada", ROLE_USER);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(try_from(m.token, HERE), ERR_OK, "request %d", i);
    cr_expect_eq(try_from(wrong, HERE), ERR_UNAUTHENTICATED);
}

Test(auth, a_missing_header_is_no_guess)
{
    auth_limit(NO_LIMIT, NO_LIMIT, 2);
    struct test_token m = token_of("ada", ROLE_USER);
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
    return auth_allow(test_auth, &who, write, &info);
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
    auth_limit(6, NO_LIMIT, NO_LIMIT);
    token_of("ada", ROLE_USER);
    token_of("bob", ROLE_USER);
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
    auth_limit(NO_LIMIT, 0.5, NO_LIMIT);
    token_of("ada", ROLE_USER);
    cr_expect_eq(take_until_refused("ada", false), 1);
    clock_shift(MINUTE);
    cr_expect_eq(take_until_refused("ada", false), 1);
    cr_expect_eq(take("ada", true), ERR_OK);
}

Test(auth, reads_that_take_a_processor_for_long_count_as_several)
{
    auth_limit(NO_LIMIT, 0.5, NO_LIMIT);
    struct identity ada = {.role = ROLE_USER, .user = "ada"};
    token_of("ada", ROLE_USER);
    cr_expect_eq(take("ada", false), ERR_OK);
    cr_expect_eq(auth_spent(test_auth, &ada, 1e9, 1e9), 1e9);
    clock_shift(MINUTE / 30);
    cr_expect_eq(take("ada", false), ERR_RATE, "the debt is worth no two seconds");
    clock_shift(MINUTE);
    cr_expect_eq(take("ada", false), ERR_OK, "a debt is for seconds, not for ever");
    clock_shift(MINUTE);
    cr_expect_eq(auth_spent(test_auth, &ada, 20e-6, 20e-6), 0.0, "too little to be counted");
    cr_expect_eq(take("ada", false), ERR_OK, "a quick read is one");
    cr_expect_eq(take("ada", true), ERR_OK);
}

Test(auth, tokens_of_one_user_share_the_allowance)
{
    auth_limit(4, NO_LIMIT, NO_LIMIT);
    token_of("ada", ROLE_USER);
    token_of("ada", ROLE_USER);
    cr_expect_eq(take_until_refused("ada", true), 4);
}

/* ---- tickets ---- */

static const struct identity *identity_of(const struct test_token *m)
{
    static struct identity who;
    cr_assert_eq(try_as(m->token, HERE, &who), ERR_OK);
    return &who;
}

static enum err ticket_for(const struct test_token *m, char ticket[TOKEN_SIZE])
{
    struct err_info info = {0};
    return auth_ticket_make(test_auth, identity_of(m), ticket, &info);
}

static enum err redeem(const char *ticket, struct identity *who)
{
    struct err_info info = {0};
    return auth_ticket_redeem(test_auth, ticket, HERE, who, &info);
}

Test(auth, a_ticket_works_once)
{
    struct test_token m = token_of("ada", ROLE_USER);
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
    struct test_token ada = token_of("ada", ROLE_ADMIN), bob = token_of("bob", ROLE_VIEWER);
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
    struct test_token m = token_of("ada", ROLE_USER);
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
    struct test_token m = token_of("ada", ROLE_USER);
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
    auth_limit(NO_LIMIT, NO_LIMIT, 5);
    struct identity who;
    for (int i = 0; i < 5; i++)
        cr_expect_eq(redeem("no such ticket", &who), ERR_UNAUTHENTICATED);
    cr_expect_eq(redeem("no such ticket", &who), ERR_RATE);
}

Test(auth, one_users_tickets_take_no_others_place)
{
    struct test_token m = token_of("ada", ROLE_USER), other = token_of("bob", ROLE_USER);
    char first[TOKEN_SIZE], ticket[TOKEN_SIZE], bobs[TOKEN_SIZE];
    struct identity who;
    cr_assert_eq(ticket_for(&other, bobs), ERR_OK);
    cr_assert_eq(ticket_for(&m, first), ERR_OK);
    for (int i = 0; i < 1000; i++) {
        clock_shift(1);
        cr_assert_eq(ticket_for(&m, ticket), ERR_OK, "ticket %d", i);
    }
    cr_expect_eq(redeem(first, &who), ERR_UNAUTHENTICATED, "the oldest gave way");
    cr_expect_eq(redeem(ticket, &who), ERR_OK);
    cr_expect_eq(redeem(bobs, &who), ERR_OK);
    cr_expect_str_eq(who.user, "bob");
}

/* A ticket stands for an existing token: what ends the token ends the ticket. */
Test(auth, a_ticket_of_a_revoked_token_is_worth_nothing)
{
    struct test_token m = token_of("ada", ROLE_USER);
    char ticket[TOKEN_SIZE];
    struct identity who;
    struct err_info info = {0};
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    cr_assert_eq(auth_token_revoke(test_auth, NULL, m.id, &info), ERR_OK);
    cr_expect_eq(redeem(ticket, &who), ERR_UNAUTHENTICATED);
}

Test(auth, a_ticket_of_a_deleted_user_is_worth_nothing)
{
    struct test_token m = token_of("ada", ROLE_ADMIN);
    char ticket[TOKEN_SIZE];
    struct identity who;
    struct err_info info = {0};
    cr_assert_eq(ticket_for(&m, ticket), ERR_OK);
    cr_assert_eq(auth_user_delete(test_auth, NULL, "ada", false, &info), ERR_OK);
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
        refused += auth_check(test_auth, header, HERE, &who, NULL) != ERR_OK;
        refused += auth_allow(test_auth, &who, i % 2 == 0, NULL) != ERR_OK;
    }
    return (void *)refused;
}

Test(auth, requests_go_on_while_tokens_and_users_come_and_go)
{
    struct test_token m = token_of("ada", ROLE_USER);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, keep_checking, m.token), 0);
    for (int i = 0; i < 20; i++) {
        struct err_info info = {0};
        struct test_token other = token_of("bob", ROLE_USER);
        cr_expect_eq(auth_token_revoke(test_auth, NULL, other.id, &info), ERR_OK);
        cr_expect_eq(auth_user_delete(test_auth, NULL, "bob", false, &info), ERR_OK);
    }
    for (size_t i = 0; i < 4; i++) {
        void *refused;
        pthread_join(threads[i], &refused);
        cr_expect_null(refused, "%zu refused", (size_t)refused);
    }
}
