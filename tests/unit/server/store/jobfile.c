/* Job files: what goes in comes out, whole or not at all. */
#include "tests/support/store.h"

#include "server/base/clock.h"
#include "server/store/internal.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

static struct store_test t;

static void setup(void)
{
    store_test_init(&t);
}

static void teardown(void)
{
    store_test_release(&t);
}

TestSuite(jobfile, .init = setup, .fini = teardown);

/* ---- jobs to try ---- */

static const char *const metric_names[] = {"log_loss", "accuracy", NULL};

static void make_job(const char *job, size_t width, uint32_t chains)
{
    char(*texts)[32] = calloc(width + 1, sizeof *texts);
    const char **names = calloc(width + 1, sizeof *names);
    for (size_t i = 0; i < width; i++) {
        snprintf(texts[i], sizeof texts[i], "theta[%zu]", i + 1);
        names[i] = texts[i];
    }
    struct jobfile_meta meta = {.request = "{\"seed\":123}",
                                .names = names,
                                .width = width,
                                .d = width + 2,
                                .chains = chains,
                                .thin = 10,
                                .warmup = 1000,
                                .metrics = metric_names};
    expect_ok(jobfile_create(t.store, job, &meta, &t.info), &t.info);
    free(names);
    free(texts);
}

static double value(uint32_t chain, uint64_t draw, size_t column)
{
    return (double)chain * 1e6 + (double)draw * 2.385 - (double)column * 0.71;
}

static enum err add_draws(const char *job, uint32_t chain, uint64_t first, size_t draws,
                          size_t width)
{
    double *values = malloc((draws * width + 1) * sizeof *values);
    for (size_t i = 0; i < draws * width; i++)
        values[i] = value(chain, first + i / width, i % width);
    uint64_t state = first + draws;
    struct jobfile_slice slice = {.chain = chain,
                                  .iteration = (first + draws) * 10,
                                  .cpu_seconds = 0.25,
                                  .state = &state,
                                  .state_size = sizeof state,
                                  .first_draw = first,
                                  .draws = draws,
                                  .values = values};
    t.info = (struct err_info){0};
    enum err code = jobfile_commit(t.store, job, &slice, &t.info);
    free(values);
    return code;
}

static struct jobfile *open_job(const char *job)
{
    struct jobfile *file;
    expect_ok(jobfile_open(&file, t.store, job, &t.info), &t.info);
    return file;
}

static struct jobfile_chain chain_of(const char *job, uint32_t chain)
{
    struct jobfile_chain stored;
    struct jobfile *file = open_job(job);
    expect_ok(jobfile_chain(file, chain, &stored, &t.info), &t.info);
    jobfile_close(file);
    return stored;
}

/* Reads and compares with the formula. */
static void expect_draws(struct jobfile *file, uint32_t chain, uint64_t first, size_t count,
                         const uint32_t *columns, size_t column_count)
{
    struct jobfile_info about;
    jobfile_info(file, &about);
    size_t wanted = columns != NULL ? column_count : about.width, wrong = 0;
    double *out = malloc((count * wanted + 1) * sizeof *out);
    out[count * wanted] = -77;
    enum err code = jobfile_draws(file, chain, first, count, columns, column_count, out, &t.info);
    expect_ok(code, &t.info);
    for (size_t k = 0; k < wanted; k++)
        for (size_t i = 0; i < count; i++)
            wrong +=
                out[k * count + i] != value(chain, first + i, columns != NULL ? columns[k] : k);
    cr_expect_eq(wrong, 0, "%zu of %zu numbers are wrong", wrong, count * wanted);
    cr_expect_eq(out[count * wanted], -77, "wrote beyond the end");
    free(out);
}

/* The files here belong to no row of the catalogue, and their states are no chains. */
static void count_problem(void *ctx, const char *problem)
{
    if (strstr(problem, "belongs to no job") == NULL && strstr(problem, "saved state") == NULL)
        ++*(size_t *)ctx;
}

static char id[JOB_ID_SIZE] = "01hf7yat00m5x3qz";

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
        int fd;
        uint64_t size;
        expect_err(jobfile_open(&file, t.store, names[i], &t.info), ERR_NOT_FOUND);
        expect_err(add_draws(names[i], 1, 0, 1, 1), ERR_NOT_FOUND);
        expect_err(jobfile_export(t.store, names[i], &fd, &size, &t.info), ERR_NOT_FOUND);
        cr_expect_eq(jobfile_bytes(t.store, names[i]), 0);
    }
}

