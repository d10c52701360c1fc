/* The request rules, without sockets. */
#include "server/http/rules.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* "path a=[1] b=[]", or the name of the error. */
static const char *uri(const char *raw)
{
    static char out[400];
    char copy[2000];
    struct rules_uri parsed;
    struct err_info info = {.message = ""};
    snprintf(copy, sizeof copy, "%s", raw);
    enum err err = rules_uri(copy, &parsed, &info);
    if (err) {
        cr_assert(info.message[0], "an error without a word for %s", raw);
        for (const char *p = info.message; *p; p++)
            cr_assert(*p >= 0x20 && *p < 0x7f, "raw byte %02x in the message for %s", *p, raw);
        cr_assert_str_eq(parsed.path, "");
        return err_name(err);
    }
    int used = snprintf(out, sizeof out, "%s", parsed.path);
    for (size_t i = 0; i < parsed.param_count; i++)
        used += snprintf(out + used, sizeof out - (size_t)used, " %s=[%s]", parsed.params[i].name,
                         parsed.params[i].value);
    return out;
}

Test(http_rules, targets_are_split_decoded_or_refused)
{
    static const struct {
        const char *raw, *is;
    } cases[] = {
        {"/", "/"},
        {"/v1/jobs/a_b-c.d~9", "/v1/jobs/a_b-c.d~9"},
        {"/x?", "/x"},
        {"/x?a=1&b=", "/x a=[1] b=[]"},
        {"/x?a&&b=2&", "/x a=[] b=[2]"},
        {"/x?q=a%20b+c%2B%26%3d", "/x q=[a b c+&=]"},
        {"/x?theta%5B1%5D=2.385", "/x theta[1]=[2.385]"},
        {"/x?a=b=c", "/x a=[b=c]"},
        {"/x?q=%c3%bc%E2%82%AC%f0%9f%90%95", "/x q=[\xc3\xbc\xe2\x82\xac\xf0\x9f\x90\x95]"},
        {"/x?a=..//", "/x a=[..//]"},
        {"", "MALFORMED"},
        {"x", "MALFORMED"},
        {"*", "MALFORMED"},
        {"http://localhost/x", "MALFORMED"},
        {"//x", "MALFORMED"},
        {"/x//y", "MALFORMED"},
        {"/..", "MALFORMED"},
        {"/x/../y", "MALFORMED"},
        {"/x..y", "MALFORMED"},
        {"/x%2e%2e", "MALFORMED"},
        {"/x%00y", "MALFORMED"},
        {"/x%2fy", "MALFORMED"},
        {"/x%5cy", "MALFORMED"},
        {"/x\\y", "MALFORMED"},
        {"/x%0d%0aSet-Cookie:a", "MALFORMED"},
        {"/x y", "MALFORMED"},
        {"/x;y", "MALFORMED"},
        {"/x#y", "MALFORMED"},
        {"/\xc0\xae\xc0\xae/", "MALFORMED"},
        {"/x\x1b[31m", "MALFORMED"},
        {"/x?a=1&a=2", "MALFORMED"},
        {"/x?a=1&%61=2", "MALFORMED"},
        {"/x?=1", "MALFORMED"},
        {"/x?a=%00", "MALFORMED"},
        {"/x?a%00b=1", "MALFORMED"},
        {"/x?a=%", "MALFORMED"},
        {"/x?a=%4", "MALFORMED"},
        {"/x?a=%4g", "MALFORMED"},
        {"/x?a=%g4", "MALFORMED"},
        {"/x?a=b%0d%0a", "MALFORMED"},
        {"/x?a=%7f", "MALFORMED"},
        {"/x?a=%1b[31m", "MALFORMED"},
        {"/x?a=%ff", "MALFORMED"},
        {"/x?a=%c0%af", "MALFORMED"},
        {"/x?a=%e0%80%af", "MALFORMED"},
        {"/x?a=%ed%a0%80", "MALFORMED"},
        {"/x?a=%f4%90%80%80", "MALFORMED"},
        {"/x?a=%c3", "MALFORMED"},
        {"/x?a=b c", "MALFORMED"},
        {"/x?a=\xc3\xbc", "MALFORMED"},
        {"/x?a=b#c", "MALFORMED"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_str_eq(uri(cases[i].raw), cases[i].is, "%s gives %s", cases[i].raw,
                         uri(cases[i].raw));
}

Test(http_rules, parameters_are_bounded)
{
    char raw[2000] = "/x?";
    for (int i = 0; i < RULES_PARAMS; i++)
        snprintf(raw + strlen(raw), sizeof raw - strlen(raw), "p%d=%d&", i, i);
    cr_expect_neq(strcmp(uri(raw), "MALFORMED"), 0);
    strcat(raw, "more=1");
    cr_expect_str_eq(uri(raw), "MALFORMED");
}

Test(http_rules, methods_are_exact)
{
    enum http_method method;
    for (int i = 0; i <= HTTP_OPTIONS; i++) {
        cr_expect_eq(rules_method(http_method_name((enum http_method)i), &method, NULL), ERR_OK);
        cr_expect_eq((int)method, i);
    }
    static const char *const others[] = {"",      "get",   "Get",     "GETS",       "GE",
                                         "TRACE", "HEAD ", "CONNECT", "G\x01\xffT", "PROPFIND"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_eq(rules_method(others[i], &method, NULL), ERR_METHOD, "%s", others[i]);
}

/* Up to four headers, "name: value" each, then the end of the header. */
static enum err headers(const char *const lines[4], const char *version, struct rules_headers *out)
{
    struct err_info info;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 4 && lines[i]; i++) {
        const char *colon = strchr(lines[i], ':');
        const char *value = colon + 1 + strspn(colon + 1, " ");
        enum err err =
            rules_header(out, lines[i], (size_t)(colon - lines[i]), value, strlen(value), &info);
        if (err)
            return err;
    }
    return rules_headers_end(out, version, &info);
}

Test(http_rules, header_combinations_that_smuggle_are_refused)
{
    static const struct {
        const char *lines[4];
        enum err err;
    } cases[] = {
        {{"Host: a"}, ERR_OK},
        {{"hOsT: a", "X: 1", "X: 2"}, ERR_OK},
        {{"Host: a", "X: tab\there \xc3\xbc", "Content-Length: 12"}, ERR_OK},
        {{"Host: a", "Transfer-Encoding: chunked"}, ERR_OK},
        {{"Host: a", "Transfer-Encoding: Chunked"}, ERR_OK},
        {{"X: 1"}, ERR_MALFORMED},
        {{"Host: a", "Host: a"}, ERR_MALFORMED},
        {{"Host: a", "Authorization: x", "authorization: y"}, ERR_MALFORMED},
        {{"Host: a", "Content-Type: x", "Content-Type: x"}, ERR_MALFORMED},
        {{"Host: a", "Content-Length: 6", "Content-Length: 6"}, ERR_MALFORMED},
        {{"Host: a", "Content-Length: 6", "Transfer-Encoding: chunked"}, ERR_MALFORMED},
        {{"Host: a", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"}, ERR_MALFORMED},
        {{"Host: a", "Transfer-Encoding: gzip, chunked"}, ERR_MALFORMED},
        {{"Host: a", "Transfer-Encoding: chunked, gzip"}, ERR_MALFORMED},
        {{"Host: a", "Transfer-Encoding: identity"}, ERR_MALFORMED},
        {{"Host: a", "Transfer-Encoding: xchunked"}, ERR_MALFORMED},
        {{"Host: a", "Transfer-Encoding: chunked "}, ERR_MALFORMED},
        {{"Host: a", "Content-Length: +6"}, ERR_MALFORMED},
        {{"Host: a", "Content-Length: -1"}, ERR_MALFORMED},
        {{"Host: a", "Content-Length: 6, 6"}, ERR_MALFORMED},
        {{"Host: a", "Content-Length: 0x6"}, ERR_MALFORMED},
        {{"Host: a", "Content-Length:"}, ERR_MALFORMED},
        {{"Host: a", "Content-Length: 9999999999999999999"}, ERR_MALFORMED},
        {{"Host: a", "Idempotency-Key: x", "Idempotency-Key: y"}, ERR_MALFORMED},
        {{"Host: a", "X Authorization: y"}, ERR_MALFORMED},
        {{"Host: a", "Authorization : y"}, ERR_MALFORMED},
        {{"Host: a", "X\x01: y"}, ERR_MALFORMED},
        {{"Host: a", "X\x7f: y"}, ERR_MALFORMED},
        {{"Host: a", "\xc3\xbc: y"}, ERR_MALFORMED},
        {{"Host: a", ": y"}, ERR_MALFORMED},
        {{"Host: a", "X: a\rb"}, ERR_MALFORMED},
        {{"Host: a", "X: a\x1b[31m"}, ERR_MALFORMED},
        {{"Host: a", "X: a\x7f"}, ERR_MALFORMED},
    };
    struct rules_headers parsed;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(headers(cases[i].lines, "HTTP/1.1", &parsed), cases[i].err, "case %zu: %s", i,
                     cases[i].lines[1]);
    const char *const chunked[4] = {"Host: a", "Transfer-Encoding: chunked"};
    cr_expect_eq(headers(chunked, "HTTP/1.0", &parsed), ERR_MALFORMED);
    const char *const length[4] = {"Host: a", "Content-Length: 000123456789012345"};
    cr_expect_eq(headers(length, "HTTP/1.1", &parsed), ERR_OK);
    cr_expect_eq(parsed.length, 123456789012345u);
}

Test(http_rules, hosts_are_compared_without_port_and_case)
{
    static const char *const allowed[] = {"localhost", "::1", "lab.example", NULL};
    static const struct {
        const char *host;
        enum err err;
    } cases[] = {
        {"localhost", ERR_OK},
        {"LocalHost:8080", ERR_OK},
        {"localhost:", ERR_OK},
        {"[::1]", ERR_OK},
        {"[::1]:443", ERR_OK},
        {"lab.example:1", ERR_OK},
        {"evil.example", ERR_MISDIRECTED},
        {"localhost.evil.example", ERR_MISDIRECTED},
        {"localhos", ERR_MISDIRECTED},
        {"localhost.", ERR_MISDIRECTED},
        {"user@localhost", ERR_MISDIRECTED},
        {"", ERR_MALFORMED},
        {":80", ERR_MALFORMED},
        {"localhost:80:90", ERR_MALFORMED},
        {"localhost:x", ERR_MALFORMED},
        {"localhost:123456", ERR_MALFORMED},
        {"[::1", ERR_MALFORMED},
        {"[::1]x", ERR_MALFORMED},
        {"[]", ERR_MALFORMED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(rules_host(cases[i].host, allowed, NULL), cases[i].err, "%s", cases[i].host);
}
