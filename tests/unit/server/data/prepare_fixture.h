/* The numbers of prepared data. */
#ifndef BARKER_TESTS_PREPARE_FIXTURE_H
#define BARKER_TESTS_PREPARE_FIXTURE_H

#include "server/data/memory_cache.h"
#include "server/data/prepare.h"

#include <criterion/criterion.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline double get(const struct dataset *d, size_t row, size_t column)
{
    size_t at = row * d->stride + column;
    return d->precision == PRECISION_SINGLE ? (double)((const float *)d->x)[at]
                                            : ((const double *)d->x)[at];
}

#endif
