/* token add, check and backup. */
#include "server/api/command.h"
#include "server/api/state.h"
#include "server/api/user_files.h"
#include "server/base/clock.h"
#include "server/data/data_root.h"
#include "server/store/users.h"

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

struct token_words {
    const char *name, *label;
    enum role role;
    long days;
};

/* A new user must not inherit the uploads of a former user of that name. Without a data folder
 * there are none; a folder that cannot be read may have some. */
static enum err add_token(struct auth *auth, const struct config *config,
                          const struct token_words *words, struct err_info *info)
{
    struct token_made made;
    struct data_root *root = NULL;
    struct token_wish wish = {.user = words->name, .role = words->role, .label = words->label};
    if (words->days > 0)
        wish.expires_ms = clock_wall_ms() + (uint64_t)words->days * 86400000;
    enum err code = data_root_open(&root, config->data, info);
    if (code == ERR_OK)
        user_files_use(auth, root);
    else if (code != ERR_NOT_FOUND)
        return code;
    code = auth_token_add(auth, &wish, &made, info);
    if (code == ERR_OK)
        printf("%s\n", made.token);
    explicit_bzero(&made, sizeof made);
    data_root_close(root);
    return code;
}

/* False: a mistake. */
static bool read_words(int argc, char **argv, struct token_words *out)
{
    for (int i = 1; i < argc; i++) {
        bool value = i + 1 < argc;
        if (strcmp(argv[i], "--role") == 0 && value) {
            if (!role_parse(argv[++i], &out->role)) {
                fprintf(stderr, "barkerd: --role must be viewer, user or admin, not %s\n", argv[i]);
                return false;
            }
        } else if (strcmp(argv[i], "--label") == 0 && value) {
            out->label = argv[++i];
        } else if (strcmp(argv[i], "--expires-in-days") == 0 && value) {
            out->days = strtol(argv[++i], NULL, 10);
        } else if (out->name == NULL && argv[i][0] != '-') {
            out->name = argv[i];
        } else {
            out->name = NULL;
            break;
        }
    }
    if (argc >= 2 && strcmp(argv[0], "add") == 0 && out->name != NULL && out->days >= 0)
        return true;
    fprintf(stderr, "usage: barkerd token add NAME [--role viewer|user|admin] [--label TEXT] "
                    "[--expires-in-days N] [--state DIR]\n");
    return false;
}

static int token_command(const struct config *config, int argc, char **argv)
{
    struct err_info info;
    struct token_words words = {.role = ROLE_USER, .label = ""};
    struct store *store = NULL;
    struct auth *auth = NULL;
    if (!read_words(argc, argv, &words))
        return 2;
    enum err code = state_open(&store, &auth, config, &info);
    if (code == ERR_CONFLICT)
        err_set(&info, code, "a daemon is running on %s; ask it: barker token add %s --role %s",
                config->state, words.name, role_name(words.role));
    if (code == ERR_OK)
        code = add_token(auth, config, &words, &info);
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

/* The state folder must exist: opening a missing one would create it and report it as intact. */
static enum err has_catalogue(const struct config *config, struct err_info *info)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/barkerd.db", config->state);
    if (access(path, F_OK) == 0)
        return ERR_OK;
    return err_set(info, ERR_NOT_FOUND, "%s: %s; give the state folder with --state DIR", path,
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

static void print_skipped(void *ctx, const char *job, const char *why)
{
    fprintf(stderr, "barkerd: draws/%s.db is damaged and not in the backup: %s\n", job, why);
    ++*(size_t *)ctx;
}

static int backup_command(const struct config *config, const char *path)
{
    struct err_info info;
    size_t skipped = 0;
    if (store_backup_directory(config->state, path, print_skipped, &skipped, &info) != ERR_OK)
        return complain(&info);
    printf("%s\n", path);
    return skipped == 0 ? 0 : 1;
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
