/* The exact posterior of the model matrix_factorization, by Gibbs sampling, whose conditionals it
 * all has: what its predictions are worth, and so how much of a held-out error is the model's own.
 * Shares no code with barkerd. A sweep of MovieLens takes 0.02 s.
 *
 *     bench-gibbs TRAIN.csv TEST.csv [SWEEPS [SEED]]
 *
 * runs 700 sweeps otherwise, of which the first two sevenths are not averaged. Prints
 * {"rmse_draw", "rmse", "early", "prediction"}: the held-out rMSE of the last draw, of the average
 * of predictions, of the average of the first half of what is averaged, and that average for every
 * test row. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK  20 /* the model's defaults, with mu0 = 0 */
#define ALPHA 3.0
#define A0    1.0
#define B0    5.0

struct ratings {
    size_t count;
    uint32_t *row[2]; /* user, item; from 0 */
    double *y;
};

/* Vectors of all users or of all items, with their prior, and which ratings each row has. */
struct side {
    size_t rows, *first; /* ratings of row k: index[first[k]] to index[first[k + 1]] */
    uint32_t *index;
    double *z, mu[RANK], precision[RANK];
};

static uint64_t state[4];

static void *zeros(size_t count, size_t size)
{
    void *p = calloc(count + 1, size);
    if (p == NULL) {
        fprintf(stderr, "bench-gibbs: no memory\n");
        exit(1);
    }
    return p;
}

/* xoshiro256++ */
static double uniform(void)
{
    uint64_t *s = state, sum = s[0] + s[3], t = s[1] << 17;
    uint64_t out = (sum << 23 | sum >> 41) + s[0];
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return ((double)(out >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    static double spare;
    static int have;
    if (have) {
        have = 0;
        return spare;
    }
    double r = sqrt(-2 * log(uniform())), angle = 2 * M_PI * uniform();
    spare = r * sin(angle);
    have = 1;
    return r * cos(angle);
}

/* Marsaglia & Tsang (2000), for shapes of at least 1. */
static double gamma_draw(double shape)
{
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(), v = pow(1 + c * x, 3);
        if (v > 0 && log(uniform()) < x * x / 2 + d - d * v + d * log(v))
            return d * v;
    }
}

static struct ratings read_ratings(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[200];
    if (file == NULL || fgets(line, sizeof line, file) == NULL) {
        fprintf(stderr, "bench-gibbs: %s cannot be read\n", path);
        exit(1);
    }
    size_t room = 1 << 20;
    struct ratings r = {.y = zeros(room, sizeof *r.y)};
    for (int k = 0; k < 2; k++)
        r.row[k] = zeros(room, sizeof *r.row[k]);
    while (r.count < room && fgets(line, sizeof line, file)) {
        char *at = line;
        for (int k = 0; k < 2; k++, at++)
            r.row[k][r.count] = (uint32_t)strtoul(at, &at, 10) - 1;
        r.y[r.count++] = strtod(at, NULL);
    }
    fclose(file);
    return r;
}

static size_t largest(const struct ratings *r, int which)
{
    size_t most = 0;
    for (size_t i = 0; i < r->count; i++)
        most = r->row[which][i] > most ? r->row[which][i] : most;
    return most;
}

static struct side new_side(const struct ratings *train, const struct ratings *test, int which)
{
    size_t a = largest(train, which), b = largest(test, which);
    struct side s = {.rows = 1 + (a > b ? a : b)};
    s.first = zeros(s.rows + 1, sizeof *s.first);
    s.index = zeros(train->count, sizeof *s.index);
    s.z = zeros(s.rows * RANK, sizeof *s.z);
    for (size_t i = 0; i < train->count; i++)
        s.first[train->row[which][i] + 1]++;
    for (size_t k = 0; k < s.rows; k++)
        s.first[k + 1] += s.first[k];
    size_t *next = zeros(s.rows, sizeof *next);
    memcpy(next, s.first, s.rows * sizeof *next);
    for (size_t i = 0; i < train->count; i++)
        s.index[next[train->row[which][i]]++] = (uint32_t)i;
    free(next);
    for (size_t i = 0; i < s.rows * RANK; i++)
        s.z[i] = normal();
    for (size_t k = 0; k < RANK; k++)
        s.precision[k] = 1;
    return s;
}

static void draw_prior(struct side *s)
{
    double n = (double)s->rows;
    for (size_t k = 0; k < RANK; k++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < s->rows; i++)
            sum += s->z[i * RANK + k];
        s->mu[k] = sum / (n + 1) + normal() / sqrt(s->precision[k] * (n + 1));
        for (size_t i = 0; i < s->rows; i++)
            squares += pow(s->z[i * RANK + k] - s->mu[k], 2);
        s->precision[k] = gamma_draw(A0 + (n + 1) / 2) / (B0 + (squares + s->mu[k] * s->mu[k]) / 2);
    }
}

