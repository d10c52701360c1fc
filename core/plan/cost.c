/* The table of constants, in nanoseconds. */
#include "core/plan/cost.h"
#include "core/model/linear_predictor.h"

#include <math.h>

#define NANO 1e-9

/* ---- linear predictors, per row, all of whose columns are read; _CELL is times d^2 ---- */

#define ROW          0.4  /* per row of a pass over all rows, and ... */
#define COLUMN       0.11 /* ... per column in single precision; double: DOUBLE times that */
#define FAR_BYTES    8e6  /* tables of more bytes are not in the cache, and ... */
#define FAR_BYTE     0.03 /* ... each byte costs this much more in a pass */
#define SHORT_ROW    2.5  /* per random row that is shorter than a cache line */
#define LONG_ROW     4.0  /* per random row of one or more cache lines, and ... */
#define LONG_COLUMN  0.2  /* ... per column in single precision */
#define DOUBLE       1.5
#define LINK         3.0 /* per row, for links other than the logistic one, or ... */
#define LINK_DIGAMMA 9.0 /* ... for the negative binomial */
#define DENSITY_ROW  1.3 /* density over gradient: cost of a row, and ... */
#define DENSITY_LINK 2.0 /* ... of its link */
#define HESSIAN_ROW  10.0
#define HESSIAN_CELL 0.035
#define VIEW_ROW     30.0
#define VIEW_COLUMN  12.0
#define VIEW_CELL    0.05

/* ---- other models, per unit of term_cost ---- */

#define TERM         3.5 /* per row of a pass over all rows, for gradient or density */
#define RANDOM_TERM  4.8
#define SPARSE_TERM  1.0 /* instead of these, for models with grad_add */
#define TERM_HESSIAN 4.0 /* per row, times d^2 */

/* ---- iterations ---- */

#define LOCKSTEP_TOY 8.0   /* of a chain in a chain batch, without data */
#define LOCKSTEP     14.0  /* of a chain in a chain batch, with data */
#define ALONE        50.0  /* of a chain outside chain batches, and ... */
#define MOVE         2.2   /* ... per coordinate */
#define MOVE_EXACT   8.0   /* per coordinate of a Metropolis step */
#define TURN_CELL    0.065 /* per element of a dense frame's matrix, in its product with a vector */
#define TURNS        2.0   /* such products per minibatch of a model without a view of its own; */
#define GROUPS       8.0   /* ... where the sampler needs tau, it is summed in so many groups, */
#define GROUP        250.0 /* ... each of which takes one more product and this */
#define BATCH        60.0  /* per minibatch of a single chain */
#define TOY          200.0 /* of the gradient or density of a target without data */
#define COORDINATE   1.0   /* per coordinate, for the fixed part of a gradient */

bool cost_has_long_rows(const struct model *m)
{
    return m->linear != NULL && !dataset_short_rows(m->linear->data);
}

static double link_of(const struct linear *l)
{
    if (l->link == LINK_LOGISTIC)
        return 0.0;
    return l->link == LINK_NEGATIVE_BINOMIAL ? LINK_DIGAMMA : LINK;
}

static double columns_of(const struct linear *l)
{
    double columns = (double)l->data->columns;
    return l->data->precision == PRECISION_SINGLE ? columns : DOUBLE * columns;
}

static double far_of(const struct linear *l)
{
    double bytes = (double)dataset_row_bytes(l->data);
    return bytes * (double)l->data->N > FAR_BYTES ? FAR_BYTE * bytes : 0.0;
}

static double term_of(const struct model *m, double usual)
{
    return fmax(m->term_cost, 1.0) * (m->type->grad_add != NULL ? SPARSE_TERM : usual);
}

/* Of one term of a pass over all rows. */
static double gradient_term(const struct model *m)
{
    const struct linear *l = m->linear;
    return l != NULL ? ROW + COLUMN * columns_of(l) + far_of(l) + link_of(l) : term_of(m, TERM);
}

