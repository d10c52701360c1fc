/* Files of the data root: what is read of them is whole, and lists have what can be opened. */
#include "tests/unit/server/data/data_root_fixture.h"

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
    cr_expect_str_eq(info.message,
                     "\"shared.csv\" is a shared file; only your own uploads can be deleted");
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
