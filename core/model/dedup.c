/* Finds equal rows with a hash table, and gives up as soon as too many are distinct. */
#include "core/model/dedup.h"
#include "core/base/rng.h"

#include <stdlib.h>
#include <string.h>

/* Minibatches read distinct rows where these are few and short enough to stay in the cache. */
#define ROWS_PER_DISTINCT 8         /* at least */
#define DISTINCT_MOST     (1 << 16) /* numbered by 16 bits */
#define ROW_BYTES_MOST    (2 * 64)  /* two cache lines */

#define EMPTY UINT32_MAX /* in the hash table */

/* A distinct row: its first occurrence, the number of rows equal to it, and the sum of their
 * responses. A row of weight w counts w times. */
struct distinct_row {
    uint32_t row;
    double count, y;
};

struct search {
    const struct dataset *data;
    size_t row_bytes;
    bool responses;
    struct distinct_row *found;
    size_t count, limit;
    uint32_t *table; /* numbers of distinct rows; open addressing by hash */
    size_t mask;
    bool no_memory;
};

static uint64_t mix(uint64_t hash, const void *word)
{
    uint64_t bits;
    memcpy(&bits, word, sizeof bits);
    hash = (hash ^ bits) * 0x9e3779b97f4a7c15ULL;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct search *s, size_t row)
{
    const struct dataset *data = s->data;
    const char *x = dataset_row(data, row);
    uint64_t hash = 0;
    for (size_t at = 0; at < s->row_bytes; at += sizeof(uint64_t))
        hash = mix(hash, x + at);
    if (data->offset != NULL)
        hash = mix(hash, data->offset + row);
    return s->responses ? mix(hash, data->y + row) : hash;
}

static bool equal(const struct search *s, size_t a, size_t b)
{
    const struct dataset *data = s->data;
    const size_t size = sizeof(double);
    return memcmp(dataset_row(data, a), dataset_row(data, b), s->row_bytes) == 0 &&
           (data->offset == NULL || memcmp(data->offset + a, data->offset + b, size) == 0) &&
           (!s->responses || memcmp(data->y + a, data->y + b, size) == 0);
}

/* The slot of a row equal to this one, or the free slot for it, by linear probing. */
static uint32_t *place_of(const struct search *s, size_t row)
{
    size_t at = hash_of(s, row) >> 32 & s->mask;
    while (s->table[at] != EMPTY && !equal(s, row, s->found[s->table[at]].row))
        at = (at + 1) & s->mask;
    return &s->table[at];
}

/* Doubles the hash table. It starts small, because most data with repeats have few distinct
 * rows. */
static bool grow(struct search *s)
{
    size_t size = s->table != NULL ? 2 * (s->mask + 1) : 1024;
    struct distinct_row *found = realloc(s->found, size / 2 * sizeof *found);
    if (found == NULL)
        return false;
    s->found = found;
    free(s->table);
    s->table = malloc(size * sizeof *s->table);
    if (s->table == NULL)
        return false;
    memset(s->table, 0xff, size * sizeof *s->table);
    s->mask = size - 1;
    for (size_t k = 0; k < s->count; k++)
        *place_of(s, s->found[k].row) = (uint32_t)k;
    return true;
}

/* Counts a row, and returns the number of the distinct row that equals it, a new number for a new
 * row. EMPTY: there are too many distinct rows, or there is no memory. */
static uint32_t count_row(struct search *s, size_t row)
{
    s->no_memory = 2 * s->count >= s->mask && !grow(s);
    if (s->no_memory)
        return EMPTY;
    uint32_t *place = place_of(s, row);
    if (*place == EMPTY) {
        if (s->count == s->limit)
            return EMPTY;
        s->found[s->count] = (struct distinct_row){.row = (uint32_t)row};
        *place = (uint32_t)s->count++;
    }
    struct distinct_row *same = &s->found[*place];
    same->count += dataset_weight(s->data, row);
    same->y += dataset_weight(s->data, row) * s->data->y[row];
    return *place;
}

static void search_init(struct search *s, const struct dataset *data, bool responses, size_t limit)
{
    *s = (struct search){
        .data = data, .row_bytes = dataset_row_bytes(data), .responses = responses, .limit = limit};
}

static void search_release(struct search *s)
{
    free(s->found);
    free(s->table);
}

/* ---- for minibatches ---- */

static bool map_rows(struct search *s, uint16_t *row_map)
{
    for (size_t i = 0; i < s->data->N; i++) {
        uint32_t number = count_row(s, i);
        if (number == EMPTY)
            return false;
        row_map[i] = (uint16_t)number;
    }
    return true;
}

