/* Prepared data as one block of bytes, laid out alike in memory and in a file:
 *
 *     head      LAYOUT_HEAD bytes, used in a file only (server/data/cache_file.c)
 *     names     of the columns, each with its NUL
 *     train     x, y, user, item, offset, weight: those that it has, as in core/kernels/dataset.h
 *     test      the same, without weight
 *
 * Every array begins on a page and is followed by at least 128 unused bytes of its own. */
#ifndef BARKER_SERVER_DATA_LAYOUT_H
#define BARKER_SERVER_DATA_LAYOUT_H

#include "core/kernels/dataset.h"
#include "core/base/err.h"
#include "server/data/data_root.h"

#include <stdatomic.h>

#define LAYOUT_HEAD 4096
#define LAYOUT_VERSION \
    3 /* raise it when the meaning of the arrays of core/kernels/dataset.h changes */

enum {
    LAYOUT_X,
    LAYOUT_Y,
    LAYOUT_USER,
    LAYOUT_ITEM,
    LAYOUT_OFFSET,
    LAYOUT_WEIGHT,
    LAYOUT_ARRAYS,
};

/* Immutable while it is held. */
struct data {
    struct dataset train, test;
    bool has_test, has_offset, has_weight;
    char sha256[2 * DATA_FILE_SHA256_HEX]; /* of the file(s): "train" or "train:test" */
    size_t bytes;                          /* of its arrays */
    /* Of the columns of x; with a formula, one text more: what the file is to it, as JSON. */
    char **names;
    size_t name_count;
    void *base; /* the image; the arrays above lie in it */
    size_t size;
    bool mapped;         /* from a file: takes no memory of its own */
    int fd;              /* of that file, locked while it is in use */
    atomic_bool *broken; /* borrowed; set when a mapped file could not be read. NULL: never */
};

struct layout_array {
    size_t offset, bytes, row_bytes; /* all 0: there is none */
};

struct data_layout {
    size_t names_offset, names_bytes;
    struct layout_array arrays[2][LAYOUT_ARRAYS]; /* of train and test */
    size_t size;
};

/* From kind, precision, N, columns and stride of the sets, from has_offset, has_weight and the
 * names. False: the sizes overflow. */
bool data_layout(struct data_layout *out, const struct data *data);

/* An image in zeroed memory, in huge pages where it is large; the sets of `data` then point into
 * it. NO_MEMORY. */
enum err layout_allocate(struct data *data, const struct data_layout *layout,
                         struct err_info *info);

/* Makes the sets point into data->base, and counts data->bytes. */
void layout_attach(struct data *data, const struct data_layout *layout);

/* The names as they stand in the image, and back: NULL when there is no memory or the text is not
 * `count` names. */
char *layout_names_text(const struct data *data, size_t bytes);
char **layout_names_list(const char *text, size_t bytes, size_t count);

/* Whether some of a mapped image could not be read since: its file was cut short, or the disk
 * failed. Zeros were read instead, and nothing that was computed from them may be kept. */
static inline bool data_broken(const struct data *data)
{
    return data != NULL && data->broken != NULL && atomic_load(data->broken);
}

/* Frees names and image and empties it. */
void data_release(struct data *data);

#endif
