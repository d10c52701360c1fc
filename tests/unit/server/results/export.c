/* Downloads: which draws are chosen, and that every format says what a plain writer would say,
 * whatever the size of the buffer, the block or the selection. */
#include "tests/unit/server/results/export_toy.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* ---- plain writers ---- */

static uint64_t stored_of(const struct export_chain *chain, const struct wish *w, uint64_t i)
{
    return chain->first + i * w->range.step;
}

static void plain_csv(const struct wish *w, const struct toy *toy, struct bytes *out)
{
    static const char *const quoted[] = {"mu", "\"theta[1]\"", "\"U[3,7]\"", "\"a\"\"b\"", "x_1.y"};
    struct export_chain chains[4];
    uint64_t draw = 0;
    choose_all(w, toy, chains);
    bytes_addf(out, ".chain,.iteration,.draw");
    for (size_t k = 0; k < w->width; k++)
        bytes_addf(out, ",%s", quoted[w->columns[k]]);
    bytes_addf(out, "\n");
    for (size_t c = 0; c < w->chain_count; c++)
        for (uint64_t i = 0; i < chains[c].count; i++) {
            bytes_addf(out, "%u,%" PRIu64 ",%" PRIu64, chains[c].chain, i + 1, ++draw);
            for (size_t k = 0; k < w->width; k++) {
                bytes_add(out, ",", 1);
                bytes_number(
                    out, toy_value(chains[c].chain, stored_of(&chains[c], w, i), w->columns[k]));
            }
            bytes_add(out, "\n", 1);
        }
}

static uint64_t shortest_of(const struct export_chain *chains, size_t count)
{
    uint64_t shortest = UINT64_MAX;
    for (size_t c = 0; c < count; c++)
        shortest = chains[c].count < shortest ? chains[c].count : shortest;
    return shortest;
}

static void plain_npy(const struct wish *w, const struct toy *toy, struct bytes *out)
{
    struct export_chain chains[4];
    choose_all(w, toy, chains);
    uint64_t shortest = shortest_of(chains, w->chain_count);
    bytes_addf(out, "\x93NUMPY%c%c%c%c", 1, 0, 0, 0);
    bytes_addf(out, "{'descr': '<f8', 'fortran_order': False, 'shape': (%zu, %" PRIu64 ", %zu), }",
               w->chain_count, shortest, w->width);
    while (out->size % 64 != 63)
        bytes_add(out, " ", 1);
    bytes_add(out, "\n", 1);
    out->at[8] = (char)(out->size - 10);
    for (size_t c = 0; c < w->chain_count; c++)
        for (uint64_t i = 0; i < shortest; i++)
            for (size_t k = 0; k < w->width; k++) {
                double value =
                    toy_value(chains[c].chain, stored_of(&chains[c], w, i), w->columns[k]);
                bytes_add(out, (const char *)&value, sizeof value);
            }
}

static void plain_numbers(const struct export_chain *chain, const struct wish *w, size_t k,
                          struct bytes *out)
{
    for (uint64_t i = 0; i < chain->count; i++) {
        double value = toy_value(chain->chain, stored_of(chain, w, i), w->columns[k]);
        bytes_addf(out, "%s", i > 0 ? "," : "");
        if (isfinite(value))
            bytes_number(out, value);
        else
            bytes_addf(out, "null");
    }
}

static const char *const quoted[] = {"\"mu\"", "\"theta[1]\"", "\"U[3,7]\"", "\"a\\\"b\"",
                                     "\"x_1.y\""};

static void plain_columns(const struct export_chain *chain, const struct wish *w, struct bytes *out)
{
    for (size_t k = 0; k < w->width; k++) {
        bytes_addf(out, "%s%s:[", k > 0 ? "," : "", quoted[w->columns[k]]);
        plain_numbers(chain, w, k, out);
        bytes_addf(out, "]");
    }
}

