/* Whole iterations of our chains, nothing stored, for `make bench`; see worker.h. */
#include "core/chain/chain.h"
#include "core/kernels/kernels.h"
#include "core/chain/chain_batch.h"
#include "core/model/view.h"
#include "models/models.h"
#include "tests/bench/worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define CHAINS    64 /* at most, with apart=1 */
#define HUGE_PAGE ((size_t)1 << 21)

static struct {
    struct dataset data;
    struct model *model, *view;
    struct frame *frame;
    struct chain **chains;
    size_t count;
    bool apart;
} bench;

static void die(const char *what)
{
    fprintf(stderr, "bench-ours: %s\n", what);
    exit(1);
}

/* In huge pages, as the daemon keeps its data. */
static void *array(size_t n, size_t size)
{
    size_t bytes = (n * size + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, bytes);
    if (p == NULL)
        die("no memory");
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static const struct model_type *model_type(const char *name)
{
    if (strcmp(name, "logistic") == 0)
        return &model_logistic;
    if (strcmp(name, "factorization") == 0)
        return &model_matrix_factorization;
    return strcmp(name, "ica") == 0 ? &model_ica : &model_skew_normal;
}

/* Rows as close together as the daemon keeps them; the response follows the first column. */
static void make_rows(struct dataset *out, const struct workload *w, enum data_kind kind)
{
    size_t stride = dataset_stride(w->d, w->single ? PRECISION_SINGLE : PRECISION_DOUBLE);
    uint64_t state = 2385;
    double *doubles = w->single ? NULL : array(w->N * stride, sizeof(double)), *y = NULL;
    float *singles = w->single ? array(w->N * stride, sizeof(float)) : NULL;
    if (kind == DATA_REGRESSION)
        y = array(w->N, sizeof *y);
    for (size_t i = 0; i < w->N; i++) {
        double first = 0.0;
        for (size_t j = 0; j < w->d; j++) {
            double x = worker_covariate(&state);
            if (w->single)
                singles[i * stride + j] = (float)x;
            else
                doubles[i * stride + j] = x;
            first = j == 0 ? x : first;
        }
        if (y != NULL)
            y[i] = first + worker_covariate(&state) > 0.0 ? 1.0 : 0.0;
    }
    *out = (struct dataset){.kind = kind,
                            .precision = w->single ? PRECISION_SINGLE : PRECISION_DOUBLE,
                            .N = w->N,
                            .columns = w->d,
                            .stride = stride,
                            .x = w->single ? (const void *)singles : doubles,
                            .y = y};
}

static void make_ratings(struct dataset *out, const struct workload *w)
{
    uint64_t state = 2385;
    uint32_t *user = array(w->N, sizeof *user), *item = array(w->N, sizeof *item);
    double *y = array(w->N, sizeof *y);
    for (size_t i = 0; i < w->N; i++) {
        user[i] = (uint32_t)((double)w->users * worker_uniform(&state));
        item[i] = (uint32_t)((double)w->items * worker_uniform(&state));
        y[i] = 1.0 + (double)(int)(5.0 * worker_uniform(&state));
    }
    *out = (struct dataset){.kind = DATA_TRIPLETS,
                            .N = w->N,
                            .user = user,
                            .item = item,
                            .y = y,
                            .users = w->users,
                            .items = w->items};
}

static void make_data(struct dataset *out, const struct workload *w, enum data_kind kind)
{
    *out = (struct dataset){.kind = DATA_NONE};
    if (kind == DATA_TRIPLETS)
        make_ratings(out, w);
    else if (kind != DATA_NONE)
        make_rows(out, w, kind);
}

static void make_model(const struct workload *w)
{
    const struct model_type *type = model_type(w->model);
    double params[PARAM_MAX];
    struct err_info info;
    make_data(&bench.data, w, type->data);
    param_defaults(type->params, params);
    if (type == &model_matrix_factorization)
        params[param_find(type->params, "rank")] = (double)w->d;
    if (type->init(&bench.model, params, type->data == DATA_NONE ? NULL : &bench.data, NULL,
                   &info) != ERR_OK)
        die(info.message);
}

/* Whitened by a tenth, around zero. */
static void make_view(void)
{
    size_t d = bench.model->d;
    double *numbers = array(d * (d + 1), sizeof *numbers), *A = numbers + d;
    struct err_info info;
    for (size_t j = 0; j < d; j++)
        A[j * d + j] = 0.1;
    if (frame_new(&bench.frame, d, numbers, A, d, &info) != ERR_OK ||
        view_new(&bench.view, bench.model, bench.frame, true, &info) != ERR_OK)
        die(info.message);
    free(numbers);
}

static struct chain *make_chain(const struct workload *w, uint32_t number)
{
    static const uint32_t nothing[1];
    struct chain_config config = {.model = bench.model,
                                  .view = bench.view,
                                  .frame = bench.frame,
                                  .sampler = &sampler_sgbd,
                                  .step = {.kind = STEP_CONSTANT, .value = w->sigma},
                                  .batch_size = w->n,
                                  .one_in = (uint32_t)w->one_in,
                                  .seed = 1,
                                  .chain = number,
                                  .iterations = UINT64_C(1) << 60,
                                  .thin = UINT64_C(1) << 60,
                                  .save = nothing,
                                  .start = {.kind = bench.model->type->start}};
    struct chain *chain;
    struct err_info info;
    param_defaults(sampler_sgbd.params, config.params);
    config.params[param_find(sampler_sgbd.params, "variant")] = w->corrected ? 1.0 : 0.0;
    if (chain_new(&chain, &config, &info) != ERR_OK)
        die(info.message);
    return chain;
}

static bool worker_open(const struct workload *w)
{
    make_model(w);
    if (w->control)
        make_view();
    bench.count = w->chains;
    bench.apart = w->apart == 1;
    if (bench.apart && w->chains > CHAINS)
        die("too many chains to be apart");
    bench.chains = calloc(w->chains, sizeof(struct chain *));
    if (bench.chains == NULL)
        die("no memory");
    for (size_t k = 0; k < w->chains; k++)
        bench.chains[k] = make_chain(w, (uint32_t)k + 1);
    return true;
}

static void worker_close(void)
{
    for (size_t k = 0; k < bench.count; k++)
        chain_free(bench.chains[k]);
    free(bench.chains);
    if (bench.view != NULL)
        model_free(bench.view);
    frame_free(bench.frame);
    model_free(bench.model);
    free((void *)(uintptr_t)bench.data.x);
    free((void *)(uintptr_t)bench.data.y);
    free((void *)(uintptr_t)bench.data.user);
    free((void *)(uintptr_t)bench.data.item);
}

/* Some chains of one job on one thread, n iterations each. */
static void advance(struct chain **chains, size_t count, uint64_t n)
{
    if (chain_batch_advance(chains, count, n) != count * n)
        die("a chain has stopped");
}

/* As the daemon's workers share the chains of a job: who is free takes the next slice. */
#define SLICES 8

static struct {
    uint64_t iterations; /* of a slice */
    atomic_size_t next;
} shared;

static void *take_slices(void *locks)
{
    for (size_t k; (k = atomic_fetch_add(&shared.next, 1)) < SLICES * bench.count;) {
        pthread_mutex_t *lock = (pthread_mutex_t *)locks + k % bench.count;
        pthread_mutex_lock(lock);
        advance(&bench.chains[k % bench.count], 1, shared.iterations);
        pthread_mutex_unlock(lock);
    }
    return NULL;
}

static void run_apart(size_t threads, uint64_t iterations)
{
    pthread_mutex_t locks[CHAINS];
    pthread_t others[CHAINS];
    shared.iterations = (iterations + SLICES - 1) / SLICES;
    atomic_store(&shared.next, 0);
    for (size_t k = 0; k < bench.count; k++)
        pthread_mutex_init(&locks[k], NULL);
    for (size_t k = 1; k < threads; k++)
        if (pthread_create(&others[k], NULL, take_slices, locks) != 0)
            die("no thread");
    take_slices(locks);
    for (size_t k = 1; k < threads; k++)
        pthread_join(others[k], NULL);
}

static void worker_run(const char *isa, size_t threads, uint64_t iterations)
{
    if (!kernels_choose(isa))
        die("no such instruction set");
    if (bench.apart)
        run_apart(threads, iterations);
    else
        advance(bench.chains, bench.count, iterations);
}

/* The emulated one is not about speed. */
static int list_instruction_sets(void)
{
    for (const struct kernels *const *k = kernels_available(); *k != NULL; k++)
        if (strcmp((*k)->isa, "emulated") != 0)
            puts((*k)->isa);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list_instruction_sets();
    return worker_main(argc, argv);
}
