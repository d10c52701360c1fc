/* Finds equal rows with a hash table, and gives up as soon as too many are distinct. */
#include "core/model/dedup.h"

#include <stdlib.h>
#include <string.h>

#define WORTH 8         /* rows per distinct row, at least */
#define MOST  (1 << 16) /* distinct rows */
#define WIDE  (2 * 64)  /* bytes of a row, at most */
#define EMPTY UINT32_MAX

struct search {
    const struct dataset *data;
    size_t row_bytes;
    bool responses;
    uint32_t *first; /* first occurrence of each distinct row */
    size_t count, limit;
    uint32_t *table; /* numbers of distinct rows; open addressing by hash */
    size_t mask;
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

/* The number of the distinct row that equals this row; a new number when there is none. */
static uint32_t kind_of(struct search *s, size_t row)
{
    size_t at = hash_of(s, row) >> 32 & s->mask;
    while (s->table[at] != EMPTY && !equal(s, row, s->first[s->table[at]]))
        at = (at + 1) & s->mask;
    if (s->table[at] == EMPTY) {
        s->first[s->count] = (uint32_t)row;
        s->table[at] = (uint32_t)s->count++;
    }
    return s->table[at];
}

static bool find_kinds(struct search *s, uint16_t *row_map)
{
    for (size_t i = 0; i < s->data->N; i++) {
        row_map[i] = (uint16_t)kind_of(s, i);
        if (s->count > s->limit)
            return false;
    }
    return true;
}

static bool copy_kinds(struct dedup *f, const struct search *s)
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
        size_t row = s->first[k];
        memcpy((char *)f->x + k * s->row_bytes, dataset_row(data, row), s->row_bytes);
        f->y[k] = data->y[row];
        if (data->offset != NULL)
            f->offset[k] = data->offset[row];
    }
    return true;
}

bool dedup_init(struct dedup *f, const struct dataset *data, bool responses)
{
    struct search s = {.data = data, .row_bytes = dataset_row_bytes(data), .responses = responses};
    *f = (struct dedup){0};
    s.limit = data->N / WORTH < MOST ? data->N / WORTH : MOST;
    if (s.row_bytes > WIDE || s.limit == 0)
        return false;
    for (s.mask = 1; s.mask < 2 * s.limit; s.mask *= 2)
        ;
    size_t table_bytes = s.mask-- * sizeof *s.table;
    s.table = malloc(table_bytes);
    s.first = malloc((s.limit + 1) * sizeof *s.first);
    f->row_map = malloc(data->N * sizeof *f->row_map);
    bool ok = s.table != NULL && s.first != NULL && f->row_map != NULL;
    if (ok)
        memset(s.table, 0xff, table_bytes);
    ok = ok && find_kinds(&s, f->row_map) && copy_kinds(f, &s);
    free(s.table);
    free(s.first);
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
