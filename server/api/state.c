/* The state folder. */
#include "server/api/state.h"
#include "server/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err make_directory(const char *path, mode_t mode, struct err_info *info)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST)
            return err_set(info, ERR_IO, "%s: %s", part, strerror(errno));
        *at = '/';
    }
    if (mkdir(part, mode) != 0 && errno != EEXIST)
        return err_set(info, ERR_IO, "%s: %s", part, strerror(errno));
    return ERR_OK;
}

enum err state_open(struct store **store, struct auth **auth, const struct config *config,
                    struct err_info *info)
{
    struct store_config options = {.directory = config->state,
                                   .min_free_bytes = (uint64_t)config->min_free_mb << 20,
                                   .user_active_jobs = (uint64_t)config->user_active_jobs,
                                   .user_stored_bytes = (uint64_t)config->user_stored_mb << 20,
                                   .user_jobs = (uint64_t)config->user_jobs,
                                   .user_references = (uint64_t)config->user_references,
                                   .user_studies = (uint64_t)config->user_studies,
                                   .copy_bytes = (uint64_t)config->copies_mb << 20};
    struct auth_limits limits = {.writes_per_minute = (double)config->writes_per_minute,
                                 .reads_per_second = (double)config->reads_per_second,
                                 .failures_per_minute = 10,
                                 .downloads = (unsigned)config->user_downloads,
                                 .tokens = (unsigned)config->user_tokens};
    enum err code = make_directory(config->state, 0700, info);
    if (code == ERR_OK)
        code = store_open(store, &options, info);
    if (code == ERR_OK)
        code = auth_open(auth, *store, &limits, info);
    return code;
}

enum err state_write(const struct config *config, const char *name, const char *text,
                     struct err_info *info)
{
    char path[4200], temporary[4210];
    snprintf(path, sizeof path, "%s/%s", config->state, name);
    snprintf(temporary, sizeof temporary, "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t size = strlen(text);
    bool ok = fd >= 0 && write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (ok && rename(temporary, path) == 0)
        return ERR_OK;
    return err_set(info, ERR_IO, "%s: %s", path, strerror(errno));
}

/* A restored backup has users, but no token in plain text. The log line contains the command that
 * makes one. */
static void note_missing_token(const struct config *config)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/admin.token", config->state);
    if (access(path, F_OK) != 0)
        log_event(LOG_INFO, "token.missing", "detail",
                  "the administrator's token is not kept here; a new one, while no daemon runs: "
                  "barkerd token add admin --role admin > STATE/admin.token",
                  NULL);
}

enum err state_first_token(struct auth *auth, const struct config *config, struct err_info *info)
{
    char line[TOKEN_SIZE + 1];
    struct token_made made;
    if (!auth_empty(auth)) {
        note_missing_token(config);
        return ERR_OK;
    }
    struct token_wish wish = {.user = "admin", .role = ROLE_ADMIN, .label = "first start"};
    enum err code = auth_token_add(auth, &wish, &made, info);
    if (code == ERR_OK) {
        snprintf(line, sizeof line, "%s\n", made.token);
        code = state_write(config, "admin.token", line, info);
    }
    explicit_bzero(&made, sizeof made);
    explicit_bzero(line, sizeof line);
    return code;
}

/* Whether a user who may name files in `folder` may name some in `path`, both resolved. No user may
 * name files that begin with a dot. */
static bool shows(const char *folder, const char *path)
{
    size_t length = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(folder, path, length) == 0 && (path[length] == '\0' || path[length] == '/') &&
           strstr(path + length, "/.") == NULL;
}

enum err state_data_folder(const struct config *config, struct err_info *info)
{
    char own[PATH_MAX + 8], data[PATH_MAX], state[PATH_MAX];
    snprintf(own, sizeof own, "%s/data", config->state);
    if (strcmp(own, config->data) == 0)
        return make_directory(own, 0755, info);
    if (realpath(config->data, data) == NULL)
        return err_set(info, ERR_IO, "data: %s: %s", config->data, strerror(errno));
    if (realpath(config->state, state) == NULL)
        return err_set(info, ERR_IO, "state: %s: %s", config->state, strerror(errno));
    snprintf(own, sizeof own, "%s/data", state);
    if (!shows(data, state) && (!shows(state, data) || shows(own, data)))
        return ERR_OK;
    return err_set(info, ERR_INVALID,
                   "data: %s would let all users read the state folder %s; choose another "
                   "folder for data, "
                   "or for state one whose name begins with a dot, or leave data at STATE/data",
                   data, state);
}

void state_check_rights(const char *state)
{
    struct stat status;
    char mode[8];
    if (stat(state, &status) != 0 || (status.st_mode & 022) == 0)
        return;
    snprintf(mode, sizeof mode, "%04o", status.st_mode & 07777);
    log_event(LOG_WARN, "state.exposed", "detail", "other accounts may write to the state folder",
              "state", state, "mode", mode, NULL);
}
