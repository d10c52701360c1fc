/* Text from outside, made fit for a message. */
#include "server/base/quoted.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { QUOTED_BYTES = 40 };

size_t quoted_character(const char *text, size_t size)
{
    static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return p[0] >= ' ' && p[0] != 0x7f;
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || length > size)
        return 0;
    uint32_t code = p[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

const char *quoted(char out[QUOTED_MAX], const char *text, size_t size)
{
    size_t length = 0, taken;
    for (size_t i = 0; i < size; i += taken) {
        char piece[5];
        taken = quoted_character(text + i, size - i);
        if (taken == 0)
            snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)text[i]);
        else
            snprintf(piece, sizeof piece, "%s%.*s", strchr("\"\\", text[i]) ? "\\" : "", (int)taken,
                     text + i);
        taken += taken == 0;
        if (length + strlen(piece) > QUOTED_BYTES) {
            memcpy(out + length, "...", 4);
            return out;
        }
        memcpy(out + length, piece, strlen(piece) + 1);
        length += strlen(piece);
    }
    out[length] = '\0';
    return out;
}
