/* The gradient of sources in one precision. core/kernel_sources.h includes this once for each, with
 *
 *     REAL      float or double
 *     VECTOR    one register of them
 *     GROUP     how many make 64 bytes, that is PARTS registers
 *     NAME(x)   the name of a function for this precision
 *     FUSED(a, b, c), FUSED_FROM(a, b, c), SPREAD(x)   a b + c, c - a b, x in all lanes
 *
 * and the functions tanh_halves, which replaces n numbers x, rounded up to 16, by tanh(x/2), and
 * add_lanes, which adds GROUP lanes to sums in double.
 *
 * A block of rows makes three passes: the sources, with components in the lanes and entries of a
 * row broadcast; their slopes; the products of slopes and rows, with columns in the lanes and
 * slopes broadcast. So no pass sums across lanes, and the rows are read where they lie. */

#define STEP (REGISTER / sizeof(REAL))

static inline VECTOR NAME(load)(const REAL *p)
{
    typedef VECTOR anywhere __attribute__((aligned(sizeof(REAL))));
    return *(const anywhere *)(const void *)p;
}

static inline void NAME(store)(REAL *p, VECTOR x)
{
    typedef VECTOR anywhere __attribute__((aligned(sizeof(REAL))));
    *(anywhere *)(void *)p = x;
}

/* GROUP components after GROUP components, each time one column after the other; lanes without a
 * component are zero. */
static void NAME(take_components)(const double *W, size_t K, REAL *out)
{
    for (size_t first = 0; first < K; first += GROUP, out += K * GROUP) {
        size_t width = K - first < GROUP ? K - first : GROUP;
        memset(out, 0, K * GROUP * sizeof *out);
        for (size_t k = 0; k < width; k++)
            for (size_t j = 0; j < K; j++)
                out[j * GROUP + k] = (REAL)W[(first + k) * K + j];
    }
}

/* y = W x of GROUP components, K apart from row to row. */
static void NAME(sources)(const struct source_block *b, const REAL *W, REAL *y)
{
    for (size_t i = 0; i < b->rows; i += SOURCE_ROWS) {
        const REAL *x[SOURCE_ROWS];
        VECTOR sum[SOURCE_ROWS][PARTS] = {0};
        for (size_t r = 0; r < SOURCE_ROWS; r++)
            x[r] = b->row[i + r];
        for (size_t j = 0; j < b->K; j++)
            for (size_t r = 0; r < SOURCE_ROWS; r++)
                for (size_t p = 0; p < PARTS; p++)
                    sum[r][p] =
                        FUSED(SPREAD(x[r][j]), NAME(load)(W + j * GROUP + p * STEP), sum[r][p]);
        for (size_t r = 0; r < SOURCE_ROWS; r++)
            for (size_t p = 0; p < PARTS; p++)
                NAME(store)(y + (i + r) * b->K + p * STEP, sum[r][p]);
    }
}

/* The last group comes first: what it writes beyond its components belongs to the next row, and is
 * overwritten by the first group, or by the next row itself. */
static void NAME(all_sources)(const struct source_block *b, const REAL *W, REAL *y)
{
    for (size_t group = (b->K + GROUP - 1) / GROUP; group-- > 0;)
        NAME(sources)(b, W + group * b->K * GROUP, y + group * GROUP);
}

/* Minus slope times row, and its square, summed over the rows: `count` components from `first` on,
 * GROUP columns from `column` on. */
static inline __attribute__((always_inline)) void NAME(products)(const struct source_block *b,
                                                                 const REAL *slopes, size_t first,
                                                                 size_t column, size_t count,
                                                                 bool squares)
{
    VECTOR sum[SOURCE_SUMS][PARTS] = {0}, sumsq[SOURCE_SUMS][PARTS] = {0};
    for (size_t i = 0; i < b->rows; i++) {
        const REAL *x = (const REAL *)b->row[i] + column, *slope = slopes + i * b->K + first;
        for (size_t k = 0; k < count; k++)
            for (size_t p = 0; p < PARTS; p++) {
                VECTOR row = NAME(load)(x + p * STEP), by = SPREAD(slope[k]), term = by * row;
                sum[k][p] = FUSED_FROM(by, row, sum[k][p]);
                if (squares)
                    sumsq[k][p] = FUSED(term, term, sumsq[k][p]);
            }
    }
    for (size_t k = 0; k < count; k++) {
        size_t at = (first + k) * b->lanes + column;
        NAME(add_lanes)(b->sum + at, sum[k]);
        if (squares)
            NAME(add_lanes)(b->sumsq + at, sumsq[k]);
    }
}

/* With their number a constant, so that the sums stay in registers. */
static inline __attribute__((always_inline)) void NAME(products_of)(const struct source_block *b,
                                                                    const REAL *slopes,
                                                                    size_t first, size_t column,
                                                                    size_t count, bool squares)
{
#define PRODUCTS(n)                                           \
    case n:                                                   \
        NAME(products)(b, slopes, first, column, n, squares); \
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

/* In as few passes over the rows as registers allow, with nearly equal numbers of components. */
static void NAME(add_products)(const struct source_block *b, const REAL *slopes, size_t column)
{
    size_t most = b->sumsq != NULL ? SOURCE_SQUARES : SOURCE_SUMS;
    size_t passes = (b->K + most - 1) / most;
    for (size_t first = 0, count; passes > 0; passes--, first += count) {
        count = (b->K - first + passes - 1) / passes;
        if (b->sumsq != NULL)
            NAME(products_of)(b, slopes, first, column, count, true);
        else
            NAME(products_of)(b, slopes, first, column, count, false);
    }
}

/* With `centre` the slopes there are taken off: `there` has room for as many as y. */
static void NAME(add_block)(const struct source_block *b, const REAL *W, REAL *y,
                            const REAL *centre, REAL *there)
{
    NAME(all_sources)(b, W, y);
    NAME(tanh_halves)(y, b->rows * b->K);
    if (centre != NULL) {
        NAME(all_sources)(b, centre, there);
        NAME(tanh_halves)(there, b->rows * b->K);
        for (size_t i = 0; i < b->rows * b->K; i++)
            y[i] -= there[i];
    }
    for (size_t column = 0; column < b->K; column += GROUP)
        NAME(add_products)(b, y, column);
}

#undef STEP
