/* Numbers, times and sizes as short text. */
#include "clients/cli/human.h"
#include "clients/cli/term.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *human_dash(void)
{
    return term_utf8() ? "\u2013" : "-";
}

const char *human_plus_minus(void)
{
    return term_utf8() ? "\u00b1" : "+/-";
}

static char *dash(char *out)
{
    snprintf(out, HUMAN_SIZE, "%s", human_dash());
    return out;
}

char *human_seconds(char *out, double seconds)
{
    if (!isfinite(seconds) || seconds < 0)
        return dash(out);
    if (seconds < 9.95) {
        if (seconds > 0 && seconds < 0.0995)
            snprintf(out, HUMAN_SIZE, "%.0fms", ceil(seconds * 1000));
        else
            snprintf(out, HUMAN_SIZE, "%.1fs", seconds);
        return out;
    }
    if (seconds > 1e12)
        seconds = 1e12;
    long long s = llround(seconds);
    if (s < 60)
        snprintf(out, HUMAN_SIZE, "%llds", s);
    else if (s < 3600)
        snprintf(out, HUMAN_SIZE, "%lldm %02llds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, HUMAN_SIZE, "%lldh %02lldm", s / 3600, s / 60 % 60);
    else
        snprintf(out, HUMAN_SIZE, "%lldd %02lldh", s / 86400, s / 3600 % 24);
    return out;
}

/* Three significant digits and a unit; `step` is the distance between units. */
static void scaled(char *out, double value, double step, const char *const *units, size_t count)
{
    size_t i = 0;
    while (i + 1 < count && fabs(value) >= step * 0.9995) {
        value /= step;
        i++;
    }
    int digits = i == 0 || fabs(value) >= 99.95 ? 0 : fabs(value) >= 9.995 ? 1 : 2;
    snprintf(out, HUMAN_SIZE, "%.*f%s", digits, value, units[i]);
}

char *human_count(char *out, double count)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    if (!isfinite(count))
        return dash(out);
    if (fabs(count) < 9.995 && count != floor(count))
        snprintf(out, HUMAN_SIZE, "%.2g", count);
    else
        scaled(out, count, 1000, units, sizeof units / sizeof *units);
    return out;
}

char *human_whole(char *out, double count)
{
    if (!isfinite(count))
        return dash(out);
    snprintf(out, HUMAN_SIZE, fabs(count) < 1e15 ? "%.0f" : "%.4g", count);
    return out;
}

char *human_bytes(char *out, double bytes)
{
    static const char *const units[] = {" B", " kB", " MB", " GB", " TB", " PB"};
    if (!isfinite(bytes))
        return dash(out);
    scaled(out, bytes, 1000, units, sizeof units / sizeof *units);
    return out;
}

char *human_percent(char *out, double fraction)
{
    if (!isfinite(fraction))
        return dash(out);
    double percent = floor(fraction * 100 + 1e-9);
    percent = percent < 0 ? 0 : percent > 100 ? 100 : percent;
    snprintf(out, HUMAN_SIZE, "%.0f%%", percent);
    return out;
}

char *human_real(char *out, double value)
{
    if (!isfinite(value))
        return dash(out);
    bool large = fabs(value) >= 1e5 && fabs(value) < 1e15;
    snprintf(out, HUMAN_SIZE, large ? "%.0f" : "%.5g", value);
    return out;
}

char *human_fixed(char *out, double value, int digits)
{
    if (!isfinite(value))
        return dash(out);
    if (fabs(value) >= 1e9)
        snprintf(out, HUMAN_SIZE, "%.3e", value);
    else
        snprintf(out, HUMAN_SIZE, "%.*f", digits, value);
    return out;
}

int human_decimals(double scale)
{
    if (!isfinite(scale) || scale <= 0)
        return 3;
    double digits = 2 - floor(log10(scale));
    return digits < 0 ? 0 : digits > 12 ? 12 : (int)digits;
}

time_t human_parse_time(const char *rfc3339)
{
    struct tm tm = {0};
    if (!rfc3339)
        return (time_t)-1;
    const char *rest = strptime(rfc3339, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest || !strchr(rest, 'Z'))
        return (time_t)-1;
    return timegm(&tm);
}

char *human_age(char *out, const char *rfc3339, time_t now)
{
    time_t then = human_parse_time(rfc3339);
    if (then == (time_t)-1) {
        snprintf(out, HUMAN_SIZE, "%.31s", rfc3339 ? rfc3339 : human_dash());
        return out;
    }
    double age = now > then ? floor(difftime(now, then)) : 0;
    if (age < 5) {
        snprintf(out, HUMAN_SIZE, "just now");
        return out;
    }
    char span[HUMAN_SIZE];
    if (age < 60)
        snprintf(span, sizeof span, "%.0fs", age);
    else
        human_seconds(span, age);
    snprintf(out, HUMAN_SIZE, "%.24s ago", span);
    return out;
}
