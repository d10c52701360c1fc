/* Shell completion. The script passes the words to the hidden command `__complete`, which takes the
 * candidates from the command table and, for names, from the daemon. */
#include "clients/cli/cli.h"
#include "clients/cli/get.h"

#include <stdlib.h>
#include <string.h>

static const char script[] =
    "# bash completion for barker. Put this line into ~/.bashrc:\n"
    "#     eval \"$(barker completion bash)\"\n"
    "_barker() {\n"
    "    local IFS=$'\\n' line current=${COMP_WORDS[COMP_CWORD]}\n"
    "    COMPREPLY=()\n"
    "    [[ $current == = ]] && current=\n"
    "    while read -r line; do\n"
    "        case $line in\n"
    "        :file) compopt -o filenames; COMPREPLY+=($(compgen -f -- \"$current\")) ;;\n"
    "        :dir) compopt -o filenames; COMPREPLY+=($(compgen -d -- \"$current\")) ;;\n"
    "        *) COMPREPLY+=(\"$line\") ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]}\" __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _barker barker\n";

static int completion(struct cli *cli)
{
    if (strcmp(cli->args[0], "bash") != 0) {
        report_error("completion: only bash is supported, not %s", cli->args[0]);
        return EXIT_USAGE;
    }
    fputs(script, stdout);
    return EXIT_OK;
}

const struct command cmd_completion = {
    .name = "completion",
    .args = "SHELL",
    .help = "print the completion script of a shell (bash)",
    .more = "Put this into ~/.bashrc: eval \"$(barker completion bash)\"",
    .run = completion,
};

static void offer(const char *candidate, const char *typed)
{
    if (strncmp(candidate, typed, strlen(typed)) == 0)
        puts(candidate);
}

static void offer_choices(const char *choices, const char *typed)
{
    struct text one = {0};
    while (*choices) {
        size_t length = strcspn(choices, "|");
        text_clear(&one);
        text_add_bytes(&one, choices, length);
        offer(text_str(&one), typed);
        choices += length + (choices[length] ? 1 : 0);
    }
    text_release(&one);
}

static void offer_options(const struct option *options, const char *typed)
{
    struct text one = {0};
    for (; options && options->name; options++) {
        text_clear(&one);
        text_addf(&one, "--%s", options->name);
        offer(text_str(&one), typed);
    }
    text_release(&one);
}

/* First words, or the second words of a family. */
static void offer_commands(const char *family, const char *typed)
{
    struct text last = {0}, word = {0};
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->name, *space = strchr(name, ' ');
        size_t first = space ? (size_t)(space - name) : strlen(name);
        bool member = space && family && strlen(family) == first && !strncmp(name, family, first);
        if (cli_commands[i]->hidden || (family && !member))
            continue;
        text_clear(&word);
        if (family)
            text_add(&word, space + 1);
        else
            text_add_bytes(&word, name, first);
        if (strcmp(text_str(&word), text_str(&last)) != 0)
            offer(text_str(&word), typed);
        text_clear(&last);
        text_add(&last, text_str(&word));
    }
    text_release(&last);
    text_release(&word);
}

/* Names from the daemon. The timeout is short because a user waits, and errors are not printed
 * because they would garble the command line. */
static void offer_names(struct cli *cli, const char *path, const char *list, const char *key,
                        const char *typed)
{
    struct response response;
    size_t i;
    json_t *item;
    if (cli_connect(cli))
        return;
    client_send(cli->client, &(struct request){.method = "GET", .path = path, .timeout_ms = 800},
                &response);
    json_array_foreach (get_array(response.json, list), i, item)
        offer(get_string(item, key), typed);
    response_release(&response);
}

