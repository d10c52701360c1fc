/* A private daemon for the duration of one command.
 *
 * It gets a state directory of mode 0700 and listens on a free loopback port. The kernel ends it
 * when this process ends for any reason. */
#ifndef BARKER_CLI_PRIVATE_DAEMON_H
#define BARKER_CLI_PRIVATE_DAEMON_H

#include <stdbool.h>
#include <sys/types.h>

struct private_daemon {
    pid_t pid;   /* 0: none */
    char *state; /* its state directory */
    bool keep;   /* the directory stays */
    char *url, *token;
};

struct private_daemon_config {
    const char *data;    /* data root */
    const char *keep;    /* state directory to use and keep; NULL: a temporary one */
    const char *workers; /* or NULL: the daemon's default */
};

/* Starts the daemon and waits until it can be reached. Returns 0, or an exit code after reporting
 * the error with the end of the daemon's log. Call private_daemon_stop in any case. */
int private_daemon_start(struct private_daemon *out, const struct private_daemon_config *config);
/* False once the daemon has ended. ctx is the daemon; fits `struct watch`. */
bool private_daemon_alive(void *ctx);
/* Prints the end of the daemon's log to stderr. */
void private_daemon_print_log(const struct private_daemon *daemon);
/* Stops the daemon and removes its directory unless it is kept. */
void private_daemon_stop(struct private_daemon *daemon);

#endif
