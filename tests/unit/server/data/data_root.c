/* The data root: who finds what, that nothing leads out of it, and that uploads are all or nothing.
 * Each test has a folder of its own with the root, and beside it a secret that must not be read. */
#include "server/data/data_root.h"

#include <criterion/criterion.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

enum { BUDGET = 1 << 20 };

static char top[] = "/tmp/data_file-XXXXXX";
static struct data_root *root;
static struct err_info info;

/* A path below the test's folder, valid until the eighth call after it. */
static const char *at(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *at(const char *format, ...)
{
    static char paths[8][600];
    static size_t next;
    char *path = paths[next++ % 8];
    int length = snprintf(path, 600, "%s/", top);
    va_list args;
    va_start(args, format);
    vsnprintf(path + length, 600 - (size_t)length, format, args);
    va_end(args);
    return path;
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    fputs(text, file);
    fclose(file);
}

static void set_up(void)
{
    struct data_root *opened;
    cr_assert_not_null(mkdtemp(top));
    cr_assert_eq(chmod(top, 0755), 0);
    mkdir(at("root"), 0755);
    mkdir(at("root/sub"), 0755);
    mkdir(at("outside"), 0755);
    put(at("outside/secret"), "secret");
    put(at("root/shared.csv"), "shared");
    put(at("root/sub/deep-1_a.csv"), "deep");
    cr_assert_eq(data_root_open(&opened, at("root"), &info), ERR_OK, "%s", info.message);
    root = opened;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static void tear_down(void)
{
    data_root_close(root);
    nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(data_file, .init = set_up, .fini = tear_down);

/* Makes a system call fail from now on, in this process; with `argument` >= 0 only when that
 * argument has the given value. */
static void break_call(int call, int number, int argument, unsigned value)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(offsetof(struct seccomp_data, args) +
                                                      (argument < 0 ? 0 : 8 * (unsigned)argument))),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, argument < 0 ? 0 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)number),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0, "%s", strerror(errno));
}

static void expect_content(const char *user, const char *path, const char *text, bool own)
{
    struct data_file file;
    char *bytes, sha256[DATA_FILE_SHA256_HEX];
    size_t size;
    enum err err = data_file_open(root, user, path, &file, &info);
    cr_assert_eq(err, ERR_OK, "%s: %s", path, info.message);
    cr_expect_eq(file.own, own);
    cr_expect_eq(file.size, strlen(text));
    cr_expect_str_eq(file.path, path);
    cr_assert_eq(data_file_read(&file, BUDGET, &bytes, &size, sha256, &info), ERR_OK, "%s",
                 info.message);
    cr_expect_eq(size, strlen(text));
    cr_expect_str_eq(bytes, text);
    free(bytes);
    data_file_close(&file);
    cr_expect_eq(file.fd, -1);
}

static void expect_refusal(const char *path, enum err code, const char *words)
{
    struct data_file file;
    info.message[0] = '\0';
    enum err err = data_file_open(root, "alice", path, &file, &info);
    cr_expect_eq(err, code, "\"%s\": %s, %s", path, err_name(err), info.message);
    cr_expect(strstr(info.message, words) != NULL, "\"%s\": %s", path, info.message);
    cr_expect_eq(file.fd, -1);
}

static enum err upload(const char *user, const char *name, const char *text)
{
    struct upload *upload;
    struct upload_result result;
    enum err err = upload_begin(&upload, root, user, name, BUDGET, &info);
    if (err != ERR_OK)
        return err;
    upload_write(upload, text, strlen(text), &info);
    return upload_commit(upload, &result, &info);
}

/* Finding */

Test(data_file, shared_files_are_read_by_everybody)
{
    expect_content("alice", "shared.csv", "shared", false);
    expect_content("bob", "sub/deep-1_a.csv", "deep", false);
}

Test(data_file, own_files_come_first_and_are_ones_own)
{
    cr_assert_eq(upload("alice", "shared.csv", "alice's"), ERR_OK, "%s", info.message);
    cr_assert_eq(upload("alice", "mine.csv", "mine"), ERR_OK);
    expect_content("alice", "shared.csv", "alice's", true);
    expect_content("alice", "mine.csv", "mine", true);
    expect_content("bob", "shared.csv", "shared", false);
    struct data_file file;
    cr_expect_eq(data_file_open(root, "bob", "mine.csv", &file, &info), ERR_NOT_FOUND);
    cr_expect_str_eq(info.message, "there is no data file \"mine.csv\", own or shared");
}

Test(data_file, other_peoples_folders_cannot_be_named)
{
    struct data_file file;
    cr_assert_eq(upload("alice", "mine.csv", "mine"), ERR_OK);
    cr_expect_eq(data_file_open(root, "bob", ".users/alice/mine.csv", &file, &info), ERR_INVALID);
    cr_expect_eq(data_file_open(root, "bob", "sub/../.users/alice/mine.csv", &file, &info),
                 ERR_INVALID);
    cr_expect_eq(data_file_open(root, "bob", "alice/mine.csv", &file, &info), ERR_NOT_FOUND);
}

