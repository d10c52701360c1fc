/* The catalogue: what was acknowledged is there, and nothing else. */
#include "tests/support/store.h"

#include "server/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static struct store_test t;

static void setup(void)
{
    store_test_init(&t);
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(store, .init = setup, .fini = teardown);

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

static void add_jobs(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct job_row row = store_test_row(i, "ana");
        store_test_add(&t, &row);
    }
}

static void overwrite(const char *name, off_t at, size_t bytes)
{
    char path[200];
    char *junk = malloc(bytes);
    memset(junk, 0xa5, bytes);
    snprintf(path, sizeof path, "%s/%s", t.directory, name);
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, junk, bytes, at), (ssize_t)bytes);
    close(fd);
    free(junk);
}

Test(store, a_damaged_catalogue_is_refused_and_the_last_backup_named)
{
    char backup[200];
    add_jobs(200);
    snprintf(backup, sizeof backup, "%s/saved", t.directory);
    expect_ok(store_backup_directory(t.directory, backup, &t.info), &t.info);
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
    expect_ok(store_users(t.store, keep_user, &list, &t.info), &t.info);
    return list;
}

static void put_user(const char *name, enum role role, const char *quotas)
{
    struct user_row user = {.role = role, .created_ms = 1234};
    snprintf(user.name, sizeof user.name, "%s", name);
    snprintf(user.quotas, sizeof user.quotas, "%s", quotas);
    expect_ok(store_user_put(t.store, &user, &t.info), &t.info);
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
    expect_err(store_user_delete(t.store, "ana", &t.info), ERR_CONFLICT);
    expect_err(store_user_delete(t.store, "ben", &t.info), ERR_CONFLICT);
    expect_err(store_user_delete(t.store, "eve", &t.info), ERR_NOT_FOUND);
    expect_ok(store_job_purge(t.store, row.id, &t.info), &t.info);
    expect_ok(store_user_delete(t.store, "ana", &t.info), &t.info);
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
    expect_ok(store_tokens(t.store, keep_token, &list, &t.info), &t.info);
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
    expect_ok(store_user_delete(t.store, "ana", &t.info), &t.info);
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

/* ---- jobs ---- */

static void expect_same(const char *what, const char *got, const char *want)
{
    if (want == NULL)
        cr_expect_null(got, "%s is \"%s\"", what, got);
    else
        cr_expect(got != NULL && strcmp(got, want) == 0, "%s is \"%s\", not \"%s\"", what,
                  got != NULL ? got : "NULL", want);
}

static void expect_row(const struct job_row *got, const struct job_row *want)
{
    expect_same("id", got->id, want->id);
    expect_same("owner", got->owner, want->owner);
    cr_expect_eq(got->state, want->state);
    expect_same("reason", got->reason, want->reason);
    expect_same("verdict", got->verdict, want->verdict);
    cr_expect_eq(got->mixing, want->mixing);
    cr_expect_eq(got->bias, want->bias);
    cr_expect_eq(got->created_ms, want->created_ms);
    cr_expect_eq(got->started_ms, want->started_ms);
    cr_expect_eq(got->ended_ms, want->ended_ms);
    cr_expect_eq(got->deleted_ms, want->deleted_ms);
    expect_same("name", got->name, want->name);
    expect_same("note", got->note, want->note);
    expect_same("tags", got->tags, want->tags);
    expect_same("request", got->request, want->request);
    expect_same("model", got->model, want->model);
    expect_same("sampler", got->sampler, want->sampler);
    cr_expect_eq(got->priority, want->priority);
    cr_expect_eq(got->lab, want->lab);
    expect_same("isa", got->isa, want->isa);
    expect_same("precision", got->precision, want->precision);
    expect_same("progress", got->progress, want->progress);
    expect_same("summary", got->summary, want->summary);
    expect_same("data_sha256", got->data_sha256, want->data_sha256);
    cr_expect_eq(got->cpu_seconds, want->cpu_seconds);
    cr_expect_eq(got->stored_bytes, want->stored_bytes);
}

static void expect_stored(const struct job_row *want)
{
    struct job_row row;
    expect_ok(store_job_get(t.store, want->id, &row, &t.info), &t.info);
    expect_row(&row, want);
    job_row_release(&row);
}

static struct job_row full_row(void)
{
    struct job_row row = store_test_row(3, "ana");
    row.state = JOB_running;
    row.verdict = (char *)"mixed well";
    row.mixing = MIXING_LEVEL_good;
    row.bias = BIAS_LEVEL_mild;
    row.started_ms = 11;
    row.ended_ms = 12;
    row.note = (char *)"\"quoted\"; DROP TABLE job; -- \xc3\xa4";
    row.priority = -3;
    row.lab = true;
    row.isa = (char *)"avx512";
    row.precision = (char *)"single";
    row.progress = (char *)"{\"iteration\":5}";
    row.summary = (char *)"{\"max_rhat\":1.01}";
    row.cpu_seconds = 12.625;
    row.stored_bytes = 1ull << 40;
    return row;
}

Test(store, a_job_comes_back_as_it_was_created)
{
    struct job_row full = full_row(), bare = store_test_row(4, "ben"), row;
    store_test_add(&t, &full);
    store_test_add(&t, &bare);
    cr_expect_eq(full.revision, 1);
    store_test_reopen(&t);
    expect_stored(&full);
    expect_stored(&bare);
    expect_err(store_job_get(t.store, "01hf7yat00m5x3qz", &row, &t.info), ERR_NOT_FOUND);
    expect_err(store_job_get(t.store, "' OR 1 = 1 --", &row, &t.info), ERR_NOT_FOUND);
}

Test(store, the_same_id_twice_is_refused)
{
    struct job_row first = store_test_row(3, "ana"), second = store_test_row(3, "ben");
    bool existing;
    store_test_add(&t, &first);
    expect_err(store_job_create(t.store, &second, NULL, NULL, &existing, &t.info), ERR_CONFLICT);
    expect_stored(&first);
}

Test(store, an_update_changes_its_fields_and_no_others)
{
    static const unsigned fields[] = {JOB_SET_STATE,
                                      JOB_SET_TEXTS,
                                      JOB_SET_REQUEST,
                                      JOB_SET_RESULTS,
                                      JOB_SET_DELETED,
                                      JOB_SET_STATE | JOB_SET_RESULTS,
                                      0};
    for (size_t i = 0; i < COUNT(fields); i++) {
        struct job_row row = store_test_row(i, "ana"), changed = full_row(), want = row, got;
        store_test_add(&t, &row);
        memcpy(changed.id, row.id, sizeof row.id);
        changed.name = (char *)"renamed";
        changed.request = (char *)"{\"iterations\":400000}";
        changed.deleted_ms = 99;
        expect_ok(store_job_update(t.store, &changed, fields[i], NULL, &t.info), &t.info);
        cr_expect_eq(changed.revision, 2);
        if (fields[i] & JOB_SET_STATE) {
            want.state = changed.state;
            want.reason = changed.reason;
            want.started_ms = changed.started_ms;
            want.ended_ms = changed.ended_ms;
        }
        if (fields[i] & JOB_SET_TEXTS) {
            want.name = changed.name;
            want.note = changed.note;
            want.tags = changed.tags;
            want.priority = changed.priority;
            want.lab = changed.lab;
        }
        if (fields[i] & JOB_SET_REQUEST)
            want.request = changed.request;
        if (fields[i] & JOB_SET_RESULTS) {
            want.progress = changed.progress;
            want.summary = changed.summary;
            want.verdict = changed.verdict;
            want.mixing = changed.mixing;
            want.bias = changed.bias;
            want.isa = changed.isa;
            want.precision = changed.precision;
            want.cpu_seconds = changed.cpu_seconds;
            want.stored_bytes = changed.stored_bytes;
        }
        if (fields[i] & JOB_SET_DELETED) {
            expect_err(store_job_get(t.store, row.id, &got, &t.info), ERR_NOT_FOUND);
            changed.deleted_ms = 0;
            expect_ok(store_job_update(t.store, &changed, JOB_SET_DELETED, NULL, &t.info), &t.info);
            cr_expect_eq(changed.revision, 3);
        }
        expect_stored(&want);
    }
    struct job_row none = full_row();
    store_test_id(999, none.id);
    expect_err(store_job_update(t.store, &none, JOB_SET_STATE, "log", &t.info), ERR_NOT_FOUND);
}

Test(store, an_idempotency_key_gives_the_first_job_again_or_refuses_another_body)
{
    unsigned char one[32] = {1}, two[32] = {2};
    bool existing;
    struct job_row first = store_test_row(1, "ana"), again = store_test_row(2, "ana"),
                   other = store_test_row(3, "ben"), got;
    expect_ok(store_job_create(t.store, &first, "k", one, &existing, &t.info), &t.info);
    cr_expect(!existing);
    expect_ok(store_job_create(t.store, &again, "k", one, &existing, &t.info), &t.info);
    cr_expect(existing);
    cr_expect_str_eq(again.id, first.id);
    struct job_row changed = store_test_row(2, "ana");
    expect_err(store_job_create(t.store, &changed, "k", two, &existing, &t.info), ERR_INVALID);
    cr_expect(!existing);
    cr_expect_not_null(strstr(t.info.message, first.id), "%s", t.info.message);
    expect_err(store_job_get(t.store, changed.id, &got, &t.info), ERR_NOT_FOUND);
    expect_ok(store_job_create(t.store, &other, "k", two, &existing, &t.info), &t.info);
    cr_expect(!existing, "keys are per owner");
    store_test_reopen(&t);
    again = store_test_row(2, "ana");
    expect_ok(store_job_create(t.store, &again, "k", one, &existing, &t.info), &t.info);
    cr_expect_str_eq(again.id, first.id);
    expect_ok(store_job_create(t.store, &changed, "K", two, &existing, &t.info), &t.info);
    cr_expect(!existing);
}

/* ---- lists ---- */

struct id_list {
    size_t numbers[400], count, stop_at;
};

static bool keep_id(void *ctx, const struct job_row *row)
{
    struct id_list *list = ctx;
    list->numbers[list->count++] = (size_t)(row->created_ms - 1700000000000);
    return list->count != list->stop_at;
}

static struct id_list list_jobs(const struct job_filter *filter)
{
    struct id_list list = {0};
    expect_ok(store_jobs(t.store, filter, keep_id, &list, &t.info), &t.info);
    return list;
}

static void expect_jobs(const char *what, const struct job_filter *filter, const char *want)
{
    struct id_list list = list_jobs(filter);
    char got[2000] = "";
    for (size_t i = 0; i < list.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%zu", i > 0 ? " " : "",
                 list.numbers[i]);
    cr_expect_str_eq(got, want, "%s: %s instead of %s", what, got, want);
}

static void add_listed(size_t n, const char *owner, enum job_state state, const char *model,
                       const char *name, const char *tags, bool lab)
{
    struct job_row row = store_test_row(n, owner);
    row.state = state;
    row.model = (char *)model;
    row.name = (char *)name;
    row.tags = (char *)tags;
    row.lab = lab;
    row.sampler = (char *)(n % 2 ? "sgld" : "sgbd");
    row.stored_bytes = 100 + n;
    store_test_add(&t, &row);
    if (n == 6) {
        row.deleted_ms = 5;
        expect_ok(store_job_update(t.store, &row, JOB_SET_DELETED, NULL, &t.info), &t.info);
    }
}

static void add_sample(void)
{
    add_listed(1, "ana", JOB_queued, "logistic", "Sepsis, corrected", "[\"paper\",\"a\"]", false);
    add_listed(2, "ana", JOB_running, "ica", "eeg", "[]", true);
    add_listed(3, "ben", JOB_succeeded, "logistic", "sepsis vanilla", "[\"paper\"]", true);
    add_listed(4, "ben", JOB_failed, "logistic", "100% \\ _", "[\"pap\"]", false);
    add_listed(5, "ana", JOB_cancelled, "skew_normal", "", "[\"b\"]", false);
    add_listed(6, "ana", JOB_paused, "logistic", "trashed sepsis", "[\"paper\"]", true);
    add_listed(7, "eve", JOB_cancelling, "logistic", "x", "not json", false);
}

Test(store, filters_choose_what_they_say)
{
    char before[JOB_ID_SIZE];
    add_sample();
    store_test_id(4, before);
    expect_jobs("all", &(struct job_filter){0}, "7 5 4 3 2 1");
    expect_jobs("limit", &(struct job_filter){.limit = 2}, "7 5");
    expect_jobs("before", &(struct job_filter){.before = before}, "3 2 1");
    expect_jobs("owner", &(struct job_filter){.owner = "ana"}, "5 2 1");
    expect_jobs("owner, limit", &(struct job_filter){.owner = "ana", .limit = 1}, "5");
    expect_jobs("viewer", &(struct job_filter){.viewer = "ben"}, "4 3 2");
    expect_jobs("viewer and owner", &(struct job_filter){.viewer = "ben", .owner = "ana"}, "2");
    expect_jobs("viewer alone", &(struct job_filter){.viewer = "zoe"}, "3 2");
    expect_jobs("state", &(struct job_filter){.state = "failed"}, "4");
    expect_jobs("no such state", &(struct job_filter){.state = "happy"}, "");
    expect_jobs("owner and state", &(struct job_filter){.owner = "ana", .state = "queued"}, "1");
    expect_jobs("model", &(struct job_filter){.model = "logistic"}, "7 4 3 1");
    expect_jobs("sampler", &(struct job_filter){.sampler = "sgbd"}, "4 2");
    expect_jobs("tag", &(struct job_filter){.tag = "paper"}, "3 1");
    expect_jobs("part of a tag", &(struct job_filter){.tag = "pape"}, "");
    expect_jobs("q", &(struct job_filter){.q = "SEPSIS"}, "3 1");
    expect_jobs("q %", &(struct job_filter){.q = "%"}, "4");
    expect_jobs("q _", &(struct job_filter){.q = "_"}, "4");
    expect_jobs("q id", &(struct job_filter){.q = before}, "4");
    expect_jobs("q '", &(struct job_filter){.q = "' OR 1 --"}, "");
    expect_jobs("active", &(struct job_filter){.active = true}, "7 2 1");
    expect_jobs("active, owner", &(struct job_filter){.active = true, .owner = "ana"}, "2 1");
    expect_jobs("trash", &(struct job_filter){.deleted = true}, "6");
    expect_jobs("trash, active", &(struct job_filter){.deleted = true, .active = true}, "6");
    expect_jobs("trash, owner", &(struct job_filter){.deleted = true, .owner = "ben"}, "");
    expect_jobs("several",
                &(struct job_filter){.viewer = "ben",
                                     .model = "logistic",
                                     .tag = "paper",
                                     .q = "sepsis",
                                     .sampler = "sgld",
                                     .state = "succeeded"},
                "3");
}

static struct owner_totals totals_of(const char *owner)
{
    struct owner_totals totals;
    expect_ok(store_owner_totals(t.store, owner, &totals, &t.info), &t.info);
    return totals;
}

Test(store, active_means_not_terminal)
{
    for (unsigned s = JOB_queued; s <= JOB_cancelled; s++) {
        struct job_row row = store_test_row(s, "ana");
        row.state = (enum job_state)s;
        uint64_t before = totals_of("ana").active_jobs;
        store_test_add(&t, &row);
        cr_expect_eq(totals_of("ana").active_jobs - before, !job_state_terminal(row.state));
    }
    struct id_list list = list_jobs(&(struct job_filter){.active = true});
    cr_expect_eq(list.count, 4);
    for (size_t i = 0; i < list.count; i++)
        cr_expect(!job_state_terminal((enum job_state)list.numbers[i]));
}

Test(store, totals_count_what_is_not_deleted)
{
    add_sample();
    struct owner_totals ana = totals_of("ana"), nobody = totals_of("nobody");
    cr_expect_eq(ana.active_jobs, 2);
    cr_expect_eq(ana.stored_bytes, 101 + 102 + 105);
    cr_expect_eq(nobody.active_jobs + nobody.stored_bytes, 0);
}

/* ---- quotas ---- */

static void reopen_with_quotas(uint64_t active_jobs, uint64_t stored_bytes)
{
    struct store_config config = {.directory = t.directory,
                                  .user_active_jobs = active_jobs,
                                  .user_stored_bytes = stored_bytes};
    store_close(t.store);
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
}

Test(store, quotas_are_the_users_own_or_the_usual_ones)
{
    static const struct {
        const char *quotas;
        uint64_t active_jobs, stored_bytes;
    } cases[] = {{"{}", 7, 1000},
                 {"{\"active_jobs\":3}", 3, 1000},
                 {"{\"stored_mb\":5}", 7, 5 << 20},
                 {"{\"active_jobs\":9,\"stored_mb\":1}", 9, 1 << 20},
                 {"{\"active_jobs\":null,\"other\":4}", 7, 1000}};
    reopen_with_quotas(7, 1000);
    for (size_t i = 0; i < COUNT(cases); i++) {
        put_user("ana", ROLE_USER, cases[i].quotas);
        struct owner_totals totals = totals_of("ana");
        cr_expect_eq(totals.most_active_jobs, cases[i].active_jobs, "%s", cases[i].quotas);
        cr_expect_eq(totals.most_stored_bytes, cases[i].stored_bytes, "%s", cases[i].quotas);
    }
    cr_expect_eq(totals_of("nobody").most_active_jobs, 7);
    store_test_reopen(&t);
    cr_expect_eq(totals_of("nobody").most_active_jobs, UINT64_MAX);
    cr_expect_eq(totals_of("nobody").most_stored_bytes, UINT64_MAX);
}

static enum err create_job(unsigned number, const char *owner, const char *key)
{
    static const unsigned char hash[32];
    struct job_row row = store_test_row(number, owner);
    bool existing;
    return store_job_create(t.store, &row, key, hash, &existing, &t.info);
}

Test(store, unfinished_jobs_are_never_more_than_allowed)
{
    reopen_with_quotas(2, 0);
    put_user("ben", ROLE_USER, "{\"active_jobs\":1}");
    expect_ok(create_job(1, "ana", "key"), &t.info);
    expect_ok(create_job(2, "ana", NULL), &t.info);
    expect_err(create_job(3, "ana", NULL), ERR_QUOTA);
    cr_expect_str_eq(t.info.message,
                     "ana has 2 unfinished jobs and may have 2: 1 more cannot be taken");
    expect_ok(create_job(4, "ana", "key"), &t.info); /* the first one again */
    expect_ok(create_job(5, "ben", NULL), &t.info);
    expect_err(create_job(6, "ben", NULL), ERR_QUOTA);
    cr_expect_eq(totals_of("ana").active_jobs, 2);
}

Test(store, a_job_that_goes_on_counts_as_unfinished_again)
{
    reopen_with_quotas(1, 0);
    struct job_row ended = store_test_row(1, "ana");
    ended.state = JOB_succeeded;
    ended.reason = "";
    expect_ok(create_job(1, "ana", NULL), &t.info);
    expect_ok(store_job_update(t.store, &ended, JOB_SET_STATE, NULL, &t.info), &t.info);
    expect_ok(create_job(2, "ana", NULL), &t.info);
    ended.state = JOB_queued;
    expect_err(store_job_update(t.store, &ended, JOB_SET_STATE, "extended", &t.info), ERR_QUOTA);
    struct job_row other = store_test_row(2, "ana");
    other.state = JOB_running; /* from queued: nothing more */
    other.reason = "";
    expect_ok(store_job_update(t.store, &other, JOB_SET_STATE, NULL, &t.info), &t.info);
    other.state = JOB_cancelled;
    expect_ok(store_job_update(t.store, &other, JOB_SET_STATE, NULL, &t.info), &t.info);
    expect_ok(store_job_update(t.store, &ended, JOB_SET_STATE, "extended", &t.info), &t.info);
}

Test(store, pages_by_cursor_show_every_job_once)
{
    enum { JOBS = 333 };
    char before[JOB_ID_SIZE];
    add_jobs(JOBS);
    struct id_list all = list_jobs(&(struct job_filter){0});
    cr_assert_eq(all.count, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        cr_expect_eq(all.numbers[i], JOBS - 1 - i);
    static const size_t limits[] = {1, 7, 63, 64, 65, 128, 500};
    for (size_t l = 0; l < COUNT(limits); l++) {
        struct job_filter filter = {.limit = limits[l], .owner = l % 2 ? "ana" : NULL};
        size_t seen = 0;
        for (size_t got = limits[l]; got == limits[l];) {
            struct id_list page = list_jobs(&filter);
            got = page.count;
            for (size_t i = 0; i < got; i++)
                cr_expect_eq(page.numbers[i], JOBS - 1 - seen - i);
            seen += got;
            store_test_id(JOBS - seen, before);
            filter.before = before;
        }
        cr_expect_eq(seen, JOBS, "limit %zu: %zu", limits[l], seen);
    }
    struct id_list some = {.stop_at = 70};
    expect_ok(store_jobs(t.store, &(struct job_filter){0}, keep_id, &some, &t.info), &t.info);
    cr_expect_eq(some.count, 70);
}

Test(store, lists_walk_an_index)
{
    add_sample();
    char plan[2000] = "", path[200];
    sqlite3 *db;
    sqlite3_stmt *stmt;
    snprintf(path, sizeof path, "%s/barkerd.db", t.directory);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    static const char *const queries[] = {
        "EXPLAIN QUERY PLAN SELECT * FROM job WHERE owner = 'ana' AND id < '~' ORDER BY id DESC",
        "EXPLAIN QUERY PLAN SELECT sum(stored_bytes) FROM job WHERE owner = 'a' AND deleted_ms = 0",
        "EXPLAIN QUERY PLAN SELECT * FROM job WHERE state IN ('queued', 'running', 'paused', "
        "'cancelling') AND id < '~' ORDER BY id DESC",
    };
    static const char *const indexes[] = {"job_owner", "COVERING INDEX job_owner", "job_state"};
    for (size_t i = 0; i < COUNT(queries); i++) {
        plan[0] = '\0';
        cr_assert_eq(sqlite3_prepare_v2(db, queries[i], -1, &stmt, NULL), SQLITE_OK);
        while (sqlite3_step(stmt) == SQLITE_ROW)
            strncat(plan, (const char *)sqlite3_column_text(stmt, 3), 500);
        sqlite3_finalize(stmt);
        cr_expect_not_null(strstr(plan, indexes[i]), "%s: %s", queries[i], plan);
        cr_expect(i == 2 || strstr(plan, "TEMP B-TREE") == NULL, "%s: %s", queries[i], plan);
    }
    sqlite3_close(db);
}

/* ---- logs ---- */

struct log_lines {
    uint64_t seqs[400];
    char first[100], last[100];
    size_t count, stop_at;
};

static bool keep_line(void *ctx, uint64_t seq, uint64_t at_ms, const char *text)
{
    struct log_lines *log = ctx;
    (void)at_ms;
    snprintf(log->count == 0 ? log->first : log->last, 100, "%s", text);
    log->seqs[log->count++] = seq;
    return log->count != log->stop_at;
}

Test(store, a_log_is_told_in_order_from_where_one_left_off)
{
    struct job_row row = store_test_row(1, "ana");
    struct log_lines log = {0};
    store_test_add(&t, &row);
    for (size_t i = 0; i < 300; i++) {
        char text[40];
        snprintf(text, sizeof text, "line %zu", i);
        if (i % 3 == 0)
            expect_ok(store_log_add(t.store, row.id, text, &t.info), &t.info);
        else
            expect_ok(store_job_update(t.store, &row, JOB_SET_STATE, text, &t.info), &t.info);
    }
    expect_ok(store_log(t.store, row.id, 0, SIZE_MAX, keep_line, &log, &t.info), &t.info);
    cr_assert_eq(log.count, 301);
    for (size_t i = 0; i < log.count; i++)
        cr_expect_eq(log.seqs[i], i + 1);
    cr_expect_str_eq(log.first, "submitted by ana");
    cr_expect_str_eq(log.last, "line 299");
    log = (struct log_lines){0};
    expect_ok(store_log(t.store, row.id, 295, 4, keep_line, &log, &t.info), &t.info);
    cr_expect_eq(log.count, 4);
    cr_expect_eq(log.seqs[0], 296);
    log = (struct log_lines){.stop_at = 130};
    expect_ok(store_log(t.store, row.id, 0, 200, keep_line, &log, &t.info), &t.info);
    cr_expect_eq(log.count, 130);
    expect_err(store_log_add(t.store, "01hf7yat00m5x3qz", "x", &t.info), ERR_NOT_FOUND);
    expect_ok(store_job_purge(t.store, row.id, &t.info), &t.info);
    log = (struct log_lines){0};
    expect_ok(store_log(t.store, row.id, 0, 10, keep_line, &log, &t.info), &t.info);
    cr_expect_eq(log.count, 0);
}

/* ---- references ---- */

struct reference_list {
    char text[4000];
    size_t count;
};

static bool keep_reference(void *ctx, const struct reference_row *ref)
{
    struct reference_list *list = ctx;
    list->count++;
    snprintf(list->text + strlen(list->text), sizeof list->text - strlen(list->text), "%s/%s ",
             ref->owner, ref->name);
    return true;
}

static void put_reference(const char *owner, const char *name, bool lab, const char *document)
{
    struct reference_row ref = {.lab = lab, .created_ms = 5, .document = (char *)document};
    snprintf(ref.owner, sizeof ref.owner, "%s", owner);
    snprintf(ref.name, sizeof ref.name, "%s", name);
    expect_ok(store_reference_put(t.store, &ref, &t.info), &t.info);
}

static void expect_references(const char *viewer, const char *want)
{
    struct reference_list list = {0};
    expect_ok(store_references(t.store, viewer, keep_reference, &list, &t.info), &t.info);
    cr_expect_str_eq(list.text, want, "%s sees %s", viewer, list.text);
}

static void expect_document(const char *viewer, const char *name, const char *want)
{
    struct reference_row ref;
    enum err code = store_reference_get(t.store, viewer, name, &ref, &t.info);
    cr_assert_eq(code, want != NULL ? ERR_OK : ERR_NOT_FOUND, "%s", t.info.message);
    expect_same("document", ref.document, want);
    free(ref.document);
}

Test(store, references_belong_to_their_owner_and_to_the_lab_when_shared)
{
    put_reference("ana", "wells", false, "{\"a\":1}");
    put_reference("ben", "wells", true, "{\"b\":1}");
    put_reference("ben", "eeg", false, "{\"c\":1}");
    expect_references("ana", "ana/wells ben/wells ");
    expect_references("ben", "ben/eeg ben/wells ");
    expect_references("eve", "ben/wells ");
    expect_references(NULL, "ben/eeg ana/wells ben/wells ");
    expect_document("ana", "wells", "{\"a\":1}");
    expect_document("eve", "wells", "{\"b\":1}");
    expect_document("eve", "eeg", NULL);
    put_reference("ben", "wells", false, "{\"b\":2}");
    expect_document("eve", "wells", NULL);
    expect_document("ben", "wells", "{\"b\":2}");
    expect_err(store_reference_delete(t.store, "ana", "eeg", &t.info), ERR_NOT_FOUND);
    expect_ok(store_reference_delete(t.store, "ana", "wells", &t.info), &t.info);
    expect_document("ana", "wells", NULL);
}

Test(store, long_lists_of_references_are_complete)
{
    for (size_t i = 0; i < 200; i++) {
        char name[20];
        snprintf(name, sizeof name, "r%zu", i);
        put_reference("ana", name, false, "{}");
    }
    struct reference_list list = {0};
    expect_ok(store_references(t.store, "ana", keep_reference, &list, &t.info), &t.info);
    cr_expect_eq(list.count, 200);
}

/* ---- group commit ---- */

/* Holds the writer thread up until told otherwise, so that what is queued meanwhile is one group.
 */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closed, reached;
};

static enum err wait_at_gate(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct gate *gate = ctx;
    (void)store;
    (void)db;
    (void)info;
    pthread_mutex_lock(&gate->lock);
    gate->reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (gate->closed)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return ERR_OK;
}

static struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, true, false};

