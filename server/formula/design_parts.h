/* What a design is made of; private to design*.c.
 *
 * A variable is a number, a factor (design_factor.c), orthogonal polynomials or a scaled number
 * (design_poly.c), or a natural spline (design_ns.c). Terms multiply their columns (design_terms.c). */
#ifndef BARKER_SERVER_FORMULA_DESIGN_PARTS_H
#define BARKER_SERVER_FORMULA_DESIGN_PARTS_H

#include "server/formula/design.h"

/* Distinct values kept by all variables of a design, 16 bytes each. */
#define DESIGN_KEPT_MAX        (4 * (size_t)DESIGN_SAMPLE_MAX)
#define DESIGN_NAME_BYTES_MAX  (64u << 20) /* of all names of columns */
#define DESIGN_NUMBER_TEXT_MAX 32

/* As err_set; no character is cut in half. */
enum err design_fail(struct err_info *info, enum err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A sum with its rounding error carried along (Neumaier 1974). */
struct design_sum {
    double sum, carry;
};
void design_sum_add(struct design_sum *sum, double x);
double design_sum_value(const struct design_sum *sum);

/* The distinct values of a stream of numbers with their counts, sorted. They wait unsorted until as
 * many are there as are sorted already: n log n in all, whatever the values are. */
struct tally {
    double *values;
    uint64_t *counts;
    size_t count;
    double *waiting;
    size_t waiting_count, waiting_room;
    size_t max;      /* of count */
    size_t *left;    /* borrowed: how many more the design may keep */
    enum err failed; /* TOO_LARGE, NO_MEMORY: values are no longer taken */
};
void tally_init(struct tally *set, size_t max, size_t *left);
void tally_release(struct tally *set);
void tally_add(struct tally *set, double value);
enum err tally_end(struct tally *set); /* sorts what waits; the failure */
/* SIZE_MAX: not among them. */
size_t tally_find(const struct tally *set, double value);

/* The levels of a factor. */
struct factor {
    const struct design_input *input; /* borrowed; a text or logical column; NULL: numbers */
    bool *seen;                       /* which levels of the column complete rows have */
    struct tally values;              /* the numbers of complete rows */
    size_t *position;                 /* of a level of the column, or of a value, among the names */
    const char **names;               /* point into the column's levels, or into text */
    char *text;                       /* names of numbers */
    size_t count;
    size_t
        occurring; /* in complete rows: all but those of a logical column, which has always two */
};
enum err factor_init(struct factor *factor, const struct design_input *input, size_t *left,
                     struct err_info *info);
void factor_release(struct factor *factor);
void factor_look(struct factor *factor, double value);
enum err factor_end(struct factor *factor, const struct formula_variable *variable,
                    struct err_info *info);
/* SIZE_MAX: a level that no complete row had. */
size_t factor_position(const struct factor *factor, double value);
const char *factor_only(const struct factor *factor); /* the one level that occurs */
/* As R's as.character: 15 significant digits or fewer, the shorter of 100000 and 1e+05. */
void design_number_text(double value, char out[DESIGN_NUMBER_TEXT_MAX]);

/* Orthonormal polynomials of degrees 1 to `degree` over the values looked at. */
struct polynomial {
    size_t degree;
    size_t stage; /* 0: the mean; k: the norm of the polynomial of degree k; beyond degree: known */
    uint64_t n;
    double first, lowest, highest;
    struct design_sum sum, product;
    double *distinct; /* the first degree + 1 distinct values */
    size_t distinct_count;
    double centre, width;          /* t = (x - centre) / width is in [-1, 1] */
    double *alpha, *norm2, *scale; /* scale: 1 / norm of a column */
};
enum err polynomial_init(struct polynomial *poly, size_t degree, struct err_info *info);
void polynomial_release(struct polynomial *poly);
bool polynomial_known(const struct polynomial *poly);
void polynomial_look(struct polynomial *poly, double x);
enum err polynomial_end(struct polynomial *poly, const struct formula_variable *variable,
                        struct err_info *info);
void polynomial_fill(const struct polynomial *poly, double x, double *out);

/* The natural cubic spline of splines::ns with df columns. */
struct spline {
    size_t df;
    struct tally sample;
    double lowest, width; /* u = (x - lowest) / width is in [0, 1] */
    double *knots;        /* of u: df + 7, four of them at each edge */
    double *matrix;       /* column c of basis function i: matrix[i * df + c] */
    double *edge[2];      /* at u = 0 and u = 1: df values, then df slopes */
};
enum err spline_init(struct spline *spline, size_t df, size_t *left, struct err_info *info);
void spline_release(struct spline *spline);
enum err spline_end(struct spline *spline, const struct formula_variable *variable,
                    struct err_info *info);
void spline_fill(const struct spline *spline, double x, double *out);

enum part { PART_NUMBER, PART_FACTOR, PART_POLY, PART_NS };

struct design_variable {
    const struct formula_variable *formula; /* borrowed */
    enum part part;
    bool used;            /* by a term, the response or an offset */
    bool in_term;         /* by a term */
    uint64_t bad_row;     /* the first row, from 1, where it is infinite; 0: none */
    double bad_value;     /* and what it is there */
    double bad_input;     /* and the column, where it depends on one alone */
    struct factor factor; /* of a factor */
    struct polynomial poly;
    struct spline spline;
    size_t start, width; /* of a basis or number: its values in the design's `values` */
};

struct design_term {
    const struct formula_term *formula; /* borrowed */
    bool *full;                         /* per variable: a factor has all its indicator columns */
    size_t width;
};

struct design {
    const struct formula *formula;     /* borrowed */
    const struct design_input *inputs; /* borrowed */
    size_t input_count;
    struct design_variable *variables;
    struct design_term *terms;
    bool *full;        /* the terms' */
    double *arguments; /* of the variables in one row */
    double *values;    /* of the numbers and bases in one row */
    size_t pass;
    uint64_t rows, complete;
    uint64_t *missing, *counted_at; /* per column; counted_at: the last row counted */
    size_t left;                    /* of DESIGN_KEPT_MAX */
    char *response_label;           /* "low", "cbind(a, b)" */
    size_t column_count;
    const char **names;
    char *name_text;
};

/* Whether the row is complete; the argument of every used variable: NaN where it is missing. */
bool design_arguments(const struct design *design, const double *row);

/* Once levels are known: how terms code their factors, how many columns they have, the names. */
enum err design_terms_end(struct design *design, size_t *at, struct err_info *info);

#endif
