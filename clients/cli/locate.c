/* Finds the address of the daemon and the token. */
#include "clients/cli/locate.h"
#include "clients/cli/client.h"
#include "clients/cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_URL  "http://127.0.0.1:8080"
#define SYSTEM_STATE "/var/lib/barkerd"

enum { LINE_LIMIT = 4096, STATES = 4 };

char *locate_read_line(const char *path)
{
    char line[LINE_LIMIT];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    ssize_t size = read(fd, line, sizeof line - 1);
    int error = errno;
    close(fd);
    if (size < 0) {
        errno = error;
        return NULL;
    }
    line[size] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    char *start = line + strspn(line, " \t");
    size_t length = strlen(start);
    while (length && (start[length - 1] == ' ' || start[length - 1] == '\t'))
        start[--length] = '\0';
    char *copy = mem_copy(start);
    explicit_bzero(line, sizeof line);
    return copy;
}

/* Whether only this account or root can have written the file. */
static bool is_ours(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return false;
    return (info.st_uid == geteuid() || info.st_uid == 0) && !(info.st_mode & S_IWOTH);
}

static char *state_file(const char *directory, const char *name)
{
    struct text path = {0};
    char *line = NULL;
    text_addf(&path, "%s/%s", directory, name);
    if (strcmp(directory, SYSTEM_STATE) == 0 || (is_ours(directory) && is_ours(text_str(&path))))
        line = locate_read_line(text_str(&path));
    text_release(&path);
    if (line && !*line) {
        free(line);
        line = NULL;
    }
    return line;
}

static char *home_state(void)
{
    struct text path = {0};
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state == '/')
        text_addf(&path, "%s/barkerd", state);
    else if (home && *home)
        text_addf(&path, "%s/.local/state/barkerd", home);
    return text_take(&path);
}

static void states(char *out[STATES])
{
    const char *named = getenv("BARKER_STATE");
    out[0] = mem_copy(named ? named : "");
    out[1] = mem_copy("barkerd-state");
    out[2] = home_state();
    out[3] = mem_copy(SYSTEM_STATE);
}

static int accept_url(struct place *place, const char *url, const char *origin)
{
    const char *reason;
    place->url = client_clean_url(url, &reason);
    if (place->url)
        return EXIT_OK;
    report_error("%s: \"%s\" cannot be used: %s", origin, url, reason);
    return EXIT_USAGE;
}

/* Address and token from a state directory; both may stay NULL. */
static void read_state(const char *directory, char **url, char **token)
{
    const char *reason;
    *url = *token = NULL;
    if (!*directory)
        return;
    char *line = state_file(directory, "url");
    if (line)
        *url = client_clean_url(line, &reason);
    free(line);
    *token = state_file(directory, "admin.token");
}

/* Fills in a missing address and token. If the address is given, only a token for it is searched:
 * first in the directory with this address, then (loopback only) in one without an address. */
static void use_states(struct place *place, bool want_token)
{
    char *directories[STATES];
    bool given = place->url != NULL;
    states(directories);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < STATES; i++) {
            char *url, *token;
            read_state(directories[i], &url, &token);
            if (!place->url && url && pass == 0)
                place->url = mem_copy(url);
            const char *target = place->url ? place->url : DEFAULT_URL;
            bool named = url && strcmp(url, target) == 0;
            bool near = pass == 1 && client_url_is_loopback(target) && (given || !url);
            if (want_token && !place->token && token && (named || near))
                place->token = mem_copy(token);
            if (token)
                explicit_bzero(token, strlen(token));
            free(url);
            free(token);
        }
    }
    for (size_t i = 0; i < STATES; i++)
        free(directories[i]);
}

static int read_token(struct place *place, const char *path)
{
    place->token = locate_read_line(path);
    if (!place->token) {
        report_error("cannot read the token file %s: %s", path, strerror(errno));
        return EXIT_USAGE;
    }
    if (*place->token)
        return EXIT_OK;
    report_error("the token file %s is empty", path);
    return EXIT_USAGE;
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int find_token(struct place *place, const char *option)
{
    const char *value = environment("BARKER_TOKEN"), *file = environment("BARKER_TOKEN_FILE");
    if (option)
        return read_token(place, option);
    if (value)
        place->token = mem_copy(value);
    else if (file)
        return read_token(place, file);
    return EXIT_OK;
}

/* A line break in a token would inject a header. */
static int check_token(const struct place *place)
{
    for (const char *c = place->token; c && *c; c++) {
        if (*c <= ' ' || *c > '~') {
            report_error("the token has an invalid character (code %d)", (unsigned char)*c);
            return EXIT_USAGE;
        }
    }
    return EXIT_OK;
}

int locate(struct place *out, const char *url_option, const char *token_file_option)
{
    const char *url = url_option ? url_option : environment("BARKER_URL");
    int code = EXIT_OK;
    *out = (struct place){0};
    if (url)
        code = accept_url(out, url, url_option ? "--url" : "BARKER_URL");
    if (!code)
        code = find_token(out, token_file_option);
    if (!code && (!out->url || !out->token))
        use_states(out, !out->token);
    if (!code && !out->url)
        out->url = mem_copy(DEFAULT_URL);
    if (!code)
        code = check_token(out);
    if (code)
        place_release(out);
    return code;
}

void place_release(struct place *place)
{
    if (place->token)
        explicit_bzero(place->token, strlen(place->token));
    free(place->url);
    free(place->token);
    *place = (struct place){0};
}