static void *hold_writer(void *arg)
{
    struct write write = {.kind = WRITE_ALONE, .run = wait_at_gate, .ctx = &gate};
    (void)arg;
    store_write(t.store, &write, NULL);
    return NULL;
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.closed = false;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

enum { CALLERS = 24 };

struct caller {
    size_t n;
    enum err code;
    struct err_info info;
    struct job_row row;
};

/* Changes something, and then thinks better of it. */
static enum err half_done(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    struct query q;
    (void)store;
    (void)ctx;
    query_open(&q, db, "INSERT INTO purge (job) VALUES ('half done')");
    enum err code = query_run(&q, info);
    return code == ERR_OK ? err_set(info, ERR_INVALID, "not after all") : code;
}

/* Every third fails, half done. */
static void *call(void *arg)
{
    struct caller *c = arg;
    bool existing;
    c->row = store_test_row(c->n, "ana");
    c->code = c->n % 3 == 2 ? store_write_catalogue(t.store, half_done, NULL, &c->info)
                            : store_job_create(t.store, &c->row, NULL, NULL, &existing, &c->info);
    return NULL;
}

/* Runs all callers in one group. */
static void call_together(struct caller *callers, void (*before)(void))
{
    pthread_t holder, threads[CALLERS];
    struct store_stats stats;
    pthread_create(&holder, NULL, hold_writer, NULL);
    pthread_mutex_lock(&gate.lock);
    while (!gate.reached)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.n = i};
        pthread_create(&threads[i], NULL, call, &callers[i]);
    }
    do {
        usleep(1000);
        store_stats(t.store, &stats);
    } while (stats.queue < CALLERS);
    if (before != NULL)
        before();
    open_gate();
    pthread_join(holder, NULL);
    for (size_t i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

Test(store, what_waits_is_one_commit_and_who_fails_fails_alone)
{
    struct caller callers[CALLERS];
    struct store_stats before, after;
    store_stats(t.store, &before);
    call_together(callers, NULL);
    store_stats(t.store, &after);
    cr_expect_eq(after.commits - before.commits, 1);
    cr_expect_eq(after.operations - before.operations, CALLERS - CALLERS / 3);
    store_test_reopen(&t);
    for (size_t i = 0; i < CALLERS; i++) {
        struct job_row row;
        bool fails = i % 3 == 2;
        expect_err(callers[i].code, fails ? ERR_INVALID : ERR_OK);
        expect_err(store_job_get(t.store, callers[i].row.id, &row, &t.info),
                   fails ? ERR_NOT_FOUND : ERR_OK);
        job_row_release(&row);
    }
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "SELECT count(*) FROM purge"), 0);
}

