/* Exit codes: one list, from which `barker help` prints its section too. */
#ifndef BARKER_CLI_EXIT_H
#define BARKER_CLI_EXIT_H

#define EXIT_LIST(X)                                                                        \
    X(OK, 0, "done")                                                                        \
    X(JOB, 1, "the job failed or was cancelled (watch, submit --wait, run)")                \
    X(USAGE, 2, "the command line or a file that it names is wrong")                        \
    X(REFUSED, 3, "the daemon refused the request (4xx)")                                   \
    X(UNREACHABLE, 4, "no daemon there, or the connection was lost")                        \
    X(SERVER, 5, "the daemon failed (5xx), or its answer makes no sense")                   \
    X(LOCAL, 6, "something failed on this machine: a file could not be written, no memory") \
    X(INTERRUPTED, 130, "interrupted")

enum exit_code {
#define X(name, code, help) EXIT_##name = code,
    EXIT_LIST(X)
#undef X
};

#endif
