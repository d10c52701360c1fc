/* All mixing measures of one parameter. */
#include "core/diagnostics/mixing.h"

#include "core/diagnostics/ess.h"
#include "core/diagnostics/quantile.h"
#include "core/diagnostics/rank.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const double mixing_probability[MIXING_QUANTILES] = {0.05, 0.25, 0.5, 0.75, 0.95};

struct mixing_work {
    size_t max_draws;
    double *x;      /* the draws, chain after chain */
    double *series; /* one transform of them, then its halves */
    struct mixing_ranked *draws, *spare;
    struct mixing_scores scores;
    struct mixing_ess *ess;
};

/* One parameter while it is measured: m chains of n draws, each of which splits into halves of
 * `half` draws; a draw in the middle of an odd chain belongs to neither. */
struct sample {
    struct mixing_work *work;
    size_t m, n, half, total;
    const double *x;
    const struct mixing_ranked *sorted;
    struct mixing_ranked *unsorted; /* as large, free for use */
    double mean;
    bool has_nan, finite;
    size_t window; /* of lags, that served the first effective sample size */
};

/* Beyond it sizes in bytes would not fit a size_t. */
static const size_t MAX_DRAWS = SIZE_MAX / 1024;

static enum err no_memory(size_t max_draws, struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for a mixing workspace of %zu draws", max_draws);
}

enum err mixing_work_new(struct mixing_work **work, size_t max_draws, struct err_info *info)
{
    *work = NULL;
    if (max_draws == 0)
        return err_set(info, ERR_INVALID, "a mixing workspace needs room for at least one draw");
    struct mixing_work *made = max_draws < MAX_DRAWS ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return no_memory(max_draws, info);
    made->max_draws = max_draws;
    made->x = calloc(max_draws, sizeof *made->x);
    made->series = calloc(max_draws, sizeof *made->series);
    made->draws = calloc(max_draws, sizeof *made->draws);
    made->spare = calloc(max_draws, sizeof *made->spare);
    made->ess = mixing_ess_new((max_draws + 1) / 2);
    if (mixing_scores_init(&made->scores, max_draws) < 0 || !made->x || !made->series ||
        !made->draws || !made->spare || !made->ess) {
        mixing_work_free(made);
        return no_memory(max_draws, info);
    }
    *work = made;
    return ERR_OK;
}

void mixing_work_free(struct mixing_work *work)
{
    if (!work)
        return;
    mixing_ess_free(work->ess);
    mixing_scores_release(&work->scores);
    free(work->spare);
    free(work->draws);
    free(work->series);
    free(work->x);
    free(work);
}

size_t mixing_stride(size_t length, size_t limit)
{
    assert(limit > 0);
    return length <= limit ? 1 : (length - 1) / limit + 1;
}

static size_t stride_of(const struct mixing_draws *draws)
{
    return draws->stride ? draws->stride : 1;
}

static size_t draws_per_chain(const struct mixing_draws *draws)
{
    size_t n = draws->chain_count ? draws->lengths[0] : 0;
    for (size_t c = 1; c < draws->chain_count; c++)
        n = draws->lengths[c] < n ? draws->lengths[c] : n;
    return n == 0 ? 0 : (n - 1) / stride_of(draws) + 1;
}

static void gather(struct sample *s, const struct mixing_draws *draws)
{
    double *x = s->work->x;
    size_t stride = stride_of(draws);
    s->finite = true;
    for (size_t c = 0; c < s->m; c++)
        for (size_t i = 0; i < s->n; i++, x++) {
            *x = draws->chains[c][i * stride];
            s->has_nan |= isnan(*x);
            s->finite &= isfinite(*x);
        }
    s->x = s->work->x;
}

/* Where draw i of a chain goes among the chain's two halves. */
static size_t place_in_halves(const struct sample *s, size_t chain, size_t i)
{
    size_t first = 2 * s->half * chain;
    if (i < s->half)
        return first + i;
    size_t second = s->n - s->half;
    return i >= second ? first + s->half + (i - second) : MIXING_RANK_NOWHERE;
}

static void sort_draws(struct sample *s)
{
    struct mixing_ranked *draw = s->work->draws;
    for (size_t c = 0; c < s->m; c++)
        for (size_t i = 0; i < s->n; i++, draw++) {
            draw->value = s->x[c * s->n + i];
            draw->place = place_in_halves(s, c, i);
        }
    s->sorted = mixing_rank_sort(s->work->draws, s->work->spare, s->total);
    s->unsorted = s->sorted == s->work->draws ? s->work->spare : s->work->draws;
}

/* In place: drops the middle draw of odd chains, so that halves follow each other. */
static void split(const struct sample *s, double *series)
{
    if (s->n == 2 * s->half)
        return;
    for (size_t h = 1; h < 2 * s->m; h++) {
        size_t chain = h / 2, from = chain * s->n + (h % 2) * (s->n - s->half);
        memmove(series + h * s->half, series + from, s->half * sizeof *series);
    }
}