static void no_room(void)
{
    limit_files(4096);
}

Test(store, when_a_commit_fails_everybody_in_it_is_told)
{
    struct caller callers[CALLERS];
    struct job_row row;
    call_together(callers, no_room);
    for (size_t i = 0; i < CALLERS; i++)
        expect_err(callers[i].code, i % 3 == 2 ? ERR_INVALID : ERR_NO_SPACE);
    limit_files(RLIM_INFINITY);
    for (size_t i = 0; i < CALLERS; i++)
        expect_err(store_job_get(t.store, callers[i].row.id, &row, &t.info), ERR_NOT_FOUND);
    cr_expect(!store_broken(t.store, NULL));
    add_jobs(3);
}

static void *create_many(void *arg)
{
    for (size_t i = 0; i < 40; i++) {
        struct err_info info;
        struct job_row row = store_test_row((size_t)arg * 1000 + i, "ana");
        bool existing;
        if (store_job_create(t.store, &row, NULL, NULL, &existing, &info) != ERR_OK)
            return (void *)1;
    }
    return NULL;
}

Test(store, concurrent_writers_share_commits)
{
    pthread_t threads[16];
    struct store_stats stats;
    for (size_t i = 0; i < 16; i++)
        pthread_create(&threads[i], NULL, create_many, (void *)i);
    for (size_t i = 0; i < 16; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        cr_expect_null(failed);
    }
    store_stats(t.store, &stats);
    cr_expect_eq(stats.operations, 640);
    cr_expect_lt(stats.commits, 640);
    cr_expect_gt(stats.commit_seconds, 0);
    cr_expect_gt(stats.wal_bytes, 0);
    cr_expect_gt(stats.file_bytes, 0);
    cr_expect_gt(stats.free_bytes, 0);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "SELECT count(*) FROM job"), 640);
}

