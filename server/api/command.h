/* The commands of barkerd that act on a state folder and end: token add, check, backup. */
#ifndef BARKER_SERVER_API_COMMAND_H
#define BARKER_SERVER_API_COMMAND_H

#include "server/base/config.h"

/* words: the command and what belongs to it, `count` > 0. Returns the exit status, or -1 when there
 * is no such command. */
int command_run(const struct config *config, int count, char **words);

#endif