/* ---- draws ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

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
    expect_err(jobfile_commit(t.store, id, &slice, &t.info), ERR_INVALID);

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
    expect_ok(jobfile_commit(t.store, id, &slice, &t.info), &t.info);
    struct jobfile_slice bare = {.chain = 1, .iteration = 80, .status = 2, .cpu_seconds = 0.25};
    expect_ok(jobfile_commit(t.store, id, &bare, &t.info), &t.info);

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
        expect_ok(jobfile_commit(t.store, id, &slice, &t.info), &t.info);
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

/* ---- names of all parameters ---- */

static const struct model_block blocks[] = {
    {.name = "U", .rank = 2, .shape = {3, 2}},
    {.name = "mu", .rank = 1, .shape = {2}, .offset = 6},
    {.name = "alpha", .rank = 0, .offset = 8},
};

static void make_partial(const char *job, const struct model_block *of, size_t count)
{
    const char *names[] = {"U[2,1]", "alpha"};
    struct jobfile_meta meta = {.request = "{}",
                                .names = names,
                                .width = 2,
                                .d = 9,
                                .chains = 1,
                                .thin = 1,
                                .blocks = of,
                                .block_count = count};
    expect_ok(jobfile_create(t.store, job, &meta, &t.info), &t.info);
}

Test(jobfile, every_parameter_has_a_name_saved_or_not)
{
    static const char *const names[] = {"U[1,1]", "U[1,2]", "U[2,1]", "U[2,2]", "U[3,1]",
                                        "U[3,2]", "mu[1]",  "mu[2]",  "alpha",  "parameter 10"};
    char out[40], small[5];
    make_partial(id, blocks, 3);
    struct jobfile *file = open_job(id);
    for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
        cr_expect_str_eq(jobfile_parameter(file, j, out, sizeof out), names[j]);
    cr_expect_str_eq(jobfile_parameter(file, 6, small, sizeof small), "mu[1");
    jobfile_close(file);
}

Test(jobfile, without_blocks_only_saved_parameters_have_names)
{
    char other[JOB_ID_SIZE], out[40];
    make_partial(id, NULL, 0);
    struct jobfile *file = open_job(id);
    cr_expect_str_eq(jobfile_parameter(file, 2, out, sizeof out), "parameter 3");
    jobfile_close(file);
    store_test_id(1, other);
    const char *names[] = {"first", "second"};
    struct jobfile_meta meta = {
        .request = "{}", .names = names, .width = 2, .d = 2, .chains = 1, .thin = 1};
    expect_ok(jobfile_create(t.store, other, &meta, &t.info), &t.info);
    file = open_job(other);
    cr_expect_str_eq(jobfile_parameter(file, 1, out, sizeof out), "second");
    cr_expect_str_eq(jobfile_parameter(file, 2, out, sizeof out), "parameter 3");
    jobfile_close(file);
}

Test(jobfile, blocks_that_make_no_sense_are_no_names)
{
    static const char *const texts[] = {
        "",
        "null",
        "{}",
        "[]",
        "[1]",
        "[{\"name\":\"U\"}]",
        "[{\"name\":\"U\",\"shape\":[9,0]}]",
        "[{\"name\":\"U\",\"shape\":[10]}]",
        "[{\"name\":\"U\",\"shape\":[3,3,1]}]",
        "[{\"name\":7,\"shape\":[9]}]",
        "[{\"name\":\"U\",\"shape\":[9223372036854775807,9223372036854775807]}]",
        "[{\"name\":\"U\",\"shape\":[8]}]",
        "[{\"name\":\"U\",\"shape\":[-9]}]"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char job[JOB_ID_SIZE], name[40], sql[200], out[40];
        store_test_id(i, job);
        make_partial(job, blocks, 3);
        store_close(t.store);
        snprintf(name, sizeof name, "draws/%s.db", job);
        snprintf(sql, sizeof sql, "UPDATE meta SET value = '%s' WHERE key = 'blocks'", texts[i]);
        store_test_sql(&t, name, sql);
        store_test_open(&t);
        struct jobfile *file = open_job(job);
        cr_expect_str_eq(jobfile_parameter(file, 0, out, sizeof out), "parameter 1", "%s: %s",
                         texts[i], out);
        jobfile_close(file);
    }
}

/* ---- history ---- */

static enum err add_point(const char *job, uint64_t iteration, size_t watched)
{
    double rhat[JOBFILE_WATCHED], ess[JOBFILE_WATCHED];
    for (size_t k = 0; k < JOBFILE_WATCHED; k++) {
        rhat[k] = k == 1 ? (double)NAN : 1.0 + (double)iteration * 1e-6 + (double)k;
        ess[k] = 2.5 * (double)iteration + (double)k;
    }
    struct jobfile_history_point point = {.draws = iteration / 10,
                                          .iteration = iteration,
                                          .seconds = 0.75 * (double)iteration,
                                          .max_rhat = 1.5,
                                          .min_ess_bulk = 17.5,
                                          .min_ess_tail = (double)NAN,
                                          .worst = "theta[4]",
                                          .watched = watched,
                                          .stride = 3,
                                          .rhat = rhat,
                                          .ess_bulk = ess};
    return jobfile_history_add(t.store, job, &point, &t.info);
}

