/* Job files: what goes in comes out, whole or not at all. */
#include "tests/unit/server/store/jobfile_fixture.h"

TestSuite(jobfile, .init = store_setup, .fini = store_teardown);

/* ---- making ---- */

Test(jobfile, what_it_was_made_with_is_read_back)
{
    struct jobfile_info about;
    make_job(id, 700, 3);
    struct jobfile *file = open_job(id);
    jobfile_info(file, &about);
    cr_expect_eq(about.width, 700);
    cr_expect_eq(about.d, 702);
    cr_expect_eq(about.chains, 3);
    cr_expect_eq(about.thin, 10);
    cr_expect_eq(about.warmup, 1000);
    cr_expect_eq(about.metric_width, 2);
    cr_expect_str_eq(jobfile_name(file, 0), "theta[1]");
    cr_expect_str_eq(jobfile_name(file, 699), "theta[700]");
    cr_expect_str_eq(jobfile_name(file, 700), "");
    cr_expect_eq(jobfile_column(file, "theta[513]"), 512);
    cr_expect_eq(jobfile_column(file, "theta[0]"), SIZE_MAX);
    cr_expect_eq(jobfile_column(file, ""), SIZE_MAX);
    cr_expect_str_eq(jobfile_metric_name(file, 1), "accuracy");
    cr_expect_str_eq(jobfile_metric_name(file, 2), "");
    jobfile_close(file);
    cr_expect_gt(jobfile_bytes(t.store, id), 0);
    cr_expect_eq(store_test_sql(&t, "draws/01hf7yat00m5x3qz.db",
                                "SELECT json_extract(value, '$.seed') FROM meta "
                                "WHERE key = 'request'"),
                 123);
}

/* Small pages for small commits; the catalogue's are smaller still. The log is moved to the file
 * before it has grown by much more than 16 MiB. */
Test(jobfile, pages_are_as_large_as_draws)
{
    struct stat log;
    char path[400];
    make_job(id, 8192, 1);
    cr_expect_eq(store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "PRAGMA page_size"), 65536);
    make_job("01hf7yat00m5x3q0", 8191, 1);
    cr_expect_eq(store_test_sql(&t, "draws/01hf7yat00m5x3q0.db", "PRAGMA page_size"), 16384);
    cr_expect_eq(store_test_sql(&t, "barkerd.db", "PRAGMA page_size"), 4096);
    for (size_t i = 0; i < 60; i++)
        expect_ok(add_draws(id, 1, 20 * i, 20, 8192), &t.info);
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, 1200, (const uint32_t[]){0, 777, 8191}, 3);
    jobfile_close(file);
    snprintf(path, sizeof path, "%s/draws/%s.db-wal", t.directory, id);
    cr_assert_eq(stat(path, &log), 0);
    cr_expect_lt(log.st_size, 24 << 20, "%ld", (long)log.st_size);
}

Test(jobfile, its_size_does_not_depend_on_what_waits_in_the_log)
{
    struct stat log;
    char path[400];
    make_job(id, 4, 1);
    for (size_t i = 0; i < 40; i++)
        expect_ok(add_draws(id, 1, 5 * i, 5, 4), &t.info);
    uint64_t bytes = jobfile_bytes(t.store, id);
    snprintf(path, sizeof path, "%s/draws/%s.db-wal", t.directory, id);
    cr_assert_eq(stat(path, &log), 0);
    cr_expect_gt((uint64_t)log.st_size, bytes); /* the same pages again and again */
    store_test_reopen(&t);
    cr_expect_eq(jobfile_bytes(t.store, id), bytes);
    expect_ok(add_draws(id, 1, 200, 5, 4), &t.info);
    cr_expect_geq(jobfile_bytes(t.store, id), bytes);
}

Test(jobfile, a_second_file_for_a_job_is_refused_and_the_first_kept)
{
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 5, 4), &t.info);
    struct jobfile_meta meta = {.request = "{}", .chains = 1};
    expect_err(jobfile_create(t.store, id, &meta, &t.info), ERR_CONFLICT);
    cr_expect_eq(chain_of(id, 1).draws, 5);
}

