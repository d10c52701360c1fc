"""Posteriors that a plan was not made for: rare categories, separation, collinearity, leverage, heavy tails, few rows,
more parameters than rows, two modes, rare events. A case is a function with the decorator `case`; it returns the data
and the model. Everything is drawn from random.Random, so the data are the same everywhere.
"""

import math
import random

CASES = {}


class Data:
    """Columns of covariates by name, a response, and perhaps an offset."""

    def __init__(self, columns, response, offset=None):
        self.columns, self.response, self.offset = columns, response, offset

    def text(self):
        table = dict(self.columns, y=self.response)
        if self.offset is not None:
            table["offset"] = self.offset
        lines = [",".join(table)]
        lines.extend(",".join(map(repr, row)) for row in zip(*table.values()))
        return "\n".join(lines) + "\n"


class Posterior:
    """A model on data. `met`: a job that names nothing else is expected to say that its target is met."""

    def __init__(self, model, data=None, intercept=False, met=True):
        self.model, self.data, self.intercept, self.met = model, data, intercept, met

    def job(self, path):
        job = {"model": self.model}
        if self.data is not None:
            job["data"] = {"path": path, "response": "y", "columns": list(self.data.columns),
                           "intercept": self.intercept}
            if self.data.offset is not None:
                job["data"]["offset"] = "offset"
        return job


def case(make):
    CASES[make.__name__] = make
    return make


def is_large(name):
    """Left out of the short version."""
    return name in ("million_rows", "rare_categories_continuous", "rare_events", "probit_rare_category")


# ---- helpers ----

def normals(rng, rows, sd=1.0):
    return [rng.gauss(0.0, sd) for _ in range(rows)]


def coins(rng, rows, p):
    return [int(rng.random() < p) for _ in range(rows)]


def some_ones(rng, rows, count):
    """A 0/1 column with exactly so many ones."""
    ones = set(rng.sample(range(rows), count))
    return [int(i in ones) for i in range(rows)]


def cauchy(rng):
    return math.tan(math.pi * (rng.random() - 0.5))


def names(*columns):
    return {"x%d" % (j + 1): c for j, c in enumerate(columns)}


def predictor(columns, theta, constant=0.0):
    lists = list(columns.values())
    return [constant + sum(t * c[i] for t, c in zip(theta, lists)) for i in range(len(lists[0]))]


def bernoulli(rng, eta):
    return [int(rng.random() < 1.0 / (1.0 + math.exp(-max(-700.0, e)))) for e in eta]


def poisson(rng, mean):
    """Knuth's product for small means, a rounded normal for large ones."""
    if mean > 200.0:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, k, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        k += 1
        product *= rng.random()
    return k


# ---- logistic regression ----

@case
def rare_categories():
    """Four common 0/1 columns and three rare ones, of 40, 10 and 3 ones among 200 000 rows."""
    rng, rows = random.Random(1), 200000
    columns = names(*(coins(rng, rows, p) for p in (0.5, 0.3, 0.2, 0.4)),
                    *(some_ones(rng, rows, n) for n in (40, 10, 3)))
    eta = predictor(columns, (0.5, -0.5, 0.3, -0.2, 1.0, -1.0, 0.5), -1.5)
    return Posterior({"name": "logistic", "prior_sd": 10}, Data(columns, bernoulli(rng, eta)), True)


@case
def rare_categories_continuous():
    """The same beside continuous covariates, so that no two rows are equal."""
    rng, rows = random.Random(2), 20000
    columns = names(normals(rng, rows), normals(rng, rows), *(some_ones(rng, rows, n) for n in (40, 10, 3)))
    eta = predictor(columns, (0.6, -0.4, 1.0, -1.0, 0.5), -1.0)
    return Posterior({"name": "logistic", "prior_sd": 10}, Data(columns, bernoulli(rng, eta)), True)


