/* JSON: what is read and refused, how documents are built and written. */
#include "server/base/json.h"
#include "server/base/text.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* Parses a copy without a terminator, so that a sanitizer sees every byte too far. */
static enum err parse(json_t **out, const char *text, size_t size, struct err_info *info)
{
    char *copy = malloc(size > 0 ? size : 1);
    cr_assert_not_null(copy);
    memcpy(copy, text, size);
    *info = (struct err_info){0};
    enum err code = json_parse(out, copy, size, info);
    free(copy);
    return code;
}

Test(json, what_is_not_json_is_refused_with_line_and_column)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "empty"},
        {"{", "line 1, column 1:"},
        {"{\n  \"a\": 1,\n  \"a\": 2}", "line 3, column 5: duplicate object key"},
        {"{\"a\": 1e999}", "real number overflow"},
        {"{\"a\": 99999999999999999999}", "too big integer"},
        {"{\"a\": NaN}", "invalid token"},
        {"{\"a\": -Infinity}", "invalid token"},
        {"{\"a\": \"\xff\"}", "unable to decode byte 0xff"},
        {"{\"a\": \"\\u0000\"}", "\\u0000 is not allowed"},
        {"{\"\\u0000\": 1}", "\\u0000 is not allowed"},
        {"{\"a\": 1} x", "end of file expected"},
        {"{\"a\": 1}{}", "end of file expected"},
        {"2.385", "'[' or '{' expected"},
        {"[1,]", "unexpected token"},
        {"{'a': 1}", "line 1, column 2"},
        {"[\"abc", "premature end of input"},
        {"[\"\\", "line 1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct err_info info;
        json_t *json = NULL;
        cr_expect_eq(parse(&json, cases[i].text, strlen(cases[i].text), &info), ERR_MALFORMED, "%s",
                     cases[i].text);
        cr_expect_null(json);
        cr_expect_not_null(strstr(info.message, cases[i].message), "%s: %s", cases[i].text,
                           info.message);
    }
}

Test(json, bytes_after_a_nul_are_not_overlooked)
{
    struct err_info info;
    json_t *json;
    cr_expect_eq(parse(&json, "{}\0{}", 5, &info), ERR_MALFORMED);
}

static size_t nested(char *text, size_t depth, char open, char close)
{
    memset(text, open, depth);
    memset(text + depth, close, depth);
    return 2 * depth;
}

Test(json, sixteen_levels_are_read_and_seventeen_refused)
{
    char text[64];
    struct err_info info;
    json_t *json;
    cr_expect_eq(parse(&json, text, nested(text, JSON_DEPTH_MAX, '[', ']'), &info), ERR_OK, "%s",
                 info.message);
    json_decref(json);
    cr_expect_eq(parse(&json, text, nested(text, JSON_DEPTH_MAX + 1, '[', ']'), &info),
                 ERR_MALFORMED);
    cr_expect_str_eq(info.message,
                     "line 1, column 17: nested more than 16 levels deep, which is the limit");
}

Test(json, a_million_brackets_are_refused_without_recursion)
{
    size_t size = 1 << 20;
    char *text = malloc(size);
    struct err_info info;
    json_t *json;
    memset(text, '[', size);
    cr_expect_eq(json_parse(&json, text, size, &info), ERR_MALFORMED);
    memset(text, '{', size);
    cr_expect_eq(json_parse(&json, text, size, &info), ERR_MALFORMED);
    free(text);
}

Test(json, brackets_in_strings_are_no_levels)
{
    const char *text = "{\"a\": \"[[[[[[[[[[\\\"[[[[[[[[[[\\\\\", \"b\": [\"{{{{{{{{{{{{{{{{{{\"]}";
    struct err_info info;
    json_t *json;
    cr_expect_eq(parse(&json, text, strlen(text), &info), ERR_OK, "%s", info.message);
    json_decref(json);
}

Test(json, levels_that_were_closed_do_not_count)
{
    char text[400] = "[";
    struct err_info info;
    json_t *json;
    for (int i = 0; i < 60; i++)
        strcat(text, i == 0 ? "[[]]" : ",[[]]");
    strcat(text, "]");
    cr_expect_eq(parse(&json, text, strlen(text), &info), ERR_OK, "%s", info.message);
    json_decref(json);
}

