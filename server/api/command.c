/* token add, check and backup. */
#include "server/api/command.h"
#include "server/api/state.h"
#include "server/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int complain(const struct err_info *info)
{
    fprintf(stderr, "barkerd: %s\n", info->message);
    return 1;
}

static int token_command(const struct config *config, int argc, char **argv)
{
    struct err_info info;
    enum role role = ROLE_USER;
    const char *name = NULL, *label = "";
    long days = 0;
    char token[TOKEN_SIZE], id[9];
    struct store *store = NULL;
    struct auth *auth = NULL;
    for (int i = 1; i < argc; i++) {
        bool value = i + 1 < argc;
        if (strcmp(argv[i], "--role") == 0 && value) {
            if (!role_parse(argv[++i], &role)) {
                fprintf(stderr, "barkerd: --role must be viewer, user or admin, not %s\n", argv[i]);
                return 2;
            }
        } else if (strcmp(argv[i], "--label") == 0 && value) {
            label = argv[++i];
        } else if (strcmp(argv[i], "--expires-in-days") == 0 && value) {
            days = strtol(argv[++i], NULL, 10);
        } else if (name == NULL && argv[i][0] != '-') {
            name = argv[i];
        } else {
            name = NULL;
            break;
        }
    }
    if (argc < 2 || strcmp(argv[0], "add") != 0 || name == NULL || days < 0) {
        fprintf(stderr, "usage: barkerd token add NAME [--role viewer|user|admin] [--label TEXT] "
                        "[--expires-in-days N] [--state DIR]\n");
        return 2;
    }
    enum err code = state_open(&store, &auth, config, &info);
    if (code == ERR_CONFLICT)
        err_set(&info, code, "a daemon is running on %s; ask it: barker token add %s --role %s",
                config->state, name, role_name(role));
    uint64_t expires = days > 0 ? clock_wall_ms() + (uint64_t)days * 86400000 : 0;
    if (code == ERR_OK)
        code = auth_token_add(auth, name, role, label, expires, token, id, &info);
    if (code == ERR_OK)
        printf("%s\n", token);
    auth_close(auth);
    store_close(store);
    return code == ERR_OK ? 0 : complain(&info);
}

static void print_problem(void *ctx, const char *problem)
{
    size_t *count = ctx;
    ++*count;
    printf("%s\n", problem);
}

/* What is looked at must be there: opening would make it, and find it sound. */
static enum err has_catalogue(const struct config *config, struct err_info *info)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/barkerd.db", config->state);
    if (access(path, F_OK) == 0)
        return ERR_OK;
    return err_set(info, ERR_NOT_FOUND, "%s: %s; say which folder to look at: --state DIR", path,
                   strerror(errno));
}

static int check_command(const struct config *config)
{
    struct err_info info;
    size_t problems = 0;
    struct store *store = NULL;
    struct auth *auth = NULL;
    enum err code = has_catalogue(config, &info);
    if (code == ERR_OK)
        code = state_open(&store, &auth, config, &info);
    if (code == ERR_OK)
        code = store_check(store, print_problem, &problems, &info);
    auth_close(auth);
    store_close(store);
    if (code != ERR_OK)
        return complain(&info);
    printf("%s: %zu problems\n", config->state, problems);
    return problems == 0 ? 0 : 1;
}

static int backup_command(const struct config *config, const char *path)
{
    struct err_info info;
    if (store_backup_directory(config->state, path, &info) != ERR_OK)
        return complain(&info);
    printf("%s\n", path);
    return 0;
}

int command_run(const struct config *config, int count, char **words)
{
    bool check = strcmp(words[0], "check") == 0, backup = strcmp(words[0], "backup") == 0;
    if (strcmp(words[0], "token") == 0)
        return token_command(config, count - 1, words + 1);
    if (check && count == 1)
        return check_command(config);
    if (backup && count == 2)
        return backup_command(config, words[1]);
    if (check || backup) {
        fprintf(stderr, "usage: barkerd %s [--state DIR]\n", check ? "check" : "backup DIRECTORY");
        return 2;
    }
    return -1;
}