@case
def separable():
    """20 rows of 6 covariates that a plane separates."""
    rng, rows = random.Random(3), 20
    columns = names(*(normals(rng, rows) for _ in range(6)))
    eta = predictor(columns, (2.0, -1.5, 1.0, 0.5, -0.5, 0.0))
    return Posterior({"name": "logistic", "prior_sd": 2.5}, Data(columns, [int(e > 0) for e in eta]))


@case
def quasi_separation():
    """All rows of one category have the response 1."""
    rng, rows = random.Random(4), 400
    columns = names(normals(rng, rows), some_ones(rng, rows, 12))
    y = bernoulli(rng, predictor(columns, (0.8, 0.0), -0.5))
    y = [1 if rare else v for v, rare in zip(y, columns["x2"])]
    return Posterior({"name": "logistic", "prior_sd": 10}, Data(columns, y), True)


@case
def collinear():
    rng, rows = random.Random(5), 500
    first = normals(rng, rows)
    columns = names(first, [x + 0.005 * rng.gauss(0, 1) for x in first], normals(rng, rows))
    y = bernoulli(rng, predictor(columns, (0.7, 0.5, -0.4)))
    return Posterior({"name": "logistic", "prior_sd": 5}, Data(columns, y))


@case
def leverage():
    """One row lies 80 sds away, against the others."""
    rng, rows = random.Random(6), 300
    columns = names([80.0] + normals(rng, rows - 1), normals(rng, rows))
    y = bernoulli(rng, predictor(columns, (0.9, -0.5)))
    y[0] = 0
    return Posterior({"name": "logistic", "prior_sd": 3}, Data(columns, y), True)


@case
def heavy_covariates():
    rng, rows = random.Random(7), 5000
    columns = names([cauchy(rng) for _ in range(rows)], [rng.gauss(0, 1) ** 3 for _ in range(rows)],
                    normals(rng, rows))
    y = bernoulli(rng, predictor(columns, (0.05, 0.3, -0.6), 0.2))
    return Posterior({"name": "logistic", "prior_sd": 5}, Data(columns, y), True)


@case
def fewer_rows_than_parameters():
    rng, rows = random.Random(8), 15
    columns = names(*(normals(rng, rows) for _ in range(30)))
    y = bernoulli(rng, predictor(columns, [1.0, -1.0] + 28 * [0.0]))
    return Posterior({"name": "logistic", "prior_sd": 1}, Data(columns, y))


@case
def rare_events():
    """25 ones among 20 000 responses."""
    rng, rows = random.Random(9), 20000
    columns = names(normals(rng, rows), coins(rng, rows, 0.1))
    score = sorted(range(rows), key=lambda i: -(0.8 * columns["x1"][i] + columns["x2"][i] + 1.5 * rng.gauss(0, 1)))
    y = [0] * rows
    for i in rng.sample(score[:2000], 25):
        y[i] = 1
    return Posterior({"name": "logistic", "prior_sd": 5}, Data(columns, y), True)


@case
def no_event():
    return Posterior({"name": "logistic", "prior_sd": 3}, Data({"one": 40 * [1]}, 40 * [0]))


@case
def five_rows():
    return Posterior({"name": "logistic", "prior_sd": 4},
                     Data(names([1.2, -0.7, 0.3, 2.0, -1.5]), [1, 0, 1, 1, 0]), True)


@case
def years():
    """A covariate far from zero: strongly correlated with the intercept."""
    rng, rows = random.Random(10), 600
    columns = names([1990 + rng.randrange(30) for _ in range(rows)], normals(rng, rows))
    y = bernoulli(rng, [0.06 * (a - 2005) + 0.5 * b for a, b in zip(*columns.values())])
    return Posterior({"name": "logistic", "prior_sd": [0.5, 2, 100]}, Data(columns, y), True)


