/* Parameters extrapolated to step size zero. */
#include "server/diagnose/ladder.h"
#include "server/base/json.h"
#include "server/base/sentence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SIGNIFICANCE 0.05
#define MIXED_RHAT   1.05
#define LOST_RHAT    1.2 /* beyond, an effective sample size and its errors are meaningless */
#define PRECISE \
    20.0 /* errors; a larger difference is known more precisely than the law of extrapolation holds */
#define LARGE \
    0.5 /* sds; for a larger bias the expansion in the squared step size may not
                          * hold */

/* ---- one parameter ---- */

static const struct mixing *mixing_of(const struct ladder *ladder, size_t side, size_t at)
{
    return &ladder->sides[side].summary->rows[at].mixing;
}

/* Lower bound of the bias; -INFINITY where it is not known. */
static double bias_lower_bound(const struct ladder_row *row)
{
    if (row->rhat > LOST_RHAT)
        return -INFINITY;
    double mean = fabs(row->difference) - 2.0 * row->difference_error;
    double sd = fabs(row->spread.excess) - 2.0 * row->spread.excess_error;
    return isnan(mean + sd) ? -INFINITY : fmax(mean, sd);
}

static void note_rhat(const struct ladder *ladder, struct ladder_row *row)
{
    row->rhat = NAN;
    for (size_t i = 0; i < ladder->side_count; i++) {
        double rhat = mixing_of(ladder, i, row->at)->rhat;
        if (!isnan(rhat) && !(rhat <= row->rhat)) {
            row->rhat = rhat;
            row->rhat_side = i;
        }
    }
}

static void measure_row(const struct ladder *ladder, struct ladder_row *row)
{
    struct extrapolate_point mean[LADDER_MAX], sd[LADDER_MAX];
    for (size_t i = 0; i < ladder->side_count; i++) {
        const struct mixing *m = mixing_of(ladder, i, row->at);
        double factor = ladder->sides[i].factor;
        mean[i] = (struct extrapolate_point){factor, m->mean, m->mcse_mean};
        sd[i] = (struct extrapolate_point){factor, m->sd, m->mcse_sd};
    }
    extrapolate(&row->mean, mean, ladder->side_count, ladder->base);
    extrapolate_spread(&row->spread, sd, ladder->side_count, ladder->base);
    row->difference = row->mean.difference / row->spread.scale;
    row->difference_error = row->mean.difference_error / row->spread.scale;
    note_rhat(ladder, row);
    row->rank = bias_lower_bound(row);
}

/* ---- all of them ---- */

static bool is_known(const struct ladder_row *row)
{
    return row->rank > -INFINITY;
}

static size_t count_known(const struct ladder *ladder)
{
    size_t n = 0;
    for (size_t k = 0; k < ladder->count; k++)
        n += is_known(&ladder->rows[k]);
    return n;
}

static bool is_significant(double p_value, double tests)
{
    return p_value * tests < SIGNIFICANCE; /* false when it is NaN */
}

static double two_sided(double z)
{
    return erfc(fabs(z) / M_SQRT2);
}

static void judge(struct ladder *ladder)
{
    double tests = 2.0 * (double)count_known(ladder); /* of means and of sds */
    for (size_t k = 0; k < ladder->count; k++) {
        struct ladder_row *row = &ladder->rows[k];
        row->biased = is_known(row) && (is_significant(two_sided(row->mean.z), tests) ||
                                        is_significant(two_sided(row->spread.z), tests));
        row->misfit = is_known(row) && (is_significant(row->mean.p_value, tests) ||
                                        is_significant(row->spread.p_value, tests));
        ladder->biased += row->biased;
        ladder->misfits += row->misfit;
    }
}

