/* Records at their limits, and whatever a file holds. */
#include "tests/unit/server/data/records_fixture.h"

/* A file that is never in memory as a whole: a head, then so many numbered rows. */
struct rows_feed {
    const char *head, *format;
    uint64_t row, rows;
    char rest[600];
    size_t at, size;
};

static enum err feed_rows(void *context, char *to, size_t room, size_t *got, struct err_info *info)
{
    struct rows_feed *f = context;
    (void)info;
    for (*got = 0; *got < room;) {
        if (f->at == f->size) {
            if (f->row > f->rows)
                break;
            f->size = f->row == 0 ? (size_t)snprintf(f->rest, sizeof f->rest, "%s", f->head)
                                  : (size_t)snprintf(f->rest, sizeof f->rest, f->format,
                                                     (unsigned long long)f->row);
            f->row++;
            f->at = 0;
        }
        size_t size = f->size - f->at < room - *got ? f->size - f->at : room - *got;
        memcpy(to + *got, f->rest + f->at, size);
        f->at += size;
        *got += size;
    }
    return ERR_OK;
}

struct memory_seen {
    size_t now, most;
};

static enum err note_taken(void *context, size_t bytes, struct err_info *info)
{
    struct memory_seen *m = context;
    (void)info;
    m->now += bytes;
    m->most = m->now > m->most ? m->now : m->most;
    return ERR_OK;
}

static void note_given(void *context, size_t bytes)
{
    ((struct memory_seen *)context)->now -= bytes;
}

static enum err scan_rows(struct rows_feed *rows, size_t budget, struct memory_seen *memory,
                          struct err_info *info)
{
    struct table_feed source = {
        .read = feed_rows,
        .context = rows,
        .name = "x.csv",
        .budget_bytes = budget,
        .memory = {.take = note_taken, .give = note_given, .context = memory}};
    struct records *records;
    struct column_facts facts[2] = {0};
    uint64_t count;
    bool again;
    cr_assert_eq(records_open(&records, &source, NULL, info), ERR_OK, "%s", info->message);
    cr_assert_eq(records_use(records, (bool[]){true, true}, info), ERR_OK);
    enum err err = records_scan(records, facts, &count, &again, info);
    records_facts_release(facts, 2);
    records_close(records);
    cr_expect_eq(memory->now, 0);
    return err;
}

Test(records_limits, ten_million_different_texts_fail_in_little_memory)
{
    struct rows_feed rows = {.head = "n,id\n", .format = "1,user %llu\n", .rows = 10000000};
    struct memory_seen memory = {0};
    struct err_info info = {0};
    cr_expect_eq(scan_rows(&rows, (size_t)64 << 20, &memory, &info), ERR_MALFORMED);
    cr_expect_str_eq(info.message,
                     "x.csv: line 100002, column 2 (id): a column of text has at most "
                     "100000 different ones; this is another");
    cr_expect_lt(memory.most, (size_t)24 << 20);
    cr_expect_eq(rows.row, 10000001);
}

Test(records_limits, as_many_texts_as_are_allowed_are_read)
{
    struct rows_feed rows = {.head = "n,id\n", .format = "1,user %llu\n", .rows = 100000};
    struct memory_seen memory = {0};
    struct err_info info = {0};
    cr_expect_eq(scan_rows(&rows, (size_t)64 << 20, &memory, &info), ERR_OK, "%s", info.message);
}

Test(records_limits, the_budget_holds_for_levels)
{
    struct rows_feed rows = {.head = "n,id\n", .format = "1,user %llu\n", .rows = 100000};
    struct memory_seen memory = {0};
    struct err_info info = {0};
    cr_expect_eq(scan_rows(&rows, 1 << 20, &memory, &info), ERR_TOO_LARGE);
    cr_expect_not_null(strstr(info.message, "x.csv: its columns do not fit into the "));
    cr_expect_lt(memory.most, (size_t)4 << 20);
}

Test(records_limits, texts_of_all_levels_together_are_bounded)
{
    struct rows_feed rows = {
        .head = "n,id\n", .format = "%1$0200llux,%1$0200lluy\n", .rows = 99000};
    struct memory_seen memory = {0};
    struct err_info info = {0};
    cr_expect_eq(scan_rows(&rows, (size_t)200 << 20, &memory, &info), ERR_MALFORMED);
    cr_expect_str_eq(info.message,
                     "x.csv: line 83057, column 2 (id): the different texts of all columns "
                     "have more than 33554432 bytes");
    rows = (struct rows_feed){.head = rows.head, .format = "1,%0200lluy\n", .rows = 99000};
    cr_expect_eq(scan_rows(&rows, (size_t)200 << 20, &memory, &info), ERR_OK, "%s", info.message);
}

/* `count` times `piece` between `head` and `tail`. */
static char *build(const char *head, const char *piece, size_t count, const char *tail)
{
    size_t size = strlen(piece), at = strlen(head);
    char *text = malloc(at + count * size + strlen(tail) + 1);
    memcpy(text, head, at);
    for (size_t i = 0; i < count; i++, at += size)
        memcpy(text + at, piece, size);
    strcpy(text + at, tail);
    return text;
}

static void expect_built(char *text, const char *wanted)
{
    struct report *report = malloc(sizeof *report);
    struct reading reading = {.text = text};
    read_records(report, &reading);
    cr_expect_str_eq(report->text, wanted, "%s", report->text);
    reading.window = 100;
    reading.packed = true;
    read_records(report, &reading);
    cr_expect_str_eq(report->text, wanted, "%s", report->text);
    free(report);
    free(text);
}

