/* Lists that are read page by page. */
#include "server/store/page.h"

static enum err read_page(struct store *store, const struct store_list *list, size_t want,
                          size_t *count, struct err_info *info)
{
    struct db *db;
    *count = 0;
    enum err code = store_reader_take(store, &db, info);
    if (code != ERR_OK)
        return code;
    code = list->read(db, list->ctx, want, list->page, count, info);
    store_reader_give(store, db);
    return code;
}

const char *store_list_before(const char *last, const char *begin)
{
    return last[0] != '\0' ? last : begin != NULL ? begin : "~";
}

enum err store_list_read(struct store *store, const struct store_list *list, size_t limit,
                         struct err_info *info)
{
    for (bool more = true; more && limit > 0;) {
        size_t want = limit < list->rows ? limit : list->rows, count;
        enum err code = read_page(store, list, want, &count, info);
        bool wanted = code == ERR_OK;
        for (size_t i = 0; i < count; i++) {
            char *row = (char *)list->page + i * list->row_size;
            wanted = wanted && list->each(list->ctx, row);
            if (list->release != NULL)
                list->release(row);
        }
        if (code != ERR_OK)
            return code;
        more = wanted && count == want;
        limit -= count;
    }
    return ERR_OK;
}