Test(jobfile, a_file_whose_making_was_cut_short_is_none_and_can_be_made_again)
{
    struct jobfile *file;
    char path[200];
    snprintf(path, sizeof path, "%s/draws/%s.db", t.directory, id);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    expect_err(jobfile_open(&file, t.store, id, &t.info), ERR_NOT_FOUND);
    expect_err(add_draws(id, 1, 0, 5, 4), ERR_NOT_FOUND);
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 5, 4), &t.info);
}

Test(jobfile, names_must_differ_and_a_refused_file_is_none)
{
    const char *names[] = {"theta[1]", "theta[1]"};
    struct jobfile *file;
    struct jobfile_meta meta = {.request = "{}", .names = names, .width = 2, .d = 2, .chains = 1};
    expect_err(jobfile_create(t.store, id, &meta, &t.info), ERR_INVALID);
    expect_err(jobfile_open(&file, t.store, id, &t.info), ERR_NOT_FOUND);
}

Test(jobfile, what_cannot_be_an_id_is_not_found)
{
    static const char *const names[] = {"",
                                        "../barkerd",
                                        "01hf7yat00m5x3q/",
                                        "01HF7YAT00M5X3QZ",
                                        "01hf7yat00m5x3qzz",
                                        "zzzzzzzzzzzzzzzz"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct jobfile *file;
        struct jobfile_copy copy;
        expect_err(jobfile_open(&file, t.store, names[i], &t.info), ERR_NOT_FOUND);
        expect_err(add_draws(names[i], 1, 0, 1, 1), ERR_NOT_FOUND);
        expect_err(jobfile_copy_open(&copy, t.store, "ana", names[i], &t.info), ERR_NOT_FOUND);
        cr_expect_eq(jobfile_bytes(t.store, names[i]), 0);
    }
}

/* ---- draws ---- */

/* Any range of any columns. */
static void expect_samples(struct jobfile *file, uint32_t chain, uint64_t stored, size_t width,
                           uint64_t *random)
{
    for (int i = 0; i < 25; i++) {
        uint64_t first = next_random(random) % (stored + 1);
        size_t count = (size_t)(next_random(random) % (stored - first + 1)), n = 0;
        uint32_t *columns = malloc(width * sizeof *columns);
        uint64_t every = 1 + next_random(random) % (i % 3 == 0 ? 2 : width);
        for (uint32_t c = 0; c < width; c++)
            if (next_random(random) % every == 0)
                columns[n++] = c;
        expect_draws(file, chain, first, count, columns, n);
        free(columns);
    }
    expect_draws(file, chain, 0, (size_t)stored, NULL, 0);
}

Test(jobfile, draws_come_back_whatever_the_width_and_however_they_were_committed)
{
    static const size_t widths[] = {1, 4, 5, 101, 127, 128, 129, 513, 1500};
    static const size_t commits[] = {1, 1, 2, 61, 64, 3, 200, 0, 129, 1, 1, 7, 63, 64};
    uint64_t random = 88172645463325252u;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        char job[JOB_ID_SIZE];
        uint64_t stored = 0;
        store_test_id(w, job);
        make_job(job, widths[w], 2);
        for (size_t c = 0; c < sizeof commits / sizeof commits[0]; c++) {
            for (uint32_t chain = 1; chain <= 2; chain++)
                expect_ok(add_draws(job, chain, stored, commits[c], widths[w]), &t.info);
            stored += commits[c];
        }
        struct jobfile *file = open_job(job);
        expect_samples(file, 1, stored, widths[w], &random);
        expect_samples(file, 2, stored, widths[w], &random);
        jobfile_close(file);
    }
}