static struct jobfile_history history_of(const char *job)
{
    struct jobfile_history h;
    struct jobfile *file = open_job(job);
    expect_ok(jobfile_history(file, &h, &t.info), &t.info);
    jobfile_close(file);
    return h;
}

Test(jobfile, history_comes_back_oldest_first)
{
    make_job(id, 7, 2);
    struct jobfile_history h = history_of(id);
    cr_expect_eq(h.count, 0);
    jobfile_history_release(&h);
    expect_ok(add_point(id, 100, 3), &t.info);
    expect_ok(add_point(id, 200, 3), &t.info);
    h = history_of(id);
    cr_assert_eq(h.count, 2);
    cr_expect_eq(h.watched, 3);
    cr_expect_eq(h.stride, 3);
    const struct jobfile_history_point *p = &h.points[0];
    cr_expect_eq(p->iteration, 100);
    cr_expect_eq(p->draws, 10);
    cr_expect_eq(p->seconds, 75.0);
    cr_expect_eq(p->max_rhat, 1.5);
    cr_expect_eq(p->min_ess_bulk, 17.5);
    cr_expect(isnan(p->min_ess_tail));
    cr_expect_str_eq(p->worst, "theta[4]");
    cr_assert_eq(p->watched, 3);
    cr_expect_eq(p->rhat[0], 1.0001);
    cr_expect(isnan(p->rhat[1]));
    cr_expect_eq(p->ess_bulk[2], 252.0);
    cr_expect_eq(h.points[1].ess_bulk[0], 500.0);
    jobfile_history_release(&h);
}

Test(jobfile, a_look_at_the_same_draws_takes_the_place_of_the_latest)
{
    make_job(id, 7, 2);
    expect_ok(add_point(id, 100, 3), &t.info);
    expect_ok(add_point(id, 200, 3), &t.info);
    expect_ok(add_point(id, 200, 2), &t.info);
    struct jobfile_history h = history_of(id);
    cr_assert_eq(h.count, 2);
    cr_expect_eq(h.watched, 2);
    cr_expect_eq(h.points[1].watched, 2);
    cr_expect_eq(h.points[0].watched, 0, "of another shape");
    jobfile_history_release(&h);
}

Test(jobfile, a_job_that_saves_nothing_has_a_history_of_nothing)
{
    make_job(id, 0, 1);
    expect_ok(add_point(id, 100, 0), &t.info);
    struct jobfile_history h = history_of(id);
    cr_assert_eq(h.count, 1);
    cr_expect_eq(h.points[0].watched, 0);
    jobfile_history_release(&h);
    expect_err(add_point(id, 200, JOBFILE_WATCHED + 1), ERR_INVALID);
}

Test(jobfile, history_is_bounded_evenly_spaced_and_ends_with_the_latest)
{
    make_job(id, 7, 1);
    for (uint64_t n = 1; n <= 5000; n++) {
        expect_ok(add_point(id, 10 * n, 2), &t.info);
        if (n % 37 != 0 && n < 4990)
            continue;
        struct jobfile_history h = history_of(id);
        uint64_t step = h.count > 2 ? h.points[1].iteration - h.points[0].iteration : 10;
        cr_expect_leq(h.count, JOBFILE_HISTORY);
        cr_expect(n < 256 || h.count >= JOBFILE_HISTORY / 2 - 1, "%zu of %d", h.count, (int)n);
        cr_expect_eq(h.points[h.count - 1].iteration, 10 * n);
        cr_expect_eq(h.points[0].iteration, 10);
        for (size_t i = 1; i + 1 < h.count; i++)
            cr_expect_eq(h.points[i].iteration - h.points[i - 1].iteration, step);
        cr_expect_leq(h.points[h.count - 1].iteration - h.points[h.count - 2].iteration, step);
        jobfile_history_release(&h);
    }
}

Test(jobfile, a_history_that_is_too_large_is_damage)
{
    struct jobfile_history h;
    make_job(id, 7, 1);
    expect_ok(add_point(id, 10, 2), &t.info);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db",
                   "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 600)"
                   " INSERT OR REPLACE INTO history SELECT i, 1, i, 1, 1, 1, 1, '', 1, x'', x'' "
                   "FROM n");
    store_test_open(&t);
    struct jobfile *file = open_job(id);
    expect_err(jobfile_history(file, &h, &t.info), ERR_CORRUPT);
    cr_expect_eq(h.count, 0);
    jobfile_close(file);
}

