/* Meter: bytes of a transfer, on a terminal, from the moment it takes long enough to wonder. */
#ifndef BARKER_CLI_METER_H
#define BARKER_CLI_METER_H

#include "clients/cli/client.h"

struct meter {
    double next;
    int64_t upload_total; /* bytes, or -1 */
    bool shown;
};

/* Makes the request show its progress on stderr, if that is a terminal and notes are wanted. */
void meter_attach(struct meter *meter, struct request *request);
/* Removes the line. */
void meter_end(struct meter *meter);

#endif
