/* Plans as bytes: nothing is lost, damage is noticed, and plans of version 0.1.0 are still read.
 *
 * tests/fixtures/plans/NAME.plan was stored by barkerd 0.1.0 (version 1 of the bytes), NAME.txt is
 * what was in it. They cannot be made again and must stay as they are. */
#include "core/model/frame.h"
#include "core/plan/plan.h"
#include "tests/conformance/fixture.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const stored[] = {"dense", "diagonal"};
#define STORED (sizeof stored / sizeof stored[0])

static char *contents(const char *name, const char *ending, size_t *size)
{
    char path[100], *bytes = calloc(1, 100000);
    snprintf(path, sizeof path, "tests/fixtures/plans/%s.%s", name, ending);
    FILE *file = fopen(path, "rb");
    cr_assert(file != NULL && bytes != NULL, "%s", path);
    *size = fread(bytes, 1, 99999, file);
    fclose(file);
    return bytes;
}

static void dump_array(FILE *out, const char *name, const double *x, size_t n)
{
    fprintf(out, "%s", name);
    for (size_t i = 0; x != NULL && i < n; i++)
        fprintf(out, " %a", x[i]);
    fprintf(out, "\n");
}

/* Every field as text, one per line. */
static void dump(const struct plan *p, FILE *out)
{
    size_t d = p->d, frame_bytes = p->frame != NULL ? frame_save_size(p->frame) : 0;
    fprintf(out, "d %zu\ncontrol %d\nvariant %d\nrecentred %d\none_in %d\nprecondition %d\n", d,
            p->control, p->variant, p->recentred, p->one_in, (int)p->precondition);
    fprintf(out, "step %d %a %zu %a %a %a\n", (int)p->step.kind, p->step.value, p->step.count,
            p->step.t0, p->step.gamma, p->step.fraction);
    fprintf(out, "lengths %ju %ju %ju %ju\n", (uintmax_t)p->batch_size, (uintmax_t)p->warmup,
            (uintmax_t)p->iterations, (uintmax_t)p->thin);
    fprintf(out, "start %d %u\nsigma_asked %a\nwithin_target %d\n", (int)p->start.kind,
            p->start.map_steps, p->sigma_asked, p->within_target);
    fprintf(out, "centre %d %d %u %ju %a %a %a\n", p->centre.sought, p->centre.converged,
            p->centre.steps, (uintmax_t)p->centre.passes, p->centre.log_density,
            p->centre.gradient_norm, p->centre.seconds);
#define X(name, help) fprintf(out, #name " %a\n", p->checks.name);
    PLAN_CHECK_LIST(X)
#undef X
    for (size_t i = 0; i < p->why_count; i++)
        fprintf(out, "why %s\n", p->why[i]);
    fprintf(out, "most_seconds %a\nsampler %s\n", p->most_seconds, p->sampler);
    dump_array(out, "sigma", p->sigma, d);
    dump_array(out, "values", p->start.values, d);
    dump_array(out, "spread", p->start.spread, d);
    fprintf(out, "frame %zu %016jx\n", frame_bytes,
            (uintmax_t)(p->frame != NULL ? frame_fingerprint(p->frame) : 0));
}

static void expect_text(const struct plan *plan, const char *name)
{
    size_t size;
    char *expected = contents(name, "txt", &size), *text = NULL;
    FILE *out = open_memstream(&text, &size);
    dump(plan, out);
    fclose(out);
    cr_expect_str_eq(text, expected);
    cr_expect_eq(plan->step.values, plan->sigma);
    free(text);
    free(expected);
}

static struct plan *loaded(const void *bytes, size_t size)
{
    struct plan *plan = NULL;
    struct err_info info = {0};
    cr_assert_eq(plan_load(&plan, bytes, size, &info), ERR_OK, "%s", info.message);
    return plan;
}

static struct plan *of_version_1(const char *name)
{
    size_t size;
    char *bytes = contents(name, "plan", &size);
    struct plan *plan = loaded(bytes, size);
    free(bytes);
    return plan;
}