Test(jobfile, a_history_ahead_of_the_chains_is_noticed_by_a_check)
{
    size_t problems = 0;
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 5, 4), &t.info);
    expect_ok(add_point(id, 50, 2), &t.info);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
    expect_ok(add_point(id, 51, 2), &t.info);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 1);
}

/* ---- checks ---- */

Test(jobfile, checks_hold_for_the_draws_they_were_made_of)
{
    char *text;
    make_job(id, 4, 2);
    struct jobfile *file = open_job(id);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_expect_null(text);
    expect_ok(add_draws(id, 1, 0, 5, 4), &t.info);
    expect_ok(add_draws(id, 2, 0, 5, 4), &t.info);
    expect_ok(jobfile_checks_put(t.store, id, "{\"ksd\":null}", &t.info), &t.info);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_assert_not_null(text);
    cr_expect_str_eq(text, "{\"ksd\":null}");
    free(text);
    expect_ok(add_draws(id, 2, 5, 5, 4), &t.info);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_expect_null(text, "the chains have moved on");
    expect_ok(jobfile_checks_put(t.store, id, "{}", &t.info), &t.info);
    expect_ok(jobfile_checks(file, &text, &t.info), &t.info);
    cr_expect_str_eq(text, "{}");
    free(text);
    jobfile_close(file);
}

/* ---- files of version 1 ---- */

/* Runs statements on a file that is made when it is not there. */
static void run_script(const char *name, const char *sql)
{
    char path[200];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/%s", t.directory, name);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* As the first version of the program left it: two chains of 20 draws of two of three parameters.
 */
static void make_old(const char *job)
{
    char name[40], sql[700];
    snprintf(name, sizeof name, "draws/%s.db", job);
    run_script(name, asset_get(ASSET_jobfile_1).bytes);
    run_script(name,
               "INSERT INTO meta VALUES ('request', '{}'), ('width', 2), ('d', 3), ('chains', 2),"
               " ('thin', 10), ('warmup', 0), ('tile_draws', 8192), ('tile_columns', 2);"
               "INSERT INTO parameter VALUES (0, 'theta[1]'), (1, 'theta[3]')");
    for (unsigned chain = 1; chain <= 2; chain++) {
        char hex[2 * 40 * sizeof(double) + 1];
        for (size_t i = 0; i < 40; i++) {
            double x = value(chain, i % 20, i / 20);
            unsigned char bytes[sizeof x];
            memcpy(bytes, &x, sizeof x);
            for (size_t b = 0; b < sizeof x; b++)
                snprintf(hex + 2 * (i * sizeof x + b), 3, "%02x", bytes[b]);
        }
        snprintf(sql, sizeof sql,
                 "INSERT INTO chain VALUES (%u, 200, 0, 0.5, 20, 0, 0, 0, 0, NULL)", chain);
        store_test_sql(&t, name, sql);
        char insert[sizeof hex + 100];
        snprintf(insert, sizeof insert, "INSERT INTO tile VALUES (%u, %u, 0, 0, 20, x'%s')", chain,
                 chain, hex);
        store_test_sql(&t, name, insert);
    }
}

Test(jobfile, files_of_version_1_are_read_as_they_are)
{
    struct jobfile_history h;
    struct jobfile_info about;
    char *checks, out[40];
    size_t problems = 0;
    make_old(id);
    struct jobfile *file = open_job(id);
    jobfile_info(file, &about);
    cr_expect_eq(about.width, 2);
    cr_expect_eq(about.d, 3);
    expect_draws(file, 1, 0, 20, NULL, 0);
    expect_draws(file, 2, 3, 11, (const uint32_t[]){1}, 1);
    expect_ok(jobfile_history(file, &h, &t.info), &t.info);
    cr_expect_eq(h.count, 0);
    expect_ok(jobfile_checks(file, &checks, &t.info), &t.info);
    cr_expect_null(checks);
    cr_expect_str_eq(jobfile_parameter(file, 1, out, sizeof out), "parameter 2");
    jobfile_close(file);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
    cr_expect_eq(store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "PRAGMA user_version"), 1);
}

