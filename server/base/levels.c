/* Names of the levels of a verdict. */
#include "server/base/levels.h"

#include <stddef.h>
#include <string.h>

#define X(name, word) word,
static const char *const mixing[] = {NULL, MIXING_LEVEL_LIST(X)};
static const char *const bias[] = {NULL, BIAS_LEVEL_LIST(X)};
#undef X

/* The index of a name, 0 for none; `count` for another word. */
static unsigned find(const char *const *names, unsigned count, const char *name)
{
    unsigned i = 1;
    if (name == NULL || name[0] == '\0')
        return 0;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i;
}

const char *mixing_level_name(enum mixing_level level)
{
    return mixing[level];
}

const char *bias_level_name(enum bias_level level)
{
    return bias[level];
}

bool mixing_level_parse(const char *name, enum mixing_level *out)
{
    unsigned count = sizeof mixing / sizeof mixing[0], i = find(mixing, count, name);
    *out = i < count ? (enum mixing_level)i : MIXING_LEVEL_no_verdict;
    return i < count;
}

bool bias_level_parse(const char *name, enum bias_level *out)
{
    unsigned count = sizeof bias / sizeof bias[0], i = find(bias, count, name);
    *out = i < count ? (enum bias_level)i : BIAS_LEVEL_no_verdict;
    return i < count;
}
