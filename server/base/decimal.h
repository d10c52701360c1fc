/* Double -> the shortest decimal text that reads back as the same double; of the shortest ones the
 * nearest. The inverse of server/data/table_decimal.h. */
#ifndef BARKER_SERVER_BASE_DECIMAL_H
#define BARKER_SERVER_BASE_DECIMAL_H

#include <stddef.h>

#define DECIMAL_SIZE 40 /* bytes that a call may write; the text has at most 24 */

/* Writes the text, without a NUL, and returns its length: "0.1", "-2.385", "1e-7", "1.5e300", plain
 * from 1e-4 up to 1e16 and with an exponent elsewhere; "-0" for negative zero; "NaN", "Inf" and
 * "-Inf", which R and Python read and JSON does not have. Any thread. */
size_t decimal_write(double value, char out[DECIMAL_SIZE]);

#endif