Test(jobfile, files_of_version_1_are_brought_up_to_date_by_what_is_written_next)
{
    make_old(id);
    struct jobfile *file = open_job(id); /* from before */
    expect_ok(add_draws(id, 1, 20, 30, 2), &t.info);
    cr_expect_eq(store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "PRAGMA user_version"), 2);
    expect_ok(add_point(id, 700, 2), &t.info);
    expect_ok(jobfile_checks_put(t.store, id, "{}", &t.info), &t.info);
    expect_draws(file, 1, 0, 50, NULL, 0);
    expect_draws(file, 2, 0, 20, NULL, 0);
    struct jobfile_history h;
    char *checks;
    expect_ok(jobfile_history(file, &h, &t.info), &t.info);
    cr_expect_eq(h.count, 1, "a reader from before sees what is new");
    jobfile_history_release(&h);
    expect_ok(jobfile_checks(file, &checks, &t.info), &t.info);
    cr_expect_str_eq(checks, "{}");
    free(checks);
    jobfile_close(file);
}

Test(jobfile, files_of_a_newer_version_are_refused_and_left_alone)
{
    struct jobfile *file;
    make_job(id, 4, 1);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "PRAGMA user_version = 3");
    store_test_open(&t);
    expect_err(jobfile_open(&file, t.store, id, &t.info), ERR_UNSUPPORTED);
    expect_err(add_draws(id, 1, 0, 1, 4), ERR_UNSUPPORTED);
}

/* ---- companions ---- */

Test(jobfile, after_closing_a_job_is_one_file_and_reading_it_makes_no_others)
{
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    cr_expect(store_test_exists(&t, id, ".db-wal"));
    store_test_reopen(&t);
    cr_expect(!store_test_exists(&t, id, ".db-wal"));
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, 100, NULL, 0);
    cr_expect(!store_test_exists(&t, id, ".db-wal"));
    cr_expect(!store_test_exists(&t, id, ".db-shm"));
    /* And it can be written again while that reader is there. */
    expect_ok(add_draws(id, 1, 100, 50, 4), &t.info);
    expect_draws(file, 1, 0, 150, NULL, 0);
    jobfile_close(file);
}

/* As if a minute had passed, on the writer thread. */
static enum err tend(struct store *store, struct db *db, void *ctx, struct err_info *info)
{
    (void)db;
    (void)ctx;
    (void)info;
    store_files_tend(store, clock_mono_ms() + 60000);
    return ERR_OK;
}

static void pass_a_minute(void)
{
    struct write write = {.kind = WRITE_ALONE, .run = tend};
    expect_ok(store_write(t.store, &write, &t.info), &t.info);
}

Test(jobfile, a_file_left_alone_becomes_one_file_unless_somebody_reads_it)
{
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, 100, NULL, 0);
    pass_a_minute();
    cr_expect(store_test_exists(&t, id, ".db-wal"));
    jobfile_close(file);
    pass_a_minute();
    cr_expect(!store_test_exists(&t, id, ".db-wal"));
    cr_expect(!store_test_exists(&t, id, ".db-shm"));
    expect_ok(add_draws(id, 1, 100, 50, 4), &t.info);
    file = open_job(id);
    expect_draws(file, 1, 0, 150, NULL, 0);
    jobfile_close(file);
}

Test(jobfile, a_wal_that_a_crash_left_is_put_away)
{
    char job[JOB_ID_SIZE], command[600];
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    store_test_id(1, job);
    snprintf(command, sizeof command, "cd %s/draws && cp %s.db %s.db && cp %s.db-wal %s.db-wal",
             t.directory, id, job, id, job);
    cr_assert_eq(system(command), 0);
    store_test_reopen(&t);
    cr_expect(store_test_exists(&t, job, ".db-wal"));
    pass_a_minute();
    cr_expect(!store_test_exists(&t, job, ".db-wal"));
    struct jobfile *file = open_job(job);
    expect_draws(file, 1, 0, 100, NULL, 0);
    jobfile_close(file);
}

Test(jobfile, a_reader_holds_nothing_back_between_calls)
{
    char path[200];
    sqlite3 *db;
    int in_log = -1, moved = -1;
    make_job(id, 4, 1);
    expect_ok(add_draws(id, 1, 0, 100, 4), &t.info);
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, 100, NULL, 0);
    expect_draws(file, 1, 3, 1, (const uint32_t[]){2}, 1);
    expect_ok(add_draws(id, 1, 100, 100, 4), &t.info);
    snprintf(path, sizeof path, "%s/draws/%s.db", t.directory, id);
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, "SELECT * FROM chain", NULL, NULL, NULL), SQLITE_OK);
    cr_expect_eq(sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, &in_log, &moved),
                 SQLITE_OK);
    cr_expect_eq(in_log, 0);
    sqlite3_close(db);
    jobfile_close(file);
}