static void plain_json(const struct wish *w, const struct toy *toy, struct bytes *out)
{
    struct export_chain chains[4];
    choose_all(w, toy, chains);
    bytes_addf(out, "{\"job\":\"01hzy6v5d8k2m3n4\",\"parameters\":[");
    for (size_t k = 0; k < w->width; k++)
        bytes_addf(out, "%s%s", k > 0 ? "," : "", quoted[w->columns[k]]);
    bytes_addf(out, "],\"warmup\":%s,\"chains\":[", w->warmup ? "true" : "false");
    for (size_t c = 0; c < w->chain_count; c++) {
        bytes_addf(out, "%s{\"chain\":%u,\"iterations\":[", c > 0 ? "," : "", chains[c].chain);
        for (uint64_t i = 0; i < chains[c].count; i++)
            bytes_addf(out, "%s%" PRIu64, i > 0 ? "," : "",
                       (stored_of(&chains[c], w, i) + 1) * w->thin);
        bytes_addf(out, "],\"values\":{");
        plain_columns(&chains[c], w, out);
        bytes_addf(out, "}}");
    }
    bytes_addf(out, "]}\n");
}

static void plain_posteriordb(const struct wish *w, const struct toy *toy, struct bytes *out)
{
    struct export_chain chains[4];
    choose_all(w, toy, chains);
    uint64_t shortest = shortest_of(chains, w->chain_count);
    for (size_t c = 0; c < w->chain_count; c++) {
        chains[c].count = shortest;
        bytes_addf(out, "%s{", c == 0 ? "[" : ",\n");
        plain_columns(&chains[c], w, out);
        bytes_addf(out, "}");
    }
    bytes_addf(out, "]\n");
}

static void plain_stan_rows(const struct export_chain *chain, const struct wish *w, uint64_t from,
                            uint64_t to, struct bytes *out)
{
    for (uint64_t i = from; i < to; i++) {
        bytes_addf(out, "NaN,NaN,NaN,0,1,0");
        for (size_t k = 0; k < w->width; k++) {
            bytes_add(out, ",", 1);
            bytes_number(out, toy_value(chain->chain, stored_of(chain, w, i), w->columns[k]));
        }
        bytes_add(out, "\n", 1);
    }
}

/* Nothing is known of the run. No two of the parameters make an array. */
static void plain_stan(const struct wish *w, const struct toy *toy, struct bytes *out)
{
    static const char *const called[] = {"mu", "theta.1", "U_3_7", "a_b", "x_1_y"};
    struct export_chain chain[4];
    uint64_t warmup = 0, spacing = w->thin * w->range.step;
    choose_all(w, toy, chain);
    while (w->warmup && warmup < chain->count &&
           (stored_of(chain, w, warmup) + 1) * w->thin <= WARMUP)
        warmup++;
    bytes_addf(out, "# stan_version_major = 2\n# stan_version_minor = 35\n"
                    "# stan_version_patch = 0\n# model = unknown_model\n"
                    "# start_datetime = 2026-01-31 09:05:00 UTC\n");
    bytes_addf(out,
               "# method = sample (Default)\n#   sample\n#     num_samples = %" PRIu64
               "\n#     num_warmup = %" PRIu64 "\n#     save_warmup = %s\n"
               "#     thin = 1 (Default)\n",
               chain->count - warmup, w->warmup ? warmup : WARMUP / spacing,
               w->warmup ? "1" : "0 (Default)");
    bytes_addf(out,
               "#     algorithm = unknown\n#       unknown\n#         max_depth = 10\n"
               "#         metric = unit_e\n#         sg_thin = %" PRIu64
               "\n#         sg_warmup = %d\n#         sg_job = 01hzy6v5d8k2m3n4\n",
               spacing, WARMUP);
    bytes_addf(out,
               "#         sg_lp = not_stored\n"
               "#         sg_elapsed = cpu_seconds_split_by_iterations\n"
               "# id = %u\n# random\n#   seed = 0\n# output\n#   refresh = 100 (Default)\n",
               chain->chain);
    bytes_addf(out, "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__");
    for (size_t k = 0; k < w->width; k++)
        bytes_addf(out, ",%s", called[w->columns[k]]);
    bytes_addf(out, "\n");
    plain_stan_rows(chain, w, 0, warmup, out);
    bytes_addf(out, "# Adaptation terminated\n# Step size = NaN\n");
    plain_stan_rows(chain, w, warmup, chain->count, out);
    bytes_addf(out, "# \n#  Elapsed Time: 0.625 seconds (Warm-up)\n"
                    "#                1.875 seconds (Sampling)\n"
                    "#                2.5 seconds (Total)\n# \n");
}