Test(data_file, what_is_not_there_is_not_found)
{
    static const char *const paths[] = {"absent.csv",       "sub/absent.csv",     "absent/x.csv",
                                        "shared.csv/x.csv", "sub/deep-1_a.csv/x", "Shared.csv"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        expect_refusal(paths[i], ERR_NOT_FOUND, "there is no data file");
}

Test(data_file, paths_outside_the_rules_are_refused)
{
    static const char *const paths[] = {
        "",
        "/",
        "/etc/passwd",
        "//shared.csv",
        "..",
        ".",
        "./shared.csv",
        "../outside/secret",
        "sub/../shared.csv",
        "sub/../../outside/secret",
        "sub//deep-1_a.csv",
        "sub/",
        "shared.csv/",
        "sub/./deep-1_a.csv",
        ".hidden",
        "sub/.hidden",
        "..shared",
        "sub/..",
        "...",
        "%2e%2e/outside/secret",
        "..%2foutside",
        "..\\outside\\secret",
        "sub\\deep",
        "a b",
        "a\tb",
        "a\nb",
        "a\x01",
        "a\x7f",
        "caf\xc3\xa9",
        "\xc0\xae\xc0\xae/outside/secret",
        "\xe0\x80\xae\xe0\x80\xae/x",
        "\xff",
        "~root",
        "$HOME",
        "a:b",
        "a*",
        "a?",
        "a'b",
        "a\"b",
        "a;b",
        "a|b",
        "a&b",
        "file:///etc/passwd",
        "/proc/self/fd/0",
        "sub/%00",
        "-/../x",
        "_/..",
        "+x",
        "a,b",
        "a=b",
        "a@b",
        "#a",
        "(a)",
        "[a]",
        "{a}",
        "<a>",
        "!a",
        "/./shared.csv",
        "sub/.../x",
        "....//....//outside/secret",
        "..;/outside/secret",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        expect_refusal(paths[i], ERR_INVALID, "is not a data path; allowed are");
    char path[DATA_FILE_PATH_MAX + 2];
    memset(path, 'a', sizeof path);
    path[DATA_FILE_PATH_MAX + 1] = '\0';
    expect_refusal(path, ERR_INVALID, "is not a data path; allowed are");
    path[DATA_FILE_PATH_MAX] = '\0';
    expect_refusal(path, ERR_NOT_FOUND, "there is no data file");
}

Test(data_file, a_bad_path_is_shown_on_one_line)
{
    expect_refusal(
        "a\nb\x1b[31m", ERR_INVALID,
        "\"a\\x0ab\\x1b[31m\" is not a data path; allowed are relative paths of at most "
        "255 bytes, of letters, digits, '_', '.' and '-' separated by single '/', no part "
        "beginning with '.'");
}

/* Links and special files */

Test(data_file, links_are_refused_wherever_they_lead)
{
    static const struct {
        const char *link, *target;
    } links[] = {
        {"out", "../outside/secret"},
        {"out-absolute", "/etc/passwd"},
        {"in", "shared.csv"},
        {"in-sub", "sub/deep-1_a.csv"},
        {"chain-1", "chain-2"},
        {"chain-2", "in"},
        {"loop", "loop"},
        {"dangling", "nowhere"},
        {"proc", "/proc/self/root/etc/passwd"},
        {"proc-fd", "/proc/self/fd/0"},
        {"proc-exe", "/proc/self/exe"},
        {"zero", "/dev/zero"},
        {"itself", "."},
        {"up", ".."},
    };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        cr_assert_eq(symlink(links[i].target, at("root/%s", links[i].link)), 0);
        expect_refusal(links[i].link, ERR_INVALID, "is or passes a symbolic link");
    }
    cr_assert_eq(symlink("../outside", at("root/folder")), 0);
    expect_refusal("folder/secret", ERR_INVALID, "is or passes a symbolic link");
    expect_refusal("up/outside/secret", ERR_INVALID, "is or passes a symbolic link");
    expect_refusal("itself/shared.csv", ERR_INVALID, "is or passes a symbolic link");
    cr_assert_eq(symlink("/proc/self/root", at("root/magic")), 0);
    expect_refusal("magic/etc/passwd", ERR_INVALID, "is or passes a symbolic link");
}

Test(data_file, links_in_the_users_own_folder_are_refused)
{
    cr_assert_eq(upload("alice", "mine.csv", "mine"), ERR_OK);
    cr_assert_eq(symlink("../../../outside/secret", at("root/.users/alice/shared.csv")), 0);
    expect_refusal("shared.csv", ERR_INVALID, "is or passes a symbolic link");
    cr_assert_eq(symlink("alice", at("root/.users/mallory")), 0);
    struct data_file file;
    cr_expect_eq(data_file_open(root, "mallory", "mine.csv", &file, &info), ERR_INVALID);
    cr_expect_eq(upload("mallory", "mine.csv", "changed"), ERR_IO);
    expect_content("alice", "mine.csv", "mine", true);
}

Test(data_file, hard_links_are_refused)
{
    cr_assert_eq(link(at("outside/secret"), at("root/hard")), 0);
    expect_refusal("hard", ERR_INVALID, "has other hard links; a data file must be a regular file");
    cr_assert_eq(unlink(at("outside/secret")), 0);
    expect_content("alice", "hard", "secret", false);
}

Test(data_file, a_fifo_is_refused_without_waiting, .timeout = 120)
{
    cr_assert_eq(mkfifo(at("root/fifo"), 0644), 0);
    expect_refusal("fifo", ERR_INVALID, "is a pipe or a device");
}

Test(data_file, folders_sockets_and_empty_files_are_refused)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", at("root/socket"));
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_refusal("socket", ERR_INVALID, "is a socket or a device");
    close(fd);
    expect_refusal("sub", ERR_INVALID, "is a folder");
    put(at("root/empty.csv"), "");
    expect_refusal("empty.csv", ERR_INVALID, "\"empty.csv\" is empty");
}

