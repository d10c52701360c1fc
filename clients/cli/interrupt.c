/* SIGINT, SIGTERM and SIGHUP request an orderly end of the running command; a second one ends the
 * program at once. */
#include "clients/cli/interrupt.h"
#include "clients/cli/exit.h"
#include "clients/cli/term.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t count;

static void on_signal(int number)
{
    (void)number;
    if (count++) {
        term_restore();
        _exit(EXIT_INTERRUPTED);
    }
}

/* Stopping with Ctrl-Z: the cursor must be visible for the shell. Every frame hides it again. */
static void on_stop(int number)
{
    term_restore();
    signal(number, SIG_DFL);
    raise(number);
}

static void on_continue(int number)
{
    (void)number;
    signal(SIGTSTP, on_stop);
}

void interrupt_init(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    /* No SA_RESTART: a blocking read or poll must return. */
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        /* Signals ignored at the start (nohup, background shells) stay ignored. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    if (isatty(STDOUT_FILENO) || isatty(STDERR_FILENO)) {
        signal(SIGTSTP, on_stop);
        signal(SIGCONT, on_continue);
    }
}

bool interrupted(void)
{
    return count > 0;
}

/* The mask keeps a signal between check and wait from being missed. */
bool interrupt_wait_input(int fd)
{
    sigset_t all, old;
    struct pollfd input = {.fd = fd, .events = POLLIN};
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    while (!interrupted() && ppoll(&input, 1, NULL, &old) < 0)
        ;
    sigprocmask(SIG_SETMASK, &old, NULL);
    return !interrupted();
}

double interrupt_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
