/* Private to server/store: lists that are read page by page. */
#ifndef BARKER_SERVER_STORE_PAGE_H
#define BARKER_SERVER_STORE_PAGE_H

#include "server/store/internal.h"

/* A list that is read page by page, newest first, so that a slow `each` holds no connection.
 * A row begins with its id. */
struct store_list {
    const void *filter;
    void *page; /* room for so many rows of such a size */
    size_t rows, row_size;
    enum err (*read)(struct db *db, const void *filter, const char *before, size_t want, void *page,
                     size_t *count, struct err_info *info);
    bool (*each)(void *ctx, const void *row); /* false: enough */
    void *ctx;
    void (*release)(void *row);
};
/* At most `limit` rows with ids below `before` (NULL: from the newest on). */
enum err store_list_read(struct store *store, const struct store_list *list, const char *before,
                         size_t limit, struct err_info *info);

#endif
