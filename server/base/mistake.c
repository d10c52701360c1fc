/* The list of mistakes. */
#include "server/base/mistake.h"
#include "server/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *mistake_kind_name(enum mistake_kind kind)
{
    static const char *const names[] = {
#define X(kind) #kind,
        MISTAKE_LIST(X)
#undef X
    };
    return names[kind];
}

void mistake_add(struct mistakes *mistakes, const char *pointer, enum mistake_kind kind,
                 const char *format, ...)
{
    if (mistakes->count == MISTAKES_MAX) {
        mistakes->more = true;
        return;
    }
    struct mistake *m = &mistakes->items[mistakes->count++];
    m->kind = kind;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(m->detail, sizeof m->detail, format, arguments);
    va_end(arguments);
    snprintf(m->pointer, sizeof m->pointer, "%s", pointer);
    text_trim(m->detail);
    text_trim(m->pointer);
    text_repair(m->detail);
    text_repair(m->pointer);
}

bool mistake_at(const struct mistakes *mistakes, const char *pointer)
{
    for (size_t i = 0; i < mistakes->count; i++)
        if (strcmp(mistakes->items[i].pointer, pointer) == 0)
            return true;
    return false;
}
