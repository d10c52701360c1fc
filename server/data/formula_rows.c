/* The rows of a file as a formula makes them. */
#include "server/data/formula_rows_parts.h"

#include "server/data/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_VALUES ((size_t)1 << 20) /* numbers of the rows that are made at a time, about */

static enum err no_memory(struct err_info *info)
{
    return err_set(info, ERR_NO_MEMORY, "no memory for the data");
}

/* ---- the file ---- */

static enum err begin_reader(struct formula_rows *r, struct table_feed *feed, struct err_info *info)
{
    data_file_reader_end(&r->reader, NULL);
    enum err code = data_file_reader_init(&r->reader, r->source.file, !r->whole, info);
    *feed = (struct table_feed){.read = data_rows_feed,
                                .context = &r->reader,
                                .name = r->source.name,
                                .budget_bytes = r->source.budget_bytes,
                                .most_bytes = r->source.unpacked_bytes,
                                .memory = r->source.memory};
    return code;
}

static enum err end_of_pass(struct formula_rows *r, struct err_info *info)
{
    enum err code = data_rows_drain(&r->reader, info);
    if (code != ERR_OK)
        return code;
    uint64_t sum = data_file_reader_end(&r->reader, r->whole ? NULL : r->sha256);
    if (r->whole && sum != r->sum)
        return err_set(info, ERR_CONFLICT,
                       "\"%s\" changed while it was read; try again when it is completely written",
                       r->source.name);
    r->sum = sum;
    r->whole = true;
    return ERR_OK;
}

static enum err rewind_records(struct formula_rows *r, struct err_info *info)
{
    struct table_feed feed;
    enum err code = begin_reader(r, &feed, info);
    return code == ERR_OK ? records_rewind(r->records, &feed, info) : code;
}

static enum err open_records(struct formula_rows *r, struct err_info *info)
{
    static const char decimals[] = {
        [DECIMAL_AUTO] = 0, [DECIMAL_POINT] = '.', [DECIMAL_COMMA] = ','};
    const struct data_spec *spec = r->source.spec;
    r->options =
        (struct records_options){.missing = (const char *const *)(uintptr_t)spec->missing_values,
                                 .missing_count = spec->missing_count,
                                 .decimal = decimals[spec->decimal],
                                 .comment = spec->comment != NULL ? spec->comment[0] : 0};
    struct table_feed feed;
    enum err code = begin_reader(r, &feed, info);
    return code == ERR_OK ? records_open(&r->records, &feed, &r->options, info) : code;
}

/* ---- the formula ---- */

static enum err formula_mistake(const struct formula_rows *r, enum err code, size_t at,
                                struct mistakes *mistakes, const struct err_info *info)
{
    char caret[200];
    if (code != ERR_INVALID && code != ERR_TOO_LARGE)
        return code;
    mistake_add(mistakes, "/formula", code == ERR_INVALID ? MISTAKE_range : MISTAKE_limit, "%s\n%s",
                info->message, formula_caret(r->source.spec->formula, at, caret, sizeof caret));
    return ERR_INVALID;
}

static enum err read_formula(struct formula_rows *r, struct mistakes *mistakes,
                             struct err_info *info)
{
    size_t at = 0;
    struct formula_columns columns = {.names = records_names(r->records, &columns.count)};
    r->column_count = columns.count;
    enum err code = formula_parse(&r->formula, r->source.spec->formula, &columns, &at, info);
    return code == ERR_OK ? ERR_OK : formula_mistake(r, code, at, mistakes, info);
}

