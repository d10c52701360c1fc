/* Work at a lower priority of the operating system than that of requests and the writer: sampling,
 * reading data. It runs on processors that no request uses. */
#ifndef BARKER_SERVER_BASE_BACKGROUND_H
#define BARKER_SERVER_BASE_BACKGROUND_H

/* From now on for the calling thread. An unprivileged thread cannot raise its priority again, hence
 * background_run. */
void background_enter(void);

/* Calls work(context) on a thread of its own and waits for its end; on the calling thread where that
 * has entered already, or where none can be made. */
void background_run(void (*work)(void *context), void *context);

#endif
