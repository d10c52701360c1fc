/* Files as records see them, written as text: names and facts, then the values of all rows. */
#ifndef BARKER_TESTS_RECORDS_FIXTURE_H
#define BARKER_TESTS_RECORDS_FIXTURE_H

#include "server/data/records.h"
#include "tests/unit/server/data/table_fixture.h"

#include <stdarg.h>

/* Bytes that come in pieces of 1 to `piece` bytes; 0: as many as there is room for. */
struct pieces {
    const char *bytes;
    size_t size, at, piece, turn;
};

static inline enum err feed_pieces(void *context, char *to, size_t room, size_t *got,
                                   struct err_info *info)
{
    struct pieces *p = context;
    (void)info;
    size_t most = p->piece > 0 ? p->turn++ % p->piece + 1 : room;
    *got = p->size - p->at < most ? p->size - p->at : most;
    *got = *got < room ? *got : room;
    memcpy(to, p->bytes + p->at, *got);
    p->at += *got;
    return ERR_OK;
}

struct reading {
    const char *text;
    size_t size;        /* 0: strlen(text) */
    const char *unused; /* a column that is not used, or NULL */
    struct records_options options;
    size_t window, piece;
    bool packed;
    size_t budget; /* 0: enough */
};

/* What was read, cut to fit. */
struct report {
    char text[4096];
    size_t length;
    enum err err;
    bool again;
    char mistakes[8192];
};

static inline void __attribute__((format(printf, 2, 3)))
print(struct report *report, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof report->text - report->length;
    int n = vsnprintf(report->text + report->length, room, format, args);
    report->length += (size_t)n < room ? (size_t)n : room - 1;
    va_end(args);
}

static inline void print_facts(struct report *report, const char *name,
                               const struct column_facts *facts)
{
    print(report, "%s", name);
    if (facts->kind == COLUMN_NUMBER)
        print(report, " %g..%g%s", facts->least, facts->most, facts->whole ? " whole" : "");
    for (size_t k = 0; k < facts->level_count; k++)
        print(report, "%s%s:%llu",
              k > 0                        ? ","
              : facts->kind == COLUMN_TEXT ? " text "
                                           : " logical ",
              facts->levels[k], (unsigned long long)facts->level_rows[k]);
    if (facts->missing > 0)
        print(report, " missing %llu", (unsigned long long)facts->missing);
    print(report, "\n");
}

/* What the values say must be what the facts say. */
struct tally {
    uint64_t missing, levels[8];
    double least, most;
};

static inline void count_value(struct tally *t, const struct column_facts *facts, double value)
{
    if (isnan(value)) {
        t->missing++;
    } else if (facts->kind != COLUMN_NUMBER) {
        cr_assert_lt((size_t)value, facts->level_count);
        if (value < 8)
            t->levels[(size_t)value]++;
    } else {
        t->least = value < t->least ? value : t->least;
        t->most = value > t->most ? value : t->most;
    }
}

static inline void check_tally(const struct tally *t, const struct column_facts *facts)
{
    cr_assert_eq(t->missing, facts->missing);
    for (size_t k = 0; k < 8 && k < facts->level_count; k++)
        cr_assert_eq(t->levels[k], facts->level_rows[k]);
    if (facts->kind == COLUMN_NUMBER && t->least <= t->most) {
        cr_assert_eq(t->least, facts->least);
        cr_assert_eq(t->most, facts->most);
    }
}

static inline enum err read_values(struct records *records, const struct column_facts *facts,
                                   const bool *used, size_t columns, uint64_t rows,
                                   struct report *report, struct err_info *info)
{
    struct tally *tallies = calloc(columns, sizeof *tallies);
    uint64_t seen = 0;
    enum err err;
    for (size_t j = 0; j < columns; j++)
        tallies[j] = (struct tally){.least = INFINITY, .most = -INFINITY};
    for (;;) {
        const double *values;
        size_t count;
        err = records_next(records, facts, &values, &count, info);
        if (err != ERR_OK || count == 0)
            break;
        seen += count;
        for (size_t i = 0; i < count * columns; i++) {
            size_t j = i % columns;
            if (used[j])
                count_value(tallies + j, facts + j, values[i]);
            else
                cr_assert_eq(values[i], 0);
            if (isnan(values[i]))
                print(report, "-");
            else
                print(report, "%.17g", values[i]);
            print(report, j + 1 < columns ? " " : "\n");
        }
    }
    if (err == ERR_OK)
        cr_assert_eq(seen, rows);
    for (size_t j = 0; err == ERR_OK && j < columns; j++)
        if (used[j])
            check_tally(tallies + j, facts + j);
    free(tallies);
    return err;
}

