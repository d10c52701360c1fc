/* A data root in a folder of the test, and beside it a secret that must not be read. */
#ifndef BARKER_TESTS_DATA_ROOT_FIXTURE_H
#define BARKER_TESTS_DATA_ROOT_FIXTURE_H

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

extern char top[];
extern struct data_root *root;
extern struct err_info info;

/* A path below the test's folder, valid until the eighth call after it. */
static inline const char *at(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline const char *at(const char *format, ...)
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

static inline void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    fputs(text, file);
    fclose(file);
}

/* Makes a system call fail from now on, in this process; with `argument` >= 0 only when that
 * argument has the given value. */
static inline void break_call(int call, int number, int argument, unsigned value)
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

static inline void expect_content(const char *user, const char *path, const char *text, bool own)
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

static inline enum err upload(const char *user, const char *name, const char *text)
{
    struct upload *upload;
    struct upload_result result;
    enum err err = upload_begin(&upload, root, user, name, BUDGET, &info);
    if (err != ERR_OK)
        return err;
    upload_write(upload, text, strlen(text), &info);
    return upload_commit(upload, &result, &info);
}

static inline void limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

struct listed {
    char text[2000];
    size_t count, stop_after;
};

static inline bool note_entry(void *context, const struct data_file_entry *entry)
{
    struct listed *listed = context;
    size_t length = strlen(listed->text);
    snprintf(listed->text + length, sizeof listed->text - length, "%s%s %llu\n", entry->path,
             entry->own ? " own" : "", (unsigned long long)entry->size);
    cr_expect_gt(entry->modified.tv_sec, 1600000000);
    return ++listed->count != listed->stop_after;
}

static inline void expect_list(const char *user, const char *text)
{
    struct listed listed = {0};
    cr_assert_eq(data_file_list(root, user, note_entry, &listed, &info), ERR_OK, "%s",
                 info.message);
    cr_expect_str_eq(listed.text, text);
}

#endif