Test(jobfile, more_jobs_than_the_writer_keeps_open)
{
    enum { MANY = STORE_FILES + 8 };
    for (uint64_t round = 0; round < 3; round++) {
        for (size_t j = 0; j < MANY; j++) {
            char job[JOB_ID_SIZE];
            store_test_id(j, job);
            if (round == 0)
                make_job(job, 2, 1);
            expect_ok(add_draws(job, 1, 10 * round, 10, 2), &t.info);
        }
    }
    for (size_t j = 0; j < MANY; j++) {
        char job[JOB_ID_SIZE];
        store_test_id(j, job);
        struct jobfile *file = open_job(job);
        expect_draws(file, 1, 0, 30, NULL, 0);
        jobfile_close(file);
    }
}

/* ---- export ---- */

Test(jobfile, an_export_stands_alone_and_leaves_nothing_behind)
{
    unsigned char header[100];
    struct stat st;
    int fd;
    uint64_t size;
    char path[200];
    make_job(id, 700, 1);
    for (uint64_t n = 0; n < 200; n += 40)
        expect_ok(add_draws(id, 1, n, 40, 700), &t.info);
    expect_ok(jobfile_export(t.store, id, &fd, &size, &t.info), &t.info);
    cr_assert_eq(fstat(fd, &st), 0);
    cr_expect_eq(st.st_nlink, 0);
    cr_expect_eq((uint64_t)st.st_size, size);
    cr_assert_eq(pread(fd, header, sizeof header, 0), (ssize_t)sizeof header);
    cr_expect_eq(header[18], 1, "not WAL");
    snprintf(path, sizeof path, "%s/copy.db", t.directory);
    int to = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert_eq(copy_file_range(fd, NULL, to, NULL, size, 0), (ssize_t)size);
    close(to);
    cr_expect_eq(store_test_sql(&t, "copy.db", "SELECT sum(draws) FROM tile WHERE block = 1"), 200);
    cr_expect_eq(store_test_sql(&t, "copy.db",
                                "SELECT count(*) FROM pragma_integrity_check "
                                "WHERE integrity_check <> 'ok'"),
                 0);
    snprintf(path, sizeof path, "%s/tmp", t.directory);
    cr_expect_eq(rmdir(path), 0, "something is left in tmp");
    close(fd);
    /* The original goes on. */
    expect_ok(add_draws(id, 1, 200, 1, 700), &t.info);
}

/* ---- damage ---- */

static void try_everything(const char *job)
{
    struct jobfile *file;
    struct jobfile_chain stored;
    struct err_info info = {0};
    double out[6], *draws = malloc(300 * 4 * sizeof *draws);
    uint64_t iterations[4];
    double metrics[16];
    void *bytes = NULL;
    size_t size;
    char *note = NULL;
    if (jobfile_open(&file, t.store, job, &info) == ERR_OK) {
        if (jobfile_chain(file, 1, &stored, &info) == ERR_OK && stored.draws <= 300) {
            if (jobfile_draws(file, 1, 0, (size_t)stored.draws, NULL, 0, draws, &info) != ERR_OK)
                cr_expect_neq(info.code, ERR_INTERNAL, "%s", info.message);
            jobfile_draws(file, 1, 0, (size_t)stored.draws, (const uint32_t[]){2}, 1, draws, &info);
        }
        if (jobfile_state(file, 1, &bytes, &size, &info) == ERR_OK)
            free(bytes);
        jobfile_vector(file, 1, JOBFILE_MEAN, out, &info);
        if (jobfile_note(file, 1, &note, &info) == ERR_OK)
            free(note);
        jobfile_metrics(file, 1, 0, 2, iterations, metrics, &info);
        jobfile_name(file, 3);
        jobfile_column(file, "theta[2]");
        jobfile_metric_name(file, 0);
        struct jobfile_history history;
        if (jobfile_history(file, &history, &info) == ERR_OK)
            jobfile_history_release(&history);
        if (jobfile_checks(file, &note, &info) == ERR_OK)
            free(note);
        char name[40];
        jobfile_parameter(file, 5, name, sizeof name);
        jobfile_close(file);
    }
    free(draws);
    struct jobfile_slice slice = {.chain = 1, .first_draw = 300};
    enum err code = jobfile_commit(t.store, job, &slice, &info);
    cr_expect_neq(code, ERR_INTERNAL, "%s", info.message);
}

static void damage(const char *path, uint64_t *random)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    cr_assert_eq(fstat(fd, &st), 0);
    for (int i = 0; i < 12; i++) {
        unsigned char byte = (unsigned char)next_random(random);
        off_t at = (off_t)(next_random(random) % (uint64_t)st.st_size);
        cr_assert_eq(pwrite(fd, &byte, 1, i % 2 ? at : at % 16384), 1);
    }
    if (next_random(random) % 8 == 0)
        cr_assert_eq(ftruncate(fd, (off_t)(next_random(random) % (uint64_t)st.st_size)), 0);
    close(fd);
}

