/* Formulas and tables against R's model.matrix: tests/fixtures/formula/answers.txt, made by make.R
 * beside it. Names, their order, and of each column the first five values, the last, the sum and the
 * sum of squares. */
#include "tests/unit/server/formula/design_fixture.h"

#define FIXTURES "tests/fixtures/formula/"

enum { CELLS = 40, LINE = 4096, FIRST = 5 };

/* Tables: CSV without quotes. */
struct csv {
    char *text; /* what cells point into */
    const char *names[CELLS];
    const char **cells; /* rows by columns */
    size_t rows, columns;
    double *values;
    struct design_input inputs[CELLS];
    const char **levels[CELLS];
};

static size_t split(char *line, char separator, const char *out[CELLS])
{
    size_t n = 0;
    line[strcspn(line, "\n")] = '\0';
    const char between[] = {separator, '\0'};
    for (char *cell; n < CELLS && (cell = strsep(&line, between)) != NULL;)
        out[n++] = cell;
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool missing(const char *cell)
{
    return strcmp(cell, "NA") == 0;
}

/* Numbers where all known cells are; else levels, sorted. */
static void read_column(struct csv *csv, size_t c)
{
    csv->inputs[c].name = csv->names[c];
    bool numbers = true, logical = true;
    const char **levels = calloc(csv->rows, sizeof *levels);
    size_t count = 0;
    for (size_t r = 0; r < csv->rows; r++) {
        const char *cell = csv->cells[r * csv->columns + c];
        char *end;
        csv->values[r * csv->columns + c] = missing(cell) ? NAN : strtod(cell, &end);
        if (missing(cell))
            continue;
        numbers &= *end == '\0';
        logical &= strcmp(cell, "TRUE") == 0 || strcmp(cell, "FALSE") == 0;
        levels[count++] = cell;
    }
    csv->levels[c] = levels;
    if (numbers)
        return;
    qsort(levels, count, sizeof *levels, by_bytes);
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (n == 0 || strcmp(levels[n - 1], levels[i]) != 0)
            levels[n++] = levels[i];
    csv->inputs[c].levels = levels;
    csv->inputs[c].level_count = n;
    csv->inputs[c].logical = logical;
    for (size_t r = 0; r < csv->rows; r++) {
        const char **cell = &csv->cells[r * csv->columns + c];
        const char **at =
            missing(*cell) ? NULL : bsearch(cell, levels, n, sizeof *levels, by_bytes);
        csv->values[r * csv->columns + c] = at == NULL ? NAN : (double)(at - levels);
    }
}

static void csv_open(struct csv *csv, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, FIXTURES "%s.csv", name);
    *csv = (struct csv){.text = calloc(1, 100000)};
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL && csv->text != NULL, "%s", path);
    csv->text[fread(csv->text, 1, 99999, file)] = '\0';
    fclose(file);
    char *rest = csv->text, *line = strsep(&rest, "\n");
    csv->columns = split(line, ',', csv->names);
    csv->cells = calloc(1000 * csv->columns, sizeof *csv->cells);
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        const char *cells[CELLS];
        cr_assert(split(line, ',', cells) == csv->columns && csv->rows < 1000, "%s", path);
        memcpy(csv->cells + csv->rows++ * csv->columns, cells, csv->columns * sizeof *cells);
    }
    csv->values = calloc(csv->rows * csv->columns, sizeof *csv->values);
    for (size_t c = 0; c < csv->columns; c++)
        read_column(csv, c);
}

static void csv_close(struct csv *csv)
{
    for (size_t c = 0; c < csv->columns; c++)
        free(csv->levels[c]);
    free(csv->values);
    free(csv->cells);
    free(csv->text);
}

/* What the program makes of a formula. */
struct outcome {
    struct formula formula;
    struct design *design;
    double *x; /* complete rows by columns */
    double *response, *failures, *offset;
    size_t rows, columns;
};

static bool outcome_init(struct outcome *out, const char *text, const struct csv *csv)
{
    struct err_info info = {0};
    size_t at = 0;
    *out = (struct outcome){0};
    const struct formula_columns columns = {csv->names, csv->columns};
    enum err err = formula_parse(&out->formula, text, &columns, &at, &info);
    if (err == ERR_OK)
        err = design_new(&out->design, &out->formula, csv->inputs, csv->columns, &at, &info);
    if (err == ERR_OK)
        err = look_at_all(out->design, csv->values, csv->rows, &at, &info);
    cr_expect_eq(err, ERR_OK, "%s: %s", text, info.message);
    if (err != ERR_OK)
        return false;
    design_names(out->design, &out->columns);
    out->x = calloc((csv->rows + 1) * (out->columns + 1), sizeof *out->x);
    out->response = calloc(3 * csv->rows, sizeof *out->response);
    out->failures = out->response + csv->rows;
    out->offset = out->failures + csv->rows;
    for (size_t r = 0; r < csv->rows; r++) {
        struct design_row row = {.x = out->x + out->rows * out->columns};
        if (!design_fill(out->design, csv->values + r * csv->columns, &row))
            continue;
        out->response[out->rows] = row.response;
        out->failures[out->rows] = row.failures;
        out->offset[out->rows++] = row.offset;
    }
    struct design_counts counts;
    design_counts(out->design, &counts);
    cr_expect_eq(counts.complete, out->rows, "%s: %ju counted, %zu filled", text,
                 (uintmax_t)counts.complete, out->rows);
    return true;
}

