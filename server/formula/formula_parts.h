/* The parts of the parser of formulas: tokens, what every part needs of the parser, arithmetic,
 * variables, and sets of terms. Private to this folder.
 *
 * Functions that return bool return false after `formula_fail`: `err`, the message and `*at` are set. */
#ifndef BARKER_SERVER_FORMULA_FORMULA_PARTS_H
#define BARKER_SERVER_FORMULA_FORMULA_PARTS_H

#include "server/formula/formula.h"

#include <stdint.h>

enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_CALL, /* a name before a parenthesis */
    TOKEN_NUMBER,
    TOKEN_TEXT, /* in quotes */
    TOKEN_DOT,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_COMMA,
    TOKEN_EQUALS,
    TOKEN_TILDE,
    TOKEN_PLUS,
    TOKEN_MINUS,
    TOKEN_TIMES,
    TOKEN_SLASH,
    TOKEN_POWER,
    TOKEN_COLON,
    TOKEN_IN,
    TOKEN_BAR,  /* | and || */
    TOKEN_OTHER /* what R has and formulas here do not: == & $ ... */
};

struct token {
    enum token_kind kind;
    size_t at, length;
};

/* How tightly operators bind, as in R; 0: no operator. Signs bind tighter than a colon. */
enum binding { BIND_SUM = 1, BIND_PRODUCT, BIND_IN, BIND_COLON, BIND_SIGN, BIND_POWER };

/* Terms, each once, in the order in which they were added: rows of bits, one bit per variable.
 * Zeroed: none. */
struct term_list {
    uint64_t *bits;
    uint32_t *slots; /* a hash table of positions from 1 */
    size_t count, capacity;
};

/* What all lists of a formula share. */
struct term_space {
    size_t words; /* of a term */
    size_t work;  /* terms touched so far */
    size_t room;  /* of all lists together */
    bool spent;   /* there was more work, or more room, than allowed */
};

struct parser {
    const char *text;
    size_t length;
    const struct formula_columns *columns;
    size_t *sorted; /* the columns by name */

    struct token *tokens; /* the last one is TOKEN_END */
    size_t next;
    size_t depth;
    size_t opened
        [FORMULA_DEPTH_MAX]; /* where each level's parenthesis is; SIZE_MAX: a sign, a power */

    /* The variable being read: its label grows token by token, its nodes operator by operator. */
    char *label;
    size_t label_length, label_capacity;
    bool label_failed; /* no memory */
    struct formula_node nodes[FORMULA_NODES_MAX];
    size_t node_count;
    bool arithmetic; /* inside a function, or left of ~ */

    struct formula_variable *variables;
    uint64_t *hashes; /* of their labels */
    size_t variable_count, variable_capacity;
    size_t response, failures, response_again; /* the last: where it stands right of ~; SIZE_MAX */

    bool intercept, removing; /* removing: right of a minus */
    struct term_space space;
    struct term_list dot; /* what `.` stands for */
    bool dot_known;

    size_t *at;
    struct err_info *info;
    enum err err;
};

/* formula_tokens.c */

/* Fills `tokens`. Mistakes: invalid UTF-8, characters that no token has, quotes without an end. */
bool formula_tokens(struct parser *p);
/* A name or text without its quotes and escapes; malloc. NULL: no memory. */
char *formula_unquote(const struct parser *p, const struct token *token);
/* The number, and whether it is written as an integer, like 2L. */
bool formula_number_token(struct parser *p, const struct token *token, double *value,
                          bool *integer);
/* Whether R reads the name without backticks. */
bool formula_is_plain_name(const char *name);

/* formula_say.c */

bool formula_fail(struct parser *p, size_t at, enum err code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool formula_no_memory(struct parser *p);
/* The next token may not stand where it stands. */
bool formula_unexpected(struct parser *p);
bool formula_unknown_column(struct parser *p, const struct token *token, const char *name);
bool formula_unknown_function(struct parser *p, const struct token *token);
/* The functions, for messages. */
#define FORMULA_ARITHMETIC "I log log2 log10 log1p exp sqrt abs"
#define FORMULA_FUNCTIONS  FORMULA_ARITHMETIC " poly ns scale factor as.factor relevel offset"

/* formula_number.c: arithmetic, and what the other readers share */

const struct token *formula_token(const struct parser *p);
bool formula_token_is(const struct parser *p, const struct token *token, const char *word);
bool formula_expect(struct parser *p, enum token_kind kind);
/* One level deeper, until formula_leave. */
bool formula_enter(struct parser *p, size_t opened);
void formula_leave(struct parser *p);
void formula_label(struct parser *p, const char *text);
/* In quotes or backticks, with escapes. */
void formula_label_quoted(struct parser *p, const char *text, char quote);
void formula_label_name(struct parser *p, const char *name);
void formula_label_number(struct parser *p, double value, bool integer);
/* The column that the next token names, appended to the nodes and the label. */
bool formula_read_column(struct parser *p);
/* Arithmetic whose operators bind at least as tightly as `binding`, appended likewise. */
bool formula_read_number(struct parser *p, int binding);

/* formula_variable.c */

/* The variable that begins at the next token, TOKEN_NAME or TOKEN_CALL, right of ~. */
bool formula_read_variable(struct parser *p, size_t *out);
/* The left side, up to ~. */
bool formula_read_response(struct parser *p);
/* A column as a variable by itself. */
bool formula_column_variable(struct parser *p, size_t column, size_t at, size_t *out);

/* formula_terms.c. TOO_LARGE: more than FORMULA_TERMS_MAX, more work or more room than is allowed. A
 * binary operation changes `left`; the order of terms is that of R. */

#define TERMS_WORK_MAX    2000000
#define TERMS_ROOM_MAX    100000
#define TERMS_FACTORS_MAX 100000 /* variables in all terms of a formula */

void terms_release(struct term_space *space, struct term_list *list);
enum err terms_add_variable(struct term_space *space, struct term_list *list, size_t variable);
enum err terms_plus(struct term_space *space, struct term_list *left,
                    const struct term_list *right);
enum err terms_minus(struct term_space *space, struct term_list *left,
                     const struct term_list *right);
enum err terms_interact(struct term_space *space, struct term_list *left,
                        const struct term_list *right);
enum err terms_cross(struct term_space *space, struct term_list *left,
                     const struct term_list *right);
enum err terms_nest(struct term_space *space, struct term_list *left,
                    const struct term_list *right);
enum err terms_within(struct term_space *space, struct term_list *left,
                      const struct term_list *right);
enum err terms_power(struct term_space *space, struct term_list *left, double power);
bool terms_has(const struct term_space *space, const struct term_list *list, size_t term,
               size_t variable);
size_t terms_degree(const struct term_space *space, const struct term_list *list, size_t term);

#endif
