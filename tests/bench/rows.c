/* The floor under minibatches, for `make bench`: reads the rows of random batches, asked for some
 * time before, and does nothing else; see worker.h. What an iteration takes beyond this is work,
 * what this takes is memory. */
#include "tests/bench/worker.h"

#include <sys/mman.h>

#define HUGE_PAGE ((size_t)1 << 21)
#define BATCHES   4096 /* whose rows no cache keeps, if the data are large */
#define AHEAD     192  /* rows: the best of several, with 64 and with 448 bytes a row */

static struct {
    char *x;
    uint32_t *idx; /* BATCHES of n, and AHEAD more */
    size_t n, bytes;
    uint64_t done, sum;
} bench;

static void *array(size_t bytes)
{
    void *p = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE);
    if (p == NULL) {
        fputs("bench-rows: no memory\n", stderr);
        exit(1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

/* Rows of whole cache lines only. */
static bool worker_open(const struct workload *w)
{
    uint64_t state = 2385;
    bench.n = w->n;
    bench.bytes = (w->d * (w->single ? sizeof(float) : sizeof(double)) + 63) / 64 * 64;
    bench.x = array(w->N * bench.bytes);
    bench.idx = array((BATCHES * w->n + AHEAD) * sizeof *bench.idx);
    for (size_t k = 0; k < BATCHES * w->n + AHEAD; k++)
        bench.idx[k] = (uint32_t)((double)w->N * worker_uniform(&state));
    return w->n > 0;
}

static void worker_close(void)
{
    if (bench.sum != 0) /* so that somebody wants them */
        puts("these rows are not zero");
    free(bench.x);
    free(bench.idx);
}

/* A word of every line. */
static void worker_run(const char *isa, size_t threads, uint64_t iterations)
{
    (void)isa;
    (void)threads;
    size_t n = bench.n, bytes = bench.bytes;
    uint64_t sum = 0;
    for (uint64_t end = bench.done + iterations; bench.done < end; bench.done++) {
        const uint32_t *now = bench.idx + bench.done % BATCHES * n;
        for (size_t k = 0; k < n; k++) {
            const char *ask = bench.x + now[k + AHEAD] * bytes, *row = bench.x + now[k] * bytes;
            for (size_t j = 0; j < bytes; j += 64)
                __builtin_prefetch(ask + j, 0, 2);
            for (size_t j = 0; j < bytes; j += 64)
                sum += *(const uint64_t *)(const void *)(row + j);
        }
    }
    bench.sum += sum;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv);
}