Test(json, numbers_that_are_not_finite_become_null)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *json = json_number(bad[i]);
        cr_expect(json_is_null(json));
        json_decref(json);
    }
    json_t *json = json_number(2.385);
    cr_expect_eq(json_real_value(json), 2.385);
    json_decref(json);
}

static void expect_text(json_t *json, const char *expected)
{
    size_t length = 0;
    char *text = json_write(json, &length);
    cr_assert_not_null(text);
    cr_expect_str_eq(text, expected);
    cr_expect_eq(length, strlen(expected));
    free(text);
    json_decref(json);
}

Test(json, reals_are_written_with_the_fewest_digits)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {0.00075, "0.00075"},
        {2.385, "2.385"},
        {1.0, "1.0"},
        {-3.0, "-3.0"},
        {1e300, "1e300"},
        {1.0 / 3, "0.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1e-5, "1e-5"},
        {123456789012345680.0, "1.2345678901234568e17"},
        {-0.0, "-0.0"},
        {5e-324, "5e-324"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_text(json_number(cases[i].value), cases[i].text);
}

Test(json, every_real_survives_writing_and_reading)
{
    uint64_t state = 2385;
    for (int i = 0; i < 20000; i++) {
        double value, back;
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bits = state ^ (state >> 29);
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        json_t *array = json_array(), *read = NULL;
        struct err_info info = {0};
        size_t length;
        json_add(&array, json_number(value));
        char *text = json_write(array, &length);
        cr_assert_eq(json_parse(&read, text, length, &info), ERR_OK, "%s: %s", text, info.message);
        back = json_real_value(json_array_get(read, 0));
        cr_assert_eq(memcmp(&back, &value, sizeof value), 0, "%s", text);
        json_decref(read);
        json_decref(array);
        free(text);
    }
}

Test(json, strings_are_escaped)
{
    expect_text(json_text("a\"b\\c/d\n\r\t\b\f\x01\x1f é 😀"),
                "\"a\\\"b\\\\c/d\\n\\r\\t\\b\\f\\u0001\\u001f é 😀\"");
    expect_text(json_text(""), "\"\"");
    expect_text(json_text(NULL), "null");
}

Test(json, bytes_that_are_no_utf8_are_replaced)
{
    expect_text(json_text("a\xff"), "\"a\xEF\xBF\xBD\"");
    expect_text(json_text("\xC3"), "\"\xEF\xBF\xBD\"");
    expect_text(json_text("\xC0\x80z"), "\"\xEF\xBF\xBD\xEF\xBF\xBDz\""); /* overlong */
    expect_text(json_text("\xED\xA0\x80"),
                "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""); /* surrogate */
    expect_text(json_text("\xF4\x90\x80\x80"),
                "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""); /* beyond U+10FFFF */
    expect_text(json_text("\xE2\x82\xAC\xE2\x82"), "\"\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

Test(json, documents_are_written_in_the_order_of_insertion)
{
    json_t *inner = json_array(), *out = json_object();
    json_add(&inner, json_count(3));
    json_add(&inner, json_true());
    json_add(&inner, json_false());
    json_put(&out, "z", inner);
    json_put(&out, "a", json_null());
    json_put(&out, "empty", json_object());
    json_put(&out, "none", json_array());
    json_put(&out, "k\"", json_integer(-7));
    expect_text(out, "{\"z\":[3,true,false],\"a\":null,\"empty\":{},\"none\":[],\"k\\\"\":-7}");
}

Test(json, a_builder_that_failed_once_stays_empty)
{
    json_t *object = json_object(), *array = json_array();
    json_put(&object, "a", json_integer(1));
    json_put(&object, "b", NULL);
    cr_expect_null(object);
    json_put(&object, "c", json_integer(3));
    cr_expect_null(object);
    json_add(&array, NULL);
    cr_expect_null(array);
    json_add(&array, json_text("x"));
    cr_expect_null(array);
}

Test(json, counts_beyond_what_json_holds_are_held_at_its_largest)
{
    expect_text(json_count(UINT64_MAX), "9223372036854775807");
    expect_text(json_count(INT64_MAX), "9223372036854775807");
    expect_text(json_count(0), "0");
}

Test(json, nesting_beyond_the_limit_is_not_written)
{
    json_t *json = json_array();
    for (int i = 0; i < 100; i++) {
        json_t *outer = json_array();
        json_add(&outer, json);
        json = outer;
    }
    cr_expect_null(json_write(json, NULL));
    json_decref(json);
}

Test(json, trimming_takes_only_an_incomplete_character)
{
    static const struct {
        const char *text, *trimmed;
    } cases[] = {
        {"", ""},
        {"abc", "abc"},
        {"ab\xC3", "ab"},
        {"ab\xC3\xA9", "ab\xC3\xA9"},
        {"ab\xE2\x82", "ab"},
        {"ab\xE2\x82\xAC", "ab\xE2\x82\xAC"},
        {"\xF0\x9F\x98", ""},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
        {"a\xF0", "a"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[16];
        strcpy(text, cases[i].text);
        text_trim(text);
        cr_expect_str_eq(text, cases[i].trimmed, "case %zu", i);
    }
}

Test(json, text_is_written_member_by_member)
{
    struct json_out out = {0};
    size_t length = 0;
    json_out_begin(&out, NULL, '{');
    json_out_text(&out, "id", "a\"b\x01\xE2\x82\xAC\xFF");
    json_out_text(&out, "none", NULL);
    json_out_count(&out, "k\\", UINT64_MAX);
    json_out_raw(&out, "request", "{\"sigma\":2.385,\"tags\":[]}");
    json_out_raw(&out, "summary", NULL);
    json_out_raw(&out, "progress", "");
    json_out_begin(&out, "items", '[');
    json_out_begin(&out, NULL, '{');
    json_out_end(&out, '}');
    json_out_json(&out, NULL, json_pack("[i, n]", -7));
    json_out_text(&out, NULL, "");
    json_out_end(&out, ']');
    json_out_count(&out, "last", 0);
    json_out_end(&out, '}');
    char *text = json_out_finish(&out, &length);
    cr_assert_not_null(text);
    cr_expect_str_eq(text, "{\"id\":\"a\\\"b\\u0001\xE2\x82\xAC\xEF\xBF\xBD\",\"none\":null,"
                           "\"k\\\\\":9223372036854775807,"
                           "\"request\":{\"sigma\":2.385,\"tags\":[]},\"summary\":null,"
                           "\"progress\":null,\"items\":[{},[-7,null],\"\"],\"last\":0}");
    cr_expect_eq(length, strlen(text));
    free(text);
}

Test(json, text_with_a_member_that_could_not_be_made_is_none)
{
    struct json_out out = {0};
    json_out_begin(&out, NULL, '{');
    json_out_json(&out, "a", NULL);
    json_out_count(&out, "b", 1);
    json_out_end(&out, '}');
    cr_expect_null(json_out_finish(&out, NULL));
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Many small values take many times as much as their text. */
Test(json, what_parsing_takes_is_known_before)
{
    static const char *const values[] = {
        "1",   "0.5", "null", "\"a\"",     "\"abcdefghijklmnopqrstuvwxyz\"",
        "[]",  "[1]", "{}",   "{\"a\":1}", "{\"a\":\"b\",\"c\":\"d\"}",
        "[[]]"};
    enum { COUNT = 50000 };
    for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
        size_t length = strlen(values[v]), size = COUNT * (length + 1) + 1;
        char *text = malloc(size + 1), *at = text;
        for (size_t i = 0; i < COUNT; i++) {
            *at++ = i == 0 ? '[' : ',';
            memcpy(at, values[v], length);
            at += length;
        }
        *at = ']';
        struct err_info info;
        json_t *json;
        size_t before = allocated();
        cr_assert_eq(json_parse(&json, text, size, &info), ERR_OK);
        size_t taken = allocated() - before;
        cr_expect_geq(json_memory(text, size), taken, "%s: %zu bytes", values[v], taken);
        json_decref(json);
        free(text);
    }
}
