/* Sums without rounding errors, and the distinct values of a stream. */
#include "server/formula/design_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void design_sum_add(struct design_sum *sum, double x)
{
    double total = sum->sum + x;
    sum->carry += fabs(sum->sum) >= fabs(x) ? (sum->sum - total) + x : (x - total) + sum->sum;
    sum->sum = total;
}

double design_sum_value(const struct design_sum *sum)
{
    return sum->sum + sum->carry;
}

void tally_init(struct tally *set, size_t max, size_t *left)
{
    *set = (struct tally){.max = max, .left = left};
}

void tally_release(struct tally *set)
{
    free(set->values);
    free(set->counts);
    free(set->waiting);
    *set = (struct tally){0};
}

static void fail(struct tally *set, enum err code)
{
    *set->left += set->count;
    free(set->values);
    free(set->counts);
    free(set->waiting);
    *set = (struct tally){.max = set->max, .left = set->left, .failed = code};
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorted values of both, equal ones once; returns how many. Without `values` it only counts. */
static size_t merge(const struct tally *set, double *values, uint64_t *counts)
{
    size_t i = 0, j = 0, n = 0;
    while (i < set->count || j < set->waiting_count) {
        bool old = i < set->count && (j == set->waiting_count || set->values[i] <= set->waiting[j]);
        double value = old ? set->values[i] : set->waiting[j];
        uint64_t count = old ? set->counts[i++] : 0;
        for (; j < set->waiting_count && set->waiting[j] == value; j++)
            count++;
        if (values != NULL) {
            values[n] = value;
            counts[n] = count;
        }
        n++;
    }
    return n;
}

static void sort_waiting(struct tally *set)
{
    if (set->waiting_count == 0)
        return;
    qsort(set->waiting, set->waiting_count, sizeof *set->waiting, by_value);
    size_t n = merge(set, NULL, NULL);
    if (n > set->max || n - set->count > *set->left) {
        fail(set, ERR_TOO_LARGE);
        return;
    }
    double *values = malloc(n * sizeof *values);
    uint64_t *counts = malloc(n * sizeof *counts);
    if (values == NULL || counts == NULL) {
        free(values);
        free(counts);
        fail(set, ERR_NO_MEMORY);
        return;
    }
    merge(set, values, counts);
    free(set->values);
    free(set->counts);
    set->values = values;
    set->counts = counts;
    *set->left -= n - set->count;
    set->count = n;
    set->waiting_count = 0;
}

void tally_add(struct tally *set, double value)
{
    if (set->failed != ERR_OK)
        return;
    if (set->waiting_count == set->waiting_room) {
        sort_waiting(set);
        if (set->failed != ERR_OK)
            return;
        size_t room = set->count > 256 ? set->count : 256;
        if (room > set->waiting_room) {
            double *more = realloc(set->waiting, room * sizeof *more);
            if (more == NULL) {
                fail(set, ERR_NO_MEMORY);
                return;
            }
            set->waiting = more;
            set->waiting_room = room;
        }
    }
    set->waiting[set->waiting_count++] = value + 0.0; /* -0 is 0 */
}

enum err tally_end(struct tally *set)
{
    if (set->failed == ERR_OK)
        sort_waiting(set);
    free(set->waiting);
    set->waiting = NULL;
    set->waiting_room = set->waiting_count = 0;
    return set->failed;
}

size_t tally_find(const struct tally *set, double value)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->values[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->values[low] == value ? low : SIZE_MAX;
}
