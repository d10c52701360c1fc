/* The yardstick of `make bench`: the same iterations in plain C, scalar doubles and libm, as one
 * would write them for a paper; compiled with -O2 and nothing else. See worker.h.
 *
 * Every iteration draws a batch without replacement, adds up the gradient, moves theta by a Barker
 * step and keeps the running mean and variance of every coordinate, as our chains do. */
#include "tests/bench/worker.h"

#include <math.h>

#define USERS_START 0
#define ALPHA       3.0
#define GAMMA_SHAPE 1.0
#define GAMMA_RATE  5.0
#define SKEW        1.0
#define SMOOTHING   0.1
#define STRETCH     1.702

/* ---- random numbers: xoshiro256+ (Blackman & Vigna), polar normals ---- */

struct random {
    uint64_t s[4];
    double spare;
    bool has_spare;
};

static inline uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static inline uint64_t bits(struct random *r)
{
    uint64_t *s = r->s, result = s[0] + s[3], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static inline double uniform(struct random *r)
{
    return (double)(bits(r) >> 11) * 0x1p-53;
}

static inline double normal(struct random *r)
{
    double u, v, q;
    if (r->has_spare) {
        r->has_spare = false;
        return r->spare;
    }
    do {
        u = 2.0 * uniform(r) - 1.0;
        v = 2.0 * uniform(r) - 1.0;
        q = u * u + v * v;
    } while (q >= 1.0 || q == 0.0);
    double scale = sqrt(-2.0 * log(q) / q);
    r->spare = v * scale;
    r->has_spare = true;
    return u * scale;
}

static void seed(struct random *r, uint64_t from)
{
    for (int i = 0; i < 4; i++) {
        from = from * 6364136223846793005u + 1442695040888963407u;
        r->s[i] = from ^ (from >> 31);
    }
    r->has_spare = false;
}

/* ---- the workload ---- */

static struct workload w;
static double *x, *y;         /* N rows of d, responses or ratings */
static uint32_t *user, *item; /* of the ratings */
static uint32_t *permutation; /* of the rows; its first n are the batch */
static double *matrix;        /* scratch of ICA */
static double *lambda;        /* scratch of the factorisation */

struct state {
    size_t d;
    double *theta, *g, *sum, *squares, *smooth, *mean, *m2;
    double weight; /* (1 - beta)^t */
    uint64_t t;
    struct random random;
};

static struct state *states;
static void (*gradient)(struct state *s, size_t n);

static void *array(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size);
    if (p == NULL) {
        fputs("bench-plain: no memory\n", stderr);
        exit(1);
    }
    return p;
}

static size_t row_of(size_t k)
{
    return w.n > 0 ? permutation[k] : k;
}

static void draw_batch(struct random *r)
{
    for (size_t k = 0; k < w.n; k++) {
        size_t other = k + (size_t)((double)(w.N - k) * uniform(r));
        uint32_t row = permutation[other];
        permutation[other] = permutation[k];
        permutation[k] = row;
    }
}

/* ---- gradients: sum of the terms of the batch, and prior ---- */

static void logistic_gradient(struct state *s, size_t n)
{
    size_t d = s->d;
    const double *theta = s->theta;
    for (size_t k = 0; k < n; k++) {
        size_t i = row_of(k);
        const double *row = x + i * d;
        double eta = 0.0;
        for (size_t j = 0; j < d; j++)
            eta += row[j] * theta[j];
        double residual = y[i] - 1.0 / (1.0 + exp(-eta));
        for (size_t j = 0; j < d; j++)
            s->sum[j] += residual * row[j];
        for (size_t j = 0; w.corrected && j < d; j++)
            s->squares[j] += residual * row[j] * (residual * row[j]);
    }
    for (size_t j = 0; j < d; j++)
        s->g[j] = -theta[j];
}

/* z: rows of the matrix; mu and l: its hyperparameters. */
static void prior_gradient(struct state *s, size_t rows, size_t z, size_t mu, size_t l)
{
    const double *theta = s->theta;
    for (size_t k = 0; k < w.d; k++) {
        lambda[k] = exp(theta[l + k]);
        s->g[mu + k] = -theta[mu + k];
        s->g[l + k] = 0.5 * theta[mu + k] * theta[mu + k];
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < w.d; k++) {
            double deviation = theta[z + i * w.d + k] - theta[mu + k];
            s->g[z + i * w.d + k] = -lambda[k] * deviation;
            s->g[mu + k] += deviation;
            s->g[l + k] += 0.5 * deviation * deviation;
        }
    for (size_t k = 0; k < w.d; k++) {
        s->g[mu + k] *= lambda[k];
        s->g[l + k] =
            0.5 * (double)(rows + 1) + GAMMA_SHAPE - lambda[k] * (s->g[l + k] + GAMMA_RATE);
    }
}

