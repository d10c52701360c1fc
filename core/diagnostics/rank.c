/* Ranks, folding, normal scores. */
#include "core/diagnostics/rank.h"

#include "core/diagnostics/quantile.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 8, DIGITS = 64 / DIGIT_BITS, DIGIT_VALUES = 1 << DIGIT_BITS };

/* The bits of a double as an unsigned number in the same order: all bits of negative numbers are
 * inverted, which reverses their order, and positive numbers get the highest bit. */
static uint64_t order_key(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static size_t digit_of(double value, unsigned digit)
{
    return order_key(value) >> (digit * DIGIT_BITS) & (DIGIT_VALUES - 1);
}

static void count_digits(const struct mixing_ranked *draws, size_t count,
                         size_t counts[DIGITS][DIGIT_VALUES])
{
    memset(counts, 0, sizeof(size_t[DIGITS][DIGIT_VALUES]));
    for (size_t i = 0; i < count; i++) {
        uint64_t key = order_key(draws[i].value);
        for (unsigned digit = 0; digit < DIGITS; digit++, key >>= DIGIT_BITS)
            counts[digit][key & (DIGIT_VALUES - 1)]++;
    }
}

static void counts_to_starts(size_t counts[DIGIT_VALUES])
{
    size_t start = 0;
    for (size_t v = 0; v < DIGIT_VALUES; v++) {
        size_t here = counts[v];
        counts[v] = start;
        start += here;
    }
}

/* Radix sort from the lowest digit; a digit that all draws share (as the high ones often do) costs
 * nothing. */
struct mixing_ranked *mixing_rank_sort(struct mixing_ranked *draws, struct mixing_ranked *spare,
                                       size_t count)
{
    if (count == 0)
        return draws;
    size_t counts[DIGITS][DIGIT_VALUES];
    count_digits(draws, count, counts);
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        size_t *starts = counts[digit];
        if (starts[digit_of(draws[0].value, digit)] == count)
            continue;
        counts_to_starts(starts);
        for (size_t i = 0; i < count; i++)
            spare[starts[digit_of(draws[i].value, digit)]++] = draws[i];
        struct mixing_ranked *sorted = spare;
        spare = draws;
        draws = sorted;
    }
    return draws;
}

/* Rounded subtraction is monotone, so the distances to the left and to the right of the centre are
 * each sorted already and only need merging. */
void mixing_rank_fold(const struct mixing_ranked *sorted, size_t count, double centre,
                      struct mixing_ranked *folded)
{
    size_t right = 0;
    while (right < count && sorted[right].value < centre)
        right++;
    size_t left = right;
    for (size_t i = 0; i < count; i++) {
        double below = left > 0 ? fabs(sorted[left - 1].value - centre) : INFINITY;
        double above = right < count ? fabs(sorted[right].value - centre) : INFINITY;
        bool from_right = left == 0 || (right < count && above <= below);
        size_t from = from_right ? right++ : --left;
        folded[i].value = from_right ? above : below;
        folded[i].place = sorted[from].place;
    }
}

int mixing_scores_init(struct mixing_scores *scores, size_t max_count)
{
    scores->count = 0;
    scores->table = calloc(max_count ? max_count : 1, sizeof *scores->table);
    return scores->table ? 0 : -1;
}

void mixing_scores_release(struct mixing_scores *scores)
{
    free(scores->table);
    scores->table = NULL;
}

static double normal_score(double rank, size_t scored)
{
    return mixing_quantile_normal((rank - 0.375) / ((double)scored + 0.25));
}

static void fill_table(struct mixing_scores *scores, size_t count)
{
    if (scores->count == count)
        return;
    for (size_t r = 0; r < count; r++)
        scores->table[r] = normal_score((double)(r + 1), count);
    scores->count = count;
}

/* How many of the draws from..to are scored. */
static size_t scored_between(const struct mixing_ranked *sorted, size_t from, size_t to)
{
    size_t scored = 0;
    for (size_t i = from; i < to; i++)
        scored += sorted[i].place != MIXING_RANK_NOWHERE;
    return scored;
}

void mixing_scores_fill(struct mixing_scores *scores, const struct mixing_ranked *sorted,
                        size_t count, size_t scored, double *z)
{
    fill_table(scores, scored);
    size_t below = 0;
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && sorted[to].value == sorted[from].value;)
            to++;
        size_t tied = scored_between(sorted, from, to);
        if (tied == 0)
            continue;
        double score = tied == 1 ? scores->table[below]
                                 : normal_score((double)below + 0.5 * (double)(tied + 1), scored);
        for (size_t i = from; i < to; i++)
            if (sorted[i].place != MIXING_RANK_NOWHERE)
                z[sorted[i].place] = score;
        below += tied;
    }
}
