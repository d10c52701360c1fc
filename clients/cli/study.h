/* Studies, shared by the commands `study ...`. */
#ifndef BARKER_CLI_STUDY_H
#define BARKER_CLI_STUDY_H

#include "clients/cli/cli.h"

/* As jobs_resolve: a whole id, `last`, a part of an id, or a name. */
int study_resolve(struct cli *cli, const char *typed, char **id);
/* Starts the route /v1/studies/{id}. */
void study_route(struct route *route, const char *id);

/* As text: its jobs, and its result. */
void study_print(const json_t *study);

#endif
