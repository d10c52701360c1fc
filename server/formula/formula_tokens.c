/* Text -> tokens, as R cuts it. */
#include "server/formula/formula_parts.h"

#include "server/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES_MAX 60

/* Beyond ASCII everything is a letter but controls, punctuation, symbols, arrows, pictures and private
 * characters, by blocks: nearly what iswalpha says, without a locale. */
static bool is_symbol(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } blocks[] = {{0x80, 0xa9},       {0xab, 0xb4},       {0xb6, 0xb9},     {0xbb, 0xbf},
                  {0xd7, 0xd7},       {0xf7, 0xf7},       {0x2000, 0x20ff}, {0x2190, 0x2bff},
                  {0x2e00, 0x2e7f},   {0x3000, 0x3004},   {0x3008, 0x3020}, {0xe000, 0xf8ff},
                  {0xfe00, 0xfe1f},   {0xfe30, 0xfe6f},   {0xfeff, 0xff20}, {0xfff0, 0xffff},
                  {0x1f000, 0x1faff}, {0xe0000, 0x10ffff}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (code >= blocks[i].first && code <= blocks[i].last)
            return true;
    return false;
}

/* The bytes of the letter that starts `text`, which ends with a NUL; 0: it is none. */
static size_t letter(const char *text)
{
    unsigned char first = (unsigned char)*text;
    if (first < 0x80)
        return (first | 32) >= 'a' && (first | 32) <= 'z';
    size_t size = text_character(text, strnlen(text, 4));
    if (size == 0)
        return 0;
    uint32_t code = first & (0x7fU >> size);
    for (size_t i = 1; i < size; i++)
        code = code << 6 | ((unsigned char)text[i] & 0x3fU);
    return is_symbol(code) ? 0 : size;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The bytes of the name that starts `text`; 0: none does. */
static size_t name_length(const char *text)
{
    size_t n = *text == '.' ? !is_digit(text[1]) : letter(text);
    if (n == 0)
        return 0;
    for (;;) {
        size_t more = is_digit(text[n]) || text[n] == '.' || text[n] == '_' ? 1 : letter(text + n);
        if (more == 0)
            return n;
        n += more;
    }
}

bool formula_is_plain_name(const char *name)
{
    static const char *const reserved[] = {
        "if",    "else", "repeat",      "while",    "function",      "for", "next",
        "break", "TRUE", "FALSE",       "NULL",     "Inf",           "NaN", "NA",
        "in",    "...",  "NA_integer_", "NA_real_", "NA_character_", ".",   "NA_complex_",
    };
    size_t n = name_length(name);
    if (n == 0 || name[n] != '\0')
        return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(name, reserved[i]) == 0)
            return false;
    return true;
}

static size_t number_length(const char *text)
{
    size_t n = 0;
    while (is_digit(text[n]))
        n++;
    if (text[n] == '.' && (n > 0 || is_digit(text[1])))
        n++;
    while (n > 0 && is_digit(text[n]))
        n++;
    if (n == 0)
        return 0;
    if (text[n] == 'e' || text[n] == 'E') {
        size_t digits = n + 1 + (text[n + 1] == '+' || text[n + 1] == '-');
        if (is_digit(text[digits]))
            for (n = digits; is_digit(text[n]);)
                n++;
    }
    return n + (text[n] == 'L');
}

bool formula_number_token(struct parser *p, const struct token *token, double *value, bool *integer)
{
    char number[NUMBER_BYTES_MAX + 1];
    memcpy(number, p->text + token->at, token->length);
    number[token->length] = '\0';
    *value = strtod(number, NULL);
    if (!isfinite(*value))
        return formula_fail(p, token->at, ERR_INVALID,
                            "the number %s is too large: numbers are below 1.8e308", number);
    /* As in R, 1.5L and 1e10L are no integers. */
    *integer = number[token->length - 1] == 'L' && *value <= 2147483647 && *value == floor(*value);
    return true;
}

/* The bytes of what the quote at `at` opens, both quotes included. */
static bool quoted(struct parser *p, size_t at, size_t *length)
{
    char quote = p->text[at];
    for (size_t i = at + 1; i < p->length; i++) {
        if (p->text[i] == quote) {
            *length = i + 1 - at;
            if (*length == 2 && quote == '`')
                return formula_fail(p, at, ERR_INVALID,
                                    "there is no name between these backticks: write the name of a "
                                    "column between them");
            return true;
        }
        if (p->text[i] != '\\')
            continue;
        i++;
        if (p->text[i] == '\0' || strchr("\\\"'`ntr", p->text[i]) == NULL)
            return formula_fail(p, i - 1, ERR_INVALID,
                                "a backslash in quotes is followed by one of \\ \" ' ` n t r");
    }
    return formula_fail(p, at, ERR_INVALID, "this %c is never closed: a second %c is missing",
                        quote, quote);
}

