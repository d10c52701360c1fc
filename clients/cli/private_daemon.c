/* A private daemon for the duration of one command. */
#include "clients/cli/private_daemon.h"
#include "clients/cli/interrupt.h"
#include "clients/cli/locate.h"
#include "clients/cli/report.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds. SIGTERM lets the daemon finish its slice; its own budget for that is 10 s. */
#define START_LIMIT 30.0
#define STOP_LIMIT  15.0

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

static char *sibling_daemon(void)
{
    char self[PATH_MAX];
    struct text path = {0};
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size <= 0)
        return NULL;
    self[size] = '\0';
    char *slash = strrchr(self, '/');
    text_add_bytes(&path, self, slash ? (size_t)(slash - self) : 0);
    text_add(&path, "/barkerd");
    if (is_program(text_str(&path)))
        return text_take(&path);
    text_release(&path);
    return NULL;
}

static char *in_path(void)
{
    struct text path = {0};
    for (const char *folder = getenv("PATH"); folder && *folder;) {
        size_t length = strcspn(folder, ":");
        text_clear(&path);
        text_add_bytes(&path, folder, length);
        text_add(&path, "/barkerd");
        if (length && is_program(text_str(&path)))
            return text_take(&path);
        folder += length + (folder[length] ? 1 : 0);
    }
    text_release(&path);
    return NULL;
}

static char *temporary_directory(void)
{
    const char *base = getenv("TMPDIR");
    struct text path = {0};
    /* Hidden, because it may be inside the data folder. */
    text_addf(&path, "%s/.barker-run-XXXXXX", base && *base ? base : "/tmp");
    char *name = text_take(&path);
    if (mkdtemp(name))
        return name;
    report_error("cannot create a folder %s: %s", name, strerror(errno));
    free(name);
    return NULL;
}

static char *kept_directory(const char *path)
{
    char resolved[PATH_MAX];
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        report_error("cannot create the folder %s: %s", path, strerror(errno));
        return NULL;
    }
    if (realpath(path, resolved))
        return mem_copy(resolved);
    report_error("cannot use the folder %s: %s", path, strerror(errno));
    return NULL;
}

static char *inside(const struct private_daemon *daemon, const char *name)
{
    struct text path = {0};
    text_addf(&path, "%s/%s", daemon->state, name);
    return text_take(&path);
}

/* A kept directory may have the address of an earlier run: the file must be new. */
static ino_t identity(const char *path, struct timespec *changed)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return 0;
    *changed = info.st_mtim;
    return info.st_ino;
}

/* Runs between fork and exec. The daemon gets its own process group, so that Ctrl-C reaches only
 * the parent. */
