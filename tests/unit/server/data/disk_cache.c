/* Large data files through their binary form: the same bytes as without, made once, never trusted
 * when damaged, within their limits. */
#include "tests/unit/server/data/disk_cache_fixture.h"

char disk_top[] = "/tmp/barker-disk-XXXXXX";
struct data_root *disk_root;
struct disk_cache *disk;
struct memory_cache *cache;

struct disk_cache_limits limits = {.bytes = (uint64_t)1 << 30};

static void setup(void)
{
    struct err_info info = {0};
    cr_assert_not_null(mkdtemp(disk_top));
    cr_assert_eq(data_root_open(&disk_root, disk_top, &info), ERR_OK, "%s", info.message);
    put_rows("train.csv", 3000, 1);
    put_rows("test.csv", 77, 5);
    start(BUDGET, 0);
}

TestSuite(disk_cache, .init = setup, .fini = teardown);

struct err_info said;

/* ---- the same bytes ---- */

static bool same_bytes(const void *a, const void *b, size_t size)
{
    return (a == NULL) == (b == NULL) && (a == NULL || memcmp(a, b, size) == 0);
}

static void expect_same_set(const struct dataset *a, const struct dataset *b)
{
    size_t size = a->precision == PRECISION_SINGLE ? sizeof(float) : sizeof(double);
    cr_assert_eq(a->kind, b->kind);
    cr_assert_eq(a->precision, b->precision);
    cr_assert_eq(a->N, b->N);
    cr_assert_eq(a->columns, b->columns);
    cr_assert_eq(a->stride, b->stride);
    cr_assert_eq(a->users, b->users);
    cr_assert_eq(a->items, b->items);
    cr_assert(same_bytes(a->x, b->x, a->N * a->stride * size));
    cr_assert(same_bytes(a->y, b->y, a->N * sizeof(double)));
    cr_assert(same_bytes(a->offset, b->offset, a->N * sizeof(double)));
    cr_assert(same_bytes(a->weight, b->weight, a->N * sizeof(double)));
    cr_assert(same_bytes(a->user, b->user, a->N * sizeof(uint32_t)));
    cr_assert(same_bytes(a->item, b->item, a->N * sizeof(uint32_t)));
    cr_assert_eq((uintptr_t)a->x % ALIGNMENT, 0);
    cr_assert_eq((uintptr_t)b->x % ALIGNMENT, 0);
}

static void expect_same(const struct data *a, const struct data *b)
{
    expect_same_set(&a->train, &b->train);
    cr_assert_eq(a->has_test, b->has_test);
    if (a->has_test)
        expect_same_set(&a->test, &b->test);
    cr_assert_str_eq(a->sha256, b->sha256);
    cr_assert_eq(a->bytes, b->bytes);
    cr_assert_eq(a->name_count, b->name_count);
    for (size_t k = 0; k < a->name_count; k++)
        cr_assert_str_eq(a->names[k], b->names[k]);
}

static void put_npy(const char *name, bool fortran)
{
    char text[71];
    double values[3000];
    snprintf(text, sizeof text, "{'descr': '<f8', 'fortran_order': %s, 'shape': (1000, 3)}",
             fortran ? "True" : "False");
    for (size_t i = 0; i < 3000; i++)
        values[i] = (double)(i % 911) / 7.0;
    FILE *file = fopen(at(name), "w");
    cr_assert_not_null(file);
    fwrite("\x93NUMPY\x01\x00\x46\x00", 1, 10, file);
    fprintf(file, "%-69s\n", text);
    fwrite(values, sizeof(double), 3000, file);
    fclose(file);
}

static void put_triplets(const char *name)
{
    FILE *file = fopen(at(name), "w");
    fprintf(file, "rating,item,user\n");
    for (int i = 0; i < 500; i++)
        fprintf(file, "%d.25,%d,%d\n", i % 5, 1 + i % 41, 1 + i % 97);
    fclose(file);
}

static void put_packed(const char *name)
{
    gzFile file = gzopen(at(name), "w");
    gzprintf(file, "a,b,y\n");
    for (int i = 0; i < 2000; i++)
        gzprintf(file, "%d,%d,%d\n", i % 17, i, i % 2);
    gzclose(file);
}