static unsigned char *saved(const struct plan *plan, size_t *size)
{
    *size = plan_save_size(plan);
    unsigned char *bytes = malloc(*size);
    cr_assert_not_null(bytes);
    plan_save(plan, bytes);
    return bytes;
}

static void refused(const void *bytes, size_t size, const char *text)
{
    struct plan *plan = NULL;
    struct err_info info = {0};
    cr_expect_eq(plan_load(&plan, bytes, size, &info), ERR_CORRUPT, "%zu bytes", size);
    cr_expect(strstr(info.message, text) != NULL, "%s", info.message);
    cr_expect_null(plan);
}

Test(plan_save, a_plan_stored_by_version_0_1_0_is_read_field_by_field)
{
    for (size_t k = 0; k < STORED; k++) {
        struct plan *plan = of_version_1(stored[k]);
        expect_text(plan, stored[k]);
        plan_free(plan);
    }
}

Test(plan_save, every_field_comes_back)
{
    for (size_t k = 0; k < STORED; k++) {
        struct plan *plan = of_version_1(stored[k]);
        size_t size;
        unsigned char *bytes = saved(plan, &size);
        cr_expect_eq(bytes[8], 5, "the present version of the bytes");
        plan_free(plan);
        plan = loaded(bytes, size);
        expect_text(plan, stored[k]);
        plan_free(plan);
        free(bytes);
    }
}

Test(plan_save, chains_run_with_a_stored_plan)
{
    struct fixture f = {.params = {1.5}};
    struct err_info info = {0};
    fixture_rows(&f.train, DATA_REGRESSION, PRECISION_DOUBLE, 20000, 3, 404);
    fixture_init(&f, &model_logistic);
    for (size_t k = 0; k < STORED; k++) {
        struct plan *plan = of_version_1(stored[k]);
        struct model *view = NULL;
        struct chain *chain = NULL;
        struct chain_config config = {
            .model = f.model, .sampler = &sampler_sgbd, .seed = 2385, .chain = 1};
        param_defaults(sampler_sgbd.params, config.params);
        cr_assert_eq(plan_view(&view, plan, f.model, &info), ERR_OK, "%s", info.message);
        config.view = view;
        plan_apply(plan, &config);
        cr_assert_eq(chain_new(&chain, &config, &info), ERR_OK, "%s", info.message);
        cr_expect_eq(chain_advance(chain, 50), 50);
        chain_free(chain);
        if (view != NULL)
            model_free(view);
        plan_free(plan);
    }
    fixture_release(&f);
}

Test(plan_save, damage_of_any_byte_is_noticed)
{
    struct plan *plan = of_version_1("diagonal");
    size_t sizes[2];
    unsigned char *both[] = {saved(plan, &sizes[0]),
                             (unsigned char *)contents("diagonal", "plan", &sizes[1])};
    for (size_t k = 0; k < 2; k++) {
        for (size_t at = 0; at < sizes[k]; at += at < 600 ? 1 : 97) {
            both[k][at] ^= 0x40;
            refused(both[k], sizes[k], "saved plan: ");
            both[k][at] ^= 0x40;
        }
        free(both[k]);
    }
    plan_free(plan);
}

Test(plan_save, a_truncated_or_foreign_plan_is_refused_with_the_reason)
{
    struct plan *plan = of_version_1("dense");
    size_t size;
    unsigned char *bytes = saved(plan, &size);
    refused(bytes, 0, "0 bytes are too few");
    refused(bytes, 71, "71 bytes are too few");
    for (size_t less = 72; less < size; less += 101)
        refused(bytes, less, "which is not its length");
    bytes[8] = 6;
    refused(bytes, size, "version 6, this program reads 1 to 5");
    bytes[8] = 0;
    refused(bytes, size, "version 0, this program reads 1 to 5");
    bytes[0] = 'C';
    refused(bytes, size, "these bytes are not a plan");
    free(bytes);
    plan_free(plan);
}