static _Atomic uint64_t told; /* revision of job 1 that has been acknowledged */
static atomic_bool all_told;

/* Returns what is wrong, or NULL. */
static void *read_again_and_again(void *arg)
{
    char id[JOB_ID_SIZE];
    uint64_t last = 0;
    store_test_id(1, id);
    while (!atomic_load(&all_told)) {
        uint64_t known = atomic_load(&told);
        struct job_row row;
        if (store_job_get(t.store, id, &row, NULL) != ERR_OK)
            return "it cannot be read";
        bool old = row.revision < known, back = row.revision < last;
        bool torn = (uint64_t)row.priority + 1 != row.revision;
        last = row.revision;
        job_row_release(&row);
        if (old || back || torn)
            return old ? "older than what was told" : back ? "older than before" : "torn";
    }
    return arg;
}

Test(store, what_was_told_is_what_is_read)
{
    pthread_t readers[4];
    struct job_row row = store_test_row(1, "ana"), read;
    bool existing;
    row.priority = 0;
    expect_ok(store_job_create(t.store, &row, NULL, NULL, &existing, &t.info), &t.info);
    expect_ok(store_job_get(t.store, row.id, &read, &t.info), &t.info);
    cr_assert_eq(read.revision, 1);
    job_row_release(&read);
    for (size_t i = 0; i < 4; i++)
        pthread_create(&readers[i], NULL, read_again_and_again, NULL);
    for (int64_t k = 1; k <= 400; k++) {
        row.priority = k;
        expect_ok(store_job_update(t.store, &row, JOB_SET_TEXTS, NULL, &t.info), &t.info);
        atomic_store(&told, row.revision);
    }
    atomic_store(&all_told, true);
    for (size_t i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(readers[i], &wrong);
        cr_expect_null(wrong, "%s", (char *)wrong);
    }
    row.deleted_ms = 1;
    expect_ok(store_job_update(t.store, &row, JOB_SET_DELETED, NULL, &t.info), &t.info);
    expect_err(store_job_get(t.store, row.id, &read, &t.info), ERR_NOT_FOUND);
}