static void offer_argument(struct cli *cli, const char *kind, const char *typed)
{
    static const char *const named[][3] = {
        {"ID", "/v1/jobs?limit=50", "id"},   {"A", "/v1/jobs?limit=50", "id"},
        {"B", "/v1/jobs?limit=50", "id"},    {"MORE", "/v1/jobs?limit=50", "id"},
        {"DATASET", "/v1/datasets", "name"}, {"SAMPLER", "/v1/samplers", "name"},
        {"MODEL", "/v1/models", "name"},     {"TOKEN_ID", "/v1/tokens", "id"},
        {"STUDY_ID", "/v1/studies", "id"},   {"REFERENCE", "/v1/references", "name"},
    };
    if (strcmp(kind, "JOB.json|ID") == 0) { /* either */
        puts(":file");
        kind = "ID";
    }
    if (strcmp(kind, "FILE") == 0 || strcmp(kind, "JOB.json") == 0)
        puts(":file");
    else if (strcmp(kind, "DIR") == 0)
        puts(":dir");
    else if (strcmp(kind, "SHELL") == 0)
        offer("bash", typed);
    else if (strcmp(kind, "COMMAND") == 0)
        offer_commands(NULL, typed);
    else if (strchr(kind, '|'))
        offer_choices(kind, typed);
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (strcmp(kind, named[i][0]) == 0)
            offer_names(cli, named[i][1], "items", named[i][2], typed);
    }
    if (strcmp(kind, "FORMAT") == 0)
        offer_names(cli, "/v1/info", "draws_formats", "name", typed);
    if (strcmp(kind, "ID") == 0 || strcmp(kind, "STUDY_ID") == 0)
        offer("last", typed);
}

/* The words typed so far, parsed without error messages. */
struct typed {
    const struct command *command;
    const struct option *pending; /* an option whose value comes next */
    const char *first;            /* the first word of a command */
    size_t args;
};

static void read_option(struct cli *cli, struct typed *typed, const char *word, const char *next)
{
    const char *name = word + (word[1] == '-' ? 2 : 1);
    size_t size = strcspn(name, "=");
    const struct option *option = cli_find_option(typed->command, name, size);
    typed->pending = option && option->value && !name[size] ? option : NULL;
    /* --url and --token-file select the daemon. */
    if (typed->pending && next && cli_find_option(NULL, name, size) &&
        cli->given_count < CLI_OPTIONS) {
        cli->given[cli->given_count].option = option;
        cli->given[cli->given_count++].value = next;
    }
}

static void read_words(struct cli *cli, struct typed *typed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *word = cli->args[i], *next = i + 1 < count ? cli->args[i + 1] : NULL;
        bool two;
        if (strcmp(word, "=") == 0)
            continue;
        if (typed->pending)
            typed->pending = NULL;
        else if (word[0] == '-' && word[1])
            read_option(cli, typed, word, next && strcmp(next, "=") != 0 ? next : NULL);
        else if (typed->command)
            typed->args++;
        else if (typed->first) {
            typed->command = cli_find(typed->first, word, &two);
            typed->args += typed->command && !two; /* `study FILE` beside `study ls` */
        } else if (cli_is_family(word))
            typed->first = word;
        else
            typed->command = cli_find(typed->first = word, NULL, &two);
    }
}

static int complete(struct cli *cli)
{
    struct typed typed = {0};
    char kind[64];
    bool optional;
    size_t count = cli->arg_count ? cli->arg_count - 1 : 0;
    const char *current = cli->arg_count ? cli->args[count] : "";
    read_words(cli, &typed, count);
    if (strcmp(current, "=") == 0)
        current = "";
    if (typed.pending)
        offer_argument(cli, typed.pending->value, current);
    else if (current[0] == '-') {
        offer_options(typed.command ? typed.command->options : NULL, current);
        offer_options(cli_globals, current);
    } else if (typed.command) {
        if (cli_arg_name(typed.command, typed.args, kind, sizeof kind, &optional))
            offer_argument(cli, kind, current);
    } else if (!typed.first || cli_is_family(typed.first)) {
        bool two;
        const struct command *alone = typed.first ? cli_find(typed.first, NULL, &two) : NULL;
        if (alone && cli_arg_name(alone, 0, kind, sizeof kind, &optional))
            offer_argument(cli, kind, current);
        offer_commands(typed.first, current);
    }
    return EXIT_OK;
}

const struct command cmd_complete = {
    .name = "__complete",
    .args = "[WORD...]",
    .help = "candidates for the last word",
    .run = complete,
    .hidden = true,
};
