/* One invocation of `barker`: the command table, the parsed command line, the connection.
 *
 * To add a command: write `const struct command cmd_NAME = {...}` in a cmd_*.c file and add NAME to
 * COMMAND_LIST below. Help, usage errors, did-you-mean and shell completion come from the struct.
 */
#ifndef BARKER_CLI_CLI_H
#define BARKER_CLI_CLI_H

#include "clients/cli/client.h"
#include "clients/cli/exit.h"
#include "clients/cli/report.h"

#include <stdbool.h>
#include <stddef.h>

/* In the order of `barker help`. */
#define COMMAND_LIST(X) \
    X(submit)           \
    X(run)              \
    X(ls)               \
    X(show)             \
    X(watch)            \
    X(summary)          \
    X(diagnostics)      \
    X(draws)            \
    X(compare)          \
    X(log)              \
    X(open)             \
    X(cancel)           \
    X(pause)            \
    X(resume)           \
    X(extend)           \
    X(retry)            \
    X(rm)               \
    X(restore)          \
    X(data_put)         \
    X(data_ls)          \
    X(data_show)        \
    X(data_rm)          \
    X(reference_put)    \
    X(reference_ls)     \
    X(reference_show)   \
    X(reference_rm)     \
    X(study_ladder)     \
    X(study_show)       \
    X(study_table)      \
    X(study_ls)         \
    X(study_pause)      \
    X(study_resume)     \
    X(study_cancel)     \
    X(study_extend)     \
    X(study_rm)         \
    X(study)            \
    X(fields)           \
    X(samplers)         \
    X(models)           \
    X(queue)            \
    X(info)             \
    X(me)               \
    X(token_ls)         \
    X(token_add)        \
    X(token_rm)         \
    X(completion)       \
    X(complete)         \
    X(help)             \
    X(version)

struct cli;

/* `value` is the kind of value, for help, checks and completion: NULL nothing, "N" a whole
 * number, "a|b|c" one of these, FILE and DIR a path, any other word free text. */
struct option {
    const char *name; /* without the dashes; NULL ends a list */
    char letter;      /* -o; 0: none */
    const char *value;
    const char *help;
};

struct command {
    const char *name; /* one word, or two for a family: "data put" */
    /* "FILE [NAME]", "ID...", "A B [MORE...]": what is required and what may follow. The words ID,
     * FILE, JOB.json, DATASET, REFERENCE, SAMPLER, MODEL, TOKEN_ID, STUDY_ID and COMMAND are
     * completed by the shell. */
    const char *args;
    const char *help;             /* one line */
    const char *more;             /* paragraphs of `barker help COMMAND`, or NULL */
    const struct option *options; /* or NULL */
    int (*run)(struct cli *cli);  /* returns an exit code */
    bool hidden;
};

#define X(name) extern const struct command cmd_##name;
COMMAND_LIST(X)
#undef X

extern const struct command *const cli_commands[]; /* ends with NULL */
extern const struct option cli_globals[];

enum { CLI_OPTIONS = 32 };

struct cli {
    const struct command *command;
    const char **args; /* borrowed strings */
    size_t arg_count;
    struct {
        const struct option *option;
        const char *value; /* "" for a flag */
    } given[CLI_OPTIONS];
    size_t given_count;
    bool json;
    struct client *client; /* made by cli_client */
};

/* Reads the command line. Returns 0, or reports the error and returns EXIT_USAGE. `--help` and
 * `--version` become the commands of these names. */
int cli_parse(struct cli *out, int argc, char **argv);
void cli_release(struct cli *cli);

/* The value of an option of the command or a global one, or NULL; the last one given counts. */
const char *cli_option(const struct cli *cli, const char *name);
bool cli_flag(const struct cli *cli, const char *name);
/* The value of an "N" option, already checked; `otherwise` when it was not given. */
long long cli_number(const struct cli *cli, const char *name, long long otherwise);

/* The exact command, or NULL. */
const struct command *cli_find(const char *first, const char *second, bool *took_two);
/* Whether `word` is the first word of two-word commands. */
bool cli_is_family(const char *word);
const struct option *cli_find_option(const struct command *command, const char *name, size_t size);
/* The i-th word of the command's args (the last one repeats, optionally, if it ends in ...), copied
 * without its brackets and dots into `out`; false beyond the end. */
bool cli_arg_name(const struct command *command, size_t i, char *out, size_t size, bool *optional);

/* Prepares the connection (sends nothing). Returns 0, or an exit code after reporting the error. */
int cli_connect(struct cli *cli);
/* Switches to another daemon. */
void cli_use(struct cli *cli, const char *url, const char *token);

/* One request. A reply that is not 2xx is reported (with --json its body is printed too). Returns
 * the exit code; the response must be released in any case. */
int cli_send(struct cli *cli, const struct request *request, struct response *response);
/* GET of a route, which is released. A 2xx reply that is not a JSON object or array is an error. */
int cli_get(struct cli *cli, struct route *route, struct response *response);
/* DELETE of a route, which is released. */
int cli_delete(struct cli *cli, struct route *route);
/* Prints the daemon's JSON unchanged, with a line end. */
void cli_print_json(const struct response *response);

#endif
