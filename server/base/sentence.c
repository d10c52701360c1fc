/* Builds sentences. */
#include "server/base/sentence.h"
#include "server/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void sentence_add(struct sentence *s, const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof s->text - s->length;
    va_start(arguments, format);
    int wanted = vsnprintf(s->text + s->length, room, format, arguments);
    va_end(arguments);
    if (wanted < 0 || (size_t)wanted < room) {
        s->length += wanted > 0 ? (size_t)wanted : 0;
        return;
    }
    text_trim(s->text);
    s->length = strlen(s->text);
}

void sentence_add_duration(struct sentence *s, double seconds)
{
    const double minute = 60.0, hour = 3600.0, day = 86400.0;
    if (seconds < 1.0)
        sentence_add(s, "less than 1 s");
    else if (seconds < 1.5 * minute)
        sentence_add(s, "%.0f s", seconds);
    else if (seconds < 1.5 * hour)
        sentence_add(s, "%.0f min", seconds / minute);
    else if (seconds < 2.0 * day)
        sentence_add(s, "%.0f h", seconds / hour);
    else if (seconds < 365.0 * day)
        sentence_add(s, "%.0f days", seconds / day);
    else
        sentence_add(s, "more than a year");
}

uint64_t sentence_round_up(double count)
{
    double unit = 1.0;
    while (count / unit > 99.0 && unit < 1e17)
        unit *= 10.0;
    double rounded = ceil(count / unit) * unit;
    return rounded < 1e18 ? (uint64_t)rounded : (uint64_t)1e18;
}

void sentence_add_ratio(struct sentence *s, double ratio)
{
    if (ratio >= 0.9 && ratio < 2.0)
        sentence_add(s, "%.2f", ratio);
    else
        sentence_add(s, ratio >= 99.5 && ratio < 1e6 ? "%.0f" : "%.2g", ratio);
}

void sentence_add_rhat(struct sentence *s, double rhat, double bound)
{
    if (rhat > bound && rhat < bound + 0.001)
        sentence_add(s, "%.3f", bound + 0.001);
    else
        sentence_add(s, rhat < 10.0 ? "%.3f" : "%.3g", rhat);
}

void sentence_add_number(struct sentence *s, double value, int digits)
{
    bool whole = fabs(value) >= pow(10.0, digits) - 0.5 && fabs(value) < 1e6;
    sentence_add(s, "%.*g", whole ? 6 : digits, whole ? round(value) : value);
}
