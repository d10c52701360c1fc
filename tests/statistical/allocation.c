/* While a chain advances it allocates nothing and makes no system call: no lock that could wait, no
 * input or output, nothing that grows with the iterations. Where memory is taken and there is none,
 * that is an error like any other, and nothing is kept.
 *
 * The program's own malloc counts, refuses when a test says so, and passes on to the C library's;
 * the sanitizers bring theirs, so under them only the rest runs. */
#include "core/diagnostics/mixing.h"
#include "core/model/optimize.h"
#include "core/diagnostics/stein.h"
#include "tests/conformance/fixture.h"
#include "tests/support/toy.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Thread_local uint64_t calls, bytes, refused_call; /* the call that fails; 0: none */
static _Thread_local int64_t held;                        /* blocks */

#ifdef __SANITIZE_ADDRESS__
static const bool counting = false;
#else
static const bool counting = true;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *p);

static bool refused(size_t size)
{
    bytes += size;
    return ++calls == refused_call;
}

static void *given(void *p)
{
    held += p != NULL;
    return p;
}

void *malloc(size_t size)
{
    return refused(size) ? NULL : given(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return refused(n * size) ? NULL : given(__libc_calloc(n, size));
}

void *realloc(void *p, size_t size)
{
    if (refused(size))
        return NULL;
    held -= p != NULL;
    return given(__libc_realloc(p, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return refused(size) ? NULL : given(__libc_memalign(alignment, size));
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    *out = refused(size) ? NULL : given(__libc_memalign(alignment, size));
    return *out ? 0 : ENOMEM;
}

void free(void *p)
{
    held -= p != NULL;
    __libc_free(p);
}
#endif

/* Default choices, every sampler on every model, automatic steps and metrics: the busiest chain. */
static struct chain_config busy_config(const struct sampler_type *sampler,
                                       const struct model *model)
{
    struct chain_config config = {.model = model,
                                  .sampler = sampler,
                                  .step = {.kind = STEP_AUTO, .fraction = STEP_FRACTION},
                                  .batch_size = model->N > 0 && !sampler->exact ? 7 : 0,
                                  .seed = 2385,
                                  .chain = 1,
                                  .warmup = 150,
                                  .iterations = UINT64_C(1) << 40,
                                  .thin = 1,
                                  .metric_every = 10,
                                  .start = {.kind = START_PRIOR}};

    param_defaults(sampler->params, config.params);
    if (param_find(sampler->params, "beta") < sampler->params.count)
        toy_choose(sampler->params, config.params, "variant", "corrected");
    return config;
}

typedef void check(struct chain *chain, const struct chain_config *config);

static void for_all(check *fn)
{
    for (size_t m = 0; m < model_count; m++) {
        struct fixture f;
        fixture_model(models[m], PRECISION_DOUBLE, &f);
        for (size_t s = 0; s < sampler_count; s++) {
            struct chain_config config = busy_config(samplers[s], f.model);
            struct chain *chain = toy_chain(&config);
            fn(chain, &config);
            chain_free(chain);
        }
        fixture_release(&f);
    }
}

static void advance(struct chain *chain, int slices)
{
    struct chain_output out;

    for (int i = 0; i < slices; i++) {
        chain_advance(chain, 13);
        chain_output(chain, &out);
        chain_drain(chain);
    }
}

static void counts_no_allocation(struct chain *chain, const struct chain_config *config)
{
    uint64_t before = calls;
    size_t size = chain_save_size(chain);

    advance(chain, 60);
    cr_expect_eq(calls, before, "%s on %s allocates %lu times", config->sampler->name,
                 config->model->type->name, calls - before);
    cr_expect_eq(chain_save_size(chain), size, "the state has grown");
}

Test(allocation, advancing_allocates_nothing)
{
    uint64_t before = calls;

    free(lanes_alloc(10, 1));
    cr_assert_eq(calls, counting ? before + 1 : before, "the counter does not count");
    for_all(counts_no_allocation);
}

/* In strict mode the kernel kills whoever calls anything but read, write and exit; a child without
 * open files to write to runs the slices, so that even those two would show. */
static void needs_no_system_call(struct chain *chain, const struct chain_config *config)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        for (int fd = 0; fd < 64; fd++)
            close(fd);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
            syscall(SYS_exit, 7);
        advance(chain, 60);
        syscall(SYS_exit, chain_status(chain) == CHAIN_ACTIVE ? 0 : 9);
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "%s on %s made a system call", config->sampler->name,
              config->model->type->name);
    if (WEXITSTATUS(status) == 7)
        cr_skip_test("skipped: no seccomp here");
}

Test(allocation, advancing_makes_no_system_call)
{
    if (counting)
        for_all(needs_no_system_call);
}

/* What a chain says that it needs is what it takes; small parts may be left out of the sum. */
Test(allocation, stated_memory_is_what_is_allocated)
{
    for (size_t m = 0; counting && m < model_count; m++) {
        struct fixture f;
        fixture_model(models[m], PRECISION_DOUBLE, &f);
        for (size_t s = 0; s < sampler_count; s++) {
            struct chain_config config = busy_config(samplers[s], f.model);
            uint64_t before = bytes;
            struct chain *chain = toy_chain(&config);
            double taken = (double)(bytes - before), stated = (double)chain_memory_bytes(&config);
            cr_expect(taken > 0.8 * stated && taken < 1.05 * stated + 65536,
                      "%s on %s: %.0f bytes, stated %.0f", samplers[s]->name, models[m]->name,
                      taken, stated);
            chain_free(chain);
        }
        fixture_release(&f);
    }
}

/* ---- no memory ---- */

/* What the users of memory below work on: made before memory runs out. */
struct room {
    struct fixture *f;
    struct chain_config config;
    double *theta;
    void *saved;
    size_t saved_size;
};

/* Takes memory, does something with it, gives it back. */
typedef enum err user(struct room *room, struct err_info *info);

static enum err a_model(struct room *room, struct err_info *info)
{
    const struct model_type *type = room->f->model->type;
    bool data = type->data != DATA_NONE;
    struct model *model;
    enum err code = type->init(&model, room->f->params, data ? &room->f->train : NULL,
                               data ? &room->f->test : NULL, info);
    if (code == ERR_OK)
        model_free(model);
    return code;
}

static enum err a_chain(struct room *room, struct err_info *info)
{
    struct chain *chain;
    enum err code = chain_new(&chain, &room->config, info);
    if (code == ERR_OK)
        chain_free(chain);
    return code;
}

static enum err a_loaded_chain(struct room *room, struct err_info *info)
{
    struct chain *chain;
    enum err code = chain_load(&chain, &room->config, room->saved, room->saved_size, info);
    if (code == ERR_OK)
        chain_free(chain);
    return code;
}

static enum err a_mode(struct room *room, struct err_info *info)
{
    struct gradient source;
    struct optimum optimum;
    const struct model *m = room->f->model;
    enum err code = gradient_init(&source, m, m->N, false, info);
    if (code != ERR_OK)
        return code;
    memcpy(room->theta, room->theta + padded(m->d), m->d * sizeof *room->theta);
    code = optimize_mode(&source, room->theta, 2, &optimum, info);
    gradient_release(&source);
    return code;
}

static enum err diagnostics(struct room *room, struct err_info *info)
{
    struct mixing_work *work;
    (void)room;
    enum err code = mixing_work_new(&work, 500, info);
    if (code == ERR_OK)
        mixing_work_free(work);
    return code;
}

static struct stein_points points(const struct room *room)
{
    size_t d = room->f->model->d;
    return (struct stein_points){
        .n = 2, .d = d, .stride = padded(d), .theta = room->theta, .score = room->theta};
}

static enum err a_stein_discrepancy(struct room *room, struct err_info *info)
{
    struct stein_points p = points(room);
    struct stein_ksd ksd;
    enum err code = stein_ksd(&ksd, &p, 1, info);
    cr_assert(code == ERR_OK || isnan(ksd.value));
    return code;
}

static enum err a_finite_set_discrepancy(struct room *room, struct err_info *info)
{
    struct stein_points p = points(room);
    struct stein_fssd fssd;
    enum err code = stein_fssd(&fssd, &p, 3, 1, info);
    cr_assert(code == ERR_OK || isnan(fssd.value));
    return code;
}

/* Every allocation fails once, the first, the second, ...; when none is left to fail, it works. */
static void fails_and_keeps_nothing(user *use, struct room *room, const char *what)
{
    for (uint64_t k = 1; k < 100; k++) {
        struct err_info info = {.message = ""};
        int64_t before = held;
        refused_call = calls + k;
        enum err code = use(room, &info);
        bool failed = calls >= refused_call;
        refused_call = 0;
        const char *model = room->f->model->type->name;
        cr_assert_eq(held, before, "%s, %s, allocation %lu: keeps memory", model, what, k);
        cr_assert_eq(code, failed ? ERR_NO_MEMORY : ERR_OK, "%s, %s, allocation %lu: %s", model,
                     what, k, info.message);
        if (!failed)
            return;
        cr_assert_not_null(strstr(info.message, "memory"), "%s", info.message);
    }
    cr_assert_fail("%s never works", what);
}

static void room_open(struct room *room, struct fixture *f)
{
    static const uint32_t first[1] = {0};
    *room = (struct room){.f = f, .config = busy_config(sampler_find("sgbd"), f->model)};
    room->config.save = first;
    room->config.save_count = 1;
    room->config.start.kind = START_MAP;
    room->config.start.map_steps = 1;
    struct chain *chain = toy_chain(&room->config);
    room->saved_size = chain_save_size(chain);
    room->saved = malloc(room->saved_size);
    chain_save(chain, room->saved);
    chain_free(chain);
    size_t d = f->model->d;
    double *point = fixture_point(f->model, 5);
    room->theta = fixture_array(2 * padded(d));
    memcpy(room->theta, point, d * sizeof *point);
    for (size_t j = 0; j < d; j++)
        room->theta[padded(d) + j] = point[j] + 0.25;
    free(point);
}

Test(allocation, without_memory_there_is_an_error_and_nothing_is_kept)
{
    for (size_t m = 0; counting && m < model_count; m++) {
        struct fixture f;
        struct room room;
        fixture_model(models[m], PRECISION_DOUBLE, &f);
        room_open(&room, &f);
        fails_and_keeps_nothing(a_model, &room, "a model");
        fails_and_keeps_nothing(a_chain, &room, "a chain");
        fails_and_keeps_nothing(a_loaded_chain, &room, "a loaded chain");
        fails_and_keeps_nothing(diagnostics, &room, "diagnostics");
        fails_and_keeps_nothing(a_stein_discrepancy, &room, "a Stein discrepancy");
        fails_and_keeps_nothing(a_finite_set_discrepancy, &room, "a finite set discrepancy");
        fails_and_keeps_nothing(a_mode, &room, "a mode");
        free(room.saved);
        free(room.theta);
        fixture_release(&f);
    }
}

/* Sizes that overflow, and one that no address space has (sanitizers end the program there). */
Test(allocation, impossible_sizes_are_no_memory)
{
    cr_expect_null(lanes_alloc(SIZE_MAX, 8));
    cr_expect_null(lanes_alloc(SIZE_MAX / 8 - 3, 8));
    if (counting)
        cr_expect_null(lanes_alloc(SIZE_MAX / 16, 8));
}