/* ---- trouble ---- */

static void count_problem(void *ctx, const char *problem)
{
    (void)problem;
    ++*(size_t *)ctx;
}

static size_t problems(void)
{
    size_t count = 0;
    expect_ok(store_check(t.store, count_problem, &count, &t.info), &t.info);
    return count;
}

Test(store, a_full_disk_keeps_what_was_acknowledged)
{
    enum err code = ERR_OK;
    size_t stored = 0;
    char *long_text = calloc(1, 20001);
    memset(long_text, 'x', 20000);
    limit_files(2 << 20);
    for (; code == ERR_OK && stored < 5000; stored += code == ERR_OK) {
        struct job_row row = store_test_row(stored, "ana");
        bool existing;
        row.note = long_text;
        code = store_job_create(t.store, &row, NULL, NULL, &existing, &t.info);
    }
    expect_err(code, ERR_NO_SPACE);
    cr_expect_gt(stored, 0);
    struct id_list list = list_jobs(&(struct job_filter){0});
    cr_expect_eq(list.count, stored);
    limit_files(RLIM_INFINITY);
    struct job_row row = store_test_row(stored, "ana");
    store_test_add(&t, &row);
    cr_expect_eq(problems(), 0);
    store_test_reopen(&t);
    list = list_jobs(&(struct job_filter){0});
    cr_expect_eq(list.count, stored + 1);
    free(long_text);
}