static double density_term(const struct model *m)
{
    const struct linear *l = m->linear;
    return l != NULL ? DENSITY_ROW * (ROW + COLUMN * columns_of(l)) + far_of(l) +
                           DENSITY_LINK * link_of(l)
                     : term_of(m, TERM);
}

static double random_term(const struct model *m)
{
    const struct linear *l = m->linear;
    if (l == NULL)
        return term_of(m, RANDOM_TERM);
    return link_of(l) +
           (cost_has_long_rows(m) ? LONG_ROW + LONG_COLUMN * columns_of(l) : SHORT_ROW);
}

static double fixed_part(const struct model *m)
{
    return (m->N == 0 ? TOY : ALONE) + COORDINATE * (double)m->d;
}

double cost_gradient(const struct model *m)
{
    return NANO * (fixed_part(m) + (double)m->full_terms * gradient_term(m));
}

double cost_density(const struct model *m)
{
    return NANO * (fixed_part(m) + (double)m->full_terms * density_term(m));
}

double cost_hessian(const struct model *m)
{
    double cells = (double)m->d * (double)m->d;
    double term = m->linear != NULL ? HESSIAN_ROW + HESSIAN_CELL * cells : TERM_HESSIAN * cells;
    return cost_gradient(m) + NANO * (double)m->full_terms * term;
}

double cost_curvature(const struct model *m, bool dense)
{
    switch (curvature_way(m, dense)) {
    case CURVATURE_HESSIAN:
        return cost_hessian(m);
    case CURVATURE_DIFFERENCES:
        return 2.0 * (double)m->d * cost_gradient(m);
    case CURVATURE_FISHER:
        break;
    }
    return cost_gradient(m);
}

double cost_view(const struct model *m)
{
    double d = (double)m->d;
    if (m->type->view == NULL)
        return cost_gradient(m);
    return NANO * (double)m->N * (VIEW_ROW + VIEW_COLUMN * d + VIEW_CELL * d * d);
}

double cost_rows(const struct model *m, double rows)
{
    return NANO * rows * random_term(m);
}

double cost_turn(const struct model *m)
{
    return NANO * TURN_CELL * (double)m->d * (double)m->d;
}

static bool in_lockstep(const struct cost_iteration *i)
{
    const struct model *m = i->model;
    if (i->sampler->chain_batch == NULL || i->fixed > 0.0)
        return false;
    return m->N == 0 ? m->d == 1 && m->known != NULL && !i->dense
                     : m->d <= CHAIN_BATCH_LANES && m->linear != NULL && !cost_has_long_rows(m);
}

/* Per row of a minibatch, and per minibatch. A general view computes terms with control variates
 * at the centre as well. */
static double minibatch(const struct cost_iteration *i)
{
    const struct model *m = i->model;
    bool general = m->type->view == NULL,
         noise = i->sampler->needs_tau != NULL && i->sampler->needs_tau(i->params);
    double rows = cost_rows(m, i->rows) * (general && i->control ? 2.0 : 1.0);
    if (!general || !i->dense)
        return rows;
    return rows + TURNS * cost_turn(m) + (noise ? GROUPS * (NANO * GROUP + cost_turn(m)) : 0.0);
}

double cost_iteration(const struct cost_iteration *i)
{
    const struct model *m = i->model;
    bool full = i->rows >= (double)m->N;
    double d = (double)m->d, turn = i->dense ? cost_turn(m) : 0.0;
    if (i->sampler->exact)
        return fmax(i->passes, 1.0) *
               (cost_gradient(m) + cost_density(m) + NANO * MOVE_EXACT * d + 2.0 * turn);
    if (m->N > 0 && full)
        return cost_gradient(m) + NANO * MOVE * d + turn;
    double rows = m->N > 0 ? minibatch(i) / i->one_in : 0.0;
    if (in_lockstep(i))
        return NANO * (m->N == 0 ? LOCKSTEP_TOY : LOCKSTEP) + rows;
    return NANO * (ALONE + MOVE * d + BATCH / i->one_in + i->fixed * gradient_term(m)) + turn +
           rows;
}