static char *some[] = {"b", "a"};
static const struct {
    struct data_spec spec;
    enum data_kind kind;
} cases[] = {
    {{.path = "train.csv", .response = "y"}, DATA_REGRESSION},
    {{.path = "train.csv", .test = "test.csv", .response = "y"}, DATA_REGRESSION},
    {{.path = "train.csv", .response = "y", .precision = DATA_SINGLE}, DATA_REGRESSION},
    {{.path = "train.csv", .response = "y", .intercept = true, .standardize = true},
     DATA_REGRESSION},
    {{.path = "train.csv", .test = "test.csv", .response = "y", .columns = some, .column_count = 2},
     DATA_REGRESSION},
    {{.path = "train.csv", .response = "y", .columns = some + 1, .column_count = 1},
     DATA_REGRESSION},
    {{.path = "train.csv", .test = "test.csv", .response = "y", .offset = "b"}, DATA_REGRESSION},
    {{.path = "train.csv", .test = "test.csv", .response = "y", .weights = "b"}, DATA_REGRESSION},
    {{.path = "train.csv"}, DATA_ROWS},
    {{.path = "c.npy", .test = "f.npy"}, DATA_ROWS},
    {{.path = "f.npy", .standardize = true}, DATA_ROWS},
    {{.path = "ratings.csv", .test = "ratings.csv"}, DATA_TRIPLETS},
    {{.path = "packed.csv.gz", .response = "y"}, DATA_REGRESSION},
};
#define CASES (sizeof cases / sizeof *cases)

static void put_all(void)
{
    put_npy("c.npy", false);
    put_npy("f.npy", true);
    put_triplets("ratings.csv");
    put_packed("packed.csv.gz");
}

/* Whole in memory, in pieces to memory, made now, found again, found and mapped. */
Test(disk_cache, data_are_the_same_whichever_way_they_come)
{
    put_all();
    for (size_t i = 0; i < CASES; i++) {
        const struct data_spec *spec = &cases[i].spec;
        struct memory_cache *plain = memory_cache_new(disk_root, BUDGET),
                            *pieces = memory_cache_new(disk_root, BUDGET);
        const struct data *expected = NULL, *data = NULL;
        struct mistakes mistakes = {0};
        struct err_info info = {0};
        memory_cache_use_disk(plain, NULL, UINT64_MAX);
        memory_cache_use_disk(pieces, NULL, 0);
        cr_assert_eq(
            memory_cache_get(plain, "ada", spec, cases[i].kind, &expected, &mistakes, &info),
            ERR_OK);
        cr_assert_eq(memory_cache_get(pieces, "ada", spec, cases[i].kind, &data, &mistakes, &info),
                     ERR_OK);
        expect_same(expected, data);
        memory_cache_put(pieces, data);
        for (int again = 0; again < 2; again++) {
            start(BUDGET, 0);
            data = get(spec, cases[i].kind);
            cr_assert_not(data->mapped);
            cr_assert_eq(stats().hits, again);
            cr_assert_eq(stats().made, 1 - again);
            expect_same(expected, data);
            memory_cache_put(cache, data);
        }
        start(1, 0);
        data = get(spec, cases[i].kind);
        cr_assert(data->mapped);
        expect_same(expected, data);
        memory_cache_put(cache, data);
        memory_cache_put(plain, expected);
        memory_cache_free(plain);
        memory_cache_free(pieces);
    }
    cr_expect_eq(stats().files, CASES);
}

Test(disk_cache, small_files_need_none)
{
    start(BUDGET, 1 << 20);
    memory_cache_put(cache, get_train());
    cr_expect_eq(files_there(), 0);
}

Test(disk_cache, mapped_data_take_no_memory)
{
    start(1, 0);
    const struct data *data = get_train();
    size_t bytes, entries;
    memory_cache_stats(cache, &bytes, &entries);
    cr_expect_eq(bytes, 0);
    cr_expect_eq(entries, 1);
    cr_expect_eq(memory_cache_mapped(cache), data->bytes);
    memory_cache_put(cache, data);
    cr_expect_eq(memory_cache_mapped(cache), 0);
}

Test(disk_cache, what_memory_has_no_room_for_now_is_mapped)
{
    put_rows("other.csv", 3000, 2);
    struct data_spec spec = {.path = "other.csv", .response = "y"};
    const struct data *first = get_train();
    start(2 * first->bytes + 100, 0); /* half of it is for one user */
    first = get_train();
    const struct data *second = get(&spec, DATA_REGRESSION);
    cr_expect_not(first->mapped);
    cr_expect(second->mapped);
    memory_cache_put(cache, first);
    memory_cache_put(cache, second);
}

/* ---- damage ---- */

static const struct {
    const char *what;
    long offset; /* from the end when negative */
    int cut;     /* bytes cut off or added instead of a changed byte */
} damages[] = {
    {"the magic", 0, 0},         {"the version", 8, 0},     {"the key", 45, 0},
    {"the sizes", 700, 0},       {"the names", 4097, 0},    {"the first value", 8192, 0},
    {"a value", 60001, 0},       {"a response", -4200, 0},  {"the last page missing", 0, -4096},
    {"a byte missing", 0, -1},   {"a byte too many", 0, 1}, {"all but the head", 0, -1000000},
    {"everything", 0, -2000000},
};

