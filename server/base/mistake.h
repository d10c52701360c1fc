/* Mistakes in what a client sent: all of them at once, each with the place and what is allowed.
 * They become the `errors` of a problem document. */
#ifndef BARKER_SERVER_BASE_MISTAKE_H
#define BARKER_SERVER_BASE_MISTAKE_H

#include <stdbool.h>
#include <stddef.h>

#define MISTAKES_MAX 32

struct mistake {
    char pointer[200]; /* RFC 6901: "/sampler/step_size", "" for the whole document */
    char detail[300];  /* a sentence that can stand behind the pointer */
};

/* Zeroed: none. */
struct mistakes {
    size_t count;
    struct mistake items[MISTAKES_MAX];
    bool more; /* there were more than fit */
};

/* Appends one, printf style. What is too long is cut between characters, so that both texts stay
 * valid UTF-8. */
void mistake_add(struct mistakes *mistakes, const char *pointer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether one is at this very place. */
bool mistake_at(const struct mistakes *mistakes, const char *pointer);

#endif
