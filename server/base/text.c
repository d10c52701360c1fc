/* Text from outside. */
#include "server/base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 40
#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* The character at the start of text and its length, or 0. */
static size_t decode(const char *text, size_t size, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    *code = p[0];
    if (p[0] < 0x80)
        return 1;
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || length > size)
        return 0;
    *code &= 0xffu >> (length + 1);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (p[i] & 0x3f);
    }
    int surrogate = *code >= 0xd800 && *code <= 0xdfff;
    return *code < least[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

size_t text_character(const char *text, size_t size)
{
    uint32_t code;
    return decode(text, size, &code);
}

size_t text_printable(const char *text, size_t size)
{
    uint32_t code;
    size_t length = decode(text, size, &code);
    return code < 0x20 || (code >= 0x7f && code < 0xa0) ? 0 : length;
}

void text_repair(char *text)
{
    size_t left = strlen(text), length;
    for (; left > 0; text += length, left -= length) {
        length = text_character(text, left);
        if (length == 0) {
            *text = '?';
            length = 1;
        }
    }
}

void text_trim(char *text)
{
    size_t length = strlen(text), start = length;
    while (start > 0 && length - start < 3 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (start == 0 || (unsigned char)text[start - 1] < 0xC0)
        return;
    if (text_character(text + start - 1, length - start + 1) == 0)
        text[start - 1] = '\0';
}

const char *text_shown(char out[TEXT_SHOWN_MAX], const char *text, size_t size)
{
    size_t length = 0, taken;
    for (size_t i = 0; i < size; i += taken) {
        char piece[6];
        taken = text_printable(text + i, size - i);
        if (taken == 0)
            snprintf(piece, sizeof piece, "\\x%02x", (unsigned char)text[i]);
        else
            snprintf(piece, sizeof piece, "%s%.*s", strchr("\"\\", text[i]) ? "\\" : "", (int)taken,
                     text + i);
        taken += taken == 0;
        if (length + strlen(piece) > SHOWN_BYTES) {
            memcpy(out + length, "...", 4);
            return out;
        }
        memcpy(out + length, piece, strlen(piece) + 1);
        length += strlen(piece);
    }
    out[length] = '\0';
    return out;
}

/* The character that starts `text` as it is written inside a JSON string; returns its bytes. */
static size_t escaped(char out[8], const char *text, size_t size, size_t *taken)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* a character, its letter */
    *taken = 1;
    if (*text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\') {
        out[0] = *text;
        return 1;
    }
    size_t length = text_character(text, size);
    const char *hit = *text != '\0' ? strchr(shorts, *text) : NULL;
    if (hit != NULL)
        return (size_t)snprintf(out, 8, "\\%c", hit[1]);
    if (length == 1)
        return (size_t)snprintf(out, 8, "\\u%04x", (unsigned)(unsigned char)*text);
    *taken = length > 0 ? length : 1;
    return (size_t)snprintf(out, 8, "%.*s", (int)(length > 0 ? length : 3),
                            length > 0 ? text : REPLACEMENT);
}

char *text_json(char *to, const char *end, const char *text, size_t size)
{
    char piece[8];
    *to++ = '"';
    for (size_t i = 0, taken, n; i < size; i += taken, to += n) {
        n = escaped(piece, text + i, size - i, &taken);
        if ((size_t)(end - to) < n + 1)
            break;
        memcpy(to, piece, n);
    }
    *to++ = '"';
    return to;
}
