/* Report: messages on stderr, and exit codes of replies. */
#ifndef BARKER_CLI_REPORT_H
#define BARKER_CLI_REPORT_H

#include "clients/cli/client.h"
#include "clients/cli/exit.h"

/* --quiet: suppresses notes, not errors. */
void report_quiet(void);

/* "barker: ..." and a line end. */
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A note that is not an error. */
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool report_notes_wanted(void);

/* Reports the error of a request (nothing for 2xx) and returns the exit code. */
int report_response(const struct client *client, const struct response *response);
/* The exit code alone. */
int report_code(const struct response *response);

#endif
