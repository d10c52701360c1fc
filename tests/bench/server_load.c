/* Clients for the server's figures: one thread, one epoll, plain sockets, so that the machine's
 * time goes to the server. Prints one JSON object. Called by tests/bench/server.
 *
 *     bench-server_load requests PORT CLIENTS SECONDS PER_SECOND METHOD PATH BODY [HEADER]...
 *     bench-server_load streams  PORT CLIENTS SECONDS PATH [HEADER]...
 *     bench-server_load download PORT PATH [HEADER]...
 *
 * `requests`: with PER_SECOND 0 every client sends its next request when it has the reply to the
 * last one. Otherwise requests are due at even times whether or not earlier ones are answered, and
 * a request's time counts from when it was due until the reply is looked at, which is when the next
 * request is due: what the clients take from the machine is then little more than the requests
 * need. Connections are kept as long as the server does. A '#' in BODY becomes the number of the
 * request.
 *
 * `streams`: opens all, prints "open" and a line, then listens; told are the events and, for each,
 * the time from its arrival at the first client to that at the last. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 18, REPLY = 1 << 16, EVENTS = 1024, STATUSES = 600 };

struct client {
    int fd;
    bool busy;
    double due; /* when its request should have been sent */
    size_t used;
    char *reply;
};

static int poll_fd;
static uint16_t port;
static char buffer[BUFFER];

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "bench-server_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int dial(void)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

static void watch(int fd, size_t number)
{
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = number};
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &wanted) != 0)
        die("epoll_ctl");
}

static void send_all(int fd, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, bytes + at, size - at, MSG_NOSIGNAL);
        if (sent < 0)
            die("send");
        at += (size_t)sent;
    }
}

