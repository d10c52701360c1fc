/* Decimal text -> double, exactly as strtod rounds, several times faster.
 *
 * Accepted is [+-] digits [. digits] [e [+-] digits] with at least one digit before the exponent,
 * at most TABLE_CELL_MAX bytes; no spaces, hexadecimal, NaN or infinity. The longest such text at
 * `text` is read, never at or beyond `end`. Returns where it stopped, NULL if there is none. An
 * overflow gives an infinite value, an underflow the nearest double (maybe 0). Any thread; the
 * process must be in the C locale. */
#ifndef BARKER_SERVER_DATA_TABLE_DECIMAL_H
#define BARKER_SERVER_DATA_TABLE_DECIMAL_H

const char *table_decimal(const char *text, const char *end, double *value);

#endif