static void damage(const char *path, size_t i)
{
    struct stat status;
    char byte;
    int fd = open(path, O_RDWR);
    cr_assert_geq(fd, 0);
    cr_assert_eq(fstat(fd, &status), 0);
    off_t size = status.st_size + damages[i].cut;
    if (damages[i].cut != 0) {
        cr_assert_eq(ftruncate(fd, damages[i].cut == -1000000   ? 4096
                                   : damages[i].cut == -2000000 ? 0
                                                                : size),
                     0);
    } else {
        off_t offset = damages[i].offset < 0 ? size + damages[i].offset : damages[i].offset;
        cr_assert_eq(pread(fd, &byte, 1, offset), 1);
        byte = (char)(byte ^ 4);
        cr_assert_eq(pwrite(fd, &byte, 1, offset), 1);
    }
    close(fd);
}

Test(disk_cache, a_damaged_file_is_made_again)
{
    struct memory_cache *plain = memory_cache_new(disk_root, BUDGET);
    struct data_spec spec = {.path = "train.csv", .response = "y"};
    struct mistakes mistakes = {0};
    struct err_info info = {0};
    const struct data *expected = NULL;
    cr_assert_eq(
        memory_cache_get(plain, "ada", &spec, DATA_REGRESSION, &expected, &mistakes, &info),
        ERR_OK);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
        for (size_t budget = 1; budget <= BUDGET; budget += BUDGET - 1) {
            start(budget, 0);
            memory_cache_put(cache, get_train());
            damage(only_file(), i);
            start(budget, 0);
            const struct data *data = get_train();
            expect_same(expected, data);
            bool head_is_whole = damages[i].cut == 0 && labs(damages[i].offset) >= 4096;
            cr_expect_eq(stats().damaged, head_is_whole, "%s", damages[i].what);
            memory_cache_put(cache, data);
            start(budget, 0);
            memory_cache_put(cache, get_train());
            cr_expect_eq(stats().damaged, 0, "%s: still there", damages[i].what);
            cr_expect_eq(stats().made, 0, "%s: not made again", damages[i].what);
        }
    memory_cache_put(plain, expected);
    memory_cache_free(plain);
}

Test(disk_cache, a_file_under_the_name_of_another_is_not_used)
{
    char first[300];
    put_rows("other.csv", 3000, 2);
    struct data_spec spec = {.path = "other.csv", .response = "y"};
    memory_cache_put(cache, get_train());
    snprintf(first, sizeof first, "%s", only_file());
    cr_assert_eq(rename(first, at("aside")), 0);
    memory_cache_put(cache, get(&spec, DATA_REGRESSION));
    cr_assert_eq(rename(only_file(), first), 0);
    start(BUDGET, 0);
    const struct data *data = get_train();
    cr_expect_eq(((const double *)data->train.x)[0], 1.5);
    cr_expect_eq(stats().damaged, 1);
    memory_cache_put(cache, data);
}

Test(disk_cache, foreign_files_are_left_alone)
{
    cr_assert_eq(mkdir(at("cache"), 0700), -1);
    put_bytes("cache/notes.txt", "mine", 4);
    put_bytes("cache/new-0123456789abcdef", "left behind by a crash", 22);
    start(BUDGET, 0);
    memory_cache_put(cache, get_train());
    cr_expect_eq(access(at("cache/notes.txt"), F_OK), 0);
    cr_expect_neq(access(at("cache/new-0123456789abcdef"), F_OK), 0);
    cr_expect_eq(stats().files, 1);
}

/* ---- sources ---- */

Test(disk_cache, changed_sources_have_another_file)
{
    memory_cache_put(cache, get_train());
    struct stat before;
    cr_assert_eq(stat(at("train.csv"), &before), 0);
    put_rows("train.csv", 3000, 2);
    struct stat after;
    cr_assert_eq(stat(at("train.csv"), &after), 0);
    cr_assert_eq(before.st_size, after.st_size, "the hard case");
    start(BUDGET, 0);
    const struct data *data = get_train();
    cr_expect_eq(((const double *)data->train.x)[0], 2.5);
    memory_cache_put(cache, data);
    cr_expect_eq(stats().files, 2);
}