static bool copy_distinct(struct dedup *f, const struct search *s)
{
    const struct dataset *data = s->data;
    f->data = *data;
    f->data.N = s->count;
    f->data.x = f->x = lanes_alloc(s->count * data->stride, s->row_bytes / data->stride);
    f->data.y = f->y = lanes_alloc(s->count, sizeof *f->y);
    if (data->offset != NULL)
        f->data.offset = f->offset = lanes_alloc(s->count, sizeof *f->offset);
    if (f->x == NULL || f->y == NULL || (data->offset != NULL && f->offset == NULL))
        return false;
    for (size_t k = 0; k < s->count; k++) {
        size_t row = s->found[k].row;
        memcpy((char *)f->x + k * s->row_bytes, dataset_row(data, row), s->row_bytes);
        f->y[k] = data->y[row];
        if (data->offset != NULL)
            f->offset[k] = data->offset[row];
    }
    return true;
}

bool dedup_init(struct dedup *f, const struct dataset *data, bool responses)
{
    struct search s;
    search_init(&s, data, responses,
                data->N / ROWS_PER_DISTINCT < DISTINCT_MOST ? data->N / ROWS_PER_DISTINCT
                                                            : DISTINCT_MOST);
    *f = (struct dedup){0};
    if (s.row_bytes > ROW_BYTES_MOST || s.limit == 0)
        return false;
    f->row_map = malloc(data->N * sizeof *f->row_map);
    bool ok = f->row_map != NULL && map_rows(&s, f->row_map) && copy_distinct(f, &s);
    search_release(&s);
    if (!ok)
        dedup_release(f);
    return ok;
}

void dedup_release(struct dedup *f)
{
    free(f->row_map);
    free(f->x);
    free(f->y);
    free(f->offset);
    *f = (struct dedup){0};
}

/* ---- for sums over all rows ---- */

/* A table of at least LARGE * SAMPLED rows is large: SAMPLED of its rows are examined first. */
#define SAMPLED ((size_t)16384)
#define LARGE   4

/* Whether a sample of m rows, one at random from each of m parts, has at least half as many repeats
 * as it would have with N/2 equally frequent distinct rows. With D distinct rows it has about
 * m^2/(2 D) repeats (birthday problem). */
static bool sample_repeats(const struct dataset *data, bool responses, bool *no_memory)
{
    struct search s;
    size_t part = data->N / SAMPLED;
    search_init(&s, data, responses, SAMPLED);
    for (size_t k = 0; k < SAMPLED; k++)
        if (count_row(&s, k * part + rng_hash(data->N, k) % part) == EMPTY)
            break;
    size_t repeats = SAMPLED - s.count;
    *no_memory = s.no_memory;
    search_release(&s);
    return repeats > SAMPLED * SAMPLED / (2 * data->N);
}

static bool list_distinct(struct distinct *f, const struct search *s)
{
    f->n = s->count;
    f->row = lanes_alloc(f->n, sizeof *f->row);
    f->count = lanes_alloc(f->n, sizeof *f->count);
    f->y = lanes_alloc(f->n, sizeof *f->y);
    if (f->row == NULL || f->count == NULL || f->y == NULL)
        return false;
    for (size_t k = 0; k < f->n; k++) {
        f->row[k] = s->found[k].row;
        f->count[k] = s->found[k].count;
        f->y[k] = s->responses ? s->data->y[f->row[k]] : s->found[k].y;
    }
    return true;
}

bool distinct_init(struct distinct *f, const struct dataset *data, bool responses)
{
    struct search s;
    bool no_memory = false;
    *f = (struct distinct){0};
    if (data->N >= LARGE * SAMPLED && !sample_repeats(data, responses, &no_memory))
        return !no_memory;
    search_init(&s, data, responses, data->N / 2);
    bool pays = s.limit > 0;
    for (size_t i = 0; pays && i < data->N; i++)
        pays = count_row(&s, i) != EMPTY;
    no_memory = s.no_memory || (pays && !list_distinct(f, &s));
    search_release(&s);
    if (no_memory)
        distinct_release(f);
    return !no_memory;
}

void distinct_release(struct distinct *f)
{
    free(f->row);
    free(f->count);
    free(f->y);
    *f = (struct distinct){0};
}

bool distinct_suffice(const struct distinct *f, const struct dataset *data, const uint32_t *idx,
                      size_t n, bool squares)
{
    return f->n > 0 && idx == NULL && n == data->N && !(squares && data->weight != NULL);
}

struct row_list distinct_list(const struct distinct *f, const struct dataset *data,
                              const uint32_t *idx, size_t n, bool squares)
{
    if (distinct_suffice(f, data, idx, n, squares))
        return (struct row_list){.idx = f->row, .n = f->n, .count = f->count};
    return (struct row_list){.idx = idx, .n = n, .weight = data->weight};
}