Test(data_file, a_device_is_refused)
{
    if (mknod(at("root/device"), S_IFCHR | 0644, makedev(1, 5)) != 0) {
        cr_log_info("skipped: making a device needs root");
        return;
    }
    struct data_file file;
    cr_expect_eq(data_file_open(root, "alice", "device", &file, &info), ERR_INVALID);
}

Test(data_file, an_enormous_file_is_refused)
{
    put(at("root/huge.csv"), "1");
    if (truncate(at("root/huge.csv"), (off_t)DATA_FILE_BYTES_MAX) != 0) {
        cr_log_info("skipped: the file system has no files that large");
        return;
    }
    struct data_file file;
    cr_assert_eq(data_file_open(root, "alice", "huge.csv", &file, &info), ERR_OK);
    char *bytes, sha256[DATA_FILE_SHA256_HEX];
    size_t size;
    cr_expect_eq(data_file_read(&file, BUDGET, &bytes, &size, sha256, &info), ERR_TOO_LARGE);
    data_file_close(&file);
    cr_assert_eq(truncate(at("root/huge.csv"), (off_t)DATA_FILE_BYTES_MAX + 1), 0);
    expect_refusal("huge.csv", ERR_TOO_LARGE, "at most 68719476736 are allowed");
}

Test(data_file, an_unreadable_file_is_refused)
{
    cr_assert_eq(chmod(at("root/shared.csv"), 0), 0);
    cr_assert_eq(chmod(at("root/sub"), 0), 0);
    cr_assert(geteuid() != 0 || seteuid(65534) == 0);
    expect_refusal("shared.csv", ERR_INVALID, "cannot be read by the server: Permission denied");
    expect_refusal("sub/deep-1_a.csv", ERR_INVALID, "cannot be read by the server");
    cr_assert(getuid() != 0 || seteuid(0) == 0);
    cr_assert_eq(chmod(at("root/sub"), 0755), 0);
}

struct swapper {
    atomic_bool stop;
    char a[600], b[600];
};

static void *swap_names(void *context)
{
    struct swapper *swapper = context;
    while (!atomic_load(&swapper->stop))
        renameat2(AT_FDCWD, swapper->a, AT_FDCWD, swapper->b, RENAME_EXCHANGE);
    return NULL;
}

/* Opens `path` again and again while `a` and `b` change places; whatever opens is the data file. */
static void race(const char *path, const char *a, const char *b)
{
    struct swapper swapper = {0};
    pthread_t thread;
    size_t opened = 0, refused = 0;
    strcpy(swapper.a, a);
    strcpy(swapper.b, b);
    cr_assert_eq(pthread_create(&thread, NULL, swap_names, &swapper), 0);
    for (size_t tries = 0; tries < 200000 && (tries < 5000 || opened == 0 || refused == 0);
         tries++) {
        struct data_file file;
        if (data_file_open(root, "alice", path, &file, &info) != ERR_OK) {
            refused++;
            continue;
        }
        char *bytes = NULL, sha256[DATA_FILE_SHA256_HEX];
        size_t size;
        opened++;
        cr_assert_eq(data_file_read(&file, BUDGET, &bytes, &size, sha256, &info), ERR_OK);
        cr_assert_str_eq(bytes, "shared");
        free(bytes);
        data_file_close(&file);
    }
    atomic_store(&swapper.stop, true);
    pthread_join(thread, NULL);
    cr_expect(opened > 0 && refused > 0, "%zu opened, %zu refused: no race", opened, refused);
}

Test(data_file, a_link_swapped_in_while_opening_is_never_followed)
{
    cr_assert_eq(symlink("../outside/secret", at("root/link")), 0);
    race("shared.csv", at("root/shared.csv"), at("root/link"));
}

Test(data_file, a_folder_swapped_for_a_link_while_opening_is_never_followed)
{
    mkdir(at("root/folder"), 0755);
    put(at("root/folder/secret"), "shared");
    cr_assert_eq(symlink("../outside", at("root/link")), 0);
    race("folder/secret", at("root/folder"), at("root/link"));
}

/* A folder that is moved out of the root while ".." cannot be said has no way out either; the file
 * in it may be found or not. */
Test(data_file, a_folder_moved_out_while_opening_does_no_harm)
{
    mkdir(at("root/folder"), 0755);
    mkdir(at("outside/other"), 0755);
    put(at("root/folder/x"), "shared");
    race("folder/x", at("root/folder"), at("outside/other"));
}

