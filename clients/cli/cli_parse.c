/* Parses the command line by the command table. */
#include "clients/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool cli_arg_name(const struct command *command, size_t i, char *out, size_t size, bool *optional)
{
    const char *word = command->args;
    size_t length = strcspn(word, " "), k = 0;
    for (; k < i && word[length]; k++) {
        word += length + 1;
        length = strcspn(word, " ");
    }
    bool repeats = strstr(word, "...") != NULL;
    if (!length || (k < i && !repeats))
        return false;
    *optional = *word == '[' || k < i;
    size_t start = *word == '[' ? 1 : 0, end = length - (word[length - 1] == ']' ? 1 : 0);
    end -= repeats ? 3 : 0;
    snprintf(out, size, "%.*s", (int)(end - start), word + start);
    return true;
}

bool cli_is_family(const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; cli_commands[i]; i++) {
        if (strncmp(cli_commands[i]->name, word, size) == 0 && cli_commands[i]->name[size] == ' ')
            return true;
    }
    return false;
}

const struct command *cli_find(const char *first, const char *second, bool *took_two)
{
    struct text both = {0};
    const struct command *found = NULL;
    text_addf(&both, "%s %s", first, second ? second : "");
    *took_two = false;
    for (size_t i = 0; cli_commands[i] && !found; i++) {
        *took_two = second && strcmp(cli_commands[i]->name, text_str(&both)) == 0;
        if (*took_two || strcmp(cli_commands[i]->name, first) == 0)
            found = cli_commands[i];
    }
    text_release(&both);
    return found;
}

/* Keeps the candidate if it is closer than the best one so far. */
static void try_nearer(const char *typed, const char *candidate, const char **best,
                       size_t *distance)
{
    size_t size = strlen(typed), d = text_distance(typed, candidate);
    if (size > 1 && strncmp(typed, candidate, size) == 0)
        d = 1;
    if (d < *distance && 2 * d <= size) {
        *distance = d;
        *best = candidate;
    }
}

static const char *nearest_command(const char *typed)
{
    const char *best = NULL;
    size_t distance = 3;
    for (size_t i = 0; cli_commands[i]; i++) {
        if (!cli_commands[i]->hidden)
            try_nearer(typed, cli_commands[i]->name, &best, &distance);
    }
    return best;
}

static void name_family(const char *family)
{
    struct text known = {0};
    for (size_t i = 0; cli_commands[i]; i++) {
        const char *name = cli_commands[i]->name;
        if (strncmp(name, family, strlen(family)) == 0 && name[strlen(family)] == ' ')
            text_addf(&known, "%s`%s`", known.size ? ", " : "", name);
    }
    report_error("`%s` needs a second word: %s", family, text_str(&known));
    text_release(&known);
}

static int unknown_command(const char *first, const char *second)
{
    struct text typed = {0};
    bool family = cli_is_family(first);
    text_add(&typed, first);
    if (family && second)
        text_addf(&typed, " %s", second);
    const char *near = family && !second ? NULL : nearest_command(text_str(&typed));
    if (near)
        report_error("unknown command `%s`; did you mean `%s`?", text_str(&typed), near);
    else if (family)
        name_family(first);
    else
        report_error("unknown command `%s`; `barker help` lists the commands", text_str(&typed));
    text_release(&typed);
    return EXIT_USAGE;
}

static const struct option *find_in(const struct option *list, const char *name, size_t size)
{
    for (; list && list->name; list++) {
        bool letter = size == 1 && list->letter == name[0];
        if (letter || (size > 1 && strlen(list->name) == size && !strncmp(list->name, name, size)))
            return list;
    }
    return NULL;
}

const struct option *cli_find_option(const struct command *command, const char *name, size_t size)
{
    const struct option *found = command ? find_in(command->options, name, size) : NULL;
    return found ? found : find_in(cli_globals, name, size);
}

static const char *command_name(const struct cli *cli)
{
    return cli->command ? cli->command->name : "";
}

static int see_help(const struct cli *cli)
{
    fprintf(stderr, "  see `barker help%s%s`\n", cli->command ? " " : "", command_name(cli));
    return EXIT_USAGE;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t size = strlen(value);
    for (const char *c = choices; size;) {
        size_t length = strcspn(c, "|");
        if (length == size && strncmp(c, value, size) == 0)
            return true;
        if (!c[length])
            break;
        c += length + 1;
    }
    return false;
}

static bool is_whole(const char *value)
{
    char *end;
    errno = 0;
    if (*value < '0' || *value > '9')
        return false;
    strtoll(value, &end, 10);
    return !*end && !errno;
}

static int check_value(const struct cli *cli, const struct option *option, const char *value)
{
    if (strcmp(option->value, "N") == 0 && !is_whole(value))
        report_error("--%s takes a whole number of at least 0, not \"%s\"", option->name, value);
    else if (strcmp(option->value, "KEY") == 0 && !*value)
        report_error("--%s is empty", option->name);
    else if (strchr(option->value, '|') && !is_choice(option->value, value))
        report_error("--%s must be one of %s, not \"%s\"", option->name, option->value, value);
    else
        return EXIT_OK;
    return see_help(cli);
}

static int add_option(struct cli *cli, const struct option *option, const char *value)
{
    if (cli->given_count == CLI_OPTIONS) {
        report_error("too many options (at most %d)", CLI_OPTIONS);
        return EXIT_USAGE;
    }
    cli->given[cli->given_count].option = option;
    cli->given[cli->given_count++].value = value ? value : "";
    return value ? check_value(cli, option, value) : EXIT_OK;
}