Test(jobfile, a_damaged_file_is_an_error_and_never_a_crash, .timeout = 300)
{
    uint64_t random = 88172645463325252u;
    char path[200], whole[200], command[500];
    double mean[6] = {0};
    make_job(id, 4, 1);
    for (uint64_t n = 0; n < 300; n += 30)
        expect_ok(add_draws(id, 1, n, 30, 4), &t.info);
    struct jobfile_slice slice = {.chain = 1, .first_draw = 300, .mean = mean, .note = "{}"};
    expect_ok(jobfile_commit(t.store, id, &slice, &t.info), &t.info);
    for (uint64_t n = 1; n <= 40; n++)
        expect_ok(add_point(id, n, 4), &t.info);
    expect_ok(jobfile_checks_put(t.store, id, "{}", &t.info), &t.info);
    store_test_reopen(&t);
    snprintf(path, sizeof path, "%s/draws/%s.db", t.directory, id);
    snprintf(whole, sizeof whole, "%s/whole", t.directory);
    snprintf(command, sizeof command, "cp %s %s", path, whole);
    cr_assert_eq(system(command), 0);
    for (size_t i = 0; i < 150; i++) {
        char job[JOB_ID_SIZE];
        store_test_id(i, job);
        snprintf(path, sizeof path, "%s/draws/%s.db", t.directory, job);
        snprintf(command, sizeof command, "cp %s %s", whole, path);
        cr_assert_eq(system(command), 0);
        damage(path, &random);
        try_everything(job);
    }
    cr_expect(!store_broken(t.store, NULL), "one job's damage is not everybody's");
    expect_ok(add_draws(id, 1, 300, 5, 4), &t.info);
}

Test(jobfile, a_missing_tile_is_noticed)
{
    double out[600];
    make_job(id, 2, 1);
    for (uint64_t n = 0; n < 300; n += 100)
        expect_ok(add_draws(id, 1, n, 100, 2), &t.info);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "DELETE FROM tile WHERE first = 100");
    store_test_open(&t);
    struct jobfile *file = open_job(id);
    expect_err(jobfile_draws(file, 1, 0, 300, NULL, 0, out, &t.info), ERR_CORRUPT);
    expect_err(jobfile_draws(file, 1, 150, 20, NULL, 0, out, &t.info), ERR_CORRUPT);
    expect_draws(file, 1, 0, 100, NULL, 0);
    expect_draws(file, 1, 200, 100, NULL, 0);
    jobfile_close(file);
}

Test(jobfile, a_shortened_tile_is_noticed)
{
    double out[200];
    make_job(id, 2, 1);
    expect_ok(add_draws(id, 1, 0, 100, 2), &t.info);
    store_close(t.store);
    store_test_sql(&t, "draws/01hf7yat00m5x3qz.db", "UPDATE tile SET data = zeroblob(1592)");
    store_test_open(&t);
    struct jobfile *file = open_job(id);
    expect_err(jobfile_draws(file, 1, 0, 100, NULL, 0, out, &t.info), ERR_CORRUPT);
    jobfile_close(file);
}

/* ---- a full disk ---- */

Test(jobfile, a_full_disk_refuses_the_slice_and_keeps_what_is_there)
{
    size_t problems = 0;
    uint64_t stored = 0;
    enum err code = ERR_OK;
    make_job(id, 4, 1);
    limit_files(3 << 20);
    while (code == ERR_OK && stored < 1000000) {
        code = add_draws(id, 1, stored, 3000, 4);
        stored += code == ERR_OK ? 3000 : 0;
    }
    expect_err(code, ERR_NO_SPACE);
    cr_expect_gt(stored, 0);
    expect_err(add_draws(id, 1, stored, 3000, 4), ERR_NO_SPACE);
    cr_expect(!store_broken(t.store, NULL));
    cr_expect_eq(chain_of(id, 1).draws, stored);
    struct jobfile *file = open_job(id);
    expect_draws(file, 1, 0, (size_t)stored, NULL, 0);
    jobfile_close(file);
    limit_files(RLIM_INFINITY);
    expect_ok(add_draws(id, 1, stored, 3000, 4), &t.info);
    expect_ok(store_check(t.store, count_problem, &problems, &t.info), &t.info);
    cr_expect_eq(problems, 0);
}

Test(jobfile, below_the_reserve_chains_are_refused_and_the_catalogue_is_not)
{
    make_job(id, 4, 1);
    store_close(t.store);
    struct store_config config = {.directory = t.directory, .min_free_bytes = UINT64_MAX / 4};
    expect_ok(store_open(&t.store, &config, &t.info), &t.info);
    expect_err(add_draws(id, 1, 0, 3, 4), ERR_NO_SPACE);
    struct job_row row = store_test_row(1, "ana");
    store_test_add(&t, &row);
}

