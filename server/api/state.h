/* The state folder of the daemon: catalogue, users and tokens, and the files that it writes there
 * itself. */
#ifndef BARKER_SERVER_API_STATE_H
#define BARKER_SERVER_API_STATE_H

#include "server/api/auth.h"
#include "server/base/config.h"

/* Creates the folder if necessary and opens its contents. On failure *store may be open. */
enum err state_open(struct store **store, struct auth **auth, const struct config *config,
                    struct err_info *info);
/* When there is no user yet: creates the administrator, with the token in STATE/admin.token. */
enum err state_first_token(struct auth *auth, const struct config *config, struct err_info *info);
/* The folder of data files: STATE/data is created, any other must exist. ERR_INVALID when it would
 * show the state folder (tokens, draws of all users) to every user. */
enum err state_data_folder(const struct config *config, struct err_info *info);
/* Writes STATE/name: whole or not at all, readable by its owner alone. */
enum err state_write(const struct config *config, const char *name, const char *text,
                     struct err_info *info);
/* Logs a warning when other accounts of the machine may write to the folder: its files are private,
 * but an account that may rename them can replace them. */
void state_check_rights(const char *state);

#endif