static inline enum err pass(struct records *records, const struct table_feed *feed_of,
                            const struct reading *reading, struct report *report,
                            struct err_info *info)
{
    struct pieces *from = feed_of->context;
    size_t columns;
    uint64_t rows;
    const char *const *names = records_names(records, &columns);
    bool *used = calloc(columns, sizeof *used);
    struct column_facts *facts = calloc(columns, sizeof *facts);
    for (size_t j = 0; j < columns; j++)
        used[j] = reading->unused == NULL || strcmp(names[j], reading->unused) != 0;
    enum err err = records_use(records, used, info);
    if (err == ERR_OK)
        err = records_scan(records, facts, &rows, &report->again, info);
    if (err == ERR_OK && report->again) {
        bool more;
        from->at = 0;
        err = records_rewind(records, feed_of, info);
        if (err == ERR_OK)
            err = records_scan(records, facts, &rows, &more, info);
        cr_assert(err != ERR_OK || !more);
    }
    snprintf(report->mistakes, sizeof report->mistakes, "%s", records_mistakes(records));
    for (size_t j = 0; err == ERR_OK && j < columns; j++)
        if (used[j])
            print_facts(report, names[j], facts + j);
    from->at = 0;
    if (err == ERR_OK)
        err = records_rewind(records, feed_of, info);
    if (err == ERR_OK)
        err = read_values(records, facts, used, columns, rows, report, info);
    records_facts_release(facts, columns);
    free(facts);
    free(used);
    return err;
}

static inline enum err take_bytes(void *context, size_t bytes, struct err_info *info)
{
    (void)info;
    *(size_t *)context += bytes;
    return ERR_OK;
}

static inline void give_bytes(void *context, size_t bytes)
{
    *(size_t *)context -= bytes;
}

/* Reads a copy without a byte behind it; all memory is given back. */
static inline void read_records(struct report *report, const struct reading *reading)
{
    size_t size = reading->size > 0 ? reading->size : strlen(reading->text);
    size_t room = reading->packed ? size + 1024 : size, taken = 0;
    char *copy = malloc(room > 0 ? room : 1);
    struct err_info info = {0};
    struct records *records;
    memset(report, 0, sizeof *report);
    if (reading->packed)
        size = pack(reading->text, size, (unsigned char *)copy, room);
    else
        memcpy(copy, reading->text, size);
    struct pieces from = {.bytes = copy, .size = size, .piece = reading->piece};
    struct table_feed source = {
        .read = feed_pieces,
        .context = &from,
        .name = "x.csv",
        .budget_bytes = reading->budget > 0 ? reading->budget : (size_t)64 << 20,
        .window_bytes = reading->window,
        .memory = {.take = take_bytes, .give = give_bytes, .context = &taken}};
    enum err err = records_open(&records, &source, &reading->options, &info);
    if (err == ERR_OK) {
        err = pass(records, &source, reading, report, &info);
        records_close(records);
    }
    if (err != ERR_OK) {
        report->length = 0;
        print(report, "%s %s", err_name(err), info.message);
    }
    report->err = err;
    cr_assert_eq(taken, 0);
    free(copy);
}

/* However a file is cut and packed, it is the same. */
static inline void read_every_way(struct report *report, const struct reading *reading)
{
    static const size_t ways[][2] = {{1, 1}, {3, 7}, {64, 5}, {777, 0}};
    struct report *other = malloc(sizeof *other);
    read_records(report, reading);
    for (size_t i = 0; i < 2 * sizeof ways / sizeof *ways; i++) {
        struct reading way = *reading;
        way.window = ways[i / 2][0];
        way.piece = ways[i / 2][1];
        way.packed = i % 2 == 1;
        read_records(other, &way);
        cr_assert_str_eq(other->text, report->text, "way %zu", i);
        cr_assert_str_eq(other->mistakes, report->mistakes, "way %zu", i);
    }
    free(other);
}

static inline void expect_read(const struct reading *reading, const char *wanted)
{
    struct report *report = malloc(sizeof *report);
    read_every_way(report, reading);
    cr_expect_str_eq(report->text, wanted, "%s\ngives\n%s\nand not\n%s\n%s", reading->text,
                     report->text, wanted, report->mistakes);
    free(report);
}

#endif
