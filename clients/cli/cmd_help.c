/* barker help, barker version: generated from the command table. */
#include "clients/cli/cli.h"
#include "clients/cli/term.h"

#include <curl/curl.h>
#include <string.h>

#define VERSION "0.5.0"

enum { HELP_COLUMNS = 80 };

static void print_head(const char *title)
{
    printf("\n%s%s%s\n", term_style(stdout, STYLE_HEAD), title, term_plain(stdout));
}

static void print_pair(const char *left, size_t width, const char *right)
{
    if (strlen(left) > width)
        printf("  %s\n  %*s  %s\n", left, (int)width, "", right);
    else
        printf("  %-*s  %s\n", (int)width, left, right);
}

static void print_options(const struct option *options)
{
    for (; options && options->name; options++) {
        struct text left = {0};
        bool choices = options->value && strchr(options->value, '|');
        if (options->letter)
            text_addf(&left, "-%c, ", options->letter);
        text_addf(&left, "--%s", options->name);
        if (options->value)
            text_addf(&left, " %s", choices ? "WORD" : options->value);
        print_pair(text_str(&left), 22, options->help);
        if (choices)
            print_pair("", 22, options->value);
        text_release(&left);
    }
}

/* Wraps text; line ends in it are kept. */
static void print_wrapped(const char *words)
{
    size_t column = 0;
    while (*words) {
        size_t length = strcspn(words, " \n");
        if (*words == '\n') {
            putchar(*words++);
            column = 0;
            continue;
        }
        if (column && column + 1 + length > HELP_COLUMNS) {
            putchar('\n');
            column = 0;
        }
        printf("%s%.*s", column ? " " : "", (int)length, words);
        column += length + (column ? 1 : 0);
        words += length + strspn(words + length, " ");
    }
    putchar('\n');
}

static int help_command(const struct command *command)
{
    printf("Usage: barker %s%s%s%s\n\n", command->name, *command->args ? " " : "", command->args,
           command->options ? " [options]" : "");
    printf("%s\n", command->help);
    if (command->more) {
        putchar('\n');
        print_wrapped(command->more);
    }
    if (strstr(command->args, "ID") == command->args || strstr(command->args, "A B"))
        puts(
            "\nA job is named by its id, the first four or more characters of it, its exact name,\n"
            "or `last` for your newest one.");
    if (command->options) {
        print_head("Options");
        print_options(command->options);
    }
    puts("\nGlobal options and exit codes: `barker help`");
    return EXIT_OK;
}

static void print_commands(const char *family)
{
    size_t size = family ? strlen(family) : 0;
    for (size_t i = 0; cli_commands[i]; i++) {
        struct text left = {0};
        if (cli_commands[i]->hidden ||
            (family && (strncmp(cli_commands[i]->name, family, size) != 0 ||
                        cli_commands[i]->name[size] != ' ')))
            continue;
        text_addf(&left, "%s %s", cli_commands[i]->name, cli_commands[i]->args);
        print_pair(text_str(&left), 22, cli_commands[i]->help);
        text_release(&left);
    }
}

static int help_all(void)
{
    puts("barker: submit sampling jobs to barkerd, follow them, fetch the results\n\n"
         "Usage: barker COMMAND [arguments] [options]");
    print_head("Commands");
    print_commands(NULL);
    print_head("Options of every command");
    print_options(cli_globals);
    print_head("Address of the daemon");
    puts(
        "  --url or BARKER_URL; otherwise the `url` that the daemon wrote into its state folder\n"
        "  ($BARKER_STATE, ./barkerd-state, $XDG_STATE_HOME/barkerd or ~/.local/state/barkerd,\n"
        "  /var/lib/barkerd); otherwise http://127.0.0.1:8080. The token comes from --token-file,\n"
        "  BARKER_TOKEN, BARKER_TOKEN_FILE, or `admin.token` in the same folder.");
    print_head("Exit codes");
#define X(name, code, help) printf("  %3d  %s\n", code, help);
    EXIT_LIST(X)
#undef X
    return EXIT_OK;
}

static int help(struct cli *cli)
{
    struct text name = {0};
    int code = EXIT_OK;
    bool two;
    for (size_t i = 0; i < cli->arg_count; i++)
        text_addf(&name, "%s%s", i ? " " : "", cli->args[i]);
    const struct command *command = name.size ? cli_find(text_str(&name), NULL, &two) : NULL;
    if (!name.size)
        code = help_all();
    else if (command) {
        code = help_command(command);
        if (cli_is_family(text_str(&name)))
            print_commands(text_str(&name));
    } else if (cli_is_family(text_str(&name)))
        print_commands(text_str(&name));
    else {
        report_error("unknown command `%s`; `barker help` lists the commands", text_str(&name));
        code = EXIT_USAGE;
    }
    text_release(&name);
    return code;
}

const struct command cmd_help = {
    .name = "help",
    .args = "[COMMAND...]",
    .help = "show this help, or the help of a command",
    .run = help,
};

static int version(struct cli *cli)
{
    const char *curl = curl_version_info(CURLVERSION_NOW)->version;
    if (cli->json)
        printf("{\"version\": \"%s\", \"libcurl\": \"%s\", \"jansson\": \"%s\"}\n", VERSION, curl,
               jansson_version_str());
    else
        printf("barker %s (libcurl %s, jansson %s)\n", VERSION, curl, jansson_version_str());
    return EXIT_OK;
}

const struct command cmd_version = {
    .name = "version",
    .args = "",
    .help = "show the version of this program",
    .run = version,
};
