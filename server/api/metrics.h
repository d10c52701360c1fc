/* Counters for Prometheus: requests by route, and the statistics of other modules. */
#ifndef BARKER_SERVER_API_METRICS_H
#define BARKER_SERVER_API_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct app;

/* One request is over. `route` is its index in api_routes, or api_route_count when there was none.
 * Any thread, lock-free. */
void metrics_request(size_t route, int status, uint64_t elapsed_us);

/* The whole page, text format 0.0.4; for free(). NULL: out of memory. */
char *metrics_page(struct app *app, size_t *size);

#endif
