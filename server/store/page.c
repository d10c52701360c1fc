/* Lists that are read page by page: between two pages no connection is held, so a caller may take as
 * long with a row as it likes. */
#include "server/store/page.h"

#include <string.h>

static enum err read_page(struct store *store, const struct store_list *list, const char *before,
                          size_t want, size_t *count, struct err_info *info)
{
    struct db *db;
    *count = 0;
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    code = list->read(db, list->filter, before, want, list->page, count, info);
    store_reader_give(store, db);
    return code;
}

enum err store_list_read(struct store *store, const struct store_list *list, const char *before,
                         size_t limit, struct err_info *info)
{
    char last[JOB_ID_SIZE];
    for (bool more = true; more && limit > 0;) {
        size_t want = limit < list->rows ? limit : list->rows, count;
        enum err code = read_page(store, list, before, want, &count, info);
        bool wanted = code == ERR_OK;
        for (size_t i = 0; i < count; i++) {
            char *row = (char *)list->page + i * list->row_size;
            memcpy(last, row, sizeof last);
            wanted = wanted && list->each(list->ctx, row);
            list->release(row);
        }
        if (code != ERR_OK)
            return code;
        more = wanted && count == want;
        before = last;
        limit -= count;
    }
    return ERR_OK;
}
