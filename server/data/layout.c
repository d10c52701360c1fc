/* The layout of prepared data; images in memory. */
#include "server/data/layout.h"

#include "server/data/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE      ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)
#define AFTER     ((size_t)128) /* bytes behind every array: kernels may load whole registers */

static size_t row_bytes(const struct dataset *d, int array, bool has_offset, bool has_weight)
{
    bool triplets = d->kind == DATA_TRIPLETS;
    switch (array) {
    case LAYOUT_X:
        return dataset_row_bytes(d);
    case LAYOUT_Y:
        return triplets || d->kind == DATA_REGRESSION ? sizeof(double) : 0;
    case LAYOUT_OFFSET:
        return has_offset ? sizeof(double) : 0;
    case LAYOUT_WEIGHT:
        return has_weight ? sizeof(double) : 0;
    default:
        return triplets ? sizeof(uint32_t) : 0;
    }
}

/* Puts `bytes` behind what is there. */
static bool place(size_t *size, size_t bytes, size_t *offset)
{
    size_t end;
    *offset = *size;
    if (__builtin_add_overflow(*size, bytes, &end) || end > SIZE_MAX / 2)
        return false;
    *size = (end + AFTER + PAGE - 1) / PAGE * PAGE;
    return true;
}

static bool place_arrays(struct layout_array *arrays, const struct dataset *d, bool has_offset,
                         bool has_weight, size_t *size)
{
    for (int k = 0; k < LAYOUT_ARRAYS; k++) {
        struct layout_array *a = &arrays[k];
        a->row_bytes = row_bytes(d, k, has_offset, has_weight);
        if (a->row_bytes == 0 || d->N == 0)
            continue;
        if (__builtin_mul_overflow(d->N, a->row_bytes, &a->bytes) ||
            !place(size, a->bytes, &a->offset))
            return false;
    }
    return true;
}

bool data_layout(struct data_layout *out, const struct data *data)
{
    *out = (struct data_layout){.size = LAYOUT_HEAD};
    for (size_t k = 0; k < data->name_count; k++)
        out->names_bytes += strlen(data->names[k]) + 1;
    return place(&out->size, out->names_bytes, &out->names_offset) &&
           place_arrays(out->arrays[0], &data->train, data->has_offset, data->has_weight,
                        &out->size) &&
           place_arrays(out->arrays[1], &data->test, data->has_offset, false, &out->size);
}

static const void *array_at(const struct data *data, const struct layout_array *a)
{
    return a->bytes > 0 ? (const char *)data->base + a->offset : NULL;
}

static size_t attach_set(struct data *data, struct dataset *d, const struct layout_array *arrays)
{
    d->x = array_at(data, &arrays[LAYOUT_X]);
    d->y = array_at(data, &arrays[LAYOUT_Y]);
    d->user = array_at(data, &arrays[LAYOUT_USER]);
    d->item = array_at(data, &arrays[LAYOUT_ITEM]);
    d->offset = array_at(data, &arrays[LAYOUT_OFFSET]);
    d->weight = array_at(data, &arrays[LAYOUT_WEIGHT]);
    size_t bytes = 0;
    for (int k = 0; k < LAYOUT_ARRAYS; k++)
        bytes += arrays[k].bytes;
    return bytes;
}

void layout_attach(struct data *data, const struct data_layout *layout)
{
    data->bytes = attach_set(data, &data->train, layout->arrays[0]);
    data->bytes += attach_set(data, &data->test, layout->arrays[1]);
}

/* Rows are read in random order, so that with small pages nearly every one of a large set misses
 * the processor's page tables. A mapping is aligned to 4 KiB only: map more, unmap the ends.
 */
static void *map_aligned(size_t size)
{
    char *at =
        mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return MAP_FAILED;
    size_t before = -(uintptr_t)at % HUGE_PAGE;
    if (before > 0)
        munmap(at, before);
    munmap(at + before + size, HUGE_PAGE - before);
    madvise(at + before, size, MADV_HUGEPAGE);
    return at + before;
}

enum err layout_allocate(struct data *data, const struct data_layout *layout, struct err_info *info)
{
    size_t size = layout->size;
    void *base = size >= HUGE_PAGE
                     ? map_aligned(size)
                     : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return err_set(info, ERR_NO_MEMORY, "no memory for the data (%zu MB)", size >> 20);
    data->base = base;
    data->size = size;
    layout_attach(data, layout);
    return ERR_OK;
}

char *layout_names_text(const struct data *data, size_t bytes)
{
    char *text = malloc(bytes + 1), *at = text;
    for (size_t k = 0; text != NULL && k < data->name_count; k++)
        at = stpcpy(at, data->names[k]) + 1;
    return text;
}

char **layout_names_list(const char *text, size_t bytes, size_t count)
{
    const char *end = text + bytes;
    char **names = calloc(count + 1, sizeof *names);
    for (size_t k = 0; names != NULL && k < count; k++) {
        const char *stop = memchr(text, '\0', (size_t)(end - text));
        names[k] = stop != NULL ? strdup(text) : NULL;
        if (names[k] == NULL) {
            while (k-- > 0)
                free(names[k]);
            free(names);
            return NULL;
        }
        text = stop + 1;
    }
    return names;
}

void data_release(struct data *data)
{
    for (size_t k = 0; k < data->name_count; k++)
        free(data->names[k]);
    free(data->names);
    if (data->mapped)
        cache_file_unmap(data);
    else if (data->base != NULL)
        munmap(data->base, data->size);
    *data = (struct data){0};
}