/* z ~ N(P^-1 b, P^-1), P overwritten by its Cholesky factor L: L'z = L^-1 b + noise. */
static void draw_normal(double P[RANK][RANK], double *b, double *z)
{
    for (size_t i = 0; i < RANK; i++)
        for (size_t j = 0; j <= i; j++) {
            double rest = P[i][j];
            for (size_t k = 0; k < j; k++)
                rest -= P[i][k] * P[j][k];
            P[i][j] = i == j ? sqrt(rest) : rest / P[j][j];
        }
    for (size_t i = 0; i < RANK; i++) {
        for (size_t k = 0; k < i; k++)
            b[i] -= P[i][k] * b[k];
        b[i] /= P[i][i];
    }
    for (size_t i = RANK; i-- > 0;) {
        z[i] = b[i] + normal();
        for (size_t k = i + 1; k < RANK; k++)
            z[i] -= P[k][i] * z[k];
        z[i] /= P[i][i];
    }
}

static void draw_vectors(struct side *s, const struct side *opposite, const uint32_t *other,
                         const double *y)
{
    for (size_t row = 0; row < s->rows; row++) {
        double P[RANK][RANK] = {{0}}, b[RANK];
        for (size_t k = 0; k < RANK; k++)
            b[k] = s->precision[k] * s->mu[k];
        for (size_t at = s->first[row]; at < s->first[row + 1]; at++) {
            size_t i = s->index[at];
            const double *w = opposite->z + other[i] * RANK;
            for (size_t k = 0; k < RANK; k++) {
                for (size_t l = 0; l <= k; l++)
                    P[k][l] += ALPHA * w[k] * w[l];
                b[k] += ALPHA * w[k] * y[i];
            }
        }
        for (size_t k = 0; k < RANK; k++)
            P[k][k] += s->precision[k];
        draw_normal(P, b, s->z + row * RANK);
    }
}

static void centre(struct ratings *r, double *mean, double *low, double *high)
{
    *mean = 0, *low = r->y[0], *high = r->y[0];
    for (size_t i = 0; i < r->count; i++) {
        *mean += r->y[i] / (double)r->count;
        *low = fmin(*low, r->y[i]);
        *high = fmax(*high, r->y[i]);
    }
    for (size_t i = 0; i < r->count; i++)
        r->y[i] -= *mean;
}

static double rmse(const struct ratings *test, const double *prediction, double times)
{
    double sum = 0;
    for (size_t i = 0; i < test->count; i++)
        sum += pow(prediction[i] * times - test->y[i], 2);
    return sqrt(sum / (double)test->count);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: bench-gibbs TRAIN.csv TEST.csv [SWEEPS [SEED]]\n");
        return 2;
    }
    long sweeps = argc > 3 ? atol(argv[3]) : 700, skipped = sweeps * 2 / 7;
    uint64_t seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
    for (int k = 0; k < 4; k++)
        state[k] = seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    struct ratings train = read_ratings(argv[1]), test = read_ratings(argv[2]);
    double mean, low, high, early = 0, last = 0;
    centre(&train, &mean, &low, &high);
    struct side sides[2] = {new_side(&train, &test, 0), new_side(&train, &test, 1)};
    double *now = zeros(test.count, sizeof *now), *total = zeros(test.count, sizeof *total);
    for (long sweep = 1; sweep <= sweeps; sweep++) {
        for (int k = 0; k < 2; k++) {
            draw_prior(&sides[k]);
            draw_vectors(&sides[k], &sides[1 - k], train.row[1 - k], train.y);
        }
        for (size_t i = 0; i < test.count; i++) {
            const double *u = sides[0].z + test.row[0][i] * RANK;
            const double *v = sides[1].z + test.row[1][i] * RANK;
            now[i] = mean;
            for (size_t k = 0; k < RANK; k++)
                now[i] += u[k] * v[k];
            now[i] = fmin(fmax(now[i], low), high);
            total[i] += sweep > skipped ? now[i] : 0;
        }
        last = rmse(&test, now, 1);
        if (sweep == (sweeps + skipped) / 2)
            early = rmse(&test, total, 1 / (double)(sweep - skipped));
    }
    double times = 1 / (double)(sweeps - skipped);
    printf("{\"rmse_draw\": %.5f, \"rmse\": %.5f, \"early\": %.5f, \"prediction\": [", last,
           rmse(&test, total, times), early);
    for (size_t i = 0; i < test.count; i++)
        printf("%s%.4f", i ? "," : "", total[i] * times);
    printf("]}\n");
    return 0;
}
