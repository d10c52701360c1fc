/* Levels of a verdict: values for programs; the sentence is for people. */
#ifndef BARKER_SERVER_BASE_LEVELS_H
#define BARKER_SERVER_BASE_LEVELS_H

#include <stdbool.h>

#define MIXING_LEVEL_LIST(X)                                       \
    X(unknown, "unknown") /* nothing can be said yet, or at all */ \
    X(good, "good")                                                \
    X(fair, "fair")                                                \
    X(poor, "poor")

/* Ordered: the largest level of all evidence counts. */
#define BIAS_LEVEL_LIST(X)                                 \
    X(unknown, "unknown")                                  \
    X(none_seen, "none seen") /* no check has found one */ \
    X(mild, "mild")                                        \
    X(strong, "strong")

enum mixing_level {
    MIXING_LEVEL_no_verdict,
#define X(name, word) MIXING_LEVEL_##name,
    MIXING_LEVEL_LIST(X)
#undef X
};

enum bias_level {
    BIAS_LEVEL_no_verdict,
#define X(name, word) BIAS_LEVEL_##name,
    BIAS_LEVEL_LIST(X)
#undef X
};

/* NULL for no verdict. */
const char *mixing_level_name(enum mixing_level level);
const char *bias_level_name(enum bias_level level);
/* NULL and "" are no verdict. False: not a name. */
bool mixing_level_parse(const char *name, enum mixing_level *out);
bool bias_level_parse(const char *name, enum bias_level *out);

#endif
