/* The trash: deleted jobs can be restored for a while, then their space is given back. */
#ifndef BARKER_SERVER_API_RETENTION_H
#define BARKER_SERVER_API_RETENTION_H

#include "server/base/config.h"
#include "server/store/store.h"

/* Removes for good what has been in the trash for more than trash_hours in which the daemon ran, and
 * the oldest of the rest while the trash is larger than trash_mb. May wait for the disk. */
void retention_run(struct store *store, const struct config *config);

#endif
