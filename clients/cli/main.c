/* barker: entry point. */
#include "clients/cli/cli.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/term.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>

/* A failed write to stdout (a full disk) is an error; a reader that closed its pipe is not. */
static int finish_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno == EPIPE || term_reader_left(stdout))
        return code;
    report_error("cannot write the output: %s", strerror(errno));
    return code ? code : EXIT_LOCAL;
}

int main(int argc, char **argv)
{
    struct cli cli;
    term_init();
    interrupt_init();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int code = cli_parse(&cli, argc, argv);
    if (!code) {
        if (cli_flag(&cli, "quiet"))
            report_quiet();
        if (cli_flag(&cli, "no-color"))
            term_no_color();
        code = cli.command->run(&cli);
    }
    cli_release(&cli);
    curl_global_cleanup();
    return finish_output(code);
}