Test(jobfile, small_commits_end_up_in_full_tiles)
{
    const char *file = "draws/01hf7yat00m5x3qz.db";
    make_job(id, 150, 1); /* two blocks, 256 draws to a tile */
    for (uint64_t n = 0; n < 2560; n += 5)
        expect_ok(add_draws(id, 1, n, 5, 150), &t.info);
    cr_expect_leq(store_test_sql(&t, file, "SELECT count(*) FROM tile WHERE draws < 256"), 3 * 104);
    for (uint64_t n = 2560; n < 5120; n += 256)
        expect_ok(add_draws(id, 1, n, 256, 150), &t.info);
    cr_expect_eq(store_test_sql(&t, file, "SELECT count(*) FROM tile"), 40);
    cr_expect_eq(store_test_sql(&t, file, "SELECT count(*) FROM tile WHERE draws <> 256"), 0);
    cr_expect_leq(store_test_sql(&t, file, "SELECT max(length(data)) FROM tile"), 262144);
    struct jobfile *reader = open_job(id);
    expect_draws(reader, 1, 0, 5120, NULL, 0);
    jobfile_close(reader);
}

/* Files say how they are laid out; those of before had blocks of 512 columns. */
Test(jobfile, files_with_wider_blocks_are_read_and_written)
{
    const char *file = "draws/01hf7yat00m5x3qz.db";
    make_job(id, 600, 1);
    store_test_sql(&t, file, "UPDATE meta SET value = 512 WHERE key = 'tile_columns'");
    store_test_sql(&t, file, "UPDATE meta SET value = 64 WHERE key = 'tile_draws'");
    for (uint64_t n = 0; n < 640; n += 5)
        expect_ok(add_draws(id, 1, n, 5, 600), &t.info);
    cr_expect_eq(store_test_sql(&t, file, "SELECT max(block) FROM tile"), 1);
    struct jobfile *reader = open_job(id);
    expect_draws(reader, 1, 0, 640, NULL, 0);
    expect_draws(reader, 1, 60, 70, (const uint32_t[]){3, 511, 512, 599}, 4);
    jobfile_close(reader);
}

Test(jobfile, many_draws_of_a_narrow_job)
{
    make_job(id, 4, 1);
    uint64_t stored = 0;
    for (size_t i = 0; i < 60; i++) {
        expect_ok(add_draws(id, 1, stored, 997, 4), &t.info);
        stored += 997;
    }
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, (size_t)stored, NULL, 0);
    expect_draws(file, 1, 8190, 5, (const uint32_t[]){1, 3}, 2);
    jobfile_close(file);
}

Test(jobfile, a_slice_that_does_not_continue_the_draws_changes_nothing)
{
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 30, 4), &t.info);
    static const uint64_t wrong[] = {0, 29, 31, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_err(add_draws(id, 1, wrong[i], 3, 4), ERR_CORRUPT);
        cr_expect_not_null(strstr(t.info.message, "30 are stored"), "%s", t.info.message);
    }
    struct jobfile_chain stored = chain_of(id, 1);
    cr_expect_eq(stored.draws, 30);
    cr_expect_eq(stored.iteration, 300);
    expect_ok(add_draws(id, 1, 30, 3, 4), &t.info);
}

