/* Mistakes in what a client sent: all of them at once, each with the place and what is allowed.
 * They become the `errors` of a problem document. */
#ifndef BARKER_SERVER_BASE_MISTAKE_H
#define BARKER_SERVER_BASE_MISTAKE_H

#include <stdbool.h>
#include <stddef.h>

#define MISTAKES_MAX 32

/* X(kind): what is wrong, for programs; `detail` is for people. */
#define MISTAKE_LIST(X)                                                       \
    X(required) /* a field that must be given is not */                       \
    X(unknown)  /* there is no such field or query parameter */               \
    X(type)     /* a string where a number must be, and the like */           \
    X(range)    /* the right type, but too small, too long, badly formed */   \
    X(choice)   /* not one of the words allowed */                            \
    X(conflict) /* not together with another field, or with the data */       \
    X(missing)  /* the name of a file, column, parameter that is not there */ \
    X(data)     /* what a data file holds */                                  \
    X(limit)    /* more than this server allows */

enum mistake_kind {
#define X(kind) MISTAKE_##kind,
    MISTAKE_LIST(X)
#undef X
};

const char *mistake_kind_name(enum mistake_kind kind);

struct mistake {
    char pointer[200]; /* RFC 6901: "/sampler/step_size", "" for the whole document */
    char detail[400];  /* a sentence that can follow the pointer */
    enum mistake_kind kind;
};

/* Zeroed: none. */
struct mistakes {
    size_t count;
    struct mistake items[MISTAKES_MAX];
    bool more; /* there were more than fit */
};

/* Appends one, printf style. What is too long is cut between characters, so that both texts stay
 * valid UTF-8. */
void mistake_add(struct mistakes *mistakes, const char *pointer, enum mistake_kind kind,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Whether there is one with exactly this pointer. */
bool mistake_at(const struct mistakes *mistakes, const char *pointer);

#endif
