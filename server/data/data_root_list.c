/* Listing the files a user can name. */
#include "server/data/data_root_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct listing {
    struct data_file_entry *entries; /* their paths are owned */
    size_t count, capacity;
    bool own;
    enum err err;
};

static void add_entry(struct listing *list, const char *path, const struct stat *status)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        void *entries = realloc(list->entries, capacity * sizeof *list->entries);
        if (entries == NULL) {
            list->err = ERR_NO_MEMORY;
            return;
        }
        list->entries = entries;
        list->capacity = capacity;
    }
    char *copy = strdup(path);
    if (copy == NULL || list->count == DATA_FILE_LISTED_MAX) {
        list->err = copy == NULL ? ERR_NO_MEMORY : ERR_TOO_LARGE;
        free(copy);
        return;
    }
    list->entries[list->count++] = (struct data_file_entry){
        .path = copy,
        .own = list->own,
        .size = (uint64_t)status->st_size,
        .modified = status->st_mtim,
    };
}

static bool out_of_descriptors(int number)
{
    return number == EMFILE || number == ENFILE;
}

/* Adds the files of an open folder, which it closes. `prefix` is "" or ends in '/'. A folder or
 * file that vanishes meanwhile or may not be read is left out. */
static void list_folder(struct listing *list, int folder, const char *prefix, int depth)
{
    DIR *stream = fdopendir(folder);
    if (stream == NULL) {
        list->err = ERR_NO_MEMORY;
        close(folder);
        return;
    }
    for (struct dirent *item; list->err == ERR_OK && (item = readdir(stream)) != NULL;) {
        char path[DATA_FILE_PATH_MAX + 2];
        struct stat status;
        int length = snprintf(path, sizeof path, "%s%s", prefix, item->d_name);
        if (length > DATA_FILE_PATH_MAX || !data_file_path_allowed(path) ||
            fstatat(folder, item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_size > 0) {
            add_entry(list, path, &status);
        } else if (S_ISDIR(status.st_mode) && depth < DATA_FILE_DEPTH_MAX) {
            int inner = data_file_open_beneath(folder, item->d_name, O_RDONLY | O_DIRECTORY);
            memcpy(path + length, "/", 2);
            if (inner >= 0)
                list_folder(list, inner, path, depth + 1);
            else if (out_of_descriptors(errno))
                list->err = ERR_UNAVAILABLE;
        }
    }
    closedir(stream);
}

/* Adds the files of the user or the shared ones; `folder` is -1, with errno set, if it could not be
 * opened. A user without uploads has no folder. */
static void collect(struct listing *list, int folder, bool own)
{
    list->own = own;
    if (folder >= 0 && list->err == ERR_OK)
        list_folder(list, folder, "", 0);
    else if (folder >= 0)
        close(folder);
    else if (!own || errno != ENOENT)
        list->err = out_of_descriptors(errno) ? ERR_UNAVAILABLE : ERR_IO;
}

/* Own before shared where the path is the same. */
static int compare_entries(const void *a, const void *b)
{
    const struct data_file_entry *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order != 0 ? order : y->own - x->own;
}

static enum err list_error(enum err err, struct err_info *info)
{
    if (err == ERR_TOO_LARGE)
        return err_set(
            info, err,
            "there are more than %d data files, the most that can be listed; remove some",
            DATA_FILE_LISTED_MAX);
    return err_set(info, err, "the data files cannot be listed: %s", err_text(err));
}

enum err data_file_list(const struct data_root *root, const char *user,
                        bool (*visit)(void *context, const struct data_file_entry *entry),
                        void *context, struct err_info *info)
{
    struct listing list = {0};
    collect(&list, data_file_open_own(root, user, O_RDONLY), true);
    collect(&list, data_file_open_beneath(root->fd, ".", O_RDONLY | O_DIRECTORY), false);
    if (list.count > 0)
        qsort(list.entries, list.count, sizeof *list.entries, compare_entries);
    bool more = list.err == ERR_OK;
    for (size_t i = 0; more && i < list.count; i++)
        if (i == 0 || strcmp(list.entries[i - 1].path, list.entries[i].path) != 0)
            more = visit(context, &list.entries[i]);
    for (size_t i = 0; i < list.count; i++)
        free((char *)(uintptr_t)list.entries[i].path);
    free(list.entries);
    return list.err == ERR_OK ? ERR_OK : list_error(list.err, info);
}
