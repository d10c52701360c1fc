/* Private to server/store: lists that are read page by page. Between two pages no connection is held,
 * so that a slow `each` does not keep others from reading. */
#ifndef BARKER_SERVER_STORE_PAGE_H
#define BARKER_SERVER_STORE_PAGE_H

#include "server/store/internal.h"

struct store_list {
    void *page; /* memory for `rows` rows of `row_size` bytes */
    size_t rows, row_size;
    /* At most `want` rows, which follow those of the call before: ctx holds the place. On failure
     * *count rows are released all the same. */
    enum err (*read)(struct db *db, void *ctx, size_t want, void *page, size_t *count,
                     struct err_info *info);
    bool (*each)(void *ctx, const void *row); /* false: enough */
    void (*release)(void *row);               /* NULL: a row owns no memory */
    void *ctx;
};
/* The id below which a list by id, newest first, goes on: the last one it has read, or `begin`, or
 * above all ids (NULL). */
const char *store_list_before(const char *last, const char *begin);

enum err store_list_read(struct store *store, const struct store_list *list, size_t limit,
                         struct err_info *info);

#endif