Test(records_limits, long_texts_names_and_lines_are_mistakes)
{
    char level[RECORDS_LEVEL_MAX + 40], wanted[sizeof level + 64];
    expect_built(
        build("a,b\n1,", "x", RECORDS_LEVEL_MAX + 1, "\n2,y\n"),
        "MALFORMED x.csv: line 2, column 2 (b): \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
        "\" is longer than the 256 bytes of a level");
    memset(level, 'x', RECORDS_LEVEL_MAX);
    level[RECORDS_LEVEL_MAX] = '\0';
    snprintf(wanted, sizeof wanted, "a 1..1 whole\nb text %s:1\n1 0\n", level);
    expect_built(build("a,b\n1,", "x", RECORDS_LEVEL_MAX, "\n"), wanted);
    expect_built(
        build("a,", "x", TABLE_NAME_MAX + 1, "\n2,y\n"),
        "MALFORMED x.csv, line 1, column 2: \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" "
        "is not a column name: a name is too long");
    expect_built(
        build("a,b\n1,2\n3,\"", "x\n", TABLE_LINE_MAX, ""),
        "MALFORMED x.csv: line 3 is longer than 16777216 bytes; a quote may not be closed");
    expect_built(build("a", "x", TABLE_LINE_MAX, "\n1\n"),
                 "TOO_LARGE x.csv, line 1 is longer than 16777216 bytes");
    expect_built(
        build("a,b\n1,", "9", TABLE_CELL_MAX + 1, "\n"),
        "MALFORMED x.csv: line 2, column 2 (b): \"9999999999999999999999999999999999999999..."
        "\" is longer than the 64 bytes of a number");
}

Test(records_limits, wide_tables_up_to_the_limit)
{
    char *row = build("1", ",2", TABLE_COLUMNS_MAX - 1, "\n");
    struct report *report = malloc(sizeof *report);
    read_records(report, &(struct reading){.text = row});
    cr_expect_eq(report->err, ERR_OK, "%s", report->text);
    free(row);
    free(report);
    expect_built(build("1", ",2", TABLE_COLUMNS_MAX, "\n"),
                 "TOO_LARGE x.csv has 100001 columns; at most 100000 are allowed");
}

Test(records_limits, packed_files_unpack_to_so_much_at_most)
{
    char *text = build("a\n", "1\n", 2000000, "");
    char *packed = malloc(1 << 20);
    struct pieces from = {.bytes = packed};
    from.size = pack(text, strlen(text), (unsigned char *)packed, 1 << 20);
    struct table_feed source = {.read = feed_pieces,
                                .context = &from,
                                .name = "x.csv",
                                .budget_bytes = BUDGET,
                                .most_bytes = 2 << 20};
    struct records *records;
    struct column_facts facts = {0};
    struct err_info info;
    uint64_t rows;
    bool again;
    cr_assert_eq(records_open(&records, &source, NULL, &info), ERR_OK);
    cr_assert_eq(records_use(records, (bool[]){true}, &info), ERR_OK);
    cr_expect_eq(records_scan(records, &facts, &rows, &again, &info), ERR_TOO_LARGE);
    cr_expect_str_eq(info.message,
                     "x.csv unpacks to more than the 2 MB allowed (setting unpacked_mb)");
    records_close(records);
    free(packed);
    free(text);
}

/* Texts made of what files are made of: they never crash, read the same in pieces, and the values of
 * the second pass are those that the facts count (read_values checks). */
Test(records_limits, random_texts_give_sound_values_or_mistakes, .timeout = 120)
{
    static const char *const tokens[] = {
        "1",        "2.5",   "-3",    "1,5",   "x",       "NA",    "\"",
        "\"\"",     "'",     ",",     ";",     "\t",      " ",     "\n",
        "\n",       ",",     ",",     "\r\n",  "TRUE",    "F",     "Inf",
        "0x1",      "1e999", "a b",   "\"q\"", "\\",      "\r",    "\xff",
        "\xc3\xbc", "#",     "\"1\"", ".",     "\n1,2\n", "a,b\n", "\"\",\"a\"\n",
        "1;2\n"};
    uint64_t state = 7, good_ones = 0;
    struct report *whole = malloc(sizeof *whole), *pieces = malloc(sizeof *pieces);
    for (size_t i = 0; i < 20000; i++) {
        char text[512] = "";
        size_t length = 0;
        if (below(&state, 2) == 0)
            length = (size_t)snprintf(text, sizeof text, "a,b\n");
        for (size_t n = below(&state, 30); n > 0; n--)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s",
                                       tokens[below(&state, sizeof tokens / sizeof *tokens)]);
        struct reading reading = {.text = text, .size = length};
        reading.options.comment = below(&state, 4) == 0 ? '#' : '\0';
        read_records(whole, &reading);
        reading.window = 1 + below(&state, 9);
        reading.piece = below(&state, 8);
        reading.packed = below(&state, 4) == 0;
        read_records(pieces, &reading);
        cr_assert_str_eq(pieces->text, whole->text, "%zu: %s: %s, not %s", i, text, whole->text,
                         pieces->text);
        cr_assert_str_eq(pieces->mistakes, whole->mistakes, "%zu: %s", i, text);
        good_ones += whole->err == ERR_OK;
    }
    cr_expect_gt(good_ones, 1000);
    free(whole);
    free(pieces);
}