static void factorization_gradient(struct state *s, size_t n)
{
    size_t rank = w.d, v0 = w.users * rank, mu = v0 + w.items * rank, l = mu + 2 * rank;
    prior_gradient(s, w.users, USERS_START, mu, l);
    prior_gradient(s, w.items, v0, mu + rank, l + rank);
    for (size_t k = 0; k < n; k++) {
        size_t i = row_of(k), a = user[i] * rank, b = v0 + item[i] * rank;
        double product = 0.0;
        for (size_t j = 0; j < rank; j++)
            product += s->theta[a + j] * s->theta[b + j];
        double slope = ALPHA * (y[i] - product);
        for (size_t j = 0; j < rank; j++) {
            s->sum[a + j] += slope * s->theta[b + j];
            s->sum[b + j] += slope * s->theta[a + j];
        }
        for (size_t j = 0; w.corrected && j < rank; j++) {
            s->squares[a + j] += slope * s->theta[b + j] * (slope * s->theta[b + j]);
            s->squares[b + j] += slope * s->theta[a + j] * (slope * s->theta[a + j]);
        }
    }
}

/* Gauss-Jordan with partial pivoting: matrix = [W | I] becomes [I | W^-1]. */
static void invert(const double *W, size_t K)
{
    size_t width = 2 * K;
    for (size_t i = 0; i < K; i++)
        for (size_t j = 0; j < K; j++) {
            matrix[i * width + j] = W[i * K + j];
            matrix[i * width + K + j] = i == j ? 1.0 : 0.0;
        }
    for (size_t k = 0; k < K; k++) {
        size_t best = k;
        for (size_t i = k + 1; i < K; i++)
            if (fabs(matrix[i * width + k]) > fabs(matrix[best * width + k]))
                best = i;
        for (size_t j = 0; j < width; j++) {
            double t = matrix[best * width + j];
            matrix[best * width + j] = matrix[k * width + j];
            matrix[k * width + j] = t;
        }
        double pivot = matrix[k * width + k];
        for (size_t j = 0; j < width; j++)
            matrix[k * width + j] /= pivot;
        for (size_t i = 0; i < K; i++) {
            double factor = matrix[i * width + k];
            for (size_t j = 0; i != k && j < width; j++)
                matrix[i * width + j] -= factor * matrix[k * width + j];
        }
    }
}

static void ica_gradient(struct state *s, size_t n)
{
    size_t K = w.d;
    invert(s->theta, K);
    for (size_t k = 0; k < K; k++)
        for (size_t j = 0; j < K; j++)
            s->g[k * K + j] = (double)w.N * matrix[j * 2 * K + K + k] - s->theta[k * K + j];
    for (size_t i = 0; i < n; i++) {
        const double *row = x + row_of(i) * K;
        for (size_t k = 0; k < K; k++) {
            double source = 0.0;
            for (size_t j = 0; j < K; j++)
                source += s->theta[k * K + j] * row[j];
            double slope = tanh(0.5 * source);
            for (size_t j = 0; j < K; j++)
                s->sum[k * K + j] -= slope * row[j];
            for (size_t j = 0; w.corrected && j < K; j++)
                s->squares[k * K + j] += slope * row[j] * (slope * row[j]);
        }
    }
}

/* -theta + a phi(a theta)/Phi(a theta) and noise of sd 1; no data. */
static void skew_gradient(struct state *s, size_t n)
{
    (void)n;
    double at = SKEW * s->theta[0];
    double phi = exp(-0.5 * at * at) * 0.3989422804014327, cdf = 0.5 * erfc(-at * M_SQRT1_2);
    s->g[0] = -s->theta[0] + SKEW * phi / cdf + normal(&s->random);
}

/* ---- the iteration ---- */

static void add_batch(struct state *s, size_t n)
{
    double scale = (double)w.N / (double)n;
    for (size_t j = 0; j < s->d; j++)
        s->g[j] += scale * s->sum[j];
}

/* Running estimate of the gradient noise, with its start-up correction. */
static void smooth_tau(struct state *s, size_t n)
{
    double N = (double)w.N, count = (double)n;
    double scale = N / sqrt(count) * sqrt((N - count) / (N - 1.0));
    s->weight *= 1.0 - SMOOTHING;
    for (size_t j = 0; j < s->d; j++) {
        double variance = (s->squares[j] - s->sum[j] * s->sum[j] / count) / (count - 1.0);
        s->smooth[j] += SMOOTHING * (scale * sqrt(variance) - s->smooth[j]);
    }
}

static double corrected_slope(const struct state *s, size_t j, double jump)
{
    double t = s->smooth[j] / (1.0 - s->weight) * fabs(jump);
    return t < STRETCH ? STRETCH / sqrt(STRETCH * STRETCH - t * t) : INFINITY;
}

