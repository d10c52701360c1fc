/* Numbers, times and sizes as short text. Each writes a short string into a caller's
 * buffer of HUMAN_SIZE bytes and returns it; a NaN (JSON's null) gives the dash. */
#ifndef BARKER_CLI_HUMAN_H
#define BARKER_CLI_HUMAN_H

#include <time.h>

enum { HUMAN_SIZE = 32 };

/* Placeholder of an unknown value: an en dash, or "-" without UTF-8. */
const char *human_dash(void);
/* The sign ±, or "+/-" without UTF-8. */
const char *human_plus_minus(void);

char *human_seconds(char *out, double seconds);  /* 33ms  0.8s  12s  1m 20s  2h 05m  3d 04h */
char *human_count(char *out, double count);      /* 950  12.3k  4.56M */
char *human_whole(char *out, double count);      /* 1234567, without an exponent */
char *human_bytes(char *out, double bytes);      /* 512 B  1.2 kB  3.4 GB */
char *human_percent(char *out, double fraction); /* 42%; 100% only if complete */
char *human_real(char *out, double value);       /* five significant digits, no padding */
char *human_fixed(char *out, double value, int digits); /* fixed decimals; very large: exponent */
/* Decimals that show about three digits of a quantity of this size. */
int human_decimals(double scale);

/* RFC 3339 to seconds since the epoch, or (time_t)-1. */
time_t human_parse_time(const char *rfc3339);
/* "12s ago", "3h 05m ago"; the text itself if it is not a time. */
char *human_age(char *out, const char *rfc3339, time_t now);

#endif
