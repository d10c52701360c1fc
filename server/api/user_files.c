/* Counting and removing the uploads of a user. */
#include "server/api/user_files.h"
#include "server/api/auth.h"
#include "server/data/data_root.h"

struct uploads {
    const struct data_root *root;
    const char *user;
    size_t count;
    bool remove;
    enum err code;
    struct err_info *info;
};

static bool visit_upload(void *ctx, const struct data_file_entry *entry)
{
    struct uploads *u = ctx;
    if (!entry->own)
        return true;
    u->count++;
    if (u->remove)
        u->code = data_file_delete(u->root, u->user, entry->path, u->info);
    return u->code == ERR_OK;
}

static enum err count_uploads(void *ctx, const char *user, size_t *count, struct err_info *info)
{
    struct uploads u = {.root = ctx, .user = user, .info = info};
    enum err code = data_file_list(ctx, user, visit_upload, &u, info);
    *count = u.count;
    return code;
}

static enum err remove_uploads(void *ctx, const char *user, struct err_info *info)
{
    struct uploads u = {.root = ctx, .user = user, .remove = true, .info = info};
    enum err code = data_file_list(ctx, user, visit_upload, &u, info);
    return code == ERR_OK ? u.code : code;
}

void user_files_use(struct auth *auth, const struct data_root *root)
{
    struct auth_files files = {
        .ctx = (void *)root, .count = count_uploads, .remove = remove_uploads};
    auth_set_files(auth, &files);
}