static int unknown_option(const struct cli *cli, const char *word)
{
    struct text typed = {0};
    const char *best = NULL;
    size_t distance = 3;
    text_add_bytes(&typed, word, strcspn(word, "="));
    for (const struct option *o = cli->command ? cli->command->options : NULL; o && o->name; o++)
        try_nearer(text_str(&typed) + 2, o->name, &best, &distance);
    for (const struct option *o = cli_globals; o->name; o++)
        try_nearer(text_str(&typed) + 2, o->name, &best, &distance);
    text_release(&typed);
    report_error("%s%sunknown option %s%s%s%s", command_name(cli), cli->command ? ": " : "", word,
                 best ? "; did you mean --" : "", best ? best : "", best ? "?" : "");
    return see_help(cli);
}

/* `word` starts with a dash; `next` is what follows it, consumed if the option takes a value. */
static int parse_option(struct cli *cli, const char *word, const char *next, bool *took_next)
{
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t size = is_long ? strcspn(name, "=") : 1;
    const char *value = name[size] ? name + size + (is_long ? 1 : 0) : NULL;
    const struct option *option =
        is_long && size == 1 ? NULL : cli_find_option(cli->command, name, size);
    *took_next = false;
    if (!option)
        return unknown_option(cli, word);
    if (value && !option->value) {
        report_error("--%s takes no value", option->name);
        return see_help(cli);
    }
    if (option->value && !value) {
        value = next;
        *took_next = next != NULL;
    }
    if (option->value && !value) {
        report_error("--%s needs a value (%s)", option->name, option->value);
        return see_help(cli);
    }
    return add_option(cli, option, value);
}

static int check_args(const struct cli *cli)
{
    char name[32];
    bool optional;
    if (cli_arg_name(cli->command, cli->arg_count, name, sizeof name, &optional) && !optional) {
        report_error("%s: missing %s", cli->command->name, name);
        return see_help(cli);
    }
    for (size_t i = 0; i < cli->arg_count; i++) {
        if (!cli_arg_name(cli->command, i, name, sizeof name, &optional)) {
            report_error("%s: unexpected argument \"%s\"", cli->command->name, cli->args[i]);
            return see_help(cli);
        }
        if (!*cli->args[i] && cli->command != &cmd_complete) {
            report_error("%s: %s is empty", cli->command->name, name);
            return EXIT_USAGE;
        }
    }
    return EXIT_OK;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1];
}

/* Options before the command can only be global ones; a second word is taken if it completes a
 * two-word command. Returns the index after the command. */
static int parse_command(struct cli *cli, int argc, char **argv, int *at)
{
    bool two;
    int i = 1;
    for (; i < argc && is_option(argv[i]); i++) {
        bool took;
        int code = parse_option(cli, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &took);
        if (code)
            return code;
        i += took;
    }
    if (i == argc) {
        cli->command = &cmd_help;
        *at = argc;
        return EXIT_OK;
    }
    const char *second = i + 1 < argc ? argv[i + 1] : NULL;
    cli->command = cli_find(argv[i], second, &two);
    if (!cli->command && cli_is_family(argv[i]) && second && is_option(second)) {
        if (strcmp(second, "--help") == 0 || strcmp(second, "-h") == 0) {
            cli->command = &cmd_help;
            *at = i; /* help for the family */
            return EXIT_OK;
        }
    }
    if (!cli->command)
        return unknown_command(argv[i], second);
    *at = i + (two ? 2 : 1);
    return EXIT_OK;
}

static int parse_rest(struct cli *cli, int argc, char **argv, int at)
{
    bool options = cli->command != &cmd_complete;
    for (int i = at; i < argc; i++) {
        bool took = false;
        int code = EXIT_OK;
        if (options && strcmp(argv[i], "--") == 0)
            options = false;
        else if (options && is_option(argv[i]))
            code = parse_option(cli, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &took);
        else
            cli->args[cli->arg_count++] = argv[i];
        if (code)
            return code;
        i += took;
    }
    return EXIT_OK;
}

int cli_parse(struct cli *out, int argc, char **argv)
{
    int at = argc;
    *out = (struct cli){0};
    out->args = mem_new((size_t)argc + 1, sizeof *out->args);
    int code = parse_command(out, argc, argv, &at);
    if (!code)
        code = parse_rest(out, argc, argv, at);
    if (code)
        return code;
    if (cli_flag(out, "help") && out->command != &cmd_help) {
        out->args[0] = out->command->name;
        out->arg_count = 1;
        out->command = &cmd_help;
    } else if (cli_flag(out, "version")) {
        out->arg_count = 0;
        out->command = &cmd_version;
    } else if (argc == 1) {
        cmd_help.run(out);
        return EXIT_USAGE;
    }
    out->json = cli_flag(out, "json");
    return check_args(out);
}

const char *cli_option(const struct cli *cli, const char *name)
{
    const struct option *option = cli_find_option(cli->command, name, strlen(name));
    if (!option) /* a command that became `help` or `version` */
        return NULL;
    for (size_t i = cli->given_count; i-- > 0;) {
        if (strcmp(cli->given[i].option->name, name) == 0)
            return cli->given[i].value;
    }
    return NULL;
}

bool cli_flag(const struct cli *cli, const char *name)
{
    return cli_option(cli, name) != NULL;
}

long long cli_number(const struct cli *cli, const char *name, long long otherwise)
{
    const char *value = cli_option(cli, name);
    return value ? strtoll(value, NULL, 10) : otherwise;
}
