/* Disk space is promised once. */
#include "server/base/disk.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

TestSuite(disk);

static struct err_info info;

/* Other programs write meanwhile: three quarters leave them a quarter. */
Test(disk, what_is_promised_is_not_promised_again_until_it_is_settled)
{
    struct statvfs disk;
    int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(fstatvfs(fd, &disk), 0);
    uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize, most = room / 4 * 3;
    cr_assert_eq(disk_reserve(fd, 0, most, "it", &info), ERR_OK, "%s", info.message);
    cr_expect_eq(disk_reserve(fd, 0, most, "it", &info), ERR_NO_SPACE);
    cr_expect_not_null(strstr(info.message, "about to be written"), "%s", info.message);
    disk_release(most);
    cr_expect_eq(disk_reserve(fd, 0, most, "it", &info), ERR_OK);
    disk_release(most);
    cr_expect_eq(disk_reserve(fd, 2 * room, 0, "it", &info), ERR_NO_SPACE);
    cr_expect_eq(disk_reserve(fd, 0, UINT64_MAX, "it", &info), ERR_NO_SPACE);
    close(fd);
}

Test(disk, where_the_free_space_cannot_be_read_none_is_promised)
{
    cr_expect_eq(disk_reserve(-1, 0, 1, "it", &info), ERR_NO_SPACE);
}
