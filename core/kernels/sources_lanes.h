/* The gradient of independent components in one precision. core/kernels/sources.h includes this
 * once per precision, with
 *
 *     REAL      float or double
 *     GROUP     numbers in 64 bytes
 *     NAME(x)   the name of a function for this precision
 *
 * the function tanh_halves, which replaces n numbers x, n rounded up to 16, by tanh(x/2), and
 * the passes of core/kernels/sources_pass.h for groups and half groups.
 *
 * A block of rows takes three passes: the sources, with components in the lanes and entries of a
 * row broadcast; their slopes; the products of slopes and rows, with columns in the lanes and
 * slopes broadcast. No pass sums across lanes, and rows are read in place. A last group of at
 * most half the lanes uses the passes for half groups. */

/* W in the layout of the passes: for each group of GROUP components one column after the other.
 * Lanes without a component are zero. */
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

/* The last group is processed first: what it writes after its components is overwritten by the
 * first group of the next row. */
static void NAME(all_sources)(const struct source_block *b, const REAL *W, REAL *y)
{
    for (size_t group = (b->K + GROUP - 1) / GROUP; group-- > 0;)
        (b->K - group * GROUP <= GROUP / 2 ? NAME(half_sources) : NAME(sources))(
            b, W + group * b->K * GROUP, y + group * GROUP);
}

/* With `centre` the slopes at the centre are subtracted: `at_centre` has the size of y. */
static void NAME(add_block)(const struct source_block *b, const REAL *W, REAL *y,
                            const REAL *centre, REAL *at_centre)
{
    NAME(all_sources)(b, W, y);
    NAME(tanh_halves)(y, b->rows * b->K);
    if (centre != NULL) {
        NAME(all_sources)(b, centre, at_centre);
        NAME(tanh_halves)(at_centre, b->rows * b->K);
        for (size_t i = 0; i < b->rows * b->K; i++)
            y[i] -= at_centre[i];
    }
    for (size_t column = 0; column < b->K; column += GROUP)
        (b->K - column <= GROUP / 2 ? NAME(half_add_products) : NAME(add_products))(b, y, column);
}