Test(store, a_full_disk_releases_the_reserve)
{
    char path[200];
    struct job_row row = store_test_row(1, "ana");
    bool existing;
    store_close(t.store);
    struct store_config config = {.directory = t.directory, .min_free_bytes = 1};
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
    snprintf(path, sizeof path, "%s/reserve", t.directory);
    cr_expect_eq(access(path, F_OK), 0);
    limit_files(4096);
    expect_err(store_job_create(t.store, &row, NULL, NULL, &existing, &t.info), ERR_NO_SPACE);
    limit_files(RLIM_INFINITY);
    cr_expect_eq(access(path, F_OK), -1);
}

Test(store, after_a_failed_sync_nothing_is_acknowledged_any_more)
{
    char why[200];
    bool existing;
    struct job_row first = store_test_row(1, "ana"), second = store_test_row(2, "ana"),
                   third = store_test_row(3, "ana");
    store_test_add(&t, &first);
    cr_expect(!store_broken(t.store, why));
    syncing = SYNC_FAILS;
    expect_err(store_job_create(t.store, &second, NULL, NULL, &existing, &t.info), ERR_IO);
    syncing = SYNC_WORKS;
    cr_expect(store_broken(t.store, why));
    cr_expect_gt(strlen(why), 0);
    expect_err(store_job_create(t.store, &third, NULL, NULL, &existing, &t.info), ERR_UNAVAILABLE);
    expect_err(store_log_add(t.store, first.id, "x", &t.info), ERR_UNAVAILABLE);
    expect_err(store_job_purge(t.store, first.id, &t.info), ERR_UNAVAILABLE);
    expect_stored(&first);
    store_test_reopen(&t);
    cr_expect(!store_broken(t.store, NULL));
    expect_stored(&first);
    store_test_add(&t, &third);
    cr_expect_eq(problems(), 0);
}

