/* Uploads into the data root are all or nothing, private and bounded. */
#include "server/base/permit.h"
#include "tests/unit/server/data/data_root_fixture.h"

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

static enum err refuse(void *ctx, struct err_info *why)
{
    return err_set(why, ERR_UNAUTHENTICATED, "%s", (const char *)ctx);
}

Test(data_file, an_upload_is_not_kept_for_who_may_not_any_more)
{
    struct upload *upload;
    struct upload_result result;
    struct permit permit = {.ask = refuse, .ctx = "too late"};
    cr_assert_eq(upload_begin(&upload, root, "alice", "x.csv", 6, &info), ERR_OK);
    cr_assert_eq(upload_write(upload, "abc", 3, &info), ERR_OK);
    permit_set(&permit);
    cr_expect_eq(upload_commit(upload, &result, &info), ERR_UNAUTHENTICATED);
    cr_expect_str_eq(info.message, "too late");
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
    struct upload_bounds bounds = {.bytes = own_bytes, .files = 2};
    cr_assert_eq(upload_bound(upload, &bounds, &info), ERR_OK, "%s", info.message);
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
    cr_expect_eq(upload_write(second, "123456", 6, &info), ERR_OK);
    struct data_usage usage;
    data_file_usage(root, "alice", &usage);
    cr_expect_eq(usage.files, 2);
    cr_expect_eq(usage.bytes, 14);
    cr_expect_eq(upload_write(second, "7", 1, &info), ERR_QUOTA);
    upload_abort(second); /* what it had is the others' again */
    cr_expect_eq(upload_write(first, "901234", 6, &info), ERR_OK);
    cr_expect_eq(upload_commit(first, &result, &info), ERR_OK, "%s", info.message);
    data_file_usage(root, "alice", &usage);
    cr_expect_eq(usage.bytes, 14);
    cr_assert_eq(upload_begin(&second, root, "alice", "b.csv", BUDGET, &info), ERR_OK);
    struct upload_bounds bounds = {.bytes = 20, .files = 1};
    cr_expect_eq(upload_bound(second, &bounds, &info), ERR_QUOTA);
    upload_abort(second);
}

Test(data_file, an_upload_leaves_what_is_to_stay_free)
{
    struct upload *upload;
    cr_assert_eq(upload_begin(&upload, root, "alice", "x.csv", BUDGET, &info), ERR_OK);
    struct upload_bounds bounds = {
        .bytes = UINT64_MAX, .files = UINT64_MAX, .free_bytes = UINT64_MAX / 2};
    cr_expect_eq(upload_bound(upload, &bounds, &info), ERR_NO_SPACE);
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
