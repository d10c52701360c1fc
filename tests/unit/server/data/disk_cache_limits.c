/* The disk cache within its limits, and while its files are in use. */
#include "server/base/disk.h"
#include "tests/unit/server/data/disk_cache_fixture.h"

#include <sys/statvfs.h>

/* ---- limits ---- */

static const struct data *get_numbered(int i)
{
    char name[NAME];
    snprintf(name, sizeof name, "n%d.csv", i);
    struct data_spec spec = {.path = name, .response = "y"};
    return get(&spec, DATA_REGRESSION);
}

static void put_numbered(int count)
{
    for (int i = 0; i < count; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "n%d.csv", i);
        put_rows(name, 3000, i);
    }
}

/* Room for three files. */
static void limit_to_three(size_t budget)
{
    memory_cache_put(cache, get_train());
    struct stat status;
    cr_assert_eq(stat(only_file(), &status), 0);
    cr_assert_eq(unlink(only_file()), 0);
    limits.bytes = 3 * (uint64_t)status.st_size + 1000;
    start(budget, 0);
}

Test(disk_cache, the_least_recently_used_is_removed_first)
{
    put_numbered(4);
    limit_to_three(1);
    for (int i = 0; i < 3; i++) {
        memory_cache_put(cache, get_numbered(i));
        struct timespec times[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        DIR *folder = opendir(at("cache"));
        for (struct dirent *item; (item = readdir(folder)) != NULL;) {
            struct stat status;
            fstatat(dirfd(folder), item->d_name, &status, 0);
            if (status.st_mtime > 1000000)
                utimensat(dirfd(folder), item->d_name, times, 0);
        }
        closedir(folder);
    }
    memory_cache_put(cache, get_numbered(0)); /* now 1 is the oldest */
    memory_cache_put(cache, get_numbered(3));
    cr_expect_eq(stats().files, 3);
    cr_expect_eq(stats().removed, 1);
    uint64_t made = stats().made;
    memory_cache_put(cache, get_numbered(0));
    memory_cache_put(cache, get_numbered(2));
    cr_expect_eq(stats().made, made, "0 or 2 was removed instead of 1");
}

Test(disk_cache, what_is_mapped_stays)
{
    put_numbered(5);
    limit_to_three(1);
    const struct data *held[3];
    for (int i = 0; i < 3; i++)
        held[i] = get_numbered(i);
    struct data_spec spec = {.path = "n3.csv", .response = "y"};
    const struct data *none;
    cr_expect_eq(try_get(&spec, DATA_REGRESSION, &none), ERR_NO_SPACE);
    cr_expect_not_null(strstr(said.message, "cache_mb"), "%s", said.message);
    cr_expect_eq(stats().files, 3);
    memory_cache_put(cache, held[1]);
    memory_cache_put(cache, get_numbered(3));
    cr_expect_eq(stats().files, 3);
    cr_expect_eq(((const double *)held[0]->train.x)[0], 0.5);
    memory_cache_put(cache, held[0]);
    memory_cache_put(cache, held[2]);
}

Test(disk_cache, without_room_on_disk_data_go_to_memory)
{
    limits.bytes = 5000;
    start(BUDGET, 0);
    const struct data *data = get_train();
    cr_expect_not(data->mapped);
    cr_expect_eq(data->train.N, 3000);
    cr_expect_eq(files_there(), 0);
    memory_cache_put(cache, data);
}

/* Other programs write meanwhile: three quarters and a half of the free space are more than all of it. */
Test(disk_cache, space_that_is_promised_to_others_is_left_to_them)
{
    struct statvfs space;
    struct err_info info;
    cr_assert_eq(statvfs(disk_top, &space), 0);
    uint64_t room = (uint64_t)space.f_bavail * space.f_frsize;
    int fd = open(disk_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    limits.free_bytes = room / 2;
    start(BUDGET, 0);
    cr_assert_eq(disk_reserve(fd, 0, room / 4 * 3, "a copy", &info), ERR_OK, "%s", info.message);
    const struct data *data = get_train();
    cr_expect_not(data->mapped);
    cr_expect_eq(files_there(), 0);
    memory_cache_put(cache, data);
    disk_release(room / 4 * 3);
    start(1, 0);
    memory_cache_put(cache, get_train());
    cr_expect_eq(files_there(), 1);
    cr_expect_eq(disk_reserve(fd, 0, room / 4 * 3, "a copy", &info), ERR_OK,
                 "nothing is left promised");
    disk_release(room / 4 * 3);
    close(fd);
}

/* A full disk, as a limit on the size of files makes it. */
Test(disk_cache, a_full_disk_leaves_nothing_behind)
{
    struct rlimit small = {.rlim_cur = 20000, .rlim_max = RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    const struct data *data = get_train();
    cr_expect_eq(data->train.N, 3000);
    cr_expect_eq(files_there(), 0);
    memory_cache_put(cache, data);
    start(1, 0);
    struct data_spec spec = {.path = "train.csv", .response = "y"};
    cr_expect_eq(try_get(&spec, DATA_REGRESSION, &data), ERR_NO_SPACE);
    cr_expect_not_null(strstr(said.message, "memory"), "%s", said.message);
    cr_expect_eq(files_there(), 0);
    small.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    data = get_train();
    cr_expect(data->mapped, "there is room again");
    memory_cache_put(cache, data);
}

Test(disk_cache, mistakes_are_those_of_reading_it_whole)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"a,y\n1,0\ntwo,1\n", "line 3, column 1 (a): \"two\" is not a number"},
        {"a,y\n1,0\n\n2,1\n", "line 3 is blank"},
        {"a,y\n", "has a header but no rows"},
        {"a,b\n1,2\n", "has no column \"y\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct data_spec spec = {.path = "wrong.csv", .response = "y"};
        const struct data *data;
        put_bytes("wrong.csv", wrong[i].text, strlen(wrong[i].text));
        cr_expect_eq(try_get(&spec, DATA_REGRESSION, &data), ERR_INVALID);
        cr_expect_not_null(strstr(said.message, wrong[i].says), "%s", said.message);
        cr_expect_eq(files_there(), 0);
    }
}

/* ---- while it is in use ---- */

Test(disk_cache, a_mapped_file_that_is_cut_short_is_noticed_and_kills_nobody)
{
    put_rows("train.csv", 100000, 1);
    start(1, 0);
    const struct data *data = get_train();
    const double *x = data->train.x;
    size_t last = (data->train.N - 1) * data->train.stride;
    cr_expect_gt(x[last], 0.0);
    cr_expect_not(data_broken(data));
    cr_assert_eq(truncate(only_file(), 8192), 0);
    cr_expect_eq(x[last], 0.0);
    cr_expect_eq(x[last / 2], 0.0);
    cr_expect(data_broken(data));
    const struct data *again = get_train();
    cr_expect_neq(data, again, "nobody else gets the broken one");
    cr_expect_not(data_broken(again));
    cr_expect_gt(((const double *)again->train.x)[last], 0.0);
    memory_cache_put(cache, data);
    memory_cache_put(cache, again);
}

Test(disk_cache, other_bus_errors_still_end_the_process, .signal = SIGBUS)
{
    start(1, 0);
    const struct data *data = get_train();
    cr_assert_not_null(data);
    teardown(); /* nobody comes to it any more */
    raise(SIGBUS);
}

Test(disk_cache, a_removed_file_goes_on_serving_those_who_have_it)
{
    start(1, 0);
    const struct data *data = get_train();
    cr_assert_eq(unlink(only_file()), 0);
    cr_expect_eq(((const double *)data->train.x)[0], 1.5);
    cr_expect_not(data_broken(data));
    memory_cache_put(cache, data);
    memory_cache_put(cache, get_train());
    cr_expect_eq(files_there(), 1);
}

static void *come_and_go(void *number)
{
    size_t wrong = 0;
    for (int i = 0; i < 20; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "n%d.csv", (*(int *)number + i) % 4);
        struct data_spec spec = {.path = name, .response = "y"};
        struct mistakes mistakes = {0};
        struct err_info info = {0};
        const struct data *data = NULL;
        enum err code =
            memory_cache_get(cache, "ada", &spec, DATA_REGRESSION, &data, &mistakes, &info);
        if (code == ERR_OK) {
            wrong += data->train.N != 3000 || data->train.y[1] == data->train.y[2];
            memory_cache_put(cache, data);
        } else {
            wrong += code != ERR_NO_SPACE && code != ERR_UNAVAILABLE;
        }
    }
    return (void *)wrong;
}

Test(disk_cache, many_at_once_under_pressure_get_what_they_asked_for)
{
    pthread_t threads[6];
    int numbers[6];
    put_numbered(4);
    limit_to_three(1);
    for (int i = 0; i < 6; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, come_and_go, &numbers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        cr_expect_null(wrong);
    }
    cr_expect_leq(stats().bytes, limits.bytes);
    cr_expect_eq(memory_cache_mapped(cache), 0);
}
