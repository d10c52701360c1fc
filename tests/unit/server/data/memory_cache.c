/* The memory cache: data are loaded once and shared, within their budget, also by many threads. */
#include "tests/unit/server/data/prepare_fixture.h"

#define TRAIN "a,y,b,c\n1.5,0,10,7\n2.5,1,20,7\n4.5,1,60,7\n"

/* ---- the cache ---- */

static char top[] = "/tmp/barker-cache-XXXXXX";
static struct data_root *root;
static struct memory_cache *cache;

static void put_file(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", top, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void set_budget(size_t bytes)
{
    memory_cache_free(cache);
    cache = memory_cache_new(root, bytes);
    cr_assert_not_null(cache);
}

static void cache_setup(void)
{
    struct err_info info = {0};
    cr_assert_not_null(mkdtemp(top));
    cr_assert_eq(data_root_open(&root, top, &info), ERR_OK, "%s", info.message);
    put_file("train.csv", TRAIN);
    put_file("test.csv", "a,b,c,y\n1,2,3,1\n");
    set_budget(1 << 20);
}

static void cache_teardown(void)
{
    char command[64];
    memory_cache_free(cache);
    data_root_close(root);
    snprintf(command, sizeof command, "rm -rf %s", top);
    cr_assert_eq(system(command), 0);
}

TestSuite(memory_cache, .init = cache_setup, .fini = cache_teardown);

static enum err try_get_for(const char *user, const struct data_spec *spec, const struct data **out)
{
    struct mistakes mistakes = {0};
    struct err_info info = {0};
    return memory_cache_get(cache, user, spec, DATA_REGRESSION, out, &mistakes, &info);
}

static enum err try_get(const struct data_spec *spec, const struct data **out)
{
    return try_get_for("ada", spec, out);
}

static const struct data *get_data(const struct data_spec *spec)
{
    const struct data *data = NULL;
    cr_assert_eq(try_get(spec, &data), ERR_OK);
    cr_assert_not_null(data);
    return data;
}

static size_t held_bytes(void)
{
    size_t bytes, entries;
    memory_cache_stats(cache, &bytes, &entries);
    return bytes;
}

static size_t held_entries(void)
{
    size_t bytes, entries;
    memory_cache_stats(cache, &bytes, &entries);
    return entries;
}

Test(memory_cache, the_same_data_are_loaded_once)
{
    struct data_spec spec = {.path = "train.csv", .test = "test.csv", .response = "y"};
    const struct data *a = get_data(&spec), *b = get_data(&spec);
    cr_expect_eq(a, b);
    cr_expect_eq(held_entries(), 1);
    cr_expect_eq(held_bytes(), a->bytes);
    cr_expect_eq(a->train.N, 3);
    cr_expect(a->has_test);
    memory_cache_put(cache, a);
    memory_cache_put(cache, b);
    const struct data *again = get_data(&spec);
    cr_expect_eq(again, a, "what nobody uses stays while there is room");
    memory_cache_put(cache, again);
}

/* Whatever the prepared numbers depend on makes another entry. */
Test(memory_cache, other_preparations_are_other_data)
{
    static char *ab[] = {"a", "b"}, *ba[] = {"b", "a"}, *a[] = {"a"}, *none[] = {NULL};
    struct data_spec specs[] = {
        {.path = "train.csv", .response = "y"},
        {.path = "train.csv", .response = "c"},
        {.path = "train.csv", .response = "y", .test = "test.csv"},
        {.path = "test.csv", .response = "y"},
        {.path = "test.csv", .response = "y", .test = "train.csv"},
        {.path = "train.csv", .response = "y", .intercept = true},
        {.path = "train.csv", .response = "y", .intercept = true, .columns = none},
        {.path = "train.csv", .response = "y", .standardize = true},
        {.path = "train.csv", .response = "y", .precision = DATA_SINGLE},
        {.path = "train.csv", .response = "y", .precision = DATA_DOUBLE},
        {.path = "train.csv", .response = "y", .columns = ab, .column_count = 2},
        {.path = "train.csv", .response = "y", .columns = ba, .column_count = 2},
        {.path = "train.csv", .response = "y", .columns = a, .column_count = 1},
        {.path = "train.csv", .response = "c", .columns = a, .column_count = 1},
    };
    enum { count = sizeof specs / sizeof specs[0] };
    const struct data *data[count];
    for (size_t i = 0; i < count; i++) {
        data[i] = get_data(&specs[i]);
        for (size_t k = 0; k < i; k++)
            cr_expect_neq(data[i], data[k], "%zu and %zu are the same", i, k);
    }
    cr_expect_eq(held_entries(), count);
    for (size_t i = 0; i < count; i++)
        memory_cache_put(cache, data[i]);
}

/* Names are data: they must not run into each other in whatever tells entries apart. */
Test(memory_cache, odd_names_do_not_confuse_it)
{
    static char *a[] = {"a"};
    put_file("odd.csv", "\"y|1 a\",a,y\n1,2,0\n3,4,1\n");
    struct data_spec plain = {.path = "odd.csv", .response = "y", .columns = a, .column_count = 1};
    struct data_spec odd = {.path = "odd.csv", .response = "y|1 a"};
    const struct data *first = get_data(&plain), *second = get_data(&odd);
    cr_expect_neq(first, second);
    cr_expect_eq(second->train.columns, 2);
    memory_cache_put(cache, first);
    memory_cache_put(cache, second);
}

Test(memory_cache, a_changed_file_is_read_again)
{
    struct data_spec spec = {.path = "train.csv", .response = "y"};
    const struct data *before = get_data(&spec);
    put_file("train.csv", "a,y\n1,0\n2,1\n3,1\n4,0\n");
    const struct data *after = get_data(&spec);
    cr_expect_neq(before, after);
    cr_expect_str_neq(before->sha256, after->sha256);
    cr_expect_eq(after->train.N, 4);
    cr_expect_eq(before->train.N, 3, "who holds the old data keeps them");
    cr_expect_eq(get(&before->train, 2, 1), 60.0);
    memory_cache_put(cache, before);
    memory_cache_put(cache, after);
}

Test(memory_cache, users_share_what_is_shared_and_not_what_is_their_own)
{
    struct data_spec spec = {.path = "train.csv", .response = "y"};
    const struct data *data[3] = {NULL};
    struct mistakes mistakes = {0};
    struct err_info info = {0};
    struct upload *upload;
    struct upload_result result;
    cr_assert_eq(upload_begin(&upload, root, "eve", "train.csv", 1000, &info), ERR_OK);
    cr_assert_eq(upload_write(upload, "a,y\n1,0\n", 8, &info), ERR_OK);
    cr_assert_eq(upload_commit(upload, &result, &info), ERR_OK);
    static const char *const users[] = {"ada", "bob", "eve"};
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(
            memory_cache_get(cache, users[i], &spec, DATA_REGRESSION, &data[i], &mistakes, &info),
            ERR_OK);
    cr_expect_eq(data[0], data[1]);
    cr_expect_neq(data[0], data[2]);
    cr_expect_eq(data[2]->train.N, 1);
    for (size_t i = 0; i < 3; i++)
        memory_cache_put(cache, data[i]);
}

static void expect_hash(const char *got, const char *text)
{
    unsigned char hash[32];
    gnutls_hash_fast(GNUTLS_DIG_SHA256, text, strlen(text), hash);
    for (size_t i = 0; i < sizeof hash; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", hash[i]);
        cr_expect_eq(strncmp(got + 2 * i, digits, 2), 0, "byte %zu of %s", i, got);
    }
}

Test(memory_cache, the_hash_is_that_of_the_files)
{
    struct data_spec spec = {.path = "train.csv", .response = "y"};
    const struct data *data = get_data(&spec);
    cr_expect_eq(strlen(data->sha256), 64);
    expect_hash(data->sha256, TRAIN);
    memory_cache_put(cache, data);
    spec.test = "test.csv";
    data = get_data(&spec);
    cr_expect_eq(strlen(data->sha256), 129);
    expect_hash(data->sha256, TRAIN);
    cr_expect_eq(data->sha256[64], ':');
    expect_hash(data->sha256 + 65, "a,b,c,y\n1,2,3,1\n");
    memory_cache_put(cache, data);
}

/* ---- the budget ---- */

/* A file whose data take a known number of bytes: one covariate (four in single precision with
 * its padding) and a response. */
#define ROWS_BIG  1000
#define BYTES_BIG (ROWS_BIG * (4 * sizeof(float) + sizeof(double)))

static void put_rows(const char *name, int salt, int rows)
{
    char *text = calloc((size_t)rows + 1, 16);
    size_t length = (size_t)sprintf(text, "a,y\n");
    for (int i = 0; i < rows; i++)
        length += (size_t)sprintf(text + length, "%d,%d\n", (i + salt) % 97, i % 2);
    put_file(name, text);
    free(text);
}

static void put_big(const char *name, int salt)
{
    put_rows(name, salt, ROWS_BIG);
}

static const struct data *get_big(const char *name)
{
    struct data_spec spec = {.path = (char *)(uintptr_t)name, .response = "y"};
    const struct data *data = get_data(&spec);
    cr_assert_eq(data->bytes, BYTES_BIG);
    return data;
}

static void use_big(const char *name)
{
    memory_cache_put(cache, get_big(name));
}

static void three_big_ones(void)
{
    put_big("p.csv", 1);
    put_big("q.csv", 2);
    put_big("r.csv", 3);
}

Test(memory_cache, the_least_recently_used_goes_first)
{
    three_big_ones();
    set_budget(2 * BYTES_BIG + 100);
    use_big("p.csv");
    use_big("q.csv");
    const struct data *p = get_big("p.csv");
    memory_cache_put(cache, p); /* now q is the older one */
    use_big("r.csv");
    cr_expect_eq(held_entries(), 2);
    cr_expect_eq(held_bytes(), 2 * BYTES_BIG);
    const struct data *again = get_big("p.csv");
    cr_expect_eq(again, p, "p was thrown out instead of q");
    memory_cache_put(cache, again);
}

Test(memory_cache, what_is_in_use_is_never_thrown_out)
{
    three_big_ones();
    set_budget(2 * BYTES_BIG + 100);
    struct data_spec spec = {.path = "r.csv", .response = "y"};
    struct data_spec other = {.path = "q.csv", .response = "y"};
    const struct data *p = get_big("p.csv"), *q = NULL, *r = NULL;
    cr_assert_eq(try_get_for("bob", &other, &q), ERR_OK);
    cr_expect_eq(try_get_for("eve", &spec, &r), ERR_UNAVAILABLE);
    cr_expect_eq(held_bytes(), 2 * BYTES_BIG);
    cr_expect_eq(held_entries(), 2, "a failure leaves nothing behind");
    cr_expect_eq(p->train.N, ROWS_BIG);
    memory_cache_put(cache, p);
    r = get_big("r.csv");
    cr_expect_eq(q->train.y[1], 1.0);
    memory_cache_put(cache, q);
    memory_cache_put(cache, r);
}

Test(memory_cache, one_user_has_half_of_the_budget_in_use)
{
    three_big_ones();
    set_budget(2 * BYTES_BIG + 100);
    struct data_spec spec = {.path = "q.csv", .response = "y"};
    const struct data *p = get_big("p.csv"), *q = NULL, *shared = NULL;
    cr_expect_eq(try_get(&spec, &q), ERR_UNAVAILABLE, "ada has a half");
    cr_assert_eq(try_get_for("bob", &spec, &q), ERR_OK, "bob gets the other half");
    cr_expect_eq(try_get(&spec, &shared), ERR_OK, "what bob has loaded is there for ada");
    cr_expect_eq(shared, q);
    memory_cache_put(cache, shared);
    memory_cache_put(cache, q);
    memory_cache_put(cache, p);
    use_big("r.csv");
}

Test(memory_cache, what_exceeds_a_users_half_is_a_mistake)
{
    put_big("p.csv", 1);
    set_budget(2 * BYTES_BIG - 100);
    struct data_spec spec = {.path = "p.csv", .response = "y"};
    const struct data *data = NULL;
    struct mistakes mistakes = {0};
    struct err_info info = {0};
    cr_expect_eq(memory_cache_get(cache, "ada", &spec, DATA_REGRESSION, &data, &mistakes, &info),
                 ERR_INVALID);
    cr_assert_eq(mistakes.count, 1);
    cr_expect_str_eq(mistakes.items[0].pointer, "/data/path");
    cr_expect_eq(held_entries(), 0);
    cr_expect_null(data);
}

/* ---- failures ---- */

Test(memory_cache, mistakes_about_files_are_reported_and_leave_nothing_behind)
{
    put_file("bad.csv", "a,y\n1,0\ntwo,1\n");
    put_file("other.csv", "b,y\n1,0\n");
    static const struct {
        const char *path, *test, *response, *pointer, *says;
    } cases[] = {
        {"gone.csv", NULL, "y", "/data/path", "gone.csv"},
        {"train.csv", "gone.csv", "y", "/data/test", "gone.csv"},
        {"bad.csv", NULL, "y", "/data/path", "two"},
        {"train.csv", "bad.csv", "y", "/data/test", "two"},
        {"train.csv", "other.csv", "y", "/data/test", "a"},
        {"train.csv", NULL, "z", "/data/response", "z"},
        {"../train.csv", NULL, "y", "/data/path", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = {.path = (char *)(uintptr_t)cases[i].path,
                                 .test = (char *)(uintptr_t)cases[i].test,
                                 .response = (char *)(uintptr_t)cases[i].response};
        const struct data *data = NULL;
        struct mistakes mistakes = {0};
        struct err_info info = {0};
        cr_expect_eq(
            memory_cache_get(cache, "ada", &spec, DATA_REGRESSION, &data, &mistakes, &info),
            ERR_INVALID, "case %zu", i);
        cr_assert_geq(mistakes.count, 1, "case %zu", i);
        cr_expect_str_eq(mistakes.items[0].pointer, cases[i].pointer, "case %zu", i);
        cr_expect_not_null(strstr(mistakes.items[0].detail, cases[i].says), "case %zu: %s", i,
                           mistakes.items[0].detail);
        cr_expect_eq(held_entries(), 0, "case %zu", i);
    }
    memory_cache_put(cache, NULL);
}

/* ---- threads ---- */

#define ROWS_SLOW 100000 /* takes long enough for others to come meanwhile */

static const struct data *shared[8];

static void *get_shared(void *slot)
{
    struct data_spec spec = {.path = "slow.csv", .response = "y"};
    const struct data **out = slot;
    if (try_get(&spec, out) != ERR_OK || (*out)->train.N != ROWS_SLOW)
        *out = NULL;
    return NULL;
}

Test(memory_cache, those_who_come_while_it_is_loading_wait_for_the_same_copy)
{
    pthread_t threads[8];
    put_rows("slow.csv", 1, ROWS_SLOW);
    set_budget(1 << 24);
    for (size_t i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, get_shared, &shared[i]), 0);
    for (size_t i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 8; i++) {
        cr_assert_not_null(shared[i], "reader %zu got nothing", i);
        cr_expect_eq(shared[i], shared[0]);
    }
    cr_expect_eq(held_entries(), 1);
    cr_expect_eq(held_bytes(), shared[0]->bytes);
    for (size_t i = 0; i < 8; i++)
        memory_cache_put(cache, shared[i]);
}

static void *come_and_go(void *name)
{
    struct data_spec spec = {.path = name, .response = "y"};
    size_t wrong = 0;
    for (int i = 0; i < 60; i++) {
        const struct data *data = NULL;
        enum err code = try_get(&spec, &data);
        if (code == ERR_OK) {
            wrong += data->train.N != ROWS_BIG || data->train.y[1] != 1.0;
            memory_cache_put(cache, data);
        } else {
            wrong += code != ERR_UNAVAILABLE;
        }
    }
    return (void *)wrong;
}

Test(memory_cache, coming_and_going_under_pressure_keeps_within_the_budget)
{
    static char names[3][8] = {"p.csv", "q.csv", "r.csv"};
    pthread_t threads[6];
    three_big_ones();
    set_budget(2 * BYTES_BIG + 100);
    for (size_t i = 0; i < 6; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, come_and_go, names[i % 3]), 0);
    for (size_t i = 0; i < 6; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        cr_expect_null(wrong);
    }
    cr_expect_leq(held_bytes(), 2 * BYTES_BIG + 100);
    cr_expect_leq(held_entries(), 2);
}
