/* Work at a lower priority of the operating system than that of requests and the writer: sampling,
 * reading data. It has the processors when nobody waits for an answer. */
#ifndef BARKER_SERVER_BASE_BACKGROUND_H
#define BARKER_SERVER_BASE_BACKGROUND_H

/* The calling thread, from now on. There is no way back, hence background_run. */
void background_enter(void);

/* Calls work(context) on a thread of its own and waits for its end; on the calling thread where that
 * has entered already, or where none can be made. */
void background_run(void (*work)(void *context), void *context);

#endif
