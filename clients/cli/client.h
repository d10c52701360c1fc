/* Client: requests to one daemon over HTTP, one at a time or several at once.
 *
 * A path is made with a `struct route`, which percent-encodes user input. A request is started by
 * client_begin and driven by client_step until call_done; client_send does all of that for one. */
#ifndef BARKER_CLI_CLIENT_H
#define BARKER_CLI_CLIENT_H

#include "clients/cli/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct client;
struct call;

struct client_config {
    const char *url;    /* http://host:port, optionally with a path; no slash at the end */
    const char *token;  /* or NULL: the Authorization header is not sent */
    const char *cacert; /* PEM file of the authority to trust, or NULL: the system's */
};

/* The address in the form that client_new takes ("localhost:8080" gets a scheme), to be freed; NULL
 * and a reason if it is not valid. */
char *client_clean_url(const char *url, const char **reason);
/* Whether the address names this machine's loopback interface. */
bool client_url_is_loopback(const char *url);

struct client *client_new(const struct client_config *config);
void client_free(struct client *client);
const char *client_url(const struct client *client);
bool client_has_token(const struct client *client);

struct route {
    struct text text;
    bool has_query;
};
void route_start(struct route *route, const char *literal);
void route_add(struct route *route, const char *literal);  /* unchanged */
void route_part(struct route *route, const char *segment); /* "/" and the encoded segment */
void route_query(struct route *route, const char *name, const char *value); /* NULL: omitted */
void route_release(struct route *route);

struct request {
    const char *method;  /* "GET", "POST", "PUT", "DELETE" */
    const char *path;    /* encoded, with its query; borrowed until the call ends */
    const char *body;    /* JSON, borrowed; NULL: none */
    FILE *upload;        /* instead of body: bytes read from here as application/octet-stream */
    int64_t upload_size; /* -1: unknown */
    const char *if_none_match, *idempotency_key;
    long timeout_ms; /* for the whole exchange; 0: only two minutes of silence end it */
    /* Takes the body of a 2xx reply piece by piece instead of keeping it; false stops the transfer.
     */
    bool (*sink)(void *ctx, const char *bytes, size_t size);
    void *sink_ctx;
    /* Called a few times per second with the bytes sent and received so far. */
    void (*progress)(void *ctx, int64_t up, int64_t down, int64_t down_total);
    void *progress_ctx;
};

enum outcome {
    OUTCOME_REPLY,       /* a complete reply: check the status */
    OUTCOME_UNREACHABLE, /* no connection */
    OUTCOME_LOST,        /* connected, but no complete reply */
    OUTCOME_SINK,        /* the sink refused */
    OUTCOME_INTERRUPTED,
};

struct response {
    enum outcome outcome;
    int status;
    struct text body;
    json_t *json; /* body parsed and cleaned (get_clean); NULL if it is not JSON */
    char *etag, *location, *content_type;
    long retry_after_s; /* 0: none */
    char reason[256];   /* why there is no reply, from curl */
};
void response_release(struct response *response);

/* Begins a request; the response is filled when the call is done and must stay in place until then.
 */
struct call *client_begin(struct client *client, const struct request *request,
                          struct response *response);
bool call_done(const struct call *call);
/* Ends a call, done or not. */
void call_end(struct call *call);
/* Drives all calls; returns after an event, or after `ms` milliseconds. */
void client_step(struct client *client, int ms);

/* One complete request (or until interrupted). */
void client_send(struct client *client, const struct request *request, struct response *response);

#endif