static void move(struct state *s)
{
    for (size_t j = 0; j < s->d; j++) {
        double jump = w.sigma * (1.0 + 0.1 * normal(&s->random)), slope = s->g[j];
        if (w.corrected)
            slope *= corrected_slope(s, j, jump);
        double p = 1.0 / (1.0 + exp(-slope * jump));
        s->theta[j] += uniform(&s->random) < p ? jump : -jump;
    }
}

static void keep_moments(struct state *s)
{
    double count = (double)++s->t;
    for (size_t j = 0; j < s->d; j++) {
        double delta = s->theta[j] - s->mean[j];
        s->mean[j] += delta / count;
        s->m2[j] += delta * (s->theta[j] - s->mean[j]);
    }
}

static void iterate(struct state *s)
{
    size_t n = w.n > 0 ? w.n : w.N;
    if (w.N > 0) {
        draw_batch(&s->random);
        memset(s->sum, 0, s->d * sizeof *s->sum);
        if (w.corrected)
            memset(s->squares, 0, s->d * sizeof *s->squares);
    }
    gradient(s, n);
    if (w.N > 0)
        add_batch(s, n);
    if (w.corrected)
        smooth_tau(s, n);
    move(s);
    keep_moments(s);
}

/* ---- made-up data and start values ---- */

static void make_rows(void)
{
    uint64_t made = 2385;
    x = array(w.N * w.d, sizeof *x);
    y = array(w.N, sizeof *y);
    for (size_t i = 0; i < w.N; i++) {
        for (size_t j = 0; j < w.d; j++)
            x[i * w.d + j] = worker_covariate(&made);
        y[i] = x[i * w.d] + worker_covariate(&made) > 0.0 ? 1.0 : 0.0;
    }
}

static void make_ratings(void)
{
    uint64_t made = 2385;
    user = array(w.N, sizeof *user);
    item = array(w.N, sizeof *item);
    y = array(w.N, sizeof *y);
    for (size_t i = 0; i < w.N; i++) {
        user[i] = (uint32_t)((double)w.users * worker_uniform(&made));
        item[i] = (uint32_t)((double)w.items * worker_uniform(&made));
        y[i] = (double)(int)(5.0 * worker_uniform(&made)) - 2.0;
    }
}

static size_t make_data(void)
{
    if (strcmp(w.model, "logistic") == 0) {
        gradient = logistic_gradient;
        make_rows();
        return w.d;
    }
    if (strcmp(w.model, "ica") == 0) {
        gradient = ica_gradient;
        matrix = array(2 * w.d * w.d, sizeof *matrix);
        make_rows();
        return w.d * w.d;
    }
    if (strcmp(w.model, "factorization") == 0) {
        gradient = factorization_gradient;
        lambda = array(w.d, sizeof *lambda);
        make_ratings();
        return (w.users + w.items + 4) * w.d;
    }
    gradient = skew_gradient;
    return 1;
}

static void make_state(struct state *s, size_t d, uint64_t number)
{
    double **parts[] = {&s->theta, &s->g, &s->sum, &s->squares, &s->smooth, &s->mean, &s->m2};
    s->d = d;
    s->weight = 1.0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i] = array(d, sizeof(double));
    seed(&s->random, number);
    if (gradient == ica_gradient)
        for (size_t k = 0; k < w.d; k++)
            s->theta[k * w.d + k] = 1.0;
    for (size_t j = 0; gradient == factorization_gradient && j < d; j++)
        s->theta[j] = normal(&s->random) * (j < d - 4 * w.d ? 1.0 : 0.1);
}

static bool worker_open(const struct workload *workload)
{
    w = *workload;
    size_t d = make_data();
    permutation = array(w.N, sizeof *permutation);
    for (size_t i = 0; i < w.N; i++)
        permutation[i] = (uint32_t)i;
    states = array(w.chains, sizeof *states);
    for (size_t k = 0; k < w.chains; k++)
        make_state(&states[k], d, k + 1);
    return true;
}

static void must_be_finite(const struct state *s)
{
    for (size_t j = 0; j < s->d; j++)
        if (!isfinite(s->theta[j])) {
            fputs("bench-plain: a chain has diverged\n", stderr);
            exit(1);
        }
}

static void worker_run(const char *isa, size_t threads, uint64_t iterations)
{
    (void)isa;
    (void)threads;
    for (size_t k = 0; k < w.chains; k++) {
        for (uint64_t i = 0; i < iterations; i++)
            iterate(&states[k]);
        must_be_finite(&states[k]);
    }
}

static void worker_close(void)
{
    for (size_t k = 0; k < w.chains; k++) {
        struct state *s = &states[k];
        double *parts[] = {s->theta, s->g, s->sum, s->squares, s->smooth, s->mean, s->m2};
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            free(parts[i]);
    }
    void *rest[] = {states, permutation, x, y, user, item, matrix, lambda};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        free(rest[i]);
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv);
}