Test(jobfile, what_the_job_does_not_have_is_refused)
{
    make_job(id, 4, 2);
    expect_ok(add_draws(id, 1, 0, 30, 4), &t.info);
    expect_err(add_draws(id, 0, 0, 1, 4), ERR_INVALID);
    expect_err(add_draws(id, 3, 0, 1, 4), ERR_INVALID);
    struct jobfile_slice slice = {.chain = 1, .first_draw = 30, .metrics = 1, .metric_width = 3};
    expect_err(jobfile_commit(t.store, id, &slice, 1, &t.info), ERR_INVALID);

    struct jobfile *file = open_job(id);
    struct jobfile_chain stored;
    double out[200];
    static const struct {
        uint32_t chain;
        uint64_t first;
        size_t count;
        uint32_t columns[2];
        size_t column_count;
    } reads[] = {{1, 0, 31, {0}, 1},       {1, 30, 1, {0}, 1},     {1, UINT64_MAX, 1, {0}, 1},
                 {1, 1, SIZE_MAX, {0}, 1}, {2, 0, 1, {0}, 1},      {0, 0, 1, {0}, 1},
                 {3, 0, 1, {0}, 1},        {1, 0, 1, {4}, 1},      {1, 0, 1, {2, 1}, 2},
                 {1, 0, 1, {2, 2}, 2},     {1, 0, 1, {0, 1000}, 2}};
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++)
        expect_err(jobfile_draws(file, reads[i].chain, reads[i].first, reads[i].count,
                                 reads[i].columns, reads[i].column_count, out, &t.info),
                   ERR_INVALID);
    expect_err(jobfile_chain(file, 3, &stored, &t.info), ERR_INVALID);
    expect_draws(file, 1, 30, 0, NULL, 0);
    expect_draws(file, 1, 0, 30, NULL, 0);
    jobfile_close(file);
}

Test(jobfile, a_job_may_save_no_draws_at_all)
{
    make_job(id, 0, 1);
    expect_ok(add_draws(id, 1, 0, 12, 0), &t.info);
    expect_ok(add_draws(id, 1, 12, 9, 0), &t.info);
    cr_expect_eq(chain_of(id, 1).draws, 21);
}

/* ---- the rest of a slice ---- */

Test(jobfile, what_a_slice_leaves_out_stays_as_it_was)
{
    double mean[6] = {1.5, 2.5, 3.5, 4.5, 5.5, 6.5}, variance[6] = {0.1, 0.2}, tau[6] = {7.25},
           beyond[6] = {0.03}, sigma[6] = {1e-3}, out[6];
    void *bytes;
    size_t size;
    char *note;
    make_job(id, 4, 2);
    struct jobfile *file = open_job(id);
    expect_err(jobfile_vector(file, 1, JOBFILE_MEAN, out, &t.info), ERR_NOT_FOUND);
    expect_ok(jobfile_state(file, 1, &bytes, &size, &t.info), &t.info);
    cr_expect_null(bytes);
    expect_ok(jobfile_note(file, 1, &note, &t.info), &t.info);
    cr_expect_null(note);

    struct jobfile_slice slice = {.chain = 1,
                                  .iteration = 70,
                                  .status = 1,
                                  .cpu_seconds = 1.5,
                                  .state = "first state",
                                  .state_size = 12,
                                  .moment_count = 41,
                                  .mean = mean,
                                  .variance = variance,
                                  .noise_count = 17,
                                  .tau = tau,
                                  .beyond = beyond,
                                  .sigma = sigma,
                                  .note = "{\"acceptance\":0.57}"};
    expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    struct jobfile_slice bare = {.chain = 1, .iteration = 80, .status = 2, .cpu_seconds = 0.25};
    expect_ok(jobfile_commit(t.store, id, &bare, 1, &t.info), &t.info);

    struct jobfile_chain stored;
    expect_ok(jobfile_chain(file, 1, &stored, &t.info), &t.info);
    cr_expect_eq(stored.iteration, 80);
    cr_expect_eq(stored.status, 2);
    cr_expect_eq(stored.cpu_seconds, 1.75);
    cr_expect_eq(stored.moment_count, 41);
    cr_expect_eq(stored.noise_count, 17);
    const double *const wants[] = {mean, variance, tau, beyond, sigma};
    for (int which = JOBFILE_MEAN; which <= JOBFILE_SIGMA; which++) {
        expect_ok(jobfile_vector(file, 1, (enum jobfile_vector)which, out, &t.info), &t.info);
        cr_expect_arr_eq(out, wants[which], sizeof out);
    }
    expect_ok(jobfile_state(file, 1, &bytes, &size, &t.info), &t.info);
    cr_expect_eq(size, 12);
    cr_expect_str_eq(bytes, "first state");
    free(bytes);
    expect_ok(jobfile_note(file, 1, &note, &t.info), &t.info);
    cr_expect_str_eq(note, "{\"acceptance\":0.57}");
    free(note);
    expect_ok(jobfile_chain(file, 2, &stored, &t.info), &t.info);
    cr_expect_eq(stored.iteration, 0);
    jobfile_close(file);
}

