/* Meter: shows the bytes of a slow transfer on a terminal. */
#ifndef BARKER_CLI_METER_H
#define BARKER_CLI_METER_H

#include "clients/cli/client.h"

struct meter {
    double next;
    int64_t upload_total; /* bytes, or -1 */
    bool shown;
};

/* Makes the request show its progress on stderr, if that is a terminal and --quiet is not given. */
void meter_attach(struct meter *meter, struct request *request);
/* Removes the line. */
void meter_end(struct meter *meter);

#endif