static const struct {
    const char *format;
    void (*plain)(const struct wish *w, const struct toy *toy, struct bytes *out);
} writers[] = {{"csv", plain_csv},
               {"npy", plain_npy},
               {"json", plain_json},
               {"posteriordb", plain_posteriordb},
               {"stan", plain_stan}};

/* What a format takes of a wish. */
static struct wish fitting(const char *format, const struct wish *w)
{
    struct wish fits = *w;
    if (export_find(format)->one_chain)
        fits.chain_count = 1;
    return fits;
}

static void expect_same(const char *format, const struct bytes *got, const struct bytes *wanted,
                        size_t size)
{
    size_t at = 0;
    while (at < got->size && at < wanted->size && got->at[at] == wanted->at[at])
        at++;
    cr_expect(got->size == wanted->size && at == got->size,
              "%s, buffers of %zu bytes: %zu bytes, not %zu; differs at %zu: \"%.30s\"", format,
              size, got->size, wanted->size, at, at < got->size ? got->at + at : "");
}

static void compare(const struct wish *w, const struct toy *given, const size_t *sizes,
                    size_t size_count)
{
    for (size_t f = 0; f < COUNT(writers); f++) {
        struct bytes wanted = {0};
        struct wish wish = fitting(writers[f].format, w);
        writers[f].plain(&wish, given, &wanted);
        for (size_t s = 0; s < size_count; s++) {
            struct toy toy = *given;
            struct bytes got = {0};
            struct export *e = start(writers[f].format, &wish, &toy);
            uint64_t size = export_size(e);
            cr_expect(size == UINT64_MAX || size == wanted.size);
            cr_expect_eq(pull(e, sizes[s], &got), -1);
            expect_same(writers[f].format, &got, &wanted, sizes[s]);
            export_free(e);
            free(got.at);
        }
        free(wanted.at);
    }
}

/* ---- tests ---- */