static _Noreturn void exec_daemon(const char *program, char *const *argv, const char *log,
                                  pid_t parent)
{
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_LOCAL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    int out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (null < 0 || out < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(EXIT_LOCAL);
    close_range(3, ~0U, 0);
    execv(program, argv);
    dprintf(2, "cannot run %s: %s\n", program, strerror(errno));
    _exit(EXIT_LOCAL);
}

static int spawn(struct private_daemon *daemon, const char *program,
                 const struct private_daemon_config *config)
{
    const char *argv[12] = {program,       "--listen", "127.0.0.1:0", "--state",
                            daemon->state, "--data",   config->data};
    if (config->workers) {
        argv[7] = "--workers";
        argv[8] = config->workers;
    }
    char *log = inside(daemon, "barkerd.log");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        exec_daemon(program, (char *const *)argv, log, parent);
    free(log);
    if (pid < 0) {
        report_error("cannot start %s: %s", program, strerror(errno));
        return EXIT_LOCAL;
    }
    daemon->pid = pid;
    return EXIT_OK;
}

bool private_daemon_alive(void *ctx)
{
    struct private_daemon *daemon = ctx;
    int status;
    if (daemon->pid && waitpid(daemon->pid, &status, WNOHANG) != 0)
        daemon->pid = 0;
    return daemon->pid != 0;
}

void private_daemon_print_log(const struct private_daemon *daemon)
{
    char tail[4096];
    char *path = inside(daemon, "barkerd.log");
    FILE *log = fopen(path, "rb");
    free(path);
    if (!log)
        return;
    if (fseek(log, -(long)(sizeof tail - 1), SEEK_END) != 0)
        rewind(log);
    size_t size = fread(tail, 1, sizeof tail - 1, log);
    fclose(log);
    tail[size] = '\0';
    for (char *line = strtok(tail, "\n"); line; line = strtok(NULL, "\n")) {
        text_clean(line);
        fprintf(stderr, "  %s\n", line);
    }
}

static int wait_until_ready(struct private_daemon *daemon, const char *url_path, ino_t old_identity,
                            struct timespec old_change)
{
    double limit = interrupt_clock() + START_LIMIT;
    char *token_path = inside(daemon, "admin.token");
    while (!interrupted() && private_daemon_alive(daemon) && interrupt_clock() < limit) {
        struct timespec changed = {0};
        ino_t now = identity(url_path, &changed);
        bool fresh = now && (now != old_identity || changed.tv_sec != old_change.tv_sec ||
                             changed.tv_nsec != old_change.tv_nsec);
        free(daemon->url);
        free(daemon->token);
        daemon->url = fresh ? locate_read_line(url_path) : NULL;
        daemon->token = fresh ? locate_read_line(token_path) : NULL;
        if (daemon->url && *daemon->url && daemon->token && *daemon->token)
            break;
        usleep(20000);
    }
    free(token_path);
    if (interrupted())
        return EXIT_INTERRUPTED;
    if (daemon->pid && daemon->url && *daemon->url && daemon->token && *daemon->token)
        return EXIT_OK;
    report_error(daemon->pid ? "the private daemon was not ready in time; its log:"
                             : "the private daemon ended at once; its log:");
    private_daemon_print_log(daemon);
    return EXIT_SERVER;
}

static int find_and_spawn(struct private_daemon *daemon, const struct private_daemon_config *config)
{
    char *program = sibling_daemon();
    if (!program)
        program = in_path();
    if (!program) {
        report_error("cannot find barkerd in the folder of this program or in PATH");
        return EXIT_LOCAL;
    }
    daemon->state = config->keep ? kept_directory(config->keep) : temporary_directory();
    int code = daemon->state ? spawn(daemon, program, config) : EXIT_LOCAL;
    free(program);
    return code;
}

int private_daemon_start(struct private_daemon *out, const struct private_daemon_config *config)
{
    struct timespec changed = {0};
    ino_t old = 0;
    *out = (struct private_daemon){.keep = config->keep != NULL};
    if (config->keep) {
        struct text url = {0};
        text_addf(&url, "%s/url", config->keep);
        old = identity(text_str(&url), &changed);
        text_release(&url);
    }
    int code = find_and_spawn(out, config);
    if (code)
        return code;
    char *url_path = inside(out, "url");
    code = wait_until_ready(out, url_path, old, changed);
    free(url_path);
    return code;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    remove(path);
    return 0;
}

static void end_process(struct private_daemon *daemon)
{
    double limit = interrupt_clock() + STOP_LIMIT;
    if (!daemon->pid)
        return;
    kill(daemon->pid, SIGTERM);
    while (private_daemon_alive(daemon)) {
        if (interrupt_clock() > limit) {
            kill(daemon->pid, SIGKILL);
            waitpid(daemon->pid, NULL, 0);
            daemon->pid = 0;
            return;
        }
        usleep(10000);
    }
}

void private_daemon_stop(struct private_daemon *daemon)
{
    end_process(daemon);
    if (daemon->state && !daemon->keep)
        nftw(daemon->state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    if (daemon->token)
        explicit_bzero(daemon->token, strlen(daemon->token));
    free(daemon->state);
    free(daemon->url);
    free(daemon->token);
    *daemon = (struct private_daemon){0};
}
