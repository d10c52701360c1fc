/* The rules for requests. */
#include "server/http/rules.h"
#include "server/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool path_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("/_.~-", c));
}

static enum err check_path(const char *path, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    if (path[0] != '/')
        return err_set(info, ERR_MALFORMED, "the request target \"%s\" must start with \"/\"",
                       text_shown(shown, path, strlen(path)));
    for (const char *p = path; *p; p++)
        if (!path_byte((unsigned char)*p))
            return err_set(info, ERR_MALFORMED,
                           "the path has \"%s\" at byte %zu; letters, digits and / _ . ~ - are "
                           "allowed, without percent-encoding",
                           text_shown(shown, p, 1), (size_t)(p - path));
    if (strstr(path, "..") || strstr(path, "//"))
        return err_set(info, ERR_MALFORMED, "the path \"%s\" must not have \"..\" or \"//\"",
                       text_shown(shown, path, strlen(path)));
    return ERR_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool clean_text(const char *text)
{
    size_t length = 1;
    for (size_t left = strlen(text); left > 0 && length > 0; text += length, left -= length)
        length = text_printable(text, left);
    return length > 0;
}

/* Decodes one name or value in place, form style ('+' is a blank). */
static enum err decode(char *text, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in == '%') {
            int high = hex_digit(in[1]), low = high < 0 ? -1 : hex_digit(in[2]);
            if (low < 0)
                return err_set(info, ERR_MALFORMED, "the query has an invalid escape \"%s\"",
                               text_shown(shown, in, strnlen(in, 3)));
            if (high == 0 && low == 0)
                return err_set(info, ERR_MALFORMED, "the query must not have %%00");
            *out++ = (char)(high * 16 + low);
            in += 2;
        } else {
            *out++ = *in == '+' ? ' ' : *in;
        }
    }
    *out = '\0';
    if (!clean_text(text))
        return err_set(info, ERR_MALFORMED,
                       "the query has \"%s\"; UTF-8 without control characters is allowed",
                       text_shown(shown, text, strlen(text)));
    return ERR_OK;
}

static enum err add_param(struct rules_uri *out, char *pair, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    char *value = strchr(pair, '=');
    if (value)
        *value++ = '\0';
    enum err err = decode(pair, info);
    if (!err && value)
        err = decode(value, info);
    if (err)
        return err;
    if (!*pair)
        return err_set(info, ERR_MALFORMED, "the query has a parameter without a name");
    for (size_t i = 0; i < out->param_count; i++)
        if (strcmp(out->params[i].name, pair) == 0)
            return err_set(info, ERR_MALFORMED, "the query parameter \"%s\" is given twice",
                           text_shown(shown, pair, strlen(pair)));
    if (out->param_count == RULES_PARAMS)
        return err_set(info, ERR_MALFORMED, "the query has more than %d parameters", RULES_PARAMS);
    out->params[out->param_count++] = (struct rules_param){pair, value ? value : ""};
    return ERR_OK;
}

static enum err split_query(struct rules_uri *out, char *query, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    for (const char *p = query; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || *p == '#')
            return err_set(info, ERR_MALFORMED,
                           "the query has the byte \"%s\", which must be percent-encoded",
                           text_shown(shown, p, 1));
    while (query) {
        char *next = strchr(query, '&');
        if (next)
            *next++ = '\0';
        enum err err = *query ? add_param(out, query, info) : ERR_OK;
        if (err)
            return err;
        query = next;
    }
    return ERR_OK;
}

enum err rules_uri(char *raw, struct rules_uri *out, struct err_info *info)
{
    out->path = "";
    out->param_count = 0;
    char *query = strchr(raw, '?');
    if (query)
        *query++ = '\0';
    enum err err = check_path(raw, info);
    if (!err && query)
        err = split_query(out, query, info);
    if (err)
        out->param_count = 0;
    else
        out->path = raw;
    return err;
}

const char *http_method_name(enum http_method method)
{
    static const char *const names[] = {
#define X(name) #name,
        HTTP_METHOD_LIST(X)
#undef X
    };
    return names[method];
}

