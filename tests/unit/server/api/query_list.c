/* Lists in query strings. */
#include "server/api/query_list.h"

#include <criterion/criterion.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

Test(pick, commas_inside_brackets_do_not_separate)
{
    static const struct {
        const char *text;
        size_t count;
        const char *items[4];
    } cases[] = {
        {"theta[1]", 1, {"theta[1]"}},
        {"theta[1],U[3,7],mu", 3, {"theta[1]", "U[3,7]", "mu"}},
        {" a , b[1, 2] ,c ", 3, {"a", "b[1, 2]", "c"}},
        {"", 1, {""}},
        {",", 2, {"", ""}},
        {"a,,b", 3, {"a", "", "b"}},
        {"U[3,7", 1, {"U[3,7"}},
        {"a],b", 2, {"a]", "b"}},
        {"a[b[1,2],3],c", 2, {"a[b[1,2],3]", "c"}},
        {"   ", 1, {""}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct query_names list;
        cr_assert(query_names_split(&list, cases[i].text));
        cr_expect_eq(list.count, cases[i].count, "\"%s\": %zu items", cases[i].text, list.count);
        for (size_t k = 0; k < list.count && k < cases[i].count; k++)
            cr_expect_str_eq(list.items[k], cases[i].items[k], "\"%s\"", cases[i].text);
        query_names_release(&list);
    }
}
