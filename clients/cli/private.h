/* Private: a daemon of our own for the length of one command.
 *
 * It gets a state directory of mode 0700, listens on a free loopback port, and cannot outlive us:
 * the kernel ends it when this process dies, however that happens. */
#ifndef BARKER_CLI_PRIVATE_H
#define BARKER_CLI_PRIVATE_H

#include <stdbool.h>
#include <sys/types.h>

struct private_daemon {
    pid_t pid;   /* 0: none */
    char *state; /* its state directory */
    bool keep;   /* the directory stays */
    char *url, *token;
};

struct private_config {
    const char *data;    /* data root */
    const char *keep;    /* state directory to use and keep; NULL: a temporary one */
    const char *workers; /* or NULL: the daemon's default */
};

/* Starts it and waits until it can be reached. Returns 0, or an exit code after saying why (with
 * the daemon's own last words); private_stop is due in any case. */
int private_start(struct private_daemon *out, const struct private_config *config);
/* False once it has ended. ctx is the daemon: fits `struct watch`. */
bool private_alive(void *ctx);
/* Prints the end of what the daemon wrote to stderr. */
void private_last_words(const struct private_daemon *daemon);
/* Ends it in good order and removes its directory. */
void private_stop(struct private_daemon *daemon);

#endif
