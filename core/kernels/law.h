/* The law of a response y given its linear predictor eta. Some laws have a second parameter psi:
 * the logarithm of a scale or of a dispersion.
 *
 * To add one: a name here, and its formulas in core/kernels/law_terms.h. */
#ifndef BARKER_CORE_KERNELS_LAW_H
#define BARKER_CORE_KERNELS_LAW_H

enum link {
    LINK_LOGISTIC, /* y is 0 or 1, and 1 with probability 1/(1 + exp(-eta)) */
    LINK_PROBIT,   /* y is 0 or 1, and 1 with probability Phi(eta) */
    LINK_POISSON,  /* y is a count of mean exp(eta). Beyond eta = LAW_STEEPEST the log density
                    * continues along its tangent, so that nothing overflows */
    LINK_NORMAL,   /* y is normal with mean eta and sd exp(psi) */
    LINK_STUDENT,  /* (y - eta)/exp(psi) has Student's law with dof degrees of freedom */
    LINK_NEGATIVE_BINOMIAL, /* y is a count of mean exp(eta) and variance mean + mean^2/exp(psi) */
};

#define LAW_STEEPEST 40.0

struct law {
    enum link link;
    double psi, dof;
};

/* What kernels->law gives per row. */
enum law_quantity {
    LAW_LOG,          /* log p(y | eta), normalised */
    LAW_RESIDUAL,     /* its derivative in eta */
    LAW_SLOPE,        /* its derivative in psi; 0 where there is none */
    LAW_WEIGHT,       /* minus the second derivative in eta, or its expectation; never negative */
    LAW_SCALE_WEIGHT, /* the same in psi, or the square of the slope */
    LAW_DENSITY,      /* p(y | eta), but at least exp(-700), so that no single row makes a sum of
                       * log densities infinite */
    LAW_MEAN,         /* of y */
};

#endif
