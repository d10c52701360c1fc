/* Text from outside: one UTF-8 validator, one JSON string writer for all. */
#include "server/base/text.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    const char *text;
    size_t bytes, printable;
} characters[] = {
    {"a", 1, 1},
    {"\x1f", 1, 0},
    {"\x7f", 1, 0},
    {"\xC2\x85", 2, 0},         /* U+0085, a control character */
    {"\xC3\xA4", 2, 2},         /* U+00E4 */
    {"\xE2\x82\xAC", 3, 3},     /* U+20AC */
    {"\xF0\x9F\x98\x80", 4, 4}, /* U+1F600 */
    {"\xF4\x8F\xBF\xBF", 4, 4}, /* U+10FFFF */
    {"\xF4\x90\x80\x80", 0, 0}, /* beyond it */
    {"\xC1\xBF", 0, 0},         /* overlong */
    {"\xE0\x9F\xBF", 0, 0},     /* overlong */
    {"\xF0\x8F\xBF\xBF", 0, 0}, /* overlong */
    {"\xED\xA0\x80", 0, 0},     /* a surrogate */
    {"\x80", 0, 0},             /* no beginning */
    {"\xE2\x82", 0, 0},         /* cut off */
    {"\xE2\x82(", 0, 0},
};

Test(text, characters_are_valid_utf8_or_none)
{
    for (size_t i = 0; i < sizeof characters / sizeof characters[0]; i++) {
        const char *text = characters[i].text;
        cr_expect_eq(text_character(text, strlen(text)), characters[i].bytes, "%zu", i);
        cr_expect_eq(text_printable(text, strlen(text)), characters[i].printable, "%zu", i);
    }
}

Test(text, what_is_shown_is_one_short_line)
{
    char out[TEXT_SHOWN_MAX];
    cr_expect_str_eq(text_shown(out, "a\"b\\c\n\xFF\xC3\xA4", 9), "a\\\"b\\\\c\\x0a\\xff\xC3\xA4");
    cr_expect_str_eq(text_shown(out, "0123456789012345678901234567890123456789", 40),
                     "0123456789012345678901234567890123456789");
    cr_expect_str_eq(text_shown(out, "0123456789012345678901234567890123456789+", 41),
                     "0123456789012345678901234567890123456789...");
}

Test(text, json_strings_are_escaped_and_cut_between_characters)
{
    static const char text[] = "a\"\\\n\x01\x7f\xFF\xE2\x82\xAC";
    static const char whole[] = "\"a\\\"\\\\\\n\\u0001\\u007f\xEF\xBF\xBD\xE2\x82\xAC\"";
    char out[sizeof whole + 8];
    for (size_t room = 2; room <= sizeof out; room++) {
        size_t n = (size_t)(text_json(out, out + room, text, sizeof text - 1) - out);
        cr_expect_leq(n, room);
        cr_expect(out[0] == '"' && out[n - 1] == '"', "%zu", room);
        cr_expect_eq(memcmp(out, whole, n - 1), 0, "%zu", room);
        if (room >= sizeof whole - 1)
            cr_expect_eq(n, sizeof whole - 1, "%zu", room);
    }
}