/* The root and the kernel */

Test(data_file, a_root_that_is_not_there_is_an_error)
{
    struct data_root *other;
    cr_expect_eq(data_root_open(&other, at("absent"), &info), ERR_NOT_FOUND);
    cr_expect(strstr(info.message, "absent cannot be opened: No such file") != NULL, "%s",
              info.message);
    cr_expect_eq(data_root_open(&other, at("outside/secret"), &info), ERR_NOT_FOUND);
}

Test(data_file, the_root_itself_may_be_a_link)
{
    struct data_root *other;
    cr_assert_eq(symlink("root", at("link")), 0);
    cr_assert_eq(data_root_open(&other, at("link"), &info), ERR_OK);
    data_root_close(other);
}

Test(data_file, without_openat2_the_root_does_not_open)
{
    struct data_root *other;
    break_call(SYS_openat2, ENOSYS, -1, 0);
    cr_expect_eq(data_root_open(&other, at("root"), &info), ERR_UNSUPPORTED);
    cr_expect(strstr(info.message, "openat2 is not available") != NULL, "%s", info.message);
}

Test(data_file, an_unsure_kernel_is_asked_again_but_not_for_ever)
{
    break_call(SYS_openat2, EAGAIN, -1, 0);
    expect_refusal("shared.csv", ERR_UNAVAILABLE, "cannot be opened just now");
}

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(data_file, running_out_of_descriptors_is_temporary)
{
    limit_descriptors(3);
    expect_refusal("shared.csv", ERR_UNAVAILABLE, "cannot be opened just now: Too many open files");
    cr_expect_eq(upload("alice", "x.csv", "x"), ERR_UNAVAILABLE);
    cr_expect_str_eq(info.message, "\"x.csv\" cannot be stored just now: Too many open files");
    cr_expect_eq(data_file_delete(root, "alice", "x.csv", &info), ERR_UNAVAILABLE);
    limit_descriptors(RLIM_INFINITY);
}

Test(data_file, nothing_stays_open)
{
    int before = dup(0), after;
    close(before);
    struct data_file file;
    cr_assert_eq(upload("alice", "mine.csv", "mine"), ERR_OK);
    for (size_t i = 0; i < 3; i++) {
        expect_content("alice", "mine.csv", "mine", true);
        expect_content("alice", "shared.csv", "shared", false);
        data_file_open(root, "alice", "sub", &file, &info);
        data_file_open(root, "bob", "absent", &file, &info);
        upload("alice", "empty.csv", "");
        upload("alice", "mine.csv", "mine");
        data_file_delete(root, "alice", "absent", &info);
    }
    after = dup(0);
    close(after);
    cr_expect_eq(after, before);
}

/* Reading */

Test(data_file, the_hash_is_sha256)
{
    struct data_file file;
    char sha256[DATA_FILE_SHA256_HEX], *bytes;
    size_t size;
    put(at("root/abc"), "abc");
    cr_assert_eq(data_file_open(root, "alice", "abc", &file, &info), ERR_OK);
    cr_assert_eq(data_file_read(&file, 4, &bytes, &size, sha256, &info), ERR_OK);
    cr_expect_str_eq(sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    free(bytes);
    cr_expect_eq(data_file_read(&file, 3, &bytes, &size, sha256, &info), ERR_TOO_LARGE);
    cr_expect_null(bytes);
    data_file_close(&file);
}

Test(data_file, a_file_of_several_pieces_is_read_whole)
{
    enum { SIZE = (5 << 20) / 2 + 7 };
    char *text = malloc(SIZE + 1), *bytes, by_read[DATA_FILE_SHA256_HEX],
         by_hash[DATA_FILE_SHA256_HEX];
    size_t size;
    struct data_file file;
    for (size_t i = 0; i < SIZE; i++)
        text[i] = (char)('!' + i * 31 % 91);
    text[SIZE] = '\0';
    put(at("root/big"), text);
    cr_assert_eq(data_file_open(root, "alice", "big", &file, &info), ERR_OK);
    cr_assert_eq(data_file_read(&file, 4 << 20, &bytes, &size, by_read, &info), ERR_OK);
    unsigned char hash[32];
    gnutls_hash_fast(GNUTLS_DIG_SHA256, text, SIZE, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        snprintf(by_hash + 2 * i, 3, "%02x", hash[i]);
    cr_expect_eq(size, SIZE);
    cr_expect_str_eq(bytes, text);
    cr_expect_str_eq(by_read, by_hash);
    data_file_close(&file);
    free(bytes);
    free(text);
}

Test(data_file, a_file_that_changes_while_it_is_read_is_a_conflict)
{
    static const char *const contents[] = {"longer than shared", "short", "SHARED"};
    for (size_t i = 0; i < 3; i++) {
        struct data_file file;
        char *bytes, sha256[DATA_FILE_SHA256_HEX];
        size_t size;
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000, .tv_nsec = 5}};
        cr_assert_eq(data_file_open(root, "alice", "shared.csv", &file, &info), ERR_OK);
        put(at("root/shared.csv"), contents[i]);
        utimensat(AT_FDCWD, at("root/shared.csv"), times, 0);
        cr_expect_eq(data_file_read(&file, BUDGET, &bytes, &size, sha256, &info), ERR_CONFLICT);
        cr_expect_null(bytes);
        cr_expect(strstr(info.message, "\"shared.csv\" changed while it was read") != NULL);
        data_file_close(&file);
        put(at("root/shared.csv"), "shared");
    }
}

