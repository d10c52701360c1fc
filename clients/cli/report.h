/* Report: what goes to stderr, and which exit code a reply means. */
#ifndef BARKER_CLI_REPORT_H
#define BARKER_CLI_REPORT_H

#include "clients/cli/client.h"
#include "clients/cli/exit.h"

/* --quiet: notes are left out, errors never. */
void report_quiet(void);

/* "barker: ..." and a line end. */
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Something that is good to know but no error. */
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool report_notes_wanted(void);

/* Says what went wrong with a request (nothing for a 2xx) and returns the exit code. */
int report_response(const struct client *client, const struct response *response);
/* The exit code alone. */
int report_code(const struct response *response);

#endif