Test(store, a_failed_sync_of_a_job_file_stops_everything_too)
{
    struct job_row row = store_test_row(1, "ana");
    bool existing;
    struct jobfile_meta meta = {.request = "{}", .chains = 1};
    struct jobfile_slice slice = {.chain = 1, .iteration = 5};
    expect_ok(jobfile_create(t.store, row.id, &meta, &t.info), &t.info);
    syncing = SYNC_FAILS;
    expect_err(jobfile_commit(t.store, row.id, &slice, &t.info), ERR_IO);
    syncing = SYNC_WORKS;
    expect_err(store_job_create(t.store, &row, NULL, NULL, &existing, &t.info), ERR_UNAVAILABLE);
    cr_expect(store_broken(t.store, NULL));
}

Test(store, damage_met_while_running_breaks_the_store)
{
    add_jobs(300);
    struct job_row row;
    store_test_reopen(&t); /* so that it is all in the main file and in no cache */
    struct stat st;
    char path[200], id[JOB_ID_SIZE];
    snprintf(path, sizeof path, "%s/barkerd.db", t.directory);
    cr_assert_eq(stat(path, &st), 0);
    overwrite("barkerd.db", 8192, (size_t)st.st_size - 8192);
    enum err code = ERR_OK;
    for (size_t i = 0; i < 300 && code == ERR_OK; i++) {
        store_test_id(i, id);
        code = store_job_get(t.store, id, &row, &t.info);
        if (code == ERR_OK)
            job_row_release(&row);
    }
    expect_err(code, ERR_CORRUPT);
    cr_expect(store_broken(t.store, NULL));
    bool existing;
    row = store_test_row(999, "ana");
    expect_err(store_job_create(t.store, &row, NULL, NULL, &existing, &t.info), ERR_UNAVAILABLE);
}

Test(store, a_purge_that_was_cut_short_is_finished_at_the_next_start)
{
    struct job_row row = store_test_row(0, "ana"), got;
    struct jobfile_meta meta = {.request = "{}", .chains = 1};
    char sql[200];
    store_test_add(&t, &row);
    expect_ok(jobfile_create(t.store, row.id, &meta, &t.info), &t.info);
    store_close(t.store);
    snprintf(sql, sizeof sql, "DELETE FROM job WHERE id = '%s'", row.id);
    store_test_sql(&t, "barkerd.db", sql);
    snprintf(sql, sizeof sql, "INSERT INTO purge VALUES ('%s')", row.id);
    store_test_sql(&t, "barkerd.db", sql);
    cr_expect(store_test_exists(&t, row.id, ".db"));
    store_test_open(&t);
    cr_expect(!store_test_exists(&t, row.id, ".db"));
    expect_err(store_job_get(t.store, row.id, &got, &t.info), ERR_NOT_FOUND);
    expect_err(store_job_purge(t.store, row.id, &t.info), ERR_NOT_FOUND);
}

