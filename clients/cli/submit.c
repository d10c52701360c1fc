/* Sends a job file to the daemon, shared by `submit` and `run`. */
#include "clients/cli/submit.h"
#include "clients/cli/interrupt.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Larger than the daemon accepts; detects a wrong file. */
enum { JOB_LIMIT = 64 << 20, TRIES = 5 };

static int read_all(FILE *file, const char *path, struct text *out)
{
    char buffer[1 << 16];
    size_t got;
    struct stat info;
    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
        report_error("%s is a folder, not a job file", path);
        return EXIT_USAGE;
    }
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0 && out->size <= JOB_LIMIT)
        text_add_bytes(out, buffer, got);
    if (interrupted())
        return EXIT_INTERRUPTED;
    if (ferror(file))
        report_error("cannot read %s: %s", path, strerror(errno));
    else if (out->size > JOB_LIMIT)
        report_error("%s is too large for a job file", path);
    else
        return EXIT_OK;
    return EXIT_USAGE;
}

static int check_json(const struct text *job, const char *path)
{
    json_error_t error;
    json_t *json = json_loadb(text_str(job), job->size, JSON_REJECT_DUPLICATES, &error);
    if (!json) {
        text_clean(error.text);
        report_error("%s:%d:%d: not JSON: %s", path, error.line, error.column, error.text);
        return EXIT_USAGE;
    }
    bool object = json_is_object(json);
    json_decref(json);
    if (object)
        return EXIT_OK;
    report_error("%s: a job must be a JSON object {...}", path);
    return EXIT_USAGE;
}

int submit_read(const char *path, struct text *job)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "stdin" : path;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file) {
        report_error("cannot read %s: %s", path, strerror(errno));
        return EXIT_USAGE;
    }
    int code = read_all(file, name, job);
    if (!is_stdin)
        fclose(file);
    return code ? code : check_json(job, name);
}

/* NULL if no random bytes are available: then the request is not retried. */
static const char *random_key(char key[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return NULL;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(key + 2 * i, 3, "%02x", (unsigned)bytes[i]);
    return key;
}

/* No reply, but the daemon may have received the request: retried with the same key. */
static bool may_have_arrived(const struct response *response)
{
    return response->outcome == OUTCOME_LOST;
}

/* Without a key there is one attempt. */
static int post(struct cli *cli, const struct request *request, struct response *response)
{
    useconds_t pause = 250000;
    *response = (struct response){0};
    int code = cli_connect(cli);
    if (code)
        return code;
    client_send(cli->client, request, response);
    bool lost = may_have_arrived(response) && request->idempotency_key;
    for (int i = 1; i < TRIES && lost && report_code(response) == EXIT_UNREACHABLE; i++) {
        usleep(pause);
        pause *= 2;
        response_release(response);
        client_send(cli->client, request, response);
    }
    code = report_response(cli->client, response);
    if (code && cli->json && response->json)
        cli_print_json(response);
    return code;
}

int submit_once(struct cli *cli, const char *path, const char *body, const char *key,
                struct response *response)
{
    char random[33];
    struct request request = {.method = "POST",
                              .path = path,
                              .body = body,
                              .idempotency_key = key ? key : random_key(random)};
    return post(cli, &request, response);
}

int submit_post(struct cli *cli, const char *job, const char *key, bool validate,
                struct response *response)
{
    if (!validate)
        return submit_once(cli, "/v1/jobs", job, key, response);
    struct request request = {.method = "POST", .path = "/v1/jobs?validate_only=true", .body = job};
    return post(cli, &request, response);
}
