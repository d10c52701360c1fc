/* The catalogue: what was acknowledged is there, and nothing else. */
#include "tests/unit/server/store/store_rows.h"

TestSuite(store, .init = store_setup, .fini = store_teardown);

/* SQLite syncs with fdatasync; this one comes before the C library's. */
atomic_int syncing = SYNC_WORKS;

static bool is_log(int fd)
{
    char link[64], path[400];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    return n >= 4 && memcmp(path + n - 4, "-wal", 4) == 0;
}

/* As Linux tells of it: whoever has a descriptor hears once of what was lost. */
static bool has_heard(int fd)
{
    static atomic_bool heard[1024];
    return atomic_exchange(&heard[fd % 1024], true);
}

int fdatasync(int fd)
{
    if (syncing == SYNC_WORKS || (syncing == SYNC_FAILS_ONCE && (is_log(fd) || has_heard(fd))))
        return (int)syscall(SYS_fdatasync, fd);
    errno = EIO;
    return -1;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- opening ---- */

Test(store, a_directory_is_locked_against_a_second_daemon)
{
    struct store *second;
    struct store_config config = {.directory = t.directory};
    expect_err(store_open(&second, &config, &t.info), ERR_CONFLICT);
    cr_expect_null(second);
    store_test_reopen(&t);
}

Test(store, files_are_private)
{
    static const char *const names[] = {"barkerd.db", "barkerd.db-wal", "barkerd.db-shm", "lock"};
    struct stat st;
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", t.directory, names[i]);
        cr_assert_eq(stat(path, &st), 0, "%s", path);
        cr_expect_eq(st.st_mode & 0777, 0600, "%s is %o", path, st.st_mode & 0777u);
    }
}

Test(store, a_missing_directory_is_made_but_not_its_parents)
{
    char path[200];
    struct store *other;
    struct stat st;
    snprintf(path, sizeof path, "%s/new", t.directory);
    struct store_config config = {.directory = path};
    expect_ok(store_open(&other, &config, &t.info), &t.info);
    store_close(other);
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/no/such", t.directory);
    expect_err(store_open(&other, &config, &t.info), ERR_IO);
}

Test(store, a_stop_is_marked_clean_only_when_it_was)
{
    const char *sql = "SELECT value FROM meta WHERE key = 'clean_stop'";
    cr_expect_eq(store_test_sql(&t, "barkerd.db", sql), 0);
    store_close(t.store);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", sql), 1);
    store_test_open(&t);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", sql), 0);
}

static void expect_refused(enum err want)
{
    struct store_config config = {.directory = t.directory};
    expect_err(store_open(&t.store, &config, &t.info), want);
    cr_expect_null(t.store);
}

Test(store, a_newer_schema_is_refused)
{
    store_close(t.store);
    store_test_sql(&t, "barkerd.db", "PRAGMA user_version = 4711");
    expect_refused(ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(t.info.message, "4711"), "%s", t.info.message);
}

Test(store, the_database_of_another_program_is_refused)
{
    char path[200];
    store_close(t.store);
    snprintf(path, sizeof path, "%s/barkerd.db", t.directory);
    cr_assert_eq(unlink(path), 0);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    store_test_sql(&t, "barkerd.db", "CREATE TABLE contacts (name TEXT)");
    expect_refused(ERR_CONFLICT);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "SELECT count(*) FROM contacts"), 0);
}

Test(store, a_damaged_catalogue_is_refused_and_the_last_backup_named)
{
    char backup[200];
    add_jobs(200);
    snprintf(backup, sizeof backup, "%s/saved", t.directory);
    expect_ok(store_backup_directory(t.directory, backup, NULL, NULL, &t.info), &t.info);
    store_close(t.store);
    static const struct {
        off_t at;
        size_t bytes;
    } damages[] = {{40960, 40960}, {4096, 4096}, {0, 100}};
    for (size_t i = 0; i < COUNT(damages); i++) {
        overwrite("barkerd.db", damages[i].at, damages[i].bytes);
        expect_refused(ERR_CORRUPT);
        cr_expect_not_null(strstr(t.info.message, "saved of 2"), "%s", t.info.message);
    }
}

Test(store, only_local_file_systems_are_fit)
{
    static const struct {
        uint64_t type;
        bool fit;
    } cases[] = {{0xef53, true},
                 {0x58465342, true},
                 {0x9123683e, true},
                 {0x01021994, true},
                 {0x794c7630, true},
                 {0x65735546, true},
                 {0x6969, false},
                 {0xff534d42, false},
                 {0xfe534d42, false},
                 {0x517b, false},
                 {0x01021997, false},
                 {0x00c36400, false},
                 {0xffffffffff534d42, false}};
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_expect_eq(db_unfit_file_system(cases[i].type) == NULL, cases[i].fit, "%llx",
                     (unsigned long long)cases[i].type);
}

/* ---- users and tokens ---- */

struct user_list {
    struct user_row users[8];
    size_t count, stop_at;
};

static bool keep_user(void *ctx, const struct user_row *user)
{
    struct user_list *list = ctx;
    list->users[list->count++] = *user;
    return list->count != list->stop_at;
}

static struct user_list users(size_t stop_at)
{
    struct user_list list = {.stop_at = stop_at};
    expect_ok(store_users(t.store, NULL, keep_user, &list, &t.info), &t.info);
    return list;
}

