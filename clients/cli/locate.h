/* Locate: finds the address of the daemon and the token.
 *
 * Address: --url, BARKER_URL, the file `url` of a state directory, http://127.0.0.1:8080.
 * Token: --token-file, BARKER_TOKEN, BARKER_TOKEN_FILE, `admin.token` of a state directory.
 * State directories: $BARKER_STATE, ./barkerd-state, $XDG_STATE_HOME/barkerd (or
 * ~/.local/state/barkerd), /var/lib/barkerd.
 *
 * A state directory is trusted only if it and its files belong to this account or root, or if it is
 * the system's own, so that a directory planted in /tmp cannot redirect requests. Its token is sent
 * only to the address in the same directory, or to a loopback address. */
#ifndef BARKER_CLI_LOCATE_H
#define BARKER_CLI_LOCATE_H

#include <stdbool.h>

struct place {
    char *url;   /* clean, see client_clean_url */
    char *token; /* or NULL */
};

/* The options may be NULL. Returns 0, or an exit code after reporting the error. */
int locate(struct place *out, const char *url_option, const char *token_file_option);
void place_release(struct place *place);

/* The first line of a file of at most 4 KiB, trimmed, to be freed; NULL and errno on failure. */
char *locate_read_line(const char *path);

#endif