Test(data_file, a_read_error_is_reported)
{
    struct data_file file;
    char *bytes, sha256[DATA_FILE_SHA256_HEX];
    size_t size;
    cr_assert_eq(data_file_open(root, "alice", "shared.csv", &file, &info), ERR_OK);
    break_call(SYS_pread64, EIO, 2, 6);
    cr_expect_eq(data_file_read(&file, BUDGET, &bytes, &size, sha256, &info), ERR_IO);
    cr_expect_str_eq(info.message, "\"shared.csv\" cannot be read: Input/output error");
    data_file_close(&file);
}

Test(data_file, a_file_is_known_again_by_its_numbers)
{
    struct data_file first, again, other;
    cr_assert_eq(data_file_open(root, "alice", "shared.csv", &first, &info), ERR_OK);
    cr_assert_eq(data_file_open(root, "bob", "shared.csv", &again, &info), ERR_OK);
    cr_assert_eq(data_file_open(root, "bob", "sub/deep-1_a.csv", &other, &info), ERR_OK);
    cr_expect(first.inode == again.inode && first.device == again.device);
    cr_expect_eq(first.modified.tv_nsec, again.modified.tv_nsec);
    cr_expect_neq(first.inode, other.inode);
    data_file_close(&first);
    data_file_close(&again);
    data_file_close(&other);
}

/* Listing and deleting */

struct listed {
    char text[2000];
    size_t count, stop_after;
};

static bool note_entry(void *context, const struct data_file_entry *entry)
{
    struct listed *listed = context;
    size_t length = strlen(listed->text);
    snprintf(listed->text + length, sizeof listed->text - length, "%s%s %llu\n", entry->path,
             entry->own ? " own" : "", (unsigned long long)entry->size);
    cr_expect_gt(entry->modified.tv_sec, 1600000000);
    return ++listed->count != listed->stop_after;
}

static void expect_list(const char *user, const char *text)
{
    struct listed listed = {0};
    cr_assert_eq(data_file_list(root, user, note_entry, &listed, &info), ERR_OK, "%s",
                 info.message);
    cr_expect_str_eq(listed.text, text);
}

Test(data_file, the_list_has_what_can_be_opened_sorted)
{
    expect_list("alice", "shared.csv 6\nsub/deep-1_a.csv 4\n");
    upload("alice", "shared.csv", "alice's");
    upload("alice", "b.csv", "b");
    upload("bob", "a.csv", "a");
    expect_list("alice", "b.csv own 1\nshared.csv own 7\nsub/deep-1_a.csv 4\n");
    expect_list("bob", "a.csv own 1\nshared.csv 6\nsub/deep-1_a.csv 4\n");
    expect_list("carol", "shared.csv 6\nsub/deep-1_a.csv 4\n");
}

Test(data_file, the_list_leaves_out_what_cannot_be_opened)
{
    put(at("root/.hidden"), "x");
    put(at("root/with space"), "x");
    put(at("root/empty"), "");
    mkdir(at("root/.dots"), 0755);
    put(at("root/.dots/x"), "x");
    mkfifo(at("root/fifo"), 0644);
    cr_assert_eq(symlink("shared.csv", at("root/link")), 0);
    cr_assert_eq(symlink("../outside", at("root/folder")), 0);
    cr_assert_eq(link(at("outside/secret"), at("root/hard")), 0);
    expect_list("alice", "shared.csv 6\nsub/deep-1_a.csv 4\n");
}

Test(data_file, the_list_goes_four_folders_deep)
{
    static const char *const folders[] = {"d1", "d1/d2", "d1/d2/d3", "d1/d2/d3/d4",
                                          "d1/d2/d3/d4/d5"};
    for (size_t i = 0; i < 5; i++) {
        mkdir(at("root/%s", folders[i]), 0755);
        put(at("root/%s/x", folders[i]), "x");
    }
    expect_list("alice", "d1/d2/d3/d4/x 1\nd1/d2/d3/x 1\nd1/d2/x 1\nd1/x 1\nshared.csv 6\n"
                         "sub/deep-1_a.csv 4\n");
    expect_content("alice", "d1/d2/d3/d4/d5/x", "x", false);
}

Test(data_file, the_list_stops_when_told)
{
    struct listed listed = {.stop_after = 1};
    cr_assert_eq(data_file_list(root, "alice", note_entry, &listed, &info), ERR_OK);
    cr_expect_str_eq(listed.text, "shared.csv 6\n");
}

Test(data_file, a_list_without_descriptors_is_an_error_not_a_part)
{
    struct listed listed = {0};
    int free_one = dup(0);
    close(free_one);
    for (rlim_t more = 0; more < 2; more++) {
        limit_descriptors((rlim_t)free_one + more);
        cr_expect_eq(data_file_list(root, "alice", note_entry, &listed, &info), ERR_UNAVAILABLE);
        cr_expect_eq(listed.count, 0);
    }
    limit_descriptors(RLIM_INFINITY);
}