@case
def units():
    """Covariates in units that differ by 10^6, with prior scales to match."""
    rng, rows = random.Random(11), 800
    columns = names(normals(rng, rows, 1e-3), normals(rng, rows, 1e3), normals(rng, rows))
    y = bernoulli(rng, predictor(columns, (700.0, -6e-4, 0.3)))
    return Posterior({"name": "logistic", "prior_sd": [2000, 0.002, 2]}, Data(columns, y))


@case
def million_rows():
    rng, rows = random.Random(12), 1000000
    columns = names(*(normals(rng, rows) for _ in range(4)), some_ones(rng, rows, 60))
    columns = {k: [round(v, 4) for v in c] for k, c in columns.items()}
    eta = predictor(columns, (0.5, -0.3, 0.2, 0.0, 1.0), -2.0)
    return Posterior({"name": "logistic", "prior_sd": 5}, Data(columns, bernoulli(rng, eta)), True)


# ---- other regressions ----

@case
def probit_few():
    rng, rows = random.Random(13), 25
    columns = names(normals(rng, rows), coins(rng, rows, 0.3))
    y = [int(e + rng.gauss(0, 1) > 0) for e in predictor(columns, (1.5, -1.0))]
    return Posterior({"name": "probit", "prior_sd": 3}, Data(columns, y), True)


@case
def probit_rare_category():
    rng, rows = random.Random(14), 20000
    columns = names(coins(rng, rows, 0.4), some_ones(rng, rows, 6))
    y = [int(e + rng.gauss(0, 1) > 0) for e in predictor(columns, (0.5, 0.7), -0.8)]
    return Posterior({"name": "probit", "prior_sd": 3}, Data(columns, y), True)


@case
def poisson_mostly_zero():
    rng, rows = random.Random(15), 4000
    columns = names(coins(rng, rows, 0.4), some_ones(rng, rows, 15))
    y = [poisson(rng, math.exp(e)) for e in predictor(columns, (0.5, 1.0), -4.5)]
    return Posterior({"name": "poisson", "prior_sd": 5}, Data(columns, y), True)


@case
def poisson_exposure():
    """Rates with exposures that differ by a factor of a thousand."""
    rng, rows = random.Random(16), 1500
    columns = names(normals(rng, rows), coins(rng, rows, 0.5))
    offset = [round(rng.uniform(-3.5, 3.5), 3) for _ in range(rows)]
    eta = predictor(columns, (0.3, -0.5), 0.2)
    y = [poisson(rng, math.exp(e + o)) for e, o in zip(eta, offset)]
    return Posterior({"name": "poisson", "prior_sd": 3}, Data(columns, y, offset), True)


@case
def poisson_large_counts():
    rng, rows = random.Random(17), 60
    columns = names(normals(rng, rows, 0.5))
    y = [poisson(rng, math.exp(e)) for e in predictor(columns, (1.0,), 8.0)]
    return Posterior({"name": "poisson", "prior_sd": 10}, Data(columns, y), True)


@case
def dispersion_at_its_boundary():
    """Poisson counts under a negative binomial: phi has no upper bound but its prior."""
    rng, rows = random.Random(18), 400
    columns = names(normals(rng, rows))
    y = [poisson(rng, math.exp(e)) for e in predictor(columns, (0.4,), 0.8)]
    return Posterior({"name": "negative_binomial", "prior_sd": 3, "phi_mean": 20}, Data(columns, y), True)


@case
def overdispersed_few():
    rng, rows = random.Random(19), 30
    columns = names(normals(rng, rows))
    y = [poisson(rng, math.exp(e) * rng.gammavariate(0.5, 2.0)) for e in predictor(columns, (0.7,), 1.0)]
    return Posterior({"name": "negative_binomial", "prior_sd": 3, "phi_mean": 1}, Data(columns, y), True)