static size_t make_head(char *out, size_t size, const char *method, const char *path,
                        size_t body_size, char **headers)
{
    int used = snprintf(out, size, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", method, path);
    if (body_size > 0)
        used += snprintf(out + used, size - (size_t)used,
                         "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_size);
    for (; *headers != NULL; headers++)
        used += snprintf(out + used, size - (size_t)used, "%s\r\n", *headers);
    used += snprintf(out + used, size - (size_t)used, "\r\n");
    if ((size_t)used >= size)
        die("the request is too long");
    return (size_t)used;
}

/* ---- requests ---- */

struct plan {
    const char *method, *path, *body;
    char **headers;
    char head[4096]; /* ready to be sent unless there is a body */
    size_t head_size;
    double per_second;
};

struct tally {
    uint64_t sent, statuses[STATUSES], bytes;
    double *took;
    size_t count, room;
};

static void note(struct tally *t, double took)
{
    if (t->count == t->room) {
        t->room = 2 * t->room + 4096;
        t->took = realloc(t->took, t->room * sizeof *t->took);
        if (t->took == NULL)
            die("realloc");
    }
    t->took[t->count++] = took;
}

static void send_body(const struct plan *plan, int fd, uint64_t number)
{
    char body[REPLY], request[REPLY + 4096];
    const char *mark = strchr(plan->body, '#');
    size_t before = mark != NULL ? (size_t)(mark - plan->body) : strlen(plan->body);
    int size = mark != NULL ? snprintf(body, sizeof body, "%.*s%llu%s", (int)before, plan->body,
                                       (unsigned long long)number, mark + 1)
                            : snprintf(body, sizeof body, "%s", plan->body);
    size_t head =
        make_head(request, sizeof request, plan->method, plan->path, (size_t)size, plan->headers);
    memcpy(request + head, body, (size_t)size);
    send_all(fd, request, head + (size_t)size);
}

static void ask(const struct plan *plan, struct tally *t, struct client *c, size_t number,
                double due)
{
    if (c->fd < 0) {
        c->fd = dial();
        watch(c->fd, number);
    }
    c->busy = true;
    c->due = due;
    c->used = 0;
    if (plan->body[0] != '\0')
        send_body(plan, c->fd, t->sent);
    else
        send_all(c->fd, plan->head, plan->head_size);
    t->sent++;
}

/* The value of a header of the reply, or NULL; `end` is the empty line after them. */
static const char *find_header(const char *reply, const char *end, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strchr(reply, '\r'); at < end; at = strchr(at + 1, '\r'))
        if (strncasecmp(at + 2, name, length) == 0)
            return at + 2 + length;
    return NULL;
}

/* True when the whole reply is there. */
static bool whole(const struct client *c, int *status, bool *closes)
{
    const char *end = strstr(c->reply, "\r\n\r\n");
    if (end == NULL)
        return false;
    const char *length = find_header(c->reply, end, "Content-Length: ");
    *status = atoi(c->reply + 9);
    size_t size = length != NULL && *status != 304 ? strtoul(length, NULL, 10) : 0;
    *closes = find_header(c->reply, end, "Connection: close") != NULL;
    return c->used >= (size_t)(end + 4 - c->reply) + size;
}

static void hang_up(struct client *c)
{
    close(c->fd);
    c->fd = -1;
}

/* True when the client has become free. */
static bool hear(struct client *c, struct tally *t)
{
    int status;
    bool closes;
    ssize_t got = recv(c->fd, c->reply + c->used, REPLY - 1 - c->used, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return false;
    if (got <= 0) { /* an idle connection may be closed; a reply must not be cut off */
        if (c->busy)
            t->statuses[0]++;
        c->busy = false;
        hang_up(c);
        return true;
    }
    c->used += (size_t)got;
    t->bytes += (uint64_t)got;
    c->reply[c->used] = '\0';
    if (!whole(c, &status, &closes))
        return false;
    t->statuses[status > 0 && status < STATUSES ? status : 0]++;
    note(t, seconds() - c->due);
    c->busy = false;
    if (closes)
        hang_up(c);
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const struct tally *t, double q)
{
    return t->count == 0 ? 0.0 : t->took[(size_t)(q * (double)(t->count - 1))];
}

static void print_requests(struct tally *t, double took)
{
    qsort(t->took, t->count, sizeof *t->took, compare);
    printf("{\"per_second\": %.1f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f, "
           "\"sent\": %llu, \"answered\": %zu, \"bytes\": %llu, \"statuses\": {",
           (double)t->count / took, 1e3 * quantile(t, 0.5), 1e3 * quantile(t, 0.99),
           1e3 * quantile(t, 1.0), (unsigned long long)t->sent, t->count,
           (unsigned long long)t->bytes);
    const char *comma = "";
    for (size_t i = 0; i < STATUSES; i++) {
        if (t->statuses[i] == 0)
            continue;
        printf("%s\"%zu\": %llu", comma, i, (unsigned long long)t->statuses[i]);
        comma = ", ";
    }
    printf("}}\n");
}

/* Sends what is due to whoever is free. `due` is when the next request is due. */
static void feed(const struct plan *plan, struct tally *t, struct client *clients, size_t count,
                 double *due)
{
    double now = seconds();
    for (size_t i = 0; i < count && *due <= now; i++) {
        if (clients[i].busy)
            continue;
        ask(plan, t, &clients[i], i, *due);
        *due += 1 / plan->per_second;
    }
}

static void serve_events(const struct plan *plan, struct tally *t, struct client *clients,
                         double wait, bool again)
{
    struct epoll_event ready[EVENTS];
    struct timespec until = {.tv_nsec = wait > 0 ? (long)(1e9 * wait) : 0};
    int count = epoll_pwait2(poll_fd, ready, EVENTS, &until, NULL);
    for (int i = 0; i < count; i++) {
        size_t k = ready[i].data.u64;
        if (hear(&clients[k], t) && again)
            ask(plan, t, &clients[k], k, seconds());
    }
}

/* Until the next request is due; a little when it is over, because then everybody is busy. */
static void rest(double due)
{
    double gap = due - seconds();
    struct timespec length = {.tv_nsec = gap <= 0    ? 1000000
                                         : gap < 0.1 ? (long)(1e9 * gap)
                                                     : 100000000};
    nanosleep(&length, NULL);
}

static void requests(const struct plan *plan, size_t count, double length)
{
    struct tally t = {0};
    struct client *clients = calloc(count, sizeof *clients);
    double start = seconds(), due = start;
    for (size_t i = 0; i < count; i++) {
        clients[i] = (struct client){.fd = -1, .reply = malloc(REPLY)};
        if (plan->per_second == 0)
            ask(plan, &t, &clients[i], i, seconds());
    }
    for (double now; (now = seconds()) < start + length;) {
        double wait = 0.1;
        if (plan->per_second > 0) {
            feed(plan, &t, clients, count, &due);
            rest(due);
            wait = 0.0;
        }
        serve_events(plan, &t, clients, wait, plan->per_second == 0);
    }
    print_requests(&t, seconds() - start);
    for (size_t i = 0; i < count; i++)
        free(clients[i].reply);
    free(clients);
    free(t.took);
}

/* ---- streams ---- */

struct heard {
    uint64_t id;
    double first, last;
    size_t clients;
};

struct audience {
    struct heard *events;
    size_t count, room;
    uint64_t bytes;
};

static void hear_event(struct audience *a, uint64_t id, double now)
{
    size_t i = a->count;
    while (i > 0 && a->events[i - 1].id != id)
        i--;
    if (i == 0) {
        if (a->count == a->room) {
            a->room = 2 * a->room + 64;
            a->events = realloc(a->events, a->room * sizeof *a->events);
        }
        a->events[a->count++] = (struct heard){.id = id, .first = now};
        i = a->count;
    }
    a->events[i - 1].last = now;
    a->events[i - 1].clients++;
}

static void read_stream(struct audience *a, int fd)
{
    ssize_t got = recv(fd, buffer, BUFFER - 1, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("a stream ended");
    buffer[got] = '\0';
    a->bytes += (uint64_t)got;
    double now = seconds();
    for (const char *at = buffer; (at = strstr(at, "id: ")) != NULL; at += 4)
        if (at == buffer || at[-1] == '\n')
            hear_event(a, strtoull(at + 4, NULL, 10), now);
}

/* Each is open when it has said its first words. */
static int open_stream(const char *head, size_t size)
{
    int fd = dial();
    size_t used = 0;
    send_all(fd, head, size);
    do {
        ssize_t got = recv(fd, buffer + used, BUFFER - 1 - used, 0);
        if (got <= 0)
            die("a stream does not open");
        used += (size_t)got;
        buffer[used] = '\0';
    } while (strstr(buffer, ":ok") == NULL);
    if (strncmp(buffer, "HTTP/1.1 200", 12) != 0)
        die(buffer);
    return fd;
}

static void print_streams(const struct audience *a, size_t count)
{
    double worst = 0.0;
    size_t complete = 0;
    for (size_t i = 0; i < a->count; i++) {
        double spread = a->events[i].last - a->events[i].first;
        worst = spread > worst ? spread : worst;
        complete += a->events[i].clients == count;
    }
    printf("{\"events\": %zu, \"complete\": %zu, \"worst_spread_ms\": %.1f, \"bytes\": %llu}\n",
           a->count, complete, 1e3 * worst, (unsigned long long)a->bytes);
}

static void streams(size_t count, double length, const char *path, char **headers)
{
    struct audience a = {0};
    char head[4096];
    size_t size = make_head(head, sizeof head, "GET", path, 0, headers);
    int *fds = calloc(count, sizeof *fds);
    double start = seconds();
    for (size_t i = 0; i < count; i++) {
        fds[i] = open_stream(head, size);
        watch(fds[i], i);
    }
    printf("open %zu %.3f\n", count, seconds() - start);
    fflush(stdout);
    for (start = seconds(); seconds() < start + length;) {
        struct epoll_event ready[EVENTS];
        int got = epoll_wait(poll_fd, ready, EVENTS, 100);
        for (int i = 0; i < got; i++)
            read_stream(&a, fds[ready[i].data.u64]);
    }
    print_streams(&a, count);
    free(a.events);
    free(fds);
}

/* ---- download ---- */

static void download(const char *path, char **headers)
{
    char head[4096];
    size_t size = make_head(head, sizeof head, "GET", path, 0, headers);
    uint64_t bytes = 0;
    double start = seconds(), first = 0.0;
    int fd = dial(), status = 0;
    send_all(fd, head, size);
    for (ssize_t got; (got = recv(fd, buffer, BUFFER - 1, 0)) > 0; bytes += (uint64_t)got) {
        if (bytes == 0) {
            status = atoi(buffer + 9);
            first = seconds() - start;
        }
    }
    double took = seconds() - start;
    printf("{\"status\": %d, \"bytes\": %llu, \"seconds\": %.6f, \"first_byte_ms\": %.3f}\n",
           status, (unsigned long long)bytes, took, 1e3 * first);
}

static void raise_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

int main(int argc, char **argv)
{
    static struct plan plan;
    const char *what = argc > 3 ? argv[1] : "";
    raise_limit();
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    port = argc > 2 ? (uint16_t)atoi(argv[2]) : 0;
    if (strcmp(what, "requests") == 0 && argc >= 9) {
        plan = (struct plan){.method = argv[6],
                             .path = argv[7],
                             .body = argv[8],
                             .headers = argv + 9,
                             .per_second = atof(argv[5])};
        plan.head_size =
            make_head(plan.head, sizeof plan.head, plan.method, plan.path, 0, plan.headers);
        requests(&plan, strtoul(argv[3], NULL, 10), atof(argv[4]));
    } else if (strcmp(what, "streams") == 0 && argc >= 6) {
        streams(strtoul(argv[3], NULL, 10), atof(argv[4]), argv[5], argv + 6);
    } else if (strcmp(what, "download") == 0) {
        download(argv[3], argv + 4);
    } else {
        fprintf(stderr, "see the head of tests/bench/server_load.c\n");
        return 2;
    }
    return 0;
}