Test(store, a_check_finds_what_is_wrong_with_a_job_file)
{
    static const char *const wrongs[] = {
        "DELETE FROM tile WHERE first = 0",
        "UPDATE tile SET data = x'00'",
        "UPDATE chain SET draws = 7",
        "INSERT INTO metric VALUES (1, 0, 0, 5, 0.5, 0.5)",
        "DELETE FROM parameter",
        "UPDATE meta SET value = 0 WHERE key = 'chains'",
        "UPDATE meta SET value = 0 WHERE key = 'thin'",
        "UPDATE chain SET draws = -1",
        "INSERT INTO state VALUES (1, x'0102')",
        "UPDATE vector SET data = x'0102'",
        "DELETE FROM chain",
    };
    double values[2] = {1.25, 2.5};
    const char *names[] = {"theta[1]"};
    struct jobfile_meta meta = {.request = "{}", .names = names, .width = 1, .d = 2, .chains = 1};
    for (size_t i = 0; i < COUNT(wrongs); i++) {
        char id[JOB_ID_SIZE], file[40];
        store_test_id(i, id);
        struct job_row row = store_test_row(i, "ana");
        store_test_add(&t, &row);
        expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
        struct jobfile_slice slice = {.chain = 1, .draws = 2, .values = values, .mean = values};
        expect_ok(jobfile_commit(t.store, id, &slice, &t.info), &t.info);
        cr_expect_eq(problems(), 0);
        store_close(t.store);
        snprintf(file, sizeof file, "draws/%s.db", id);
        store_test_sql(&t, file, wrongs[i]);
        store_test_open(&t);
        cr_expect_eq(problems(), 1, "%s", wrongs[i]);
        expect_ok(store_job_purge(t.store, id, &t.info), &t.info);
    }
}

/* ---- backup ---- */

static void make_files(size_t count)
{
    const char *names[] = {"theta[1]"};
    struct jobfile_meta meta = {.request = "{}", .names = names, .width = 1, .d = 1, .chains = 1};
    for (size_t i = 0; i < count; i++) {
        char id[JOB_ID_SIZE];
        double values[100];
        for (size_t k = 0; k < 100; k++)
            values[k] = (double)(i * 100 + k);
        store_test_id(i, id);
        expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
        struct jobfile_slice slice = {.chain = 1, .draws = 100, .values = values};
        expect_ok(jobfile_commit(t.store, id, &slice, &t.info), &t.info);
    }
}

static void expect_restored(const char *path, size_t jobs)
{
    struct store *copy;
    struct store_config config = {.directory = path};
    size_t found = 0;
    expect_ok(store_open(&copy, &config, &t.info), &t.info);
    expect_ok(store_check(copy, count_problem, &found, &t.info), &t.info);
    cr_expect_eq(found, 0);
    for (size_t i = 0; i < jobs; i++) {
        char id[JOB_ID_SIZE];
        struct jobfile *file;
        struct job_row row;
        double out[100];
        store_test_id(i, id);
        expect_ok(store_job_get(copy, id, &row, &t.info), &t.info);
        job_row_release(&row);
        expect_ok(jobfile_open(&file, copy, id, &t.info), &t.info);
        expect_ok(jobfile_draws(file, 1, 0, 100, NULL, 0, out, &t.info), &t.info);
        cr_expect_eq(out[99], (double)(i * 100 + 99));
        jobfile_close(file);
    }
    store_close(copy);
}

Test(store, a_backup_is_a_state_directory_of_its_own)
{
    char path[200], partial[220];
    add_jobs(5);
    make_files(5);
    snprintf(path, sizeof path, "%s/backup/", t.directory);
    snprintf(partial, sizeof partial, "%s/backup.partial", t.directory);
    expect_ok(store_backup_directory(t.directory, path, &t.info), &t.info);
    cr_expect_eq(access(partial, F_OK), -1);
    expect_err(store_backup_directory(t.directory, path, &t.info), ERR_CONFLICT);
    expect_restored(path, 5);
    snprintf(path, sizeof path, "%s/no/such/place", t.directory);
    expect_err(store_backup_directory(t.directory, path, &t.info), ERR_NOT_FOUND);
    struct job_row row = store_test_row(77, "ana");
    store_test_add(&t, &row);
}

Test(store, a_running_daemon_can_be_backed_up_from_outside)
{
    char path[200];
    add_jobs(5);
    make_files(5);
    snprintf(path, sizeof path, "%s/outside", t.directory);
    expect_ok(store_backup_directory(t.directory, path, &t.info), &t.info);
    expect_restored(path, 5);
    expect_err(store_backup_directory(t.directory, path, &t.info), ERR_CONFLICT);
    expect_err(store_backup_directory("/proc", path, &t.info), ERR_NOT_FOUND);
    expect_err(store_backup_directory("/no/such", path, &t.info), ERR_NOT_FOUND);
}

static atomic_bool busy;

static void *keep_committing(void *arg)
{
    char id[JOB_ID_SIZE];
    double values[200] = {0};
    store_test_id(2, id);
    for (uint64_t first = 100; busy; first += 200) {
        struct err_info info;
        struct jobfile_slice slice = {
            .chain = 1, .first_draw = first, .draws = 200, .values = values};
        struct job_row row = store_test_row(1000 + first, "ben");
        bool existing;
        if (jobfile_commit(t.store, id, &slice, &info) != ERR_OK ||
            store_job_create(t.store, &row, NULL, NULL, &existing, &info) != ERR_OK)
            return (void *)1;
    }
    return arg;
}

Test(store, a_backup_goes_on_between_commits)
{
    char path[200];
    pthread_t thread;
    void *failed;
    add_jobs(5);
    make_files(5);
    busy = true;
    pthread_create(&thread, NULL, keep_committing, NULL);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/backup%d", t.directory, i);
        expect_ok(store_backup_directory(t.directory, path, &t.info), &t.info);
    }
    busy = false;
    pthread_join(thread, &failed);
    cr_expect_null(failed);
    expect_restored(path, 5);
}
