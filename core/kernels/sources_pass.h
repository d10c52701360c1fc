/* The passes of core/kernels/sources_lanes.h with the components or columns of a group in the
 * lanes. core/kernels/sources.h includes this for whole groups and for half groups, with
 *
 *     REAL      float or double
 *     GROUP     numbers in 64 bytes
 *     VECTOR    type of a register, ...
 *     COUNT     ... and how many of them a group takes
 *     PASS(x)   the name of a function for these
 *     FUSED(a, b, c), FUSED_FROM(a, b, c)   a b + c, c - a b
 *     ADD(to, lanes)   adds COUNT registers to sums in double */

#define STEP (sizeof(VECTOR) / sizeof(REAL))

static inline VECTOR PASS(load)(const REAL *p)
{
    typedef VECTOR anywhere __attribute__((aligned(sizeof(REAL))));
    return *(const anywhere *)(const void *)p;
}

static inline void PASS(store)(REAL *p, VECTOR x)
{
    typedef VECTOR anywhere __attribute__((aligned(sizeof(REAL))));
    *(anywhere *)(void *)p = x;
}

static inline VECTOR PASS(spread)(REAL x)
{
    return x - (VECTOR){0};
}

/* y = W x for one group of components. Rows of y are K apart. */
static void PASS(sources)(const struct source_block *b, const REAL *W, REAL *y)
{
    for (size_t i = 0; i < b->rows; i += SOURCE_ROWS) {
        const REAL *x[SOURCE_ROWS];
        VECTOR sum[SOURCE_ROWS][COUNT] = {0};
        for (size_t r = 0; r < SOURCE_ROWS; r++)
            x[r] = b->row[i + r];
        for (size_t j = 0; j < b->K; j++)
            for (size_t r = 0; r < SOURCE_ROWS; r++)
                for (size_t p = 0; p < COUNT; p++)
                    sum[r][p] = FUSED(PASS(spread)(x[r][j]), PASS(load)(W + j * GROUP + p * STEP),
                                      sum[r][p]);
        for (size_t r = 0; r < SOURCE_ROWS; r++)
            for (size_t p = 0; p < COUNT; p++)
                PASS(store)(y + (i + r) * b->K + p * STEP, sum[r][p]);
    }
}

/* Sums over the rows of minus slope times row, and of the squares: `count` components from
 * `first` on, columns from `column` on. */
static inline __attribute__((always_inline)) void PASS(products)(const struct source_block *b,
                                                                 const REAL *slopes, size_t first,
                                                                 size_t column, size_t count,
                                                                 bool squares)
{
    VECTOR sum[SOURCE_SUMS][COUNT] = {0}, sumsq[SOURCE_SUMS][COUNT] = {0};
    for (size_t i = 0; i < b->rows; i++) {
        const REAL *x = (const REAL *)b->row[i] + column, *slope = slopes + i * b->K + first;
        for (size_t k = 0; k < count; k++)
            for (size_t p = 0; p < COUNT; p++) {
                VECTOR row = PASS(load)(x + p * STEP), by = PASS(spread)(slope[k]), term = by * row;
                sum[k][p] = FUSED_FROM(by, row, sum[k][p]);
                if (squares)
                    sumsq[k][p] = FUSED(term, term, sumsq[k][p]);
            }
    }
    for (size_t k = 0; k < count; k++) {
        size_t at = (first + k) * b->lanes + column;
        ADD(b->sum + at, sum[k]);
        if (squares)
            ADD(b->sumsq + at, sumsq[k]);
    }
}

/* Calls `products` with a constant number of components, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void PASS(products_of)(const struct source_block *b,
                                                                    const REAL *slopes,
                                                                    size_t first, size_t column,
                                                                    size_t count, bool squares)
{
#define PRODUCTS(n)                                           \
    case n:                                                   \
        PASS(products)(b, slopes, first, column, n, squares); \
        break;
    switch (count) {
        PRODUCTS(1)
        PRODUCTS(2)
#if SOURCE_SUMS > 2
        PRODUCTS(3)
        PRODUCTS(4)
#endif
#if SOURCE_SUMS > 4
        PRODUCTS(5)
        PRODUCTS(6)
        PRODUCTS(7)
        PRODUCTS(8)
        PRODUCTS(9)
        PRODUCTS(10)
        PRODUCTS(11)
        PRODUCTS(12)
#endif
    }
#undef PRODUCTS
}

/* In as few passes over the rows as registers allow, with nearly equal numbers of components per
 * pass. */
static void PASS(add_products)(const struct source_block *b, const REAL *slopes, size_t column)
{
    size_t most = b->sumsq != NULL ? SOURCE_SQUARES : SOURCE_SUMS;
    size_t passes = (b->K + most - 1) / most;
    for (size_t first = 0, count; passes > 0; passes--, first += count) {
        count = (b->K - first + passes - 1) / passes;
        if (b->sumsq != NULL)
            PASS(products_of)(b, slopes, first, column, count, true);
        else
            PASS(products_of)(b, slopes, first, column, count, false);
    }
}

#undef STEP
#undef VECTOR
#undef COUNT
#undef PASS
#undef FUSED
#undef FUSED_FROM
#undef ADD