/* ---- many at once ---- */

enum { READERS = 3, SLICES = 120 };

static atomic_bool writing;
static atomic_size_t mismatches, looks;

/* Whatever moment a reader meets, draws, state and counts belong together. */
static void look(void)
{
    struct err_info info = {0};
    struct jobfile *file;
    struct jobfile_chain stored;
    void *bytes = NULL;
    size_t size;
    double *out = malloc(700 * sizeof *out);
    uint32_t column = 599;
    if (jobfile_open(&file, t.store, id, &info) != ERR_OK ||
        jobfile_chain(file, 1, &stored, &info) != ERR_OK ||
        jobfile_state(file, 1, &bytes, &size, &info) != ERR_OK) {
        mismatches++;
        free(out);
        return;
    }
    size_t count = stored.draws < 700 ? (size_t)stored.draws : 700;
    uint64_t first = stored.draws - count;
    mismatches += bytes != NULL && *(uint64_t *)bytes < stored.draws;
    mismatches += stored.iteration != stored.draws * 10;
    mismatches += jobfile_draws(file, 1, first, count, &column, 1, out, &info) != ERR_OK;
    for (size_t i = 0; i < count; i++)
        mismatches += out[i] != value(1, first + i, column);
    looks += count > 0;
    jobfile_close(file);
    free(bytes);
    free(out);
}

static void *keep_looking(void *arg)
{
    (void)arg;
    while (writing)
        look();
    return NULL;
}

Test(jobfile, readers_see_whole_slices_while_chains_are_committed)
{
    pthread_t threads[READERS];
    make_job(id, 600, 1);
    writing = true;
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, keep_looking, NULL);
    uint64_t stored = 0;
    for (size_t i = 0; i < SLICES; i++) {
        size_t draws = 1 + i % 23;
        expect_ok(add_draws(id, 1, stored, draws, 600), &t.info);
        stored += draws;
    }
    writing = false;
    for (size_t i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(mismatches, 0);
    cr_expect_gt(looks, 0);
}

static void *commit_chain(void *arg)
{
    uint32_t chain = (uint32_t)(size_t)arg;
    double values[40];
    for (uint64_t n = 0; n < 600; n += 10) {
        struct err_info info = {0};
        for (size_t i = 0; i < 40; i++)
            values[i] = value(chain, n + i / 4, i % 4);
        struct jobfile_slice slice = {
            .chain = chain, .first_draw = n, .draws = 10, .values = values};
        mismatches += jobfile_commit(t.store, id, &slice, &info) != ERR_OK;
    }
    return NULL;
}

Test(jobfile, chains_of_a_job_share_transactions)
{
    enum { CHAINS = 8 };
    pthread_t threads[CHAINS];
    struct store_stats before, after;
    make_job(id, 4, CHAINS);
    store_stats(t.store, &before);
    for (size_t c = 0; c < CHAINS; c++)
        pthread_create(&threads[c], NULL, commit_chain, (void *)(c + 1));
    for (size_t c = 0; c < CHAINS; c++)
        pthread_join(threads[c], NULL);
    store_stats(t.store, &after);
    cr_expect_eq(mismatches, 0);
    cr_expect_eq(after.operations - before.operations, CHAINS * 60);
    cr_expect_lt(after.commits - before.commits, CHAINS * 60);
    struct jobfile *file = open_job(id);
    for (uint32_t c = 1; c <= CHAINS; c++)
        expect_draws(file, c, 0, 600, NULL, 0);
    jobfile_close(file);
}

/* ---- removal ---- */

Test(jobfile, purging_takes_the_file_away_and_open_readers_keep_theirs)
{
    struct job_row row = store_test_row(5, "ana");
    struct jobfile *again;
    store_test_add(&t, &row);
    make_job(row.id, 4, 1);
    expect_ok(add_draws(row.id, 1, 0, 100, 4), &t.info);
    struct jobfile *file = open_job(row.id), *other = open_job(row.id);
    jobfile_close(other);
    expect_ok(store_job_purge(t.store, row.id, &t.info), &t.info);
    static const char *const endings[] = {".db", ".db-wal", ".db-shm", ".db-journal"};
    for (size_t i = 0; i < 4; i++)
        cr_expect(!store_test_exists(&t, row.id, endings[i]), "%s is left", endings[i]);
    expect_draws(file, 1, 0, 100, NULL, 0);
    jobfile_close(file);
    expect_err(jobfile_open(&again, t.store, row.id, &t.info), ERR_NOT_FOUND);
    expect_err(add_draws(row.id, 1, 100, 1, 4), ERR_NOT_FOUND);
    cr_expect_eq(jobfile_bytes(t.store, row.id), 0);
}