enum err rules_method(const char *text, enum http_method *out, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
#define X(name)                     \
    if (strcmp(text, #name) == 0) { \
        *out = HTTP_##name;         \
        return ERR_OK;              \
    }
    HTTP_METHOD_LIST(X)
#undef X
#define X(name) " " #name
    return err_set(info, ERR_METHOD, "the method \"%s\" is not one of" HTTP_METHOD_LIST(X),
                   text_shown(shown, text, strlen(text)));
#undef X
}

/* token characters of RFC 9110 */
static bool token_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static enum err check_header_bytes(const char *name, size_t name_size, const char *value,
                                   size_t value_size, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    bool token = name_size > 0;
    for (size_t i = 0; i < name_size && token; i++)
        token = token_byte((unsigned char)name[i]);
    if (!token)
        return err_set(info, ERR_MALFORMED,
                       "the header name \"%s\" must be one token (folded lines are not accepted)",
                       text_shown(shown, name, name_size));
    for (size_t i = 0; i < value_size; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return err_set(info, ERR_MALFORMED, "the header %s has a control character",
                           text_shown(shown, name, name_size));
    }
    return ERR_OK;
}

/* Headers that may come only once: of two it would not be clear which one counts. */
enum single { HOST, AUTHORIZATION, LENGTH, TYPE, ENCODING, IDEMPOTENCY, LAST_EVENT, SINGLES };

static enum single single_header(const char *name, size_t size)
{
    static const char *const names[SINGLES] = {
        [HOST] = "host",
        [AUTHORIZATION] = "authorization",
        [LENGTH] = "content-length",
        [TYPE] = "content-type",
        [ENCODING] = "transfer-encoding",
        [IDEMPOTENCY] = "idempotency-key",
        [LAST_EVENT] = "last-event-id",
    };
    for (enum single s = 0; s < SINGLES; s++)
        if (strlen(names[s]) == size && strncasecmp(names[s], name, size) == 0)
            return s;
    return SINGLES;
}

static enum err read_length(struct rules_headers *headers, const char *value, size_t size,
                            struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    uint64_t length = 0;
    bool good = size > 0 && size <= 18;
    for (size_t i = 0; i < size && good; i++) {
        good = value[i] >= '0' && value[i] <= '9';
        length = length * 10 + (uint64_t)(value[i] - '0');
    }
    if (!good)
        return err_set(info, ERR_MALFORMED, "Content-Length \"%s\" must be 1 to 18 digits",
                       text_shown(shown, value, size));
    headers->length = length;
    return ERR_OK;
}

static enum err read_encoding(struct rules_headers *headers, const char *value, size_t size,
                              struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    if (size != 7 || strncasecmp(value, "chunked", 7) != 0)
        return err_set(info, ERR_MALFORMED, "Transfer-Encoding \"%s\" must be \"chunked\"",
                       text_shown(shown, value, size));
    headers->chunked = true;
    return ERR_OK;
}

enum err rules_header(struct rules_headers *headers, const char *name, size_t name_size,
                      const char *value, size_t value_size, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    enum err err = check_header_bytes(name, name_size, value, value_size, info);
    if (err)
        return err;
    enum single single = single_header(name, name_size);
    if (single == SINGLES)
        return ERR_OK;
    if (headers->seen & 1u << single)
        return err_set(info, ERR_MALFORMED, "the header %s is given twice",
                       text_shown(shown, name, name_size));
    headers->seen |= 1u << single;
    if (single == HOST)
        headers->host = value;
    if (single == LENGTH)
        return read_length(headers, value, value_size, info);
    if (single == ENCODING)
        return read_encoding(headers, value, value_size, info);
    return ERR_OK;
}

enum err rules_headers_end(const struct rules_headers *headers, const char *version,
                           struct err_info *info)
{
    if (!headers->host)
        return err_set(info, ERR_MALFORMED, "the header Host is missing");
    if (headers->chunked && headers->seen & 1u << LENGTH)
        return err_set(info, ERR_MALFORMED,
                       "Content-Length and Transfer-Encoding must not be given together");
    if (headers->chunked && strcmp(version, "HTTP/1.1") != 0)
        return err_set(info, ERR_MALFORMED, "Transfer-Encoding needs HTTP/1.1");
    return ERR_OK;
}

/* Takes "name", "name:port" or "[v6]:port" apart; false when it is none of them. */
static bool split_host(const char *host, const char **name, size_t *size)
{
    const char *end;
    if (host[0] == '[') {
        *name = host + 1;
        end = strchr(host, ']');
        if (!end)
            return false;
        *size = (size_t)(end++ - *name);
    } else {
        *name = host;
        *size = strcspn(host, ":");
        end = host + *size;
    }
    if (*end == '\0')
        return *size > 0;
    size_t digits = strspn(end + 1, "0123456789");
    return *size > 0 && *end == ':' && digits <= 5 && end[1 + digits] == '\0';
}

enum err rules_host(const char *host, const char *const *allowed, struct err_info *info)
{
    char shown[TEXT_SHOWN_MAX];
    const char *name;
    size_t size;
    if (!split_host(host, &name, &size))
        return err_set(info, ERR_MALFORMED, "the Host \"%s\" is not a name with an optional port",
                       text_shown(shown, host, strlen(host)));
    for (; *allowed; allowed++)
        if (strlen(*allowed) == size && strncasecmp(*allowed, name, size) == 0)
            return ERR_OK;
    return err_set(
        info, ERR_MISDIRECTED,
        "the host \"%s\" is not served here; names go into the setting hosts of the daemon",
        text_shown(shown, name, size));
}

char **rules_hosts_new(const char *address, const char *const *more)
{
    const char *const always[] = {"localhost", "127.0.0.1", "::1", address};
    size_t fixed = sizeof always / sizeof *always, count = fixed;
    while (more && more[count - fixed])
        count++;
    char **hosts = calloc(count + 1, sizeof *hosts);
    for (size_t i = 0; hosts && i < count; i++) {
        hosts[i] = strdup(i < fixed ? always[i] : more[i - fixed]);
        if (!hosts[i]) {
            rules_hosts_free(hosts);
            return NULL;
        }
    }
    return hosts;
}

void rules_hosts_free(char **hosts)
{
    for (size_t i = 0; hosts && hosts[i]; i++)
        free(hosts[i]);
    free(hosts);
}