@case
def conjugate():
    """A linear regression with known sigma: the posterior is normal."""
    rng, rows = random.Random(20), 200
    columns = names(*(normals(rng, rows) for _ in range(4)))
    y = [e + 0.7 * rng.gauss(0, 1) for e in predictor(columns, (1.0, -0.5, 0.2, 0.0))]
    return Posterior({"name": "linear_regression", "prior_sd": 2, "sigma": 0.7}, Data(columns, y))


@case
def six_measurements():
    """Mean and sd of six numbers."""
    return Posterior({"name": "linear_regression", "prior_sd": 10, "sigma_mean": 2},
                     Data({"one": 6 * [1]}, [2.1, 1.7, 2.9, 2.4, 1.1, 3.0]))


@case
def linear_wide():
    rng, rows = random.Random(21), 20
    columns = names(*(normals(rng, rows) for _ in range(25)))
    y = [e + 0.5 * rng.gauss(0, 1) for e in predictor(columns, [1.0, -1.0, 0.5] + 22 * [0.0])]
    return Posterior({"name": "linear_regression", "prior_sd": 0.5, "sigma": 0.5}, Data(columns, y))


@case
def outliers():
    rng, rows = random.Random(22), 150
    columns = names(normals(rng, rows), normals(rng, rows))
    y = [e + 0.3 * (cauchy(rng) if rng.random() < 0.2 else rng.gauss(0, 1)) for e in predictor(columns, (1.0, -0.5))]
    return Posterior({"name": "student_t", "prior_sd": 3, "dof": 3}, Data(columns, y), True)


@case
def two_modes():
    """The location of a Cauchy law with measurements around -4 and 4: two modes of unequal weight, apart enough for
    every local sampler to see only one, unless chains begin apart."""
    return Posterior({"name": "student_t", "prior_sd": 20, "dof": 1, "sigma": 1},
                     Data({"one": 8 * [1]}, [-4.6, -4.1, -3.8, 3.6, 3.9, 4.2, 4.4, -4.0]), met=False)


@case
def far_modes():
    """Two modes that no sampler goes between, and half-way a saddle at which a search that starts at zero ends."""
    rng = random.Random(101)
    y = [rng.gauss(m, 0.3) for m in (-6, 6) for _ in range(15)]
    return Posterior({"name": "student_t", "prior_sd": 20, "dof": 1, "sigma": 0.5}, Data({"one": 30 * [1]}, y), met=False)


@case
def three_modes():
    """The middle one has nearly all of the weight, the outer ones have a fifth of the sd."""
    rng = random.Random(104)
    y = [rng.gauss(m, 0.2) for m in (-8, 0, 8) for _ in range(6)]
    return Posterior({"name": "student_t", "prior_sd": 20, "dof": 1, "sigma": 0.5}, Data({"one": 18 * [1]}, y), met=False)


@case
def two_near_modes():
    """Two modes with a shallow valley between them."""
    return Posterior({"name": "student_t", "prior_sd": 10, "dof": 2, "sigma": 1},
                     Data({"one": 4 * [1]}, [-2.6, -2.4, 2.4, 2.7]))


@case
def rare_class():
    """Three classes, one of them rare."""
    rng, rows = random.Random(23), 2000
    columns = names(normals(rng, rows), 1 * coins(rng, rows, 0.3), rows * [1])
    y = []
    for a, b in zip(columns["x1"], columns["x2"]):
        weights = [math.exp(0.5 * a - 1.0), math.exp(-4.5 + b), 1.0]
        y.append(rng.choices((0, 1, 2), weights)[0])
    return Posterior({"name": "softmax", "prior_sd": 3}, Data(columns, y))


@case
def few_of_three_classes():
    return Posterior({"name": "softmax", "prior_sd": 2},
                     Data({"x1": [0.2, -1.1, 1.5, 0.4, -0.6, 2.2, -1.9, 0.9], "one": 8 * [1]},
                          [0, 1, 2, 0, 1, 2, 1, 0]))


@case
def skewed_toy():
    return Posterior({"name": "skew_normal", "alpha": 20, "noise_sd": 0})