Test(data_file, own_files_can_be_deleted_and_shared_ones_cannot)
{
    upload("alice", "shared.csv", "alice's");
    cr_expect_eq(data_file_delete(root, "bob", "shared.csv", &info), ERR_FORBIDDEN);
    cr_expect_str_eq(info.message, "\"shared.csv\" is shared and not yours to delete");
    expect_content("alice", "shared.csv", "alice's", true);
    cr_expect_eq(data_file_delete(root, "alice", "shared.csv", &info), ERR_OK);
    expect_content("alice", "shared.csv", "shared", false);
    cr_expect_eq(data_file_delete(root, "alice", "shared.csv", &info), ERR_FORBIDDEN);
    cr_expect_eq(data_file_delete(root, "alice", "sub/deep-1_a.csv", &info), ERR_FORBIDDEN);
    cr_expect_eq(data_file_delete(root, "alice", "absent.csv", &info), ERR_NOT_FOUND);
    cr_expect_eq(data_file_delete(root, "alice", "sub/absent.csv", &info), ERR_NOT_FOUND);
    cr_expect_eq(data_file_delete(root, "alice", "../outside/secret", &info), ERR_INVALID);
    cr_expect_eq(data_file_delete(root, "bob", ".users/alice/x", &info), ERR_INVALID);
    cr_expect_eq(access(at("outside/secret"), F_OK), 0);
    expect_content("alice", "sub/deep-1_a.csv", "deep", false);
}

/* Uploading */

static size_t count_files(const char *folder)
{
    struct stat status;
    size_t count = 0;
    char command[700], line[300];
    if (stat(folder, &status) != 0)
        return 0;
    snprintf(command, sizeof command, "ls -A %s", folder);
    FILE *list = popen(command, "r");
    while (fgets(line, sizeof line, list) != NULL)
        count++;
    pclose(list);
    return count;
}