static int worse_first(const void *a, const void *b)
{
    const struct ladder_row *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

enum err ladder_init(struct ladder *ladder, struct err_info *info)
{
    ladder->count = ladder->sides[0].summary->count;
    ladder->biased = ladder->misfits = 0;
    ladder->rows = calloc(ladder->count + 1, sizeof *ladder->rows);
    if (ladder->rows == NULL)
        return err_set(info, ERR_NO_MEMORY, "no memory for %zu parameters", ladder->count);
    for (size_t k = 0; k < ladder->count; k++) {
        ladder->rows[k].at = k;
        measure_row(ladder, &ladder->rows[k]);
    }
    judge(ladder);
    qsort(ladder->rows, ladder->count, sizeof *ladder->rows, worse_first);
    return ERR_OK;
}

void ladder_release(struct ladder *ladder)
{
    free(ladder->rows);
    ladder->rows = NULL;
    ladder->count = 0;
}

/* ---- sentences ---- */

static const char *name_of(const struct ladder *ladder, const struct ladder_row *row)
{
    return ladder->name(ladder->name_ctx, ladder->sides[0].summary->rows[row->at].column);
}

/* A number and its error with `between` between them. */
static void add_pair(struct sentence *w, double value, int digits, const char *between,
                     double error)
{
    sentence_add_number(w, value, digits);
    sentence_add(w, "%s+/- ", between);
    sentence_add_number(w, error, 1);
}

static void describe_spread(struct sentence *w, const struct extrapolate_spread *s)
{
    if (s->excess > 1.0) {
        add_pair(w, 1.0 + s->excess, 2, " x (", s->excess_error);
        sentence_add(w, ") what it is at step size 0");
        return;
    }
    add_pair(w, 100.0 * fabs(s->excess), 2, " % (", 100.0 * s->excess_error);
    sentence_add(w, ") too %s", s->excess >= 0.0 ? "large" : "small");
}

static void describe_biased(const struct ladder *ladder, const struct ladder_row *row,
                            struct sentence *w)
{
    size_t known = count_known(ladder);
    const struct extrapolate_spread *s = &row->spread;
    sentence_add(w, "%s: at this step size its sd is ", name_of(ladder, row));
    describe_spread(w, s);
    sentence_add(w, " and its mean ");
    add_pair(w, fabs(row->difference), 2, " posterior sds (", row->difference_error);
    sentence_add(w, ") too %s; at step size 0: mean ", row->difference >= 0.0 ? "large" : "small");
    add_pair(w, row->mean.value, 4, " ", row->mean.error);
    if (!isnan(s->sd)) {
        sentence_add(w, ", sd ");
        add_pair(w, s->sd, 4, " ", s->error);
    }
    sentence_add(w, "; %zu of %zu parameter%s differ%s beyond chance", ladder->biased, known,
                 known == 1 ? "" : "s", ladder->biased == 1 ? "s" : "");
}

/* The largest difference found, and the largest that is compatible with the errors. */
struct largest {
    const struct ladder_row *row;
    const char *what;
    double value, error, bound;
};

static void update_largest(struct largest *l, const struct ladder_row *row, const char *what,
                           double value, double error)
{
    l->bound = fmax(l->bound, fabs(value) + 2.0 * error);
    if (l->row == NULL || fabs(value) > l->value)
        *l = (struct largest){row, what, fabs(value), error, l->bound};
}

static void describe_unbiased(const struct ladder *ladder, struct sentence *w)
{
    struct largest l = {0};
    size_t known = count_known(ladder);
    for (size_t k = 0; k < ladder->count; k++) {
        const struct ladder_row *row = &ladder->rows[k];
        if (!is_known(row))
            continue;
        update_largest(&l, row, "mean", row->difference, row->difference_error);
        update_largest(&l, row, "sd", row->spread.excess, row->spread.excess_error);
    }
    if (l.row == NULL) {
        sentence_add(w, "no bias can be estimated: no parameter has mixed at every step size");
        return;
    }
    sentence_add(
        w,
        "no bias beyond chance in %zu parameter%s: the largest difference from step size 0 "
        "is ",
        known, known == 1 ? "" : "s");
    add_pair(w, l.value, 2, " ", l.error);
    sentence_add(w, " posterior sds (%s of %s); up to ", l.what, name_of(ladder, l.row));
    sentence_add_number(w, l.bound, 2);
    sentence_add(w, " cannot be excluded");
}

static const struct ladder_row *first_biased(const struct ladder *ladder)
{
    for (size_t k = 0; k < ladder->count; k++)
        if (ladder->rows[k].biased)
            return &ladder->rows[k];
    return NULL;
}

const char *ladder_sentence(const struct ladder *ladder, char out[LADDER_TEXT_SIZE])
{
    struct sentence w = {0};
    const struct ladder_row *row = first_biased(ladder);
    if (row != NULL)
        describe_biased(ladder, row, &w);
    else
        describe_unbiased(ladder, &w);
    snprintf(out, LADDER_TEXT_SIZE, "%s", w.text);
    return out;
}

/* ---- cautions ---- */

static void caution_mixing(const struct ladder *ladder, json_t **list)
{
    const struct ladder_row *worst = NULL;
    char text[300];
    for (size_t k = 0; k < ladder->count; k++) {
        const struct ladder_row *row = &ladder->rows[k];
        if (row->rhat > MIXED_RHAT && (worst == NULL || row->rhat > worst->rhat))
            worst = row;
    }
    if (worst == NULL)
        return;
    snprintf(text, sizeof text,
             "the job at factor %g has not mixed (R-hat %.3f of %s): its errors are too small; run "
             "it longer, or lengthen",
             ladder->sides[worst->rhat_side].factor, worst->rhat, name_of(ladder, worst));
    json_add(list, json_text(text));
}

static bool is_large(const struct ladder_row *row)
{
    return row->biased && (fabs(row->difference) > LARGE || fabs(row->spread.excess) > LARGE);
}

static bool is_precise(const struct ladder_row *row)
{
    return row->biased && fmax(fabs(row->mean.z), fabs(row->spread.z)) > PRECISE;
}

/* Errors cover Monte-Carlo noise only, not the extrapolation. */
static void caution_size(const struct ladder *ladder, json_t **list)
{
    size_t large = 0, precise = 0;
    for (size_t k = 0; k < ladder->count; k++) {
        large += is_large(&ladder->rows[k]);
        precise += is_precise(&ladder->rows[k]);
    }
    if (large > 0)
        json_add(list, json_text("a bias of more than half a posterior sd may be beyond the range "
                                 "in which it is proportional to the squared step size: take the "
                                 "extrapolation as a direction, and repeat at smaller steps"));
    else if (precise > 0)
        json_add(
            list,
            json_text(
                "the bias is so large relative to its error that deviations from the law of the "
                "squared step size may exceed the errors: add a smaller factor"));
}

static void caution_law(const struct ladder *ladder, json_t **list)
{
    char text[200];
    if (ladder->misfits == 0)
        return;
    snprintf(text, sizeof text,
             "%zu parameter%s not follow the law of the squared step size: the errors are "
             "too small; leave out the largest factors",
             ladder->misfits, ladder->misfits == 1 ? " does" : "s do");
    json_add(list, json_text(text));
}

static void caution_spread(const struct ladder *ladder, json_t **list)
{
    char text[200];
    size_t n = 0;
    for (size_t k = 0; k < ladder->count; k++)
        n += is_known(&ladder->rows[k]) && isnan(ladder->rows[k].spread.sd);
    if (n == 0)
        return;
    snprintf(text, sizeof text,
             "the variance of %zu parameter%s cannot be distinguished from 0 at step size 0: the "
             "sd at the "
             "smallest step is used instead",
             n, n == 1 ? "" : "s");
    json_add(list, json_text(text));
}

static void caution_unknown(const struct ladder *ladder, json_t **list)
{
    char text[120];
    size_t n = ladder->count - count_known(ladder);
    if (n == 0)
        return;
    snprintf(text, sizeof text, "%zu of %zu parameters cannot be judged: see their reasons", n,
             ladder->count);
    json_add(list, json_text(text));
}

json_t *ladder_cautions(const struct ladder *ladder)
{
    json_t *list = json_array();
    caution_mixing(ladder, &list);
    caution_size(ladder, &list);
    caution_law(ladder, &list);
    caution_spread(ladder, &list);
    caution_unknown(ladder, &list);
    return list;
}

/* ---- as JSON ---- */

static json_t *side_json(const struct ladder *ladder, size_t side, size_t at)
{
    const struct mixing *m = mixing_of(ladder, side, at);
    json_t *doc = json_object();
    json_put(&doc, "factor", json_number(ladder->sides[side].factor));
    json_put(&doc, "mean", json_number(m->mean));
    json_put(&doc, "mcse_mean", json_number(m->mcse_mean));
    json_put(&doc, "sd", json_number(m->sd));
    json_put(&doc, "mcse_sd", json_number(m->mcse_sd));
    json_put(&doc, "rhat", json_number(m->rhat));
    json_put(&doc, "ess_bulk", json_number(m->ess_bulk));
    if (m->reason != MIXING_OK)
        json_put(&doc, "reason", json_text(mixing_reason_text(m->reason)));
    return doc;
}

struct numbers {
    double value, error, difference, difference_error, z, p_value;
};

static json_t *numbers_json(const struct numbers *n, bool fitted)
{
    json_t *doc = json_object();
    json_put(&doc, "extrapolated", json_number(n->value));
    json_put(&doc, "error", json_number(n->error));
    json_put(&doc, "difference", json_number(n->difference));
    json_put(&doc, "difference_error", json_number(n->difference_error));
    json_put(&doc, "z", json_number(n->z));
    if (fitted)
        json_put(&doc, "fit_p_value", json_number(n->p_value));
    return doc;
}

static void put_reason(json_t **doc, const struct ladder *ladder, const struct ladder_row *row)
{
    char text[200];
    if (isnan(row->spread.variance) || isnan(row->mean.value))
        snprintf(text, sizeof text, "a mean or an sd has no error: see the factors");
    else if (row->rhat > LOST_RHAT)
        snprintf(text, sizeof text,
                 "not judged: it has not mixed at factor %g (R-hat %.3f), so its errors are not "
                 "meaningful",
                 ladder->sides[row->rhat_side].factor, row->rhat);
    else if (isnan(row->spread.sd))
        snprintf(text, sizeof text,
                 "the extrapolated variance is not above twice its error: differences are in units "
                 "of the sd at the smallest step");
    else
        return;
    json_put(doc, "reason", json_text(text));
}

json_t *ladder_row_json(const struct ladder *ladder, const struct ladder_row *row)
{
    const struct extrapolate_spread *s = &row->spread;
    bool fitted = ladder->side_count > 2;
    struct numbers mean = {row->mean.value,       row->mean.error, row->difference,
                           row->difference_error, row->mean.z,     row->mean.p_value};
    struct numbers sd = {s->sd, s->error, s->excess, s->excess_error, s->z, s->p_value};
    json_t *doc = json_object(), *sides = json_array();
    json_put(&doc, "name", json_text(name_of(ladder, row)));
    for (size_t i = 0; i < ladder->side_count; i++)
        json_add(&sides, side_json(ladder, i, row->at));
    json_put(&doc, "factors", sides);
    json_put(&doc, "mean", numbers_json(&mean, fitted));
    json_put(&doc, "sd", numbers_json(&sd, fitted));
    json_put(&doc, "biased", json_boolean(row->biased));
    put_reason(&doc, ladder, row);
    return doc;
}
