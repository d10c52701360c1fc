/* The data root: who finds what, and that nothing leads out of it. Each test has a folder of its own
 * with the root, and beside it a secret that must not be read. */
#include "tests/unit/server/data/data_root_fixture.h"

char top[] = "/tmp/data_file-XXXXXX";
struct data_root *root;
struct err_info info;

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

static void expect_refusal(const char *path, enum err code, const char *words)
{
    struct data_file file;
    info.message[0] = '\0';
    enum err err = data_file_open(root, "alice", path, &file, &info);
    cr_expect_eq(err, code, "\"%s\": %s, %s", path, err_name(err), info.message);
    cr_expect(strstr(info.message, words) != NULL, "\"%s\": %s", path, info.message);
    cr_expect_eq(file.fd, -1);
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

/* They would lead out of the root, or hold what is not allowed in a name. */
static const char *const outside_the_rules[] = {"",
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
                                                "..;/outside/secret"};

Test(data_file, paths_outside_the_rules_are_refused)
{
    for (size_t i = 0; i < sizeof outside_the_rules / sizeof *outside_the_rules; i++)
        expect_refusal(outside_the_rules[i], ERR_INVALID, "is not a data path; allowed are");
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
        expect_refusal(links[i].link, ERR_INVALID, "is a symbolic link or leads through one");
    }
    cr_assert_eq(symlink("../outside", at("root/folder")), 0);
    expect_refusal("folder/secret", ERR_INVALID, "is a symbolic link or leads through one");
    expect_refusal("up/outside/secret", ERR_INVALID, "is a symbolic link or leads through one");
    expect_refusal("itself/shared.csv", ERR_INVALID, "is a symbolic link or leads through one");
    cr_assert_eq(symlink("/proc/self/root", at("root/magic")), 0);
    expect_refusal("magic/etc/passwd", ERR_INVALID, "is a symbolic link or leads through one");
}

Test(data_file, links_in_the_users_own_folder_are_refused)
{
    cr_assert_eq(upload("alice", "mine.csv", "mine"), ERR_OK);
    cr_assert_eq(symlink("../../../outside/secret", at("root/.users/alice/shared.csv")), 0);
    expect_refusal("shared.csv", ERR_INVALID, "is a symbolic link or leads through one");
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
    expect_refusal("shared.csv", ERR_UNAVAILABLE, "cannot be opened at present");
}

Test(data_file, running_out_of_descriptors_is_temporary)
{
    limit_descriptors(3);
    expect_refusal("shared.csv", ERR_UNAVAILABLE,
                   "cannot be opened at present: Too many open files");
    cr_expect_eq(upload("alice", "x.csv", "x"), ERR_UNAVAILABLE);
    cr_expect_str_eq(info.message, "\"x.csv\" cannot be stored at present: Too many open files");
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
