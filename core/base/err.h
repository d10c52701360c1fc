/* Errors: one list of codes with a sentence each, and a caller-owned message.
 *
 * A function that can fail for a reason outside the program returns `enum err` and writes a message
 * to the caller's `struct err_info`: what is wrong, where, what is allowed. Defects of the program
 * itself are assertions. To add a code, add a line to ERR_LIST; the compiler then reports that its
 * HTTP status is missing in server/api/problem.c. */
#ifndef BARKER_CORE_BASE_ERR_H
#define BARKER_CORE_BASE_ERR_H

#define ERR_LIST(X)                                               \
    X(OK, "no error")                                             \
    X(INVALID, "a value is not allowed")                          \
    X(MALFORMED, "the input could not be parsed")                 \
    X(UNSUPPORTED, "this combination is not supported")           \
    X(NOT_FOUND, "it does not exist")                             \
    X(CONFLICT, "the present state does not allow it")            \
    X(UNAUTHENTICATED, "a valid token is needed")                 \
    X(FORBIDDEN, "the role does not allow it")                    \
    X(METHOD, "the method is not allowed here")                   \
    X(MEDIA_TYPE, "the content type is not supported")            \
    X(TOO_LARGE, "larger than the limit")                         \
    X(QUOTA, "a quota is used up")                                \
    X(RATE, "too many requests")                                  \
    X(MISDIRECTED, "the host name is not served here")            \
    X(TIMEOUT, "the time limit is exceeded")                      \
    X(DATA_CHANGED, "the data are not those of the submission")   \
    X(DIVERGED, "the chain diverged")                             \
    X(CORRUPT, "stored bytes are damaged")                        \
    X(NO_SPACE, "the disk is full")                               \
    X(NO_MEMORY, "out of memory")                                 \
    X(IO, "an input or output operation failed")                  \
    X(UNAVAILABLE, "the server is not ready or is shutting down") \
    X(INTERNAL, "a defect of the program")

enum err {
#define X(name, text) ERR_##name,
    ERR_LIST(X)
#undef X
};

struct err_info {
    enum err code;
    char message[400];
};

/* Writes the message (printf style, cut to fit) and returns `code`. `info` may be NULL. */
enum err err_set(struct err_info *info, enum err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "INVALID", and the sentence of the list above. */
const char *err_name(enum err code);
const char *err_text(enum err code);

#endif
