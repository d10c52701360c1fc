/* Error names, sentences and messages. */
#include "core/base/err.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

enum err err_set(struct err_info *info, enum err code, const char *format, ...)
{
    if (info != NULL) {
        va_list args;
        va_start(args, format);
        info->code = code;
        vsnprintf(info->message, sizeof info->message, format, args);
        va_end(args);
    }
    return code;
}

const char *err_name(enum err code)
{
    static const char *const names[] = {
#define X(name, text) #name,
        ERR_LIST(X)
#undef X
    };
    return names[code];
}

const char *err_text(enum err code)
{
    static const char *const texts[] = {
#define X(name, text) text,
        ERR_LIST(X)
#undef X
    };
    return texts[code];
}