Test(store, putting_a_user_again_changes_role_and_quotas_only)
{
    put_user("ben", ROLE_USER, "{}");
    put_user("ana", ROLE_ADMIN, "{\"jobs\":5}");
    store_usage_note(t.store, "ben", 77.25, 99);
    struct user_row again = {
        .name = "ben", .role = ROLE_VIEWER, .created_ms = 5678, .quotas = "{\"bytes\":7}"};
    expect_ok(store_user_put(t.store, &again, &t.info), &t.info);
    store_test_reopen(&t);
    struct user_list list = users(0);
    cr_assert_eq(list.count, 2);
    cr_expect_str_eq(list.users[0].name, "ana");
    cr_expect_eq(list.users[0].role, ROLE_ADMIN);
    cr_expect_str_eq(list.users[0].quotas, "{\"jobs\":5}");
    cr_expect_eq(list.users[1].role, ROLE_VIEWER);
    cr_expect_eq(list.users[1].created_ms, 1234);
    cr_expect_str_eq(list.users[1].quotas, "{\"bytes\":7}");
    cr_expect_eq(list.users[1].usage, 77.25);
    cr_expect_eq(list.users[1].usage_ms, 99);
    cr_expect_eq(users(1).count, 1);
}

Test(store, a_user_who_owns_something_cannot_be_deleted)
{
    put_user("ana", ROLE_USER, "{}");
    put_user("ben", ROLE_USER, "{}");
    struct job_row row = store_test_row(1, "ana");
    store_test_add(&t, &row);
    struct reference_row ref = {.name = "r", .owner = "ben", .document = (char *)"{}"};
    expect_ok(store_reference_put(t.store, &ref, &t.info), &t.info);
    expect_err(store_user_delete(t.store, "ana", false, &t.info), ERR_CONFLICT);
    expect_err(store_user_delete(t.store, "ben", false, &t.info), ERR_CONFLICT);
    expect_err(store_user_delete(t.store, "eve", false, &t.info), ERR_NOT_FOUND);
    expect_ok(store_job_purge(t.store, row.id, 0, &t.info), &t.info);
    expect_ok(store_user_delete(t.store, "ana", false, &t.info), &t.info);
    cr_expect_eq(users(0).count, 1);
}

struct token_list {
    struct token_row tokens[8];
    size_t count;
};

static bool keep_token(void *ctx, const struct token_row *token)
{
    struct token_list *list = ctx;
    list->tokens[list->count++] = *token;
    return true;
}

static struct token_list tokens(void)
{
    struct token_list list = {0};
    expect_ok(store_tokens(t.store, NULL, keep_token, &list, &t.info), &t.info);
    return list;
}

static enum err add_token(const char *id, const char *user, uint64_t created_ms)
{
    struct token_row token = {.label = "laptop", .created_ms = created_ms, .expires_ms = 777};
    snprintf(token.id, sizeof token.id, "%s", id);
    snprintf(token.user, sizeof token.user, "%s", user);
    for (size_t i = 0; i < sizeof token.hash; i++)
        token.hash[i] = (unsigned char)(i * 7);
    return store_token_add(t.store, &token, &t.info);
}

Test(store, tokens_are_kept_revoked_once_and_go_with_their_user)
{
    put_user("ana", ROLE_USER, "{}");
    expect_ok(add_token("aaaaaaaa", "ana", 5), &t.info);
    expect_ok(add_token("bbbbbbbb", "ana", 4), &t.info);
    expect_err(add_token("aaaaaaaa", "ana", 6), ERR_CONFLICT);
    expect_err(add_token("cccccccc", "eve", 6), ERR_NOT_FOUND);
    expect_ok(store_token_revoke(t.store, "aaaaaaaa", 50, &t.info), &t.info);
    expect_ok(store_token_revoke(t.store, "aaaaaaaa", 60, &t.info), &t.info);
    expect_err(store_token_revoke(t.store, "dddddddd", 60, &t.info), ERR_NOT_FOUND);
    store_token_used(t.store, "bbbbbbbb", 70);
    store_token_used(t.store, "bbbbbbbb", 71);
    store_test_reopen(&t);
    struct token_list list = tokens();
    cr_assert_eq(list.count, 2);
    cr_expect_str_eq(list.tokens[0].id, "bbbbbbbb");
    cr_expect_eq(list.tokens[0].used_ms, 71);
    cr_expect_eq(list.tokens[0].revoked_ms, 0);
    cr_expect_eq(list.tokens[1].revoked_ms, 50);
    cr_expect_eq(list.tokens[1].expires_ms, 777);
    cr_expect_eq(list.tokens[1].hash[31], 31 * 7);
    cr_expect_str_eq(list.tokens[1].label, "laptop");
    expect_ok(store_user_delete(t.store, "ana", false, &t.info), &t.info);
    cr_expect_eq(tokens().count, 0);
}

Test(store, notes_go_with_the_next_commit)
{
    put_user("ana", ROLE_USER, "{}");
    store_usage_note(t.store, "ana", 1.5, 10);
    store_usage_note(t.store, "ana", 2.5, 11);
    store_usage_note(t.store, "nobody", 3.5, 12);
    cr_expect_eq(users(0).users[0].usage, 0);
    put_user("ben", ROLE_USER, "{}");
    cr_expect_eq(users(0).users[0].usage, 2.5);
    cr_expect_eq(users(0).users[0].usage_ms, 11);
}