static enum err find_weight(struct formula_rows *r, struct mistakes *mistakes)
{
    const char *name = r->source.spec->weights;
    struct formula_columns columns = {.names = records_names(r->records, &columns.count)};
    char near[200];
    r->weight = SIZE_MAX;
    for (size_t j = 0; name != NULL && j < columns.count && r->weight == SIZE_MAX; j++)
        if (strcmp(columns.names[j], name) == 0)
            r->weight = j;
    if (name == NULL || r->weight != SIZE_MAX)
        return ERR_OK;
    formula_nearest(name, &columns, near, sizeof near);
    mistake_add(mistakes, "/data/weights", MISTAKE_missing, "there is no column \"%.80s\"%s%s",
                name, near[0] != '\0' ? "; " : "", near);
    return ERR_INVALID;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* All columns of a name that is used: the reader then refuses names that occur twice. */
static bool use_all_of_name(const struct formula_rows *r, bool *used)
{
    size_t count;
    const char *const *names = records_names(r->records, &count);
    const char *const **sorted = malloc((count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return false;
    for (size_t j = 0; j < count; j++)
        sorted[j] = &names[j];
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t j = 1; j < count; j++)
        if (strcmp(*sorted[j - 1], *sorted[j]) == 0)
            used[sorted[j - 1] - names] = used[sorted[j] - names] =
                used[sorted[j - 1] - names] || used[sorted[j] - names];
    free(sorted);
    return true;
}

static enum err choose_columns(struct formula_rows *r, struct err_info *info)
{
    bool *used = calloc(r->column_count + 1, sizeof *used);
    if (used == NULL)
        return no_memory(info);
    for (size_t v = 0; v < r->formula.variable_count; v++) {
        const struct formula_variable *variable = &r->formula.variables[v];
        for (size_t k = 0; k < variable->node_count; k++)
            if (variable->nodes[k].op == OP_COLUMN)
                used[variable->nodes[k].column] = true;
    }
    if (r->weight != SIZE_MAX)
        used[r->weight] = true;
    enum err code =
        use_all_of_name(r, used) ? records_use(r->records, used, info) : no_memory(info);
    free(used);
    return code;
}

/* ---- types, levels, bases ---- */

/* Every mistake of the file by itself. */
static enum err list_mistakes(const struct formula_rows *r, struct mistakes *mistakes)
{
    const char *line = records_mistakes(r->records);
    for (size_t length; *line != '\0'; line += length + (line[length] == '\n')) {
        length = strcspn(line, "\n");
        mistake_add(mistakes, "/data/path", MISTAKE_data, "%s: %.*s", r->source.name, (int)length,
                    line);
    }
    return ERR_INVALID;
}

static enum err scan(struct formula_rows *r, struct mistakes *mistakes, struct err_info *info)
{
    uint64_t rows;
    bool again = true;
    enum err code = ERR_OK;
    r->facts = calloc(r->column_count + 1, sizeof *r->facts);
    if (r->facts == NULL)
        return no_memory(info);
    for (int pass = 0; again && code == ERR_OK; pass++) {
        if (pass > 0)
            code = rewind_records(r, info);
        if (code == ERR_OK)
            code = records_scan(r->records, r->facts, &rows, &again, info);
        if (code == ERR_MALFORMED && records_mistakes(r->records)[0] != '\0')
            return list_mistakes(r, mistakes);
        if (code == ERR_OK)
            code = end_of_pass(r, info);
    }
    return code;
}

static enum err make_inputs(struct formula_rows *r, struct err_info *info)
{
    size_t count;
    const char *const *names = records_names(r->records, &count);
    r->inputs = calloc(count + 1, sizeof *r->inputs);
    r->row = malloc((count + 1) * sizeof *r->row);
    if (r->inputs == NULL || r->row == NULL)
        return no_memory(info);
    for (size_t j = 0; j < count; j++) {
        const struct column_facts *f = &r->facts[j];
        r->inputs[j] = (struct design_input){.name = names[j],
                                             .levels = (const char *const *)(uintptr_t)f->levels,
                                             .level_count = f->level_count,
                                             .logical = f->kind == COLUMN_LOGICAL};
        if (f->kind == COLUMN_NUMBER)
            r->inputs[j].levels = NULL;
    }
    return ERR_OK;
}

/* A row without a weight is left out: its response is taken away, so that it counts for bases, which
 * are made from all rows, but not as complete. */
static void look_weightless(struct formula_rows *r, const double *row)
{
    size_t column = formula_rows_response(r);
    memcpy(r->row, row, r->column_count * sizeof *row);
    r->weightless++;
    r->hidden += isnan(row[column]) ? 0u : 1u;
    r->row[column] = NAN;
    design_look(r->design, r->row, 1);
}

static void look(struct formula_rows *r, const double *rows, size_t n)
{
    if (r->weight == SIZE_MAX) {
        design_look(r->design, rows, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const double *row = rows + i * r->column_count;
        if (isnan(row[r->weight]))
            look_weightless(r, row);
        else
            design_look(r->design, row, 1);
    }
}

static enum err pass(struct formula_rows *r, struct err_info *info)
{
    const double *values;
    size_t count = 1;
    enum err code = rewind_records(r, info);
    r->weightless = r->hidden = 0;
    while (code == ERR_OK && count > 0) {
        code = records_next(r->records, r->facts, &values, &count, info);
        if (code == ERR_OK && count > 0)
            look(r, values, count);
    }
    return code == ERR_OK ? end_of_pass(r, info) : code;
}

static enum err make_design(struct formula_rows *r, struct mistakes *mistakes,
                            struct err_info *info)
{
    size_t at = 0;
    enum err code = design_new(&r->design, &r->formula, r->inputs, r->column_count, &at, info);
    while (code == ERR_OK && design_pass(r->design)) {
        code = pass(r, info);
        if (code != ERR_OK)
            return code;
        code = design_pass_end(r->design, &at, info);
    }
    return code == ERR_OK ? ERR_OK : formula_mistake(r, code, at, mistakes, info);
}

static enum err make_table(struct formula_rows *r, struct err_info *info)
{
    struct table *t = &r->table;
    size_t columns, bytes = 100;
    const char *const *names = design_names(r->design, &columns);
    for (size_t j = 0; j < columns; j++)
        bytes += strlen(names[j]) + 1;
    r->names = (struct table_input){
        .name = r->source.name, .budget = r->source.budget_bytes, .memory = r->source.memory};
    t->columns = columns + 1 + r->has_offset + r->has_weight;
    t->header = true;
    enum err code = table_allocate_names(t, &r->names, bytes, info);
    if (code != ERR_OK)
        return code;
    const char *more[] = {FORMULA_RESPONSE, r->has_offset ? FORMULA_OFFSET : FORMULA_WEIGHT,
                          FORMULA_WEIGHT};
    char *text = t->name_text;
    for (size_t j = 0; j < t->columns; j++) {
        t->names[j] = text;
        text = stpcpy(text, j < columns ? names[j] : more[j - columns]) + 1;
    }
    t->file = strdup(r->source.name);
    return t->file != NULL ? table_sort_names(t, info) : no_memory(info);
}

/* ---- opening ---- */

static enum err prepare(struct formula_rows *r, struct mistakes *mistakes, struct err_info *info)
{
    enum err code = open_records(r, info);
    if (code == ERR_OK)
        code = read_formula(r, mistakes, info);
    if (code == ERR_OK)
        code = find_weight(r, mistakes);
    if (code == ERR_OK)
        code = choose_columns(r, info);
    if (code == ERR_OK)
        code = scan(r, mistakes, info);
    if (code == ERR_OK && r->weight != SIZE_MAX && r->facts[r->weight].kind != COLUMN_NUMBER) {
        mistake_add(mistakes, "/data/weights", MISTAKE_data, "the column %.80s holds text",
                    r->source.spec->weights);
        return ERR_INVALID;
    }
    if (code == ERR_OK)
        code = make_inputs(r, info);
    if (code == ERR_OK)
        code = make_design(r, mistakes, info);
    if (code == ERR_OK)
        code = formula_rows_check(r, mistakes, info);
    r->pairs = code == ERR_OK && r->formula.failures != SIZE_MAX;
    r->has_offset = r->formula.offset_count > 0;
    r->has_weight = r->pairs || r->weight != SIZE_MAX;
    if (code != ERR_OK)
        return code;
    r->facts_text = formula_rows_describe(r);
    return r->facts_text != NULL ? make_table(r, info) : no_memory(info);
}

enum err formula_rows_open(struct formula_rows **out, const struct formula_source *source,
                           struct mistakes *mistakes, struct err_info *info)
{
    struct formula_rows *r = calloc(1, sizeof *r);
    if (r == NULL)
        return no_memory(info);
    r->source = *source;
    enum err code = prepare(r, mistakes, info);
    if (code == ERR_OK)
        code = formula_rows_rewind(r, info);
    if (code == ERR_OK) {
        *out = r;
        return ERR_OK;
    }
    formula_rows_close(r);
    return mistakes->count > 0 ? ERR_INVALID
                               : data_rows_mistake(code, "/data/path", mistakes, info);
}

void formula_rows_close(struct formula_rows *r)
{
    if (r == NULL)
        return;
    design_free(r->design);
    formula_release(&r->formula);
    if (r->facts != NULL)
        records_facts_release(r->facts, r->column_count);
    free(r->facts);
    records_close(r->records);
    data_file_reader_end(&r->reader, NULL);
    table_give(&r->names, r->names.taken);
    table_release(&r->table);
    free(r->inputs);
    free(r->row);
    free(r->values);
    free(r->facts_text);
    free(r);
}

const struct table *formula_rows_table(const struct formula_rows *r)
{
    return &r->table;
}

const char *formula_rows_facts(const struct formula_rows *r)
{
    return r->facts_text;
}

const char *formula_rows_sha256(const struct formula_rows *r)
{
    return r->sha256;
}

void formula_rows_spec(const struct formula_rows *r, const struct data_spec *from,
                       struct data_spec *out)
{
    *out = (struct data_spec){.path = from->path,
                              .precision = from->precision,
                              .response = (char *)(uintptr_t)FORMULA_RESPONSE};
    if (r->has_offset)
        out->offset = (char *)(uintptr_t)FORMULA_OFFSET;
    if (r->has_weight)
        out->weights = (char *)(uintptr_t)FORMULA_WEIGHT;
}

/* ---- rows ---- */

/* Rows of the file at a time. */
static size_t rows_at_once(const struct formula_rows *r)
{
    size_t rows = BLOCK_VALUES / (2 * r->table.columns);
    return rows > 0 ? rows : 1;
}

static bool make_room(struct formula_rows *r)
{
    if (r->values == NULL)
        r->values = malloc(2 * rows_at_once(r) * r->table.columns * sizeof *r->values);
    return r->values != NULL;
}

/* The numbers behind those of the design. */
static void put_rest(const struct formula_rows *r, double *to, double response, double offset,
                     double weight)
{
    *to++ = response;
    if (r->has_offset)
        *to++ = offset;
    if (r->has_weight)
        *to = weight;
}

/* The rows that a row of the file becomes: none, where it is incomplete; two of cbind. */
static size_t add_row(struct formula_rows *r, const double *row, double *to)
{
    size_t columns = r->table.columns, design = columns - 1 - r->has_offset - r->has_weight;
    double weight = r->weight != SIZE_MAX ? row[r->weight] : 1.0;
    struct design_row out = {.x = to};
    if (isnan(weight) || !design_fill(r->design, row, &out))
        return 0;
    if (!r->pairs) {
        put_rest(r, to + design, out.response, out.offset, weight);
        return 1;
    }
    memcpy(to + columns, to, design * sizeof *to);
    put_rest(r, to + design, 1.0, out.offset, weight * out.response);
    put_rest(r, to + columns + design, 0.0, out.offset, weight * out.failures);
    return 2;
}

/* The next rows of the file, unless there are some left. */
static enum err read_on(struct formula_rows *r, struct err_info *info)
{
    if (r->left > 0)
        return ERR_OK;
    enum err code = records_next(r->records, r->facts, &r->next, &r->left, info);
    return code == ERR_OK && r->left == 0 ? end_of_pass(r, info) : code;
}

enum err formula_rows_next(struct formula_rows *r, const double **values, size_t *count,
                           struct err_info *info)
{
    *count = 0;
    if (!make_room(r))
        return no_memory(info);
    while (*count == 0) {
        enum err code = read_on(r, info);
        if (code != ERR_OK || r->left == 0)
            return code;
        size_t most = rows_at_once(r), n = r->left < most ? r->left : most;
        for (size_t i = 0; i < n; i++)
            *count +=
                add_row(r, r->next + i * r->column_count, r->values + *count * r->table.columns);
        r->next += n * r->column_count;
        r->left -= n;
    }
    *values = r->values;
    return ERR_OK;
}

enum err formula_rows_rewind(struct formula_rows *r, struct err_info *info)
{
    r->left = 0;
    return rewind_records(r, info);
}