static void outcome_release(struct outcome *out)
{
    design_free(out->design);
    formula_release(&out->formula);
    free(out->x);
    free(out->response);
}

static void expect_close(double got, double wanted, double error, const char *text,
                         const char *name, const char *what)
{
    cr_expect(fabs(got - wanted) <= error, "%s: %s, %s: %.17g, R has %.17g", text, name, what, got,
              wanted);
}

/* `cells`: the kind of line, the name, up to five values, the last, the sum, the sum of squares. */
static void compare(const char *text, const char *const *cells, size_t count, const double *x,
                    size_t stride, size_t rows)
{
    static const char *const what[] = {"row 1", "row 2", "row 3", "row 4", "row 5"};
    const char *name = cells[1];
    bool basis = strstr(name, "poly(") != NULL || strstr(name, "ns(") != NULL;
    double relative = basis ? 1e-10 : 1e-12, sum = 0.0, squares = 0.0;
    double n = (double)rows, scale = sqrt(strtod(cells[count - 1], NULL) / n);
    size_t first = rows < FIRST ? rows : FIRST;
    cr_assert_eq(count, 2 + first + 3, "%s: %s", text, name);
    for (size_t r = 0; r < rows; r++) {
        sum += x[r * stride];
        squares += x[r * stride] * x[r * stride];
    }
    for (size_t r = 0; r < first; r++)
        expect_close(x[r * stride], strtod(cells[2 + r], NULL), relative * scale, text, name,
                     what[r]);
    expect_close(x[(rows - 1) * stride], strtod(cells[2 + first], NULL), relative * scale, text,
                 name, "last");
    expect_close(sum, strtod(cells[3 + first], NULL), relative * n * scale, text, name, "sum");
    expect_close(squares, strtod(cells[4 + first], NULL), relative * n * scale * scale, text, name,
                 "sum of squares");
}

static void compare_levels(const char *text, const struct design *design, const char *const *cells,
                           size_t count)
{
    struct design_response response;
    design_response(design, &response);
    cr_assert_eq(response.level_count, count - 1, "%s: %zu levels", text, response.level_count);
    for (size_t i = 1; i < count; i++)
        cr_expect_str_eq(response.levels[i - 1], cells[i], "%s", text);
}

/* One line of the answers about the formula at hand; `column` is the next to be named. */
static void compare_line(const char *text, const struct outcome *out, const char *const *cells,
                         size_t count, size_t *column)
{
    if (strcmp(cells[0], "rows") == 0) {
        cr_assert_eq(out->rows, strtoul(cells[1], NULL, 10), "%s: %zu rows", text, out->rows);
    } else if (strcmp(cells[0], "response") == 0) {
        compare(text, cells, count, out->response, 1, out->rows);
        struct design_response response;
        design_response(out->design, &response);
        cr_expect_str_eq(response.label, cells[1], "%s", text);
    } else if (strcmp(cells[0], "failures") == 0) {
        compare(text, cells, count, out->failures, 1, out->rows);
    } else if (strcmp(cells[0], "offset") == 0) {
        compare(text, cells, count, out->offset, 1, out->rows);
    } else if (strcmp(cells[0], "levels") == 0) {
        compare_levels(text, out->design, cells, count);
    } else {
        cr_assert_str_eq(cells[0], "column");
        size_t n;
        const char *const *names = design_names(out->design, &n);
        cr_assert_lt(*column, n, "%s: R also has %s", text, cells[1]);
        cr_expect_str_eq(names[*column], cells[1], "%s: %s, R has %s", text, names[*column],
                         cells[1]);
        compare(text, cells, count, out->x + *column, n, out->rows);
        ++*column;
    }
}

Test(design_answers, columns_are_those_of_r)
{
    static char line[LINE], text[LINE];
    FILE *file = fopen(FIXTURES "answers.txt", "r");
    cr_assert(file != NULL);
    struct csv csv;
    struct outcome out;
    bool open = false, made = false;
    size_t column = 0, formulas = 0;
    for (;;) {
        bool more = fgets(line, sizeof line, file) != NULL;
        const char *cells[CELLS];
        size_t count = more ? split(line, '\t', cells) : 0;
        if (!more || strcmp(cells[0], "formula") == 0) {
            if (made)
                cr_expect_eq(column, out.columns, "%s: %zu columns, R has %zu", text, out.columns,
                             column);
            if (open) {
                outcome_release(&out);
                csv_close(&csv);
            }
            if (!more)
                break;
            snprintf(text, sizeof text, "%s", cells[2]);
            csv_open(&csv, cells[1]);
            made = outcome_init(&out, text, &csv);
            open = true;
            column = 0;
            formulas++;
        } else if (made) {
            compare_line(text, &out, cells, count, &column);
        }
    }
    fclose(file);
    cr_expect_geq(formulas, 150);
}
