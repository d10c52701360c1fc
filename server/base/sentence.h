/* Sentences built piece by piece in a buffer of fixed size; what does not fit is cut. */
#ifndef BARKER_SERVER_BASE_SENTENCE_H
#define BARKER_SERVER_BASE_SENTENCE_H

#include <stddef.h>
#include <stdint.h>

struct sentence {
    size_t length;
    char text[800];
};

void sentence_add(struct sentence *sentence, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "less than 1 s", "40 s", "12 min", "5 h", "3 days", "more than a year". */
void sentence_add_duration(struct sentence *sentence, double seconds);

/* Rounded up to two digits, for advice that is no better than that: 123456 -> 130000. */
uint64_t sentence_round_up(double count);

/* A ratio for people: 0.14, 1.07, 3.8, 12, 148. */
void sentence_add_ratio(struct sentence *sentence, double ratio);

/* R-hat to three decimals, as everywhere, but never rounded down to a bound that it exceeds. */
void sentence_add_rhat(struct sentence *sentence, double rhat, double bound);

/* A number to so many digits, or to a whole number where that has as many: 0.045, 1.9, 100, 129. */
void sentence_add_number(struct sentence *sentence, double value, int digits);

#endif
