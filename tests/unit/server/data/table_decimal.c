/* Decimal numbers in tables are those of strtod, to the last bit. */
#include "tests/unit/server/data/table_fixture.h"

/* Decimal text */

static void expect_as_strtod(const char *text)
{
    char *stop;
    double expected = strtod(text, &stop), value = -1.0;
    size_t size = strlen(text);
    const char *end = table_decimal(text, text + size, &value);
    cr_assert_eq(end, (const char *)stop, "\"%s\" ends elsewhere", text);
    cr_assert_eq(bits_of(value), bits_of(expected), "\"%s\" is %.17g, not %.17g", text, expected,
                 value);
}

static void random_decimal(uint64_t *state, char *text)
{
    size_t digits = 1 + below(state, 23), point = below(state, 26);
    if (below(state, 2))
        *text++ = "+-"[below(state, 2)];
    for (size_t i = 0; i < digits; i++) {
        if (i == point)
            *text++ = '.';
        *text++ = (char)('0' + below(state, 10));
    }
    if (below(state, 3) == 0)
        text += sprintf(text, "%c%d", "eE"[below(state, 2)],
                        (int)below(state, 60) - 30 + (below(state, 50) ? 0 : 300));
    *text = '\0';
}

static void random_printed(uint64_t *state, char *text)
{
    uint64_t bits = next_random(state);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (below(state, 4) != 0 || !isfinite(value))
        value = ((double)(bits >> 11) * 0x1p-53 - 0.5) * pow(10.0, (double)below(state, 12) - 4.0);
    sprintf(text, "%.*g", (int)(14 + below(state, 5)), value);
}

/* Exactly between two doubles, or one unit of the last digit beside that. */
static void random_halfway(uint64_t *state, char *text)
{
    uint64_t odd = (next_random(state) >> 11 | UINT64_C(1) << 53 | 1) & ((UINT64_C(1) << 54) - 1);
    int halvings = (int)below(state, 3), offset = (int)below(state, 3) - 1;
    uint64_t scaled = odd * (halvings == 2 ? 25 : halvings == 1 ? 5 : 1) + (uint64_t)offset;
    sprintf(text, "%llue-%d", (unsigned long long)scaled, halvings);
}

Test(table, decimals_are_bit_equal_to_strtod)
{
    static void (*const kinds[])(uint64_t *, char *) = {random_decimal, random_printed,
                                                        random_halfway};
    uint64_t state = 2385;
    char text[128];
    for (size_t i = 0; i < 1500000; i++) {
        kinds[i % 3](&state, text);
        expect_as_strtod(text);
    }
}

Test(table, decimals_at_the_edges_are_bit_equal_to_strtod)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "+0.0e-99999",
        "0e99999",
        "-0e+7",
        "5",
        ".5",
        "5.",
        "-.25e+1",
        "1E5",
        "00012.5",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993e1",
        "9007199254740992.5",
        "18446744073709551615",
        "18446744073709551616",
        "9999999999999999999",
        "1e22",
        "1e23",
        "1e27",
        "1e28",
        "-1e-27",
        "1e-28",
        "7.450580596923828125e-27",
        "1e308",
        "1e309",
        "-1e400",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "4.9e-324",
        "2e-324",
        "1e-400",
        "2.2250738585072011e-308",
        "123456789012345678901234567890",
        "0.00000000000000000000001234",
        "0.1000000000000000055511151231257827",
        "3e",
        "3e+",
        "3e-x",
        "7.2.1",
        "12abc",
        "1e99999999999",
        "1e-99999999999",
        "1e4294967297",
        "1e-18446744073709551617",
        "000000000000000000000000000000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_as_strtod(texts[i]);
}

Test(table, what_is_no_decimal_is_not_read)
{
    static const char *const texts[] = {"",    ".",    "-",  "+",   "e5", "-.e5", "nan",
                                        "inf", "-inf", " 1", "--1", "\0", "x",    ",1"};
    double value;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_expect_null(table_decimal(texts[i], texts[i] + strlen(texts[i]), &value), "\"%s\"",
                       texts[i]);
    char digits[TABLE_CELL_MAX + 1];
    memset(digits, '1', sizeof digits);
    cr_expect_not_null(table_decimal(digits, digits + TABLE_CELL_MAX, &value));
    cr_expect_null(table_decimal(digits, digits + sizeof digits, &value));
    cr_expect_eq(table_decimal("12345", "12345" + 3, &value) == NULL, false);
}

Test(table, a_decimal_is_not_read_beyond_its_end)
{
    double value = 0.0;
    const char *text = "-12.5e17";
    static const double expected[] = {0, 0, -1, -12, -12, -12.5, -12.5, -125, -12.5e17};
    for (size_t size = 2; size <= 8; size++) {
        cr_assert_not_null(table_decimal(text, text + size, &value));
        cr_expect_eq(value, size == 7 ? -125 : expected[size], "%zu bytes: %g", size, value);
    }
}