Test(data_file, an_upload_appears_whole_or_not_at_all)
{
    struct upload *upload;
    struct upload_result result;
    struct data_file file;
    cr_assert_eq(upload_begin(&upload, root, "alice", "new.csv", 6, &info), ERR_OK);
    cr_assert_eq(upload_write(upload, "ab", 2, &info), ERR_OK);
    cr_expect_eq(data_file_open(root, "alice", "new.csv", &file, &info), ERR_NOT_FOUND);
    expect_list("alice", "shared.csv 6\nsub/deep-1_a.csv 4\n");
    cr_assert_eq(upload_write(upload, "", 0, &info), ERR_OK);
    cr_assert_eq(upload_write(upload, "c", 1, &info), ERR_OK);
    cr_assert_eq(upload_commit(upload, &result, &info), ERR_OK);
    cr_expect_eq(result.size, 3);
    cr_expect_str_eq(result.sha256,
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_content("alice", "new.csv", "abc", true);
    cr_expect_eq(count_files(at("root/.users/alice")), 1);
}

Test(data_file, an_upload_replaces_an_own_file_and_spares_its_readers)
{
    struct data_file old;
    char *bytes, sha256[DATA_FILE_SHA256_HEX];
    size_t size;
    upload("alice", "x.csv", "before");
    cr_assert_eq(data_file_open(root, "alice", "x.csv", &old, &info), ERR_OK);
    cr_assert_eq(upload("alice", "x.csv", "after!"), ERR_OK);
    expect_content("alice", "x.csv", "after!", true);
    cr_assert_eq(data_file_read(&old, BUDGET, &bytes, &size, sha256, &info), ERR_OK);
    cr_expect_str_eq(bytes, "before");
    free(bytes);
    data_file_close(&old);
}

Test(data_file, an_aborted_upload_leaves_nothing)
{
    struct upload *upload;
    cr_assert_eq(upload_begin(&upload, root, "alice", "x.csv", 6, &info), ERR_OK);
    cr_assert_eq(upload_write(upload, "abc", 3, &info), ERR_OK);
    cr_expect_eq(count_files(at("root/.users/alice")), 1);
    upload_abort(upload);
    upload_abort(NULL);
    cr_expect_eq(count_files(at("root/.users/alice")), 0);
}

Test(data_file, an_upload_beyond_its_limit_is_refused_for_good)
{
    struct upload *upload;
    struct upload_result result;
    cr_assert_eq(upload_begin(&upload, root, "alice", "x.csv", 6, &info), ERR_OK);
    cr_expect_eq(upload_write(upload, "123456", 6, &info), ERR_OK);
    cr_expect_eq(upload_write(upload, "7", 1, &info), ERR_TOO_LARGE);
    cr_expect_str_eq(info.message, "\"x.csv\" is larger than the 6 bytes allowed");
    cr_expect_eq(upload_write(upload, "", 0, &info), ERR_TOO_LARGE);
    cr_expect_eq(upload_commit(upload, &result, &info), ERR_TOO_LARGE);
    cr_expect_eq(count_files(at("root/.users/alice")), 0);
}

Test(data_file, an_empty_upload_is_refused)
{
    cr_expect_eq(upload("alice", "x.csv", ""), ERR_INVALID);
    cr_expect_str_eq(info.message, "\"x.csv\" is empty");
    cr_expect_eq(count_files(at("root/.users/alice")), 0);
}

Test(data_file, names_of_uploads_have_rules)
{
    static const char *const names[] = {"",    ".",    "..",   ".x",   "a/b",      "/a",   "a/",
                                        "a b", "a\nb", "a%2f", "a\\b", "\xc3\xa9", "../x", "a:b"};
    char name[DATA_FILE_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[DATA_FILE_NAME_MAX + 1] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_eq(upload("alice", names[i], "x"), ERR_INVALID, "\"%s\"", names[i]);
    cr_expect_eq(upload("alice", name, "x"), ERR_INVALID);
    cr_expect_str_eq(
        info.message,
        "\"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...\" is not a name for an upload; "
        "allowed are at most 128 letters, digits, '_', '.' and '-', not beginning with "
        "'.'");
    name[DATA_FILE_NAME_MAX] = '\0';
    cr_expect_eq(upload("alice", name, "x"), ERR_OK, "%s", info.message);
    cr_expect_eq(upload("alice", "-", "x"), ERR_OK);
    cr_expect_eq(upload("alice", "A_1-.csv.gz", "x"), ERR_OK);
}

Test(data_file, folders_of_uploads_are_private)
{
    struct stat status;
    umask(0);
    upload("alice", "x.csv", "x");
    cr_assert_eq(stat(at("root/.users"), &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0700);
    cr_assert_eq(stat(at("root/.users/alice"), &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0700);
    cr_assert_eq(stat(at("root/.users/alice/x.csv"), &status), 0);
    cr_expect_eq(status.st_mode & 0777, 0600);
}

Test(data_file, a_full_disk_is_said_and_leaves_nothing)
{
    break_call(SYS_write, ENOSPC, 2, 4321);
    struct upload *upload;
    struct upload_result result;
    char bytes[4321] = {0};
    cr_assert_eq(upload_begin(&upload, root, "alice", "x.csv", BUDGET, &info), ERR_OK);
    cr_expect_eq(upload_write(upload, bytes, 100, &info), ERR_OK);
    cr_expect_eq(upload_write(upload, bytes, sizeof bytes, &info), ERR_NO_SPACE);
    cr_expect_str_eq(info.message, "no space left to store \"x.csv\": No space left on device");
    cr_expect_eq(upload_write(upload, bytes, 100, &info), ERR_NO_SPACE);
    cr_expect_eq(upload_commit(upload, &result, &info), ERR_NO_SPACE);
    cr_expect_eq(count_files(at("root/.users/alice")), 0);
}

Test(data_file, a_file_size_limit_is_a_full_disk)
{
    struct upload *upload;
    char bytes[3000] = {0};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(upload_begin(&upload, root, "alice", "x.csv", BUDGET, &info), ERR_OK);
    struct rlimit limit = {2000, RLIM_INFINITY};
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(upload_write(upload, bytes, sizeof bytes, &info), ERR_NO_SPACE);
    limit.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    upload_abort(upload);
}

Test(data_file, a_failed_sync_keeps_the_old_file)
{
    upload("alice", "x.csv", "before");
    break_call(SYS_fdatasync, EIO, -1, 0);
    cr_expect_eq(upload("alice", "x.csv", "after"), ERR_IO);
    cr_expect_str_eq(info.message, "\"x.csv\" cannot be stored: Input/output error");
    expect_content("alice", "x.csv", "before", true);
    cr_expect_eq(count_files(at("root/.users/alice")), 1);
}

Test(data_file, a_failed_rename_keeps_the_old_file)
{
    upload("alice", "x.csv", "before");
    break_call(SYS_renameat, ENOSPC, -1, 0);
    cr_expect_eq(upload("alice", "x.csv", "after"), ERR_NO_SPACE);
    expect_content("alice", "x.csv", "before", true);
    cr_expect_eq(count_files(at("root/.users/alice")), 1);
}

Test(data_file, a_failed_sync_of_the_folder_is_not_acknowledged)
{
    upload("alice", "x.csv", "before");
    break_call(SYS_fsync, EIO, -1, 0);
    cr_expect_eq(upload("alice", "x.csv", "after"), ERR_IO);
    cr_expect_eq(data_file_delete(root, "alice", "x.csv", &info), ERR_IO);
    struct upload *first;
    cr_expect_eq(upload_begin(&first, root, "bob", "x.csv", BUDGET, &info), ERR_IO);
    cr_expect_null(first);
}

Test(data_file, an_upload_without_room_for_folders_is_refused)
{
    break_call(SYS_mkdirat, ENOSPC, -1, 0);
    cr_expect_eq(upload("alice", "x.csv", "x"), ERR_NO_SPACE);
}

Test(data_file, what_a_crash_left_is_swept_and_what_is_under_way_is_not)
{
    struct data_root *other;
    struct upload *under_way;
    struct upload_result result;
    upload("alice", "kept.csv", "kept");
    put(at("root/.users/alice/.upload-0123456789abcdef"), "left by a crash");
    mkfifo(at("root/.users/alice/.upload-fifo"), 0600);
    cr_assert_eq(symlink("../../../outside/secret", at("root/.users/alice/.upload-link")), 0);
    put(at("root/.users/.upload-not-a-folder"), "x");
    put(at("root/.users/alice/.other"), "x");
    cr_assert_eq(upload_begin(&under_way, root, "alice", "new.csv", 6, &info), ERR_OK);
    cr_assert_eq(upload_write(under_way, "abc", 3, &info), ERR_OK);
    cr_assert_eq(data_root_open(&other, at("root"), &info), ERR_OK);
    data_root_close(other);
    cr_expect_neq(access(at("root/.users/alice/.upload-0123456789abcdef"), F_OK), 0);
    cr_expect_eq(access(at("root/.users/alice/.other"), F_OK), 0);
    cr_expect_eq(access(at("outside/secret"), F_OK), 0);
    cr_expect_eq(upload_commit(under_way, &result, &info), ERR_OK, "%s", info.message);
    expect_content("alice", "kept.csv", "kept", true);
    expect_content("alice", "new.csv", "abc", true);
}

static struct upload *bounded(const char *name, uint64_t own_bytes)
{
    struct upload *upload;
    cr_assert_eq(upload_begin(&upload, root, "alice", name, BUDGET, &info), ERR_OK);
    cr_assert_eq(upload_bound(upload, own_bytes, 0, &info), ERR_OK, "%s", info.message);
    return upload;
}

Test(data_file, files_of_one_user_are_bounded_together_the_replaced_one_aside)
{
    struct upload_result result;
    upload("alice", "kept.csv", "four");
    upload("alice", "old.csv", "1234567890");
    upload("bob", "his.csv", "1234567890");
    struct upload *new = bounded("old.csv", 14);
    cr_expect_eq(upload_write(new, "1234567890", 10, &info), ERR_OK);
    cr_expect_eq(upload_commit(new, &result, &info), ERR_OK, "%s", info.message);
    new = bounded("old.csv", 14);
    cr_expect_eq(upload_write(new, "12345678901", 11, &info), ERR_QUOTA);
    cr_expect_eq(count_files(at("root/.users/alice")), 2, "what was refused takes up room");
    cr_expect_eq(upload_commit(new, &result, &info), ERR_QUOTA);
    expect_content("alice", "old.csv", "1234567890", true);
}

Test(data_file, uploads_at_the_same_time_do_not_exceed_the_bound_together)
{
    struct upload_result result;
    struct upload *first = bounded("a.csv", 14), *second = bounded("b.csv", 14);
    cr_expect_eq(upload_write(first, "12345678", 8, &info), ERR_OK);
    cr_expect_eq(upload_write(second, "12345678", 8, &info), ERR_OK);
    cr_expect_eq(upload_commit(first, &result, &info), ERR_QUOTA);
    cr_expect_eq(upload_commit(second, &result, &info), ERR_OK, "%s", info.message);
}

Test(data_file, an_upload_leaves_what_is_to_stay_free)
{
    struct upload *upload;
    cr_assert_eq(upload_begin(&upload, root, "alice", "x.csv", BUDGET, &info), ERR_OK);
    cr_expect_eq(upload_bound(upload, UINT64_MAX, UINT64_MAX / 2, &info), ERR_NO_SPACE);
    cr_expect_eq(upload_write(upload, "abc", 3, &info), ERR_NO_SPACE);
    upload_abort(upload);
    cr_expect_eq(count_files(at("root/.users/alice")), 0);
}

struct contender {
    char user[16];
    char text[2];
    size_t failures;
};

static void *contend(void *context)
{
    struct contender *contender = context;
    struct upload_result result;
    struct err_info own;
    for (size_t i = 0; i < 50; i++) {
        struct upload *upload;
        if (upload_begin(&upload, root, contender->user, "same.csv", 100, &own) != ERR_OK) {
            contender->failures++;
            continue;
        }
        for (size_t j = 0; j < 20; j++)
            upload_write(upload, contender->text, 1, &own);
        contender->failures += upload_commit(upload, &result, &own) != ERR_OK;
    }
    return NULL;
}

Test(data_file, uploads_of_the_same_name_do_not_mix)
{
    struct contender contenders[4] = {{.text = "a"}, {.text = "b"}, {.text = "c"}, {.text = "d"}};
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        strcpy(contenders[i].user, "alice");
        cr_assert_eq(pthread_create(&threads[i], NULL, contend, &contenders[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(contenders[i].failures, 0);
    }
    struct data_file file;
    char *bytes, sha256[DATA_FILE_SHA256_HEX];
    size_t size;
    cr_assert_eq(data_file_open(root, "alice", "same.csv", &file, &info), ERR_OK);
    cr_assert_eq(data_file_read(&file, BUDGET, &bytes, &size, sha256, &info), ERR_OK);
    cr_expect_eq(size, 20);
    cr_expect_eq(strspn(bytes, (char[]){bytes[0], '\0'}), 20);
    free(bytes);
    data_file_close(&file);
    cr_expect_eq(count_files(at("root/.users/alice")), 1);
}
