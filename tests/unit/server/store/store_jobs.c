/* Rows of jobs in the catalogue: what comes back, lists, logs; references. */
#include "tests/unit/server/store/store_rows.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- jobs ---- */

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
    expect_err(store_job_create(t.store, &second, NULL, &existing, &t.info), ERR_CONFLICT);
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
    expect_ok(store_job_create(t.store, &first, &(struct store_claim){.key = "k", .hash = one},
                               &existing, &t.info),
              &t.info);
    cr_expect(!existing);
    expect_ok(store_job_create(t.store, &again, &(struct store_claim){.key = "k", .hash = one},
                               &existing, &t.info),
              &t.info);
    cr_expect(existing);
    cr_expect_str_eq(again.id, first.id);
    struct job_row changed = store_test_row(2, "ana");
    expect_err(store_job_create(t.store, &changed, &(struct store_claim){.key = "k", .hash = two},
                                &existing, &t.info),
               ERR_INVALID);
    cr_expect(!existing);
    cr_expect_not_null(strstr(t.info.message, first.id), "%s", t.info.message);
    expect_err(store_job_get(t.store, changed.id, &got, &t.info), ERR_NOT_FOUND);
    expect_ok(store_job_create(t.store, &other, &(struct store_claim){.key = "k", .hash = two},
                               &existing, &t.info),
              &t.info);
    cr_expect(!existing, "keys are per owner");
    store_test_reopen(&t);
    again = store_test_row(2, "ana");
    expect_ok(store_job_create(t.store, &again, &(struct store_claim){.key = "k", .hash = one},
                               &existing, &t.info),
              &t.info);
    cr_expect_str_eq(again.id, first.id);
    expect_ok(store_job_create(t.store, &changed, &(struct store_claim){.key = "K", .hash = two},
                               &existing, &t.info),
              &t.info);
    cr_expect(!existing);
}

/* ---- lists ---- */

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
    expect_ok(store_job_purge(t.store, row.id, 0, &t.info), &t.info);
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

Test(store, a_reference_has_an_owner_and_the_lab_has_one_of_a_name)
{
    struct reference_row ref = {.lab = true, .owner = "ben", .name = "wells", .document = "{}"};
    put_reference("ana", "wells", true, "{\"a\":1}");
    expect_err(store_reference_put(t.store, &ref, &t.info), ERR_CONFLICT);
    cr_expect_not_null(strstr(t.info.message, "ana/wells"));
    put_reference("ben", "wells", false, "{\"b\":1}");
    expect_document("ben", "wells", "{\"b\":1}");
    expect_document("ben", "ana/wells", "{\"a\":1}");
    expect_document("eve", "ben/wells", NULL);
    expect_document("eve", "wells", "{\"a\":1}");
    static const char *const odd[] = {"/wells",
                                      "ana/",
                                      "/",
                                      "",
                                      "ana/wells/",
                                      "ana//wells",
                                      "a_name_that_no_user_can_have_at_all/wells"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        expect_document("ana", odd[i], NULL);
    store_test_reopen(&t); /* an earlier version let two be */
    store_test_sql(&t, "barkerd.db", "UPDATE reference SET lab = 1");
    expect_err(store_reference_get(t.store, "eve", "wells", &ref, &t.info), ERR_CONFLICT);
    cr_expect_not_null(strstr(t.info.message, "ana/wells, ben/wells"), "%s", t.info.message);
    expect_document("ana", "wells", "{\"a\":1}");
    expect_document("eve", "ben/wells", "{\"b\":1}");
}

Test(store, references_count_into_the_bytes_of_their_owner)
{
    put_reference("ana", "a", false, "{\"a\":1}");
    put_reference("ana", "b", false, "{\"a\":\"\xc3\xa4\"}"); /* bytes, not characters */
    put_reference("ben", "c", false, "{}");
    cr_expect_eq(totals_of("ana").stored_bytes, 7 + 10);
    cr_expect_eq(totals_of("ana").references, 2);
    put_reference("ana", "b", false, "{}");
    cr_expect_eq(totals_of("ana").stored_bytes, 7 + 2);
    expect_ok(store_reference_delete(t.store, "ana", "a", &t.info), &t.info);
    cr_expect_eq(totals_of("ana").stored_bytes, 2);
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