Test(disk_cache, the_same_content_elsewhere_is_found)
{
    memory_cache_put(cache, get_train());
    cr_assert_eq(rename(at("train.csv"), at("moved.csv")), 0);
    put_rows("train.csv", 3000, 1);
    start(BUDGET, 0);
    memory_cache_put(cache, get_train());
    cr_expect_eq(stats().files, 1);
    cr_expect_eq(stats().made, 0);
}

/* A file whose times are old enough is known by them: it need not be read. */
Test(disk_cache, a_source_that_did_not_change_is_not_read_again)
{
    struct data_file file = {.size = 7, .device = 1, .inode = 2};
    cr_expect_gt(disk_cache_source(&file).size, 0);
    clock_gettime(CLOCK_REALTIME, &file.modified);
    cr_expect_eq(disk_cache_source(&file).size, 0, "it may change within the same tick");
    file.modified.tv_sec -= 10;
    cr_expect_gt(disk_cache_source(&file).size, 0);
    clock_gettime(CLOCK_REALTIME, &file.changed);
    cr_expect_eq(disk_cache_source(&file).size, 0, "its times may have been set");
}

Test(disk_cache, sources_are_known_by_their_times_once_they_are_settled)
{
    char sha256[DATA_FILE_SHA256_HEX] = "", path[300];
    struct err_info info;
    struct data_file file = {.size = 12345, .device = 3, .inode = 4, .modified.tv_sec = 1000000};
    const struct data *data = get_train();
    snprintf(path, sizeof path, "%s", only_file());
    cr_expect_not(disk_cache_knows(disk, &file, sha256));
    struct cache_file_source sources[2] = {disk_cache_source(&file)};
    int fd = open(path, O_RDWR);
    cr_assert_eq(cache_file_set_sources(fd, sources, &info), ERR_OK);
    close(fd);
    cr_expect(disk_cache_knows(disk, &file, sha256));
    cr_expect_str_eq(sha256, data->sha256);
    file.modified.tv_nsec++;
    cr_expect_not(disk_cache_knows(disk, &file, sha256));
    memory_cache_put(cache, data);
}

static enum err pass(struct data_rows *rows, size_t *count)
{
    enum err code;
    *count = 0;
    do {
        code = data_rows_next(rows, &said);
        *count += rows->count;
    } while (code == ERR_OK && rows->count > 0);
    return code;
}

/* Even one whose size and time of change were put back. */
Test(disk_cache, a_source_that_changes_between_two_passes_is_a_conflict)
{
    struct data_file file;
    struct data_rows rows;
    size_t count;
    cr_assert_eq(data_file_open(disk_root, "ada", "train.csv", &file, &said), ERR_OK);
    cr_assert_eq(data_rows_open(&rows, &file, "train.csv", "/data/path",
                                &(struct data_rows_limits){.budget_bytes = BUDGET}, &said),
                 ERR_OK);
    cr_assert_eq(pass(&rows, &count), ERR_OK);
    cr_expect_eq(count, 3000);
    cr_assert_eq(data_rows_rewind(&rows, &said), ERR_OK);
    cr_assert_eq(pass(&rows, &count), ERR_OK);
    put_rows("train.csv", 3000, 2);
    struct timespec times[2] = {file.modified, file.modified};
    cr_assert_eq(utimensat(AT_FDCWD, at("train.csv"), times, 0), 0);
    cr_assert_eq(data_rows_rewind(&rows, &said), ERR_OK);
    cr_expect_eq(pass(&rows, &count), ERR_CONFLICT);
    data_rows_close(&rows);
    data_file_close(&file);
}

Test(disk_cache, every_array_begins_on_a_page_and_ends_with_room_behind_it)
{
    struct data_layout layout;
    for (size_t N = 500; N < 520; N++) { /* 512 rows are whole pages */
        struct data shape = {
            .has_test = true,
            .train = {.kind = DATA_REGRESSION, .N = N, .columns = 8, .stride = 8},
            .test = {.kind = DATA_TRIPLETS, .precision = PRECISION_DOUBLE, .N = 2 * N}};
        cr_assert(data_layout(&layout, &shape));
        size_t end = LAYOUT_HEAD, arrays = 0;
        for (int set = 0; set < 2; set++)
            for (int k = 0; k < LAYOUT_ARRAYS; k++) {
                const struct layout_array *a = &layout.arrays[set][k];
                if (a->bytes == 0)
                    continue;
                cr_expect_eq(a->offset % 4096, 0);
                cr_expect_geq(a->offset, end + (arrays > 0 ? 128 : 0));
                end = a->offset + a->bytes;
                arrays++;
            }
        cr_expect_eq(arrays, 5);
        cr_expect_geq(layout.size, end + 128);
    }
}