static double ess_of_series(const struct sample *s)
{
    size_t window = s->window;
    split(s, s->work->series);
    return mixing_ess_of(s->work->ess, s->work->series, s->half, s->m, &window);
}

static double ess_of_mean(const struct sample *s)
{
    memcpy(s->work->series, s->x, s->total * sizeof *s->x);
    return ess_of_series(s);
}

static double ess_of_deviation(const struct sample *s)
{
    for (size_t i = 0; i < s->total; i++)
        s->work->series[i] = fabs(s->x[i] - s->mean);
    return ess_of_series(s);
}

static double ess_of_square(const struct sample *s)
{
    for (size_t i = 0; i < s->total; i++)
        s->work->series[i] = (s->x[i] - s->mean) * (s->x[i] - s->mean);
    return ess_of_series(s);
}

static double ess_of_quantile(const struct sample *s, double quantile)
{
    for (size_t i = 0; i < s->total; i++)
        s->work->series[i] = s->x[i] <= quantile ? 1.0 : 0.0;
    return ess_of_series(s);
}

/* Type 7, with the order of operations of the R package posterior: the indicator of the tail
 * compares draws with this value, so it must not differ in the last bit. */
static double quantile(const struct sample *s, double probability)
{
    double index = 1.0 + (double)(s->total - 1) * probability, low = floor(index);
    double below = s->sorted[(size_t)low - 1].value;
    double above = s->sorted[(size_t)ceil(index) - 1].value;
    double weight = index - low;
    return weight > 0.0 && above != below ? (1.0 - weight) * below + weight * above : below;
}

/* Distances from it are ranked, and an error in the last bit would make or break ties. */
static double median(const struct sample *s)
{
    double middle[2] = {s->sorted[(s->total - 1) / 2].value, s->sorted[s->total / 2].value};
    return s->total % 2 == 1 ? middle[0] : mixing_mean_exact(middle, 2);
}

/* Rank statistics of where a quantile may lie: an interval of one standard error either side. The
 * probabilities are rounded as in posterior. */
static double mcse_of_quantile(const struct sample *s, double probability, double ess)
{
    if (!isfinite(ess))
        return NAN;
    double a = ess * probability + 1.0, b = ess * (1.0 - probability) + 1.0;
    double total = (double)s->total;
    double low = floor(mixing_quantile_beta(0.1586553, a, b) * total);
    double high = ceil(mixing_quantile_beta(0.8413447, a, b) * total);
    double below = s->sorted[(size_t)fmax(low, 1.0) - 1].value;
    double above = s->sorted[(size_t)fmin(high, total) - 1].value;
    return (above - below) / 2.0;
}

static double variance(const double *values, size_t count, double mean)
{
    double squares = 0.0;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return squares / (double)(count - 1);
}

/* By the delta method from the variance of the squared deviations. */
static double mcse_of_sd(const struct sample *s)
{
    double ess = ess_of_square(s), total = (double)s->total, squares = 0.0, fourths = 0.0;
    for (size_t i = 0; i < s->total; i++)
        squares += (s->x[i] - s->mean) * (s->x[i] - s->mean);
    double second = squares / total;
    for (size_t i = 0; i < s->total; i++) {
        double excess = (s->x[i] - s->mean) * (s->x[i] - s->mean) - second;
        fourths += excess * excess;
    }
    return sqrt(fourths / total / ess / second / 4.0);
}

/* R-hat of the normal scores of all halves; of one draw each it is 0/0. */
static double rhat_of_scores(const struct sample *s, const double *z)
{
    size_t count = 2 * s->m;
    double n = (double)s->half, mean = 0.0, squares = 0.0, within = 0.0;
    for (size_t h = 0; h < count; h++) {
        const double *scores = z + h * s->half;
        double own = mixing_mean(scores, s->half), off = own - mean;
        mean += off / (double)(h + 1);
        squares += off * (own - mean);
        within += variance(scores, s->half, own) / (double)count;
    }
    double between = n * squares / (double)(count - 1);
    return sqrt((between / within + n - 1.0) / n);
}

/* R-hat of equal scores is 0/0, which rounding may turn into a number; so they are found here. */
static bool all_tied(const struct mixing_ranked *sorted, size_t count)
{
    size_t first = 0, last = count - 1;
    while (first < last && sorted[first].place == MIXING_RANK_NOWHERE)
        first++;
    while (last > first && sorted[last].place == MIXING_RANK_NOWHERE)
        last--;
    return sorted[first].value == sorted[last].value;
}

static bool score(const struct sample *s, const struct mixing_ranked *sorted)
{
    if (s->half == 0 || all_tied(sorted, s->total))
        return false;
    mixing_scores_fill(&s->work->scores, sorted, s->total, 2 * s->half * s->m, s->work->series);
    return true;
}

static double rhat_folded(struct sample *s)
{
    double centre = median(s);
    if (!isfinite(centre))
        return NAN;
    mixing_rank_fold(s->sorted, s->total, centre, s->unsorted);
    return score(s, s->unsorted) ? rhat_of_scores(s, s->work->series) : NAN;
}

static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

static double smaller(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmin(a, b);
}

