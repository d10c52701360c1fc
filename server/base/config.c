/* Settings. */
#include "server/base/config.h"
#include "server/base/json.h"
#include "server/base/memory.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { kind_text, kind_number, kind_flag };

struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *fallback; /* as text */
    int64_t lo, hi;
    const char *limit, *help;
};

static const struct setting settings[] = {
#define X(kind, name, fallback, lo, hi, limit, help) \
    {#name, kind_##kind, offsetof(struct config, name), #fallback, lo, hi, limit, help},
    CONFIG_LIST(X)
#undef X
};
#define SETTING_COUNT (sizeof settings / sizeof settings[0])

static void *member(struct config *config, const struct setting *s)
{
    return (char *)config + s->offset;
}

static enum err set_text(char **slot, const char *value, struct err_info *info)
{
    char *copy = strdup(value);
    if (copy == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for a setting");
    free(*slot);
    *slot = copy;
    return ERR_OK;
}

static enum err set_number(const struct setting *s, int64_t *slot, const char *value,
                           struct err_info *info)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (*value == '\0' || *end != '\0' || errno != 0 || number < s->lo || number > s->hi)
        return err_set(info, ERR_INVALID,
                       "%s: \"%s\" is not allowed; it must be a whole number from %" PRId64
                       " to %" PRId64,
                       s->name, value, s->lo, s->hi);
    *slot = number;
    return ERR_OK;
}

static enum err set_flag(const struct setting *s, bool *slot, const char *value,
                         struct err_info *info)
{
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return err_set(info, ERR_INVALID, "%s: \"%s\" is not allowed; it must be true or false",
                       s->name, value);
    *slot = strcmp(value, "true") == 0;
    return ERR_OK;
}

static enum err set(struct config *config, const struct setting *s, const char *value,
                    struct err_info *info)
{
    switch (s->kind) {
    case kind_text:
        return set_text(member(config, s), value, info);
    case kind_number:
        return set_number(s, member(config, s), value, info);
    case kind_flag:
        return set_flag(s, member(config, s), value, info);
    }
    return ERR_INTERNAL;
}

enum err config_init(struct config *config, struct err_info *info)
{
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        char plain[120];
        const char *text = settings[i].fallback;
        size_t length = strlen(text), quoted = text[0] == '"';
        snprintf(plain, sizeof plain, "%.*s", (int)(length - 2 * quoted), text + quoted);
        enum err code = set(config, &settings[i], plain, info);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

void config_release(struct config *config)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (settings[i].kind == kind_text)
            free(*(char **)member(config, &settings[i]));
    memset(config, 0, sizeof *config);
}

/* "tls-cert" and "tls_cert" are the same setting. */
static bool same_name(const char *a, const char *b)
{
    for (; *a != '\0' && (*a == *b || (*a == '_' && *b == '-')); a++, b++)
        ;
    return *a == *b;
}

static const struct setting *find(const char *name, struct err_info *info)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (same_name(settings[i].name, name))
            return &settings[i];
    err_set(info, ERR_INVALID, "there is no setting \"%s\"; barkerd --help lists them", name);
    return NULL;
}

bool config_has(const char *name, struct err_info *info)
{
    return find(name, info) != NULL;
}

enum err config_set(struct config *config, const char *name, const char *value,
                    struct err_info *info)
{
    const struct setting *s = find(name, info);
    return s != NULL ? set(config, s, value, info) : ERR_INVALID;
}

enum err config_environment(struct config *config, struct err_info *info)
{
    enum err code = ERR_OK;
    for (size_t i = 0; code == ERR_OK && i < SETTING_COUNT; i++) {
        char name[64];
        int length = snprintf(name, sizeof name, "BARKERD_%s", settings[i].name);
        for (int k = 0; k < length; k++)
            name[k] = (char)toupper((unsigned char)name[k]);
        const char *value = getenv(name);
        code = value != NULL ? set(config, &settings[i], value, info) : ERR_OK;
    }
    return code;
}

json_t *config_limits(const struct config *config)
{
    json_t *out = json_object();
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        const char *unit = strrchr(s->name, '_');
        const int64_t *value = (const void *)((const char *)config + s->offset);
        if (s->limit[0] != '\0')
            json_put(&out, s->limit,
                     json_count((uint64_t)*value << (strcmp(unit, "_mb") == 0 ? 20 : 0)));
    }
    return out;
}

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* The value after the equals sign: in quotes, or up to a comment. NULL: a quote is missing, or text
 * follows the closing one. */
static char *line_value(char *text)
{
    text = trimmed(text);
    if (*text != '"') {
        char *comment = strchr(text, '#');
        if (comment != NULL)
            *comment = '\0';
        return trimmed(text);
    }
    char *end = strchr(text + 1, '"');
    if (end == NULL)
        return NULL;
    *end = '\0';
    char *rest = trimmed(end + 1);
    return *rest == '\0' || *rest == '#' ? text + 1 : NULL;
}

