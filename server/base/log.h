/* One structured line per event on standard error: time, level, event, then key=value pairs
 * (logfmt). Values are quoted and escaped where needed, so that nothing a client sends can forge a
 * line. */
#ifndef BARKER_SERVER_BASE_LOG_H
#define BARKER_SERVER_BASE_LOG_H

#include <stdarg.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_threshold(enum log_level level); /* nothing above it is written; LOG_INFO at first */

/* log_event(LOG_INFO, "request", "path", path, "status", "200", NULL): pairs of strings, ended by
 * NULL. */
void log_event(enum log_level level, const char *event, ...) __attribute__((sentinel));

#endif
