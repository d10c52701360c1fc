/* Lists of parameters and chains from a query string. */
#include "server/api/query_list.h"
#include "server/base/field.h"
#include "server/base/mistake.h"
#include "server/store/jobfile.h"

#include <stdlib.h>
#include <string.h>

void query_numbers_release(struct query_numbers *numbers)
{
    free(numbers->at);
    *numbers = (struct query_numbers){0};
}

/* ---- lists ---- */

static char *trim(char *item)
{
    while (*item == ' ')
        item++;
    size_t n = strlen(item);
    while (n > 0 && item[n - 1] == ' ')
        item[--n] = '\0';
    return item;
}

bool query_names_split(struct query_names *out, const char *text)
{
    size_t most = 1;
    for (const char *c = text; *c != '\0'; c++)
        most += *c == ',';
    *out = (struct query_names){.text = strdup(text), .items = calloc(most, sizeof *out->items)};
    if (out->text == NULL || out->items == NULL) {
        query_names_release(out);
        return false;
    }
    int depth = 0;
    char *begin = out->text;
    for (char *c = begin;; c++) {
        bool end = *c == '\0';
        depth += (*c == '[' || *c == '(') - ((*c == ']' || *c == ')') && depth > 0);
        if (!end && (*c != ',' || depth > 0))
            continue;
        *c = '\0';
        out->items[out->count++] = trim(begin);
        begin = c + 1;
        if (end)
            return true;
    }
}

void query_names_release(struct query_names *list)
{
    free(list->text);
    free(list->items);
    *list = (struct query_names){0};
}

/* ---- from the query ---- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool has_repeats(const struct query_numbers *numbers)
{
    bool repeats = false;
    uint32_t *sorted = malloc(numbers->count * sizeof *sorted);
    if (sorted == NULL)
        return true;
    memcpy(sorted, numbers->at, numbers->count * sizeof *sorted);
    qsort(sorted, numbers->count, sizeof *sorted, by_value);
    for (size_t i = 1; i < numbers->count; i++)
        repeats = repeats || sorted[i] == sorted[i - 1];
    free(sorted);
    return repeats;
}

/* Reports every item that is repeated. */
static void note_repeats(const struct query_numbers *numbers, const struct query_names *list,
                         const char *pointer, struct mistakes *mistakes)
{
    char quote[FIELD_QUOTE_SIZE];
    if (!has_repeats(numbers))
        return;
    for (size_t i = 1; i < numbers->count && mistakes->count < MISTAKES_MAX; i++)
        for (size_t k = 0; k < i; k++)
            if (numbers->at[k] == numbers->at[i]) {
                mistake_add(mistakes, pointer, MISTAKE_conflict, "%s is given twice",
                            field_quote(list->items[i], quote));
                break;
            }
}

/* Converts an item to a number; UINT32_MAX after reporting a mistake. */
typedef uint32_t item_reader(void *ctx, const char *item, struct mistakes *mistakes);

static bool read_items(struct call *call, const struct query_names *list, const char *pointer,
                       item_reader *read, void *ctx, struct query_numbers *out)
{
    struct mistakes mistakes = {0};
    out->at = malloc(list->count * sizeof *out->at);
    if (out->at == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return false;
    }
    for (; out->count < list->count; out->count++)
        out->at[out->count] = read(ctx, list->items[out->count], &mistakes);
    if (mistakes.count == 0)
        note_repeats(out, list, pointer, &mistakes);
    if (mistakes.count == 0)
        return true;
    query_numbers_release(out);
    call_mistakes(call, &mistakes);
    return false;
}

static uint32_t read_parameter(void *ctx, const char *item, struct mistakes *mistakes)
{
    struct jobfile *file = ctx;
    char quote[FIELD_QUOTE_SIZE];
    struct jobfile_info about;
    size_t column = jobfile_column(file, item);
    if (column != SIZE_MAX)
        return (uint32_t)column;
    jobfile_info(file, &about);
    if (about.width == 0)
        mistake_add(mistakes, "?params", MISTAKE_missing,
                    "%s is not a saved parameter; the job saves none", field_quote(item, quote));
    else
        mistake_add(mistakes, "?params", MISTAKE_missing,
                    "%s is not one of the %zu saved parameters, %s to %s", field_quote(item, quote),
                    about.width, jobfile_name(file, 0), jobfile_name(file, about.width - 1));
    return UINT32_MAX;
}

static uint32_t read_chain(void *ctx, const char *item, struct mistakes *mistakes)
{
    const uint32_t *total = ctx;
    char quote[FIELD_QUOTE_SIZE], *end;
    unsigned long value = item[0] >= '0' && item[0] <= '9' ? strtoul(item, &end, 10) : 0;
    if (value >= 1 && value <= *total && *end == '\0')
        return (uint32_t)value;
    mistake_add(mistakes, "?chains", MISTAKE_missing,
                "%s is not a chain; the job has chains 1 to %u", field_quote(item, quote), *total);
    return UINT32_MAX;
}

/* The first `count` numbers from `first` on. */
static bool take_first(struct call *call, uint32_t first, size_t count, struct query_numbers *out)
{
    out->at = malloc((count + 1) * sizeof *out->at);
    if (out->at == NULL) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return false;
    }
    for (; out->count < count; out->count++)
        out->at[out->count] = first + (uint32_t)out->count;
    return true;
}

static bool too_many(struct call *call, const char *pointer, size_t count, size_t most)
{
    struct mistakes mistakes = {0};
    mistake_add(&mistakes, pointer, MISTAKE_range, "%zu names; at most %zu are allowed", count,
                most);
    call_mistakes(call, &mistakes);
    return false;
}

bool query_parameters(struct call *call, struct jobfile *file, size_t fallback, size_t most,
                      struct query_numbers *out)
{
    const char *text = request_query(call->req, "params");
    struct jobfile_info about;
    struct query_names list;
    *out = (struct query_numbers){0};
    jobfile_info(file, &about);
    if (text == NULL)
        return take_first(call, 0, about.width < fallback ? about.width : fallback, out);
    if (!query_names_split(&list, text)) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return false;
    }
    bool good = list.count <= most ? read_items(call, &list, "?params", read_parameter, file, out)
                                   : too_many(call, "?params", list.count, most);
    query_names_release(&list);
    return good;
}

bool query_chains(struct call *call, uint32_t total, struct query_numbers *out)
{
    const char *text = request_query(call->req, "chains");
    struct query_names list;
    *out = (struct query_numbers){0};
    if (text == NULL)
        return take_first(call, 1, total, out);
    if (!query_names_split(&list, text)) {
        call_fail(call, ERR_NO_MEMORY, NULL);
        return false;
    }
    bool good = read_items(call, &list, "?chains", read_chain, &total, out);
    query_names_release(&list);
    return good;
}
