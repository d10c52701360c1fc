/* While a chain advances it allocates nothing and makes no system call: no lock that could wait, no
 * input or output, nothing that grows with the iterations.
 *
 * The program's own malloc counts and passes on to the C library's; the sanitizers bring theirs, so
 * under them only the rest runs. */
#include "tests/conformance/fixture.h"
#include "tests/support/toy.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Thread_local uint64_t calls, bytes;

#ifdef __SANITIZE_ADDRESS__
static const bool counting = false;
#else
static const bool counting = true;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    calls++;
    bytes += size;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    calls++;
    bytes += n * size;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    calls++;
    bytes += size;
    return __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    calls++;
    bytes += size;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    calls++;
    bytes += size;
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
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
    cr_expect(WEXITSTATUS(status) != 7, "no seccomp here");
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