static unsigned char *pattern(size_t size, uint64_t seed)
{
    unsigned char *bytes = malloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(next_random(&seed) >> 24);
    return bytes;
}

static void expect_state(const unsigned char *want, size_t want_size)
{
    void *bytes;
    size_t size;
    struct jobfile *file = open_job(id);
    expect_ok(jobfile_state(file, 1, &bytes, &size, &t.info), &t.info);
    cr_expect(size == want_size && memcmp(bytes, want, size) == 0, "%zu bytes", size);
    free(bytes);
    jobfile_close(file);
}

Test(jobfile, a_state_of_any_size_comes_back)
{
    static const size_t sizes[] = {12, (8u << 20) + 1, 40u << 20, 16u << 20, 8u << 20, 100};
    size_t problems = 0;
    make_job(id, 4, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *state = pattern(sizes[i], 77 + i);
        struct jobfile_slice slice = {
            .chain = 1, .iteration = 10 + i, .state = state, .state_size = sizes[i]};
        expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
        expect_state(state, sizes[i]);
        store_test_reopen(&t);
        expect_state(state, sizes[i]);
        free(state);
    }
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
}

Test(jobfile, a_plan_of_any_size_comes_back)
{
    size_t size = 20u << 20;
    unsigned char *bytes = pattern(size, 5);
    const char *const names[] = {"theta[1]"};
    struct jobfile_meta meta = {.request = "{}",
                                .names = names,
                                .width = 1,
                                .d = 1,
                                .chains = 1,
                                .thin = 1,
                                .plan = bytes,
                                .plan_size = size,
                                .plan_document = "{}"};
    struct jobfile_plan plan;
    expect_ok(jobfile_create(t.store, id, &meta, &t.info), &t.info);
    struct jobfile *file = open_job(id);
    expect_ok(jobfile_plan(file, &plan, &t.info), &t.info);
    cr_expect(plan.size == size && memcmp(plan.bytes, bytes, size) == 0);
    jobfile_plan_release(&plan);
    jobfile_close(file);
    free(bytes);
}

Test(jobfile, metrics_come_back_with_their_nans)
{
    make_job(id, 4, 1);
    double values[40], back[40];
    uint64_t iterations[10], read[10];
    for (size_t i = 0; i < 10; i++) {
        iterations[i] = 100 * (i + 1);
        for (size_t k = 0; k < 4; k++)
            values[4 * i + k] = k >= 2 && i < 3 ? (double)NAN : (double)i * 2.385 + (double)k;
    }
    values[20] = (double)INFINITY;
    for (size_t from = 0; from < 10; from += 5) {
        struct jobfile_slice slice = {.chain = 1,
                                      .metrics = 5,
                                      .metric_width = 2,
                                      .metric_iteration = iterations + from,
                                      .metric_values = values + 4 * from};
        expect_ok(jobfile_commit(t.store, id, &slice, 1, &t.info), &t.info);
    }
    struct jobfile *file = open_job(id);
    expect_ok(jobfile_metrics(file, 1, 0, 10, read, back, &t.info), &t.info);
    for (size_t i = 0; i < 40; i++)
        cr_expect(back[i] == values[i] || (isnan(back[i]) && isnan(values[i])), "number %zu", i);
    cr_expect_arr_eq(read, iterations, sizeof read);
    expect_ok(jobfile_metrics(file, 1, 7, 2, read, back, &t.info), &t.info);
    cr_expect_eq(read[1], 900);
    cr_expect_eq(back[0], values[28]);
    expect_err(jobfile_metrics(file, 1, 7, 4, read, back, &t.info), ERR_INVALID);
    jobfile_close(file);
}