static void measure_ranks(struct mixing *mixing, struct sample *s)
{
    if (!score(s, s->sorted))
        return;
    double bulk = rhat_of_scores(s, s->work->series);
    mixing->ess_bulk = mixing_ess_of(s->work->ess, s->work->series, s->half, s->m, &s->window);
    mixing->rhat = larger(bulk, rhat_folded(s));
}

static void measure_quantiles(struct mixing *mixing, const struct sample *s)
{
    double ess[MIXING_QUANTILES];
    for (int i = 0; i < MIXING_QUANTILES; i++) {
        ess[i] = ess_of_quantile(s, mixing->quantile[i]);
        mixing->mcse_quantile[i] = mcse_of_quantile(s, mixing_probability[i], ess[i]);
    }
    mixing->ess_tail = smaller(ess[MIXING_Q5], ess[MIXING_Q95]);
}

static void measure_moments(struct mixing *mixing, const struct sample *s)
{
    mixing->ess_mean = ess_of_mean(s);
    mixing->ess_sd = ess_of_deviation(s);
    mixing->mcse_mean = mixing->sd / sqrt(mixing->ess_mean);
    mixing->mcse_sd = mcse_of_sd(s);
}

static void summarise(struct mixing *mixing, struct sample *s)
{
    s->mean = mixing->mean = mixing_mean_exact(s->x, s->total);
    if (s->total > 1)
        mixing->sd = sqrt(variance(s->x, s->total, s->mean));
    for (int i = 0; i < MIXING_QUANTILES; i++)
        mixing->quantile[i] = quantile(s, mixing_probability[i]);
}

static bool is_constant(const struct sample *s)
{
    return s->sorted[s->total - 1].value - s->sorted[0].value < DBL_EPSILON;
}

static bool all_defined(const struct mixing *mixing)
{
    double sum = mixing->mean + mixing->sd + mixing->mcse_mean + mixing->mcse_sd + mixing->rhat +
                 mixing->ess_bulk + mixing->ess_tail + mixing->ess_mean + mixing->ess_sd;
    for (int i = 0; i < MIXING_QUANTILES; i++)
        sum += mixing->quantile[i] + mixing->mcse_quantile[i];
    return isfinite(sum);
}

static enum mixing_reason reason_of(const struct mixing *mixing, const struct sample *s)
{
    if (!s->finite)
        return MIXING_NOT_FINITE;
    if (s->n < 6)
        return MIXING_TOO_FEW;
    if (is_constant(s))
        return MIXING_CONSTANT;
    if (all_defined(mixing))
        return MIXING_OK;
    if (isinf(mixing->rhat))
        return MIXING_STUCK;
    double square = mixing->sd * mixing->sd;
    return isfinite(square * square) ? MIXING_TIED : MIXING_NOT_FINITE;
}

static void set_undefined(struct mixing *mixing)
{
    *mixing = (struct mixing){.mean = NAN,
                              .sd = NAN,
                              .mcse_mean = NAN,
                              .mcse_sd = NAN,
                              .rhat = NAN,
                              .ess_bulk = NAN,
                              .ess_tail = NAN,
                              .ess_mean = NAN,
                              .ess_sd = NAN};
    for (int i = 0; i < MIXING_QUANTILES; i++)
        mixing->quantile[i] = mixing->mcse_quantile[i] = NAN;
}

void mixing_measure(struct mixing *mixing, const struct mixing_draws *draws,
                    struct mixing_work *work)
{
    struct sample s = {.work = work, .m = draws->chain_count, .n = draws_per_chain(draws)};
    assert(s.n == 0 || s.m <= work->max_draws / s.n);
    s.half = s.n / 2;
    s.total = s.m * s.n;
    set_undefined(mixing);
    mixing->chains = s.m;
    mixing->draws_per_chain = s.n;
    mixing->reason = MIXING_TOO_FEW;
    if (s.total == 0)
        return;
    gather(&s, draws);
    if (s.has_nan) {
        mixing->reason = MIXING_NOT_FINITE;
        return;
    }
    sort_draws(&s);
    summarise(mixing, &s);
    measure_ranks(mixing, &s);
    if (s.finite && !is_constant(&s)) {
        measure_quantiles(mixing, &s);
        measure_moments(mixing, &s);
    }
    mixing->reason = reason_of(mixing, &s);
}

void mixing_autocorrelation(const double *chain, size_t n, size_t max_lag, double *out,
                            struct mixing_work *work)
{
    assert(n > 0 && n <= work->max_draws && max_lag < n);
    memcpy(work->series, chain, n * sizeof *chain);
    mixing_ess_autocovariance(work->ess, work->series, n, max_lag, out);
    double variance_n = out[0];
    for (size_t t = 0; t <= max_lag; t++)
        out[t] = variance_n > 0.0 && isfinite(variance_n) ? out[t] / variance_n : NAN;
}

const char *mixing_reason_text(enum mixing_reason reason)
{
    switch (reason) {
#define X(name, text)   \
    case MIXING_##name: \
        return text;
        MIXING_REASON_LIST(X)
#undef X
    }
    return "";
}