char *formula_unquote(const struct parser *p, const struct token *token)
{
    const char *from = p->text + token->at, *end = from + token->length;
    bool is_quoted = *from == '`' || *from == '"' || *from == '\'';
    char *out = malloc(token->length + 1), *to = out;
    if (out == NULL)
        return NULL;
    if (is_quoted) {
        from++;
        end--;
    }
    while (from < end) {
        char c = *from++;
        if (is_quoted && c == '\\') {
            c = *from++;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        *to++ = c;
    }
    *to = '\0';
    return out;
}

static void set(struct token *token, enum token_kind kind, size_t length)
{
    token->kind = kind;
    token->length = length;
}

static bool operator_token(struct parser *p, struct token *token)
{
    static const struct {
        const char *text;
        enum token_kind kind;
    } operators[] = {
        {"%in%", TOKEN_IN},  {"**", TOKEN_POWER}, {"||", TOKEN_BAR},   {"::", TOKEN_OTHER},
        {"==", TOKEN_OTHER}, {"<-", TOKEN_OTHER}, {"<=", TOKEN_OTHER}, {">=", TOKEN_OTHER},
        {"!=", TOKEN_OTHER}, {"&&", TOKEN_OTHER}, {"->", TOKEN_OTHER}, {"(", TOKEN_OPEN},
        {")", TOKEN_CLOSE},  {",", TOKEN_COMMA},  {"=", TOKEN_EQUALS}, {"~", TOKEN_TILDE},
        {"+", TOKEN_PLUS},   {"-", TOKEN_MINUS},  {"*", TOKEN_TIMES},  {"/", TOKEN_SLASH},
        {"^", TOKEN_POWER},  {":", TOKEN_COLON},  {"|", TOKEN_BAR},    {"<", TOKEN_OTHER},
        {">", TOKEN_OTHER},  {"!", TOKEN_OTHER},  {"&", TOKEN_OTHER},  {"$", TOKEN_OTHER},
        {"[", TOKEN_OTHER},  {"]", TOKEN_OTHER},  {"{", TOKEN_OTHER},  {"}", TOKEN_OTHER},
        {"@", TOKEN_OTHER},  {";", TOKEN_OTHER},  {"?", TOKEN_OTHER},
    };
    const char *text = p->text + token->at;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t n = strlen(operators[i].text);
        if (strncmp(text, operators[i].text, n) == 0) {
            set(token, operators[i].kind, n);
            return true;
        }
    }
    const char *percent = *text == '%' ? strchr(text + 1, '%') : NULL;
    set(token, TOKEN_OTHER, percent == NULL ? 1 : (size_t)(percent + 1 - text));
    if (*text == '%')
        return true;
    char shown[TEXT_SHOWN_MAX];
    size_t size = text_character(text, p->length - token->at);
    return formula_fail(p, token->at, ERR_INVALID,
                        "\"%s\" has no meaning in a formula; allowed are names, numbers, "
                        "+ - * / ^ : %%in%% ( ) . ~ and functions, and names with other "
                        "characters in backticks, like `odd name`",
                        text_shown(shown, text, size));
}

static bool one(struct parser *p, struct token *token)
{
    const char *text = p->text + token->at;
    size_t n;
    if (*text == '`' || *text == '"' || *text == '\'') {
        token->kind = *text == '`' ? TOKEN_NAME : TOKEN_TEXT;
        return quoted(p, token->at, &token->length);
    }
    if ((n = number_length(text)) > 0) {
        set(token, TOKEN_NUMBER, n);
        return n <= NUMBER_BYTES_MAX ||
               formula_fail(p, token->at, ERR_INVALID,
                            "a number of %zu characters: at most %d are allowed", n,
                            NUMBER_BYTES_MAX);
    }
    if ((n = name_length(text)) > 0) {
        set(token, n == 1 && *text == '.' ? TOKEN_DOT : TOKEN_NAME, n);
        return true;
    }
    return operator_token(p, token);
}

static size_t blanks(const char *text)
{
    return strspn(text, " \t\r\n\f\v");
}

bool formula_tokens(struct parser *p)
{
    for (size_t i = 0, n; i < p->length; i += n)
        if ((n = text_character(p->text + i, p->length - i)) == 0)
            return formula_fail(p, i, ERR_INVALID,
                                "the byte 0x%02x is not UTF-8: formulas are text in UTF-8",
                                (unsigned char)p->text[i]);
    p->tokens = malloc((p->length + 1) * sizeof *p->tokens);
    if (p->tokens == NULL)
        return formula_no_memory(p);
    struct token *token = p->tokens;
    size_t at = blanks(p->text);
    while (at < p->length) {
        token->at = at;
        if (!one(p, token))
            return false;
        if (token->kind == TOKEN_OPEN && token > p->tokens && token[-1].kind == TOKEN_NAME &&
            p->text[token[-1].at] != '`')
            token[-1].kind = TOKEN_CALL;
        at += token->length;
        at += blanks(p->text + at);
        token++;
    }
    *token = (struct token){.kind = TOKEN_END, .at = p->length};
    return true;
}