Test(export, draws_are_chosen_by_iteration)
{
    static const struct {
        struct export_range range;
        uint64_t stored, thin, first, count;
    } cases[] = {
        {{1, UINT64_MAX, 1}, 100, 1, 0, 100},
        {{0, UINT64_MAX, 1}, 100, 1, 0, 100},
        {{51, UINT64_MAX, 1}, 100, 1, 50, 50},
        /* thin 10: draws stand after iterations 10, 20, ... */
        {{51, UINT64_MAX, 1}, 100, 10, 5, 95},
        {{60, UINT64_MAX, 1}, 100, 10, 5, 95},
        {{61, UINT64_MAX, 1}, 100, 10, 6, 94},
        {{1, 60, 1}, 100, 10, 0, 6},
        {{1, 59, 1}, 100, 10, 0, 5},
        {{1, 9, 1}, 100, 10, 0, 0},
        {{60, 60, 1}, 100, 10, 5, 1},
        {{61, 69, 1}, 100, 10, 6, 0},
        {{2000, UINT64_MAX, 1}, 100, 10, 199, 0},
        {{1, UINT64_MAX, 7}, 100, 1, 0, 15},
        {{1, 99, 7}, 100, 1, 0, 15},
        {{1, 98, 7}, 100, 1, 0, 14},
        {{3, UINT64_MAX, 1000}, 100, 1, 2, 1},
        {{1, UINT64_MAX, 1}, 0, 1, 0, 0},
        {{UINT64_MAX, UINT64_MAX, 1}, 10, 3, UINT64_MAX / 3 - 1, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct export_chain chain = {.chain = 1};
        export_choose(&chain, &cases[i].range, cases[i].stored, cases[i].thin);
        cr_expect_eq(chain.first, cases[i].first, "case %zu: %" PRIu64, i, chain.first);
        cr_expect_eq(chain.count, cases[i].count, "case %zu: %" PRIu64, i, chain.count);
    }
}

Test(export, documents_do_not_depend_on_the_size_of_the_buffer)
{
    static const size_t sizes[] = {1, 2, 7, 64, 1000, 4095, 4096, 4097, 32768, 1 << 20};
    struct toy toy = {.stored = {300, 211, 0, 300}};
    struct wish w = {.columns = {0, 1, 2, 3, 4},
                     .width = 5,
                     .chains = {1, 2, 3, 4},
                     .chain_count = 3,
                     .range = {.from = 101, .to = UINT64_MAX, .step = 1},
                     .thin = 2};
    compare(&w, &toy, sizes, COUNT(sizes));
}

Test(export, columns_and_chains_come_in_the_order_in_which_they_were_asked_for)
{
    static const size_t sizes[] = {32768};
    struct toy toy = {.stored = {40, 50, 60, 70}};
    struct wish w = {.columns = {4, 0, 2},
                     .width = 3,
                     .chains = {4, 2},
                     .chain_count = 2,
                     .range = {.from = 1, .to = 555, .step = 3},
                     .thin = 10,
                     .warmup = true};
    compare(&w, &toy, sizes, COUNT(sizes));
}

Test(export, a_job_without_draws_gives_an_empty_document)
{
    static const size_t sizes[] = {5, 32768};
    struct toy toy = {0};
    struct wish w = {.columns = {0, 1},
                     .width = 2,
                     .chains = {1, 2},
                     .chain_count = 2,
                     .range = {.from = 1, .to = UINT64_MAX, .step = 1},
                     .thin = 1};
    compare(&w, &toy, sizes, COUNT(sizes));
    cr_expect_eq(toy.calls, 0);
    w.width = 0;
    toy.stored[0] = toy.stored[1] = 10;
    struct bytes got = {0};
    struct export *e = start("csv", &w, &toy);
    cr_expect_eq(pull(e, 100, &got), -1);
    cr_expect_str_eq(got.at, ".chain,.iteration,.draw\n");
    export_free(e);
    free(got.at);
}

/* More draws than one block holds, so that blocks end within chains, rows and columns. */
Test(export, long_chains_are_read_block_by_block)
{
    static const size_t sizes[] = {32768};
    static const uint64_t steps[] = {1, 3, 250000};
    struct toy toy = {.stored = {700001, 300007}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        struct wish w = {.columns = {3, 1, 0},
                         .width = 3,
                         .chains = {1, 2},
                         .chain_count = 2,
                         .range = {.from = 1, .to = UINT64_MAX, .step = steps[i]},
                         .thin = 1};
        compare(&w, &toy, sizes, COUNT(sizes));
    }
}

Test(export, one_call_reads_one_block_of_bounded_size)
{
    struct toy toy = {.stored = {900000, 900000}};
    struct wish w = {.columns = {0, 1, 2, 3},
                     .width = 4,
                     .chains = {1, 2},
                     .chain_count = 2,
                     .range = {.from = 1, .to = UINT64_MAX, .step = 1},
                     .thin = 1};
    for (size_t f = 0; f < COUNT(writers); f++) {
        size_t size = 64 << 20;
        char *buffer = malloc(size);
        struct wish wish = fitting(writers[f].format, &w);
        struct export *e = start(writers[f].format, &wish, &toy);
        ssize_t got;
        do {
            toy.calls = 0;
            got = export_read(e, buffer, size);
            cr_expect_leq(toy.calls, 1, "%s read %zu blocks", writers[f].format, toy.calls);
        } while (got > 0);
        cr_expect_leq(toy.most * sizeof(double), (size_t)512 << 10, "%s", writers[f].format);
        cr_expect_eq(got, -1);
        export_free(e);
        free(buffer);
    }
}

Test(export, a_failing_source_cuts_the_document)
{
    for (size_t f = 0; f < COUNT(writers); f++) {
        struct toy toy = {.stored = {700000, 700000}, .fail_at = 3};
        struct wish w = {.columns = {0, 1},
                         .width = 2,
                         .chains = {1, 2},
                         .chain_count = 2,
                         .range = {.from = 1, .to = UINT64_MAX, .step = 1},
                         .thin = 1};
        struct bytes got = {0};
        struct wish wish = fitting(writers[f].format, &w);
        struct export *e = start(writers[f].format, &wish, &toy);
        cr_expect_eq(pull(e, 32768, &got), -2, "%s", writers[f].format);
        cr_expect_str_eq(export_error(e)->message, "the disk is gone");
        char byte;
        cr_expect_eq(export_read(e, &byte, 1), -2, "it must not go on");
        export_free(e);
        free(got.at);
    }
}

Test(export, json_is_json)
{
    struct toy toy = {.stored = {200, 100}};
    struct wish w = {.columns = {3, 1},
                     .width = 2,
                     .chains = {1, 2},
                     .chain_count = 2,
                     .range = {.from = 1, .to = UINT64_MAX, .step = 1},
                     .thin = 5};
    struct bytes got = {0};
    struct export *e = start("json", &w, &toy);
    pull(e, 777, &got);
    json_t *doc = json_loadb(got.at, got.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(doc, "%s", got.at);
    const json_t *chain = json_array_get(json_object_get(doc, "chains"), 1);
    const json_t *values = json_object_get(json_object_get(chain, "values"), "theta[1]");
    cr_expect_eq(json_array_size(values), 100);
    cr_expect_eq(json_real_value(json_array_get(values, 7)), toy_value(2, 7, 1));
    cr_expect(json_is_null(json_array_get(values, 13)));
    cr_expect_eq(json_integer_value(json_array_get(json_object_get(chain, "iterations"), 7)), 40);
    json_decref(doc);
    export_free(e);
    free(got.at);
}

static bool has_line(const struct bytes *text, const char *line)
{
    const char *at = strstr(text->at, line);
    return at != NULL && (at == text->at || at[-1] == '\n') && at[strlen(line)] == '\n';
}

Test(export, a_stan_file_tells_of_the_run_in_single_words)
{
    static const struct {
        const char *request;
        const char *lines[5];
    } cases[] = {
        {"{\"model\":{\"name\":\"logistic\"},\"seed\":4711,\"batch_size\":128,\"replacement\":"
         "false,"
         "\"sampler\":{\"name\":\"sgbd\",\"variant\":\"corrected\",\"step_size\":0.1,\"beta\":2."
         "385}}",
         {"# model = logistic_model", "#   seed = 4711", "#         sg_beta = 2.385",
          "# Step size = 0.1", "NaN,1,0.1,0,1,0,1,-1999"}},
        {"{\"sampler\":{\"name\":\"sgld\",\"step_size\":[0.1,0.2]},\"batch_size\":\"full\"}",
         {"#         sg_step_size = per_coordinate", "#         sg_batch_size = full",
          "# Step size = NaN", "NaN,1,NaN,0,1,0,1,-1999"}},
        {"{\"sampler\":{\"name\":\"sgld\",\"step_size\":{\"kind\":\"decreasing\",\"value\":1}}}",
         {"#         sg_step_size = decreasing", "NaN,1,NaN,0,1,0,1,-1999"}},
        /* Metropolis: whether a proposal was accepted is not stored */
        {"{\"sampler\":{\"name\":\"mala\",\"step_size\":\"auto\"}}",
         {"#     algorithm = mala", "#         sg_step_size = auto", "NaN,NaN,NaN,0,1,0,1,-1999"}},
        {"{\"sampler\":{\"name\":\"sgbd\",\"odd\":\"a = b # c\",\"none\":null}}",
         {"#         sg_odd = a___b___c"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct toy toy = {.stored = {3}};
        struct bytes got = {0};
        struct wish w = {.columns = {0, 2},
                         .width = 2,
                         .chains = {1},
                         .chain_count = 1,
                         .range = {.from = 1, .to = UINT64_MAX, .step = 1},
                         .thin = 50,
                         .request = cases[i].request};
        struct export *e = start("stan", &w, &toy);
        cr_expect_eq(pull(e, 1000, &got), -1);
        for (size_t k = 0; k < COUNT(cases[i].lines) && cases[i].lines[k] != NULL; k++)
            cr_expect(has_line(&got, cases[i].lines[k]), "no line \"%s\" in\n%s", cases[i].lines[k],
                      got.at);
        cr_expect_null(strstr(got.at, "sg_none"));
        export_free(e);
        free(got.at);
    }
}

Test(export, every_format_says_what_it_is)
{
    for (const struct export_format *const *f = export_formats; *f != NULL; f++) {
        cr_expect(strchr((*f)->content_type, '/') != NULL && (*f)->ending[0] != '.');
        cr_expect_gt(strlen((*f)->help), 20, "%s", (*f)->name);
        cr_expect_eq(export_find((*f)->name), *f);
    }
}
