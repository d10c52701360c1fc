/* Exit codes; `barker help` prints this list. */
#ifndef BARKER_CLI_EXIT_H
#define BARKER_CLI_EXIT_H

#define EXIT_LIST(X)                                                          \
    X(OK, 0, "done")                                                          \
    X(JOB, 1, "the job failed or was cancelled (watch, submit --wait, run)")  \
    X(USAGE, 2, "error in the command line or in a file that it names")       \
    X(REFUSED, 3, "the daemon refused the request (4xx)")                     \
    X(UNREACHABLE, 4, "no daemon at the address, or the connection was lost") \
    X(SERVER, 5, "the daemon failed (5xx), or its reply is not valid")        \
    X(LOCAL, 6, "local failure: a file could not be written, out of memory")  \
    X(INTERRUPTED, 130, "interrupted")

enum exit_code {
#define X(name, code, help) EXIT_##name = code,
    EXIT_LIST(X)
#undef X
};

#endif