static enum err set_line(struct config *config, char *line, struct err_info *info)
{
    char *text = trimmed(line);
    if (*text == '\0' || *text == '#')
        return ERR_OK;
    char *equals = strchr(text, '='), *value = equals != NULL ? line_value(equals + 1) : NULL;
    if (value == NULL)
        return err_set(info, ERR_MALFORMED,
                       "\"%s\" is not of the form name = value or name = \"value\"", text);
    *equals = '\0';
    return config_set(config, trimmed(text), value, info);
}

enum err config_file(struct config *config, const char *path, struct err_info *info)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return err_set(info, ERR_IO, "%s: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    enum err code = ERR_OK;
    for (int number = 1; code == ERR_OK && getline(&line, &room, file) >= 0; number++) {
        struct err_info why;
        code = set_line(config, line, &why);
        if (code != ERR_OK)
            err_set(info, code, "%s, line %d: %s", path, number, why.message);
    }
    free(line);
    fclose(file);
    return code;
}

static enum err default_state(struct config *config, struct err_info *info)
{
    char path[4096];
    const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (config->state[0] != '\0')
        return ERR_OK;
    if (base != NULL && base[0] == '/')
        snprintf(path, sizeof path, "%s/barkerd", base);
    else if (home != NULL && home[0] == '/')
        snprintf(path, sizeof path, "%s/.local/state/barkerd", home);
    else
        return err_set(info, ERR_INVALID, "give the state folder with --state DIR");
    return set_text(&config->state, path, info);
}

static enum err split_listen(const char *listen, char *address, uint16_t *port, bool *loopback,
                             struct err_info *info)
{
    const char *colon = strrchr(listen, ':');
    char *end = NULL;
    long number = colon != NULL ? strtol(colon + 1, &end, 10) : -1;
    size_t length = colon != NULL ? (size_t)(colon - listen) : 0;
    bool bracket = length > 2 && listen[0] == '[' && listen[length - 1] == ']';
    if (colon == NULL || end == colon + 1 || *end != '\0' || number < 0 || number > 65535 ||
        length > 60)
        return err_set(info, ERR_INVALID,
                       "listen: \"%s\" is not of the form 127.0.0.1:8080 or [::1]:8080", listen);
    snprintf(address, 64, "%.*s", (int)(length - 2 * bracket), listen + bracket);
    if (strcmp(address, "localhost") == 0)
        snprintf(address, 64, "127.0.0.1");
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        *loopback = (ntohl(v4.s_addr) >> 24) == 127;
    else if (inet_pton(AF_INET6, address, &v6) == 1)
        *loopback = IN6_IS_ADDR_LOOPBACK(&v6);
    else
        return err_set(info, ERR_INVALID, "listen: \"%s\" is not a numeric address", address);
    *port = (uint16_t)number;
    return ERR_OK;
}

/* With less, one upload of a reference or one load of data would not fit. */
#define LEAST_MB 64

static void default_memory(int64_t *mb, uint64_t bytes)
{
    if (*mb == 0)
        *mb = bytes >> 20 < LEAST_MB ? LEAST_MB : (int64_t)(bytes >> 20);
}

/* The rest is for connections, checks, databases and the kernel's cache. */
void config_share_memory(struct config *config, uint64_t bytes)
{
    default_memory(&config->data_memory_mb, bytes / 4);
    default_memory(&config->chain_memory_mb, bytes / 4);
    default_memory(&config->request_memory_mb, bytes / 16);
}

enum err config_finish(struct config *config, char *address, uint16_t *port, bool *loopback,
                       struct err_info *info)
{
    enum err code = default_state(config, info);
    if (code == ERR_OK && config->data[0] == '\0') {
        char path[4200];
        snprintf(path, sizeof path, "%s/data", config->state);
        code = set_text(&config->data, path, info);
    }
    if (config->workers == 0)
        config->workers = sysconf(_SC_NPROCESSORS_ONLN) > 0 ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    config_share_memory(config, memory_limit());
    if (code == ERR_OK)
        code = split_listen(config->listen, address, port, loopback, info);
    if (code != ERR_OK)
        return code;
    if ((config->tls_cert[0] != '\0') != (config->tls_key[0] != '\0'))
        return err_set(info, ERR_INVALID, "TLS needs both tls_cert and tls_key");
    if (!*loopback && config->tls_cert[0] == '\0' && !config->behind_proxy)
        return err_set(info, ERR_INVALID,
                       "listen: %s is not a loopback address, and tokens would cross the network "
                       "in the clear; "
                       "give tls_cert and tls_key, or behind_proxy = true if a proxy does TLS",
                       address);
    return ERR_OK;
}

void config_help(FILE *out)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        const char *fallback = strcmp(s->fallback, "\"\"") == 0 ? "none" : s->fallback;
        fprintf(out, "  %-20s %s (%s)\n", s->name, s->help, fallback);
    }
}
