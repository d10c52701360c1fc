"""Figure 1: what minibatches do to the probability of a positive move. At one theta of a logistic regression, E phat
and E ptilde over random minibatches, beside the same expectations under normal noise by quadrature. No chain is needed,
so this is computed here and not by the daemon."""

import csv
import math
import random

BARKER = 1.702
MINIBATCHES = 20000


def logistic(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def p(delta, z):
    return logistic(delta * z)


def corrected(delta, z, tau):
    """The estimator of c-SGBD: the slope is widened as far as the noise allows."""
    if abs(z) * tau >= BARKER:
        return 1.0 if delta * z > 0 else 0.0
    return logistic(BARKER / math.sqrt(BARKER ** 2 - (tau * z) ** 2) * delta * z)


def expected(estimator, delta, tau, points=401, reach=8.0):
    """Under delta + tau N(0, 1), by the trapezoidal rule, which is exact to many digits for such an integrand. The jump
    of an estimator that has become a sign costs a tenth of a step, below 0.002."""
    step = 2 * reach / (points - 1)
    nodes = [-reach + k * step for k in range(points)]
    return sum(math.exp(-x * x / 2) * estimator(delta + tau * x) for x in nodes) * step / math.sqrt(2 * math.pi)


class Coordinate:
    """One coordinate: the exact gradient, each row's term, and gradients of random minibatches."""

    def __init__(self, name, prior, terms, n, rng, minibatches):
        N = len(terms)
        self.name, self.n = name, n
        self.delta = prior + math.fsum(terms)
        mean = math.fsum(terms) / N
        sd = math.sqrt(sum((t - mean) ** 2 for t in terms) / (N - 1))
        self.tau = N / math.sqrt(n) * sd * math.sqrt((N - n) / (N - 1))
        self.estimates = [prior + N / n * math.fsum(rng.sample(terms, n)) for _ in range(minibatches)]

    def curves(self, most=3.0, count=25):
        """At z from 0 to `most` noise tolerances (z tau / 1.702): p and each expectation, by minibatches with its
        Monte-Carlo error and by quadrature."""
        rows = []
        for k in range(count):
            ratio = most * k / (count - 1)
            z = ratio * BARKER / self.tau
            plain, widened = (lambda d: p(d, z)), (lambda d: corrected(d, z, self.tau))
            row = {"z": z, "ratio": ratio, "p": p(self.delta, z)}
            for name, estimator in (("plain", plain), ("corrected", widened)):
                seen = [estimator(d) for d in self.estimates]
                mean = math.fsum(seen) / len(seen)
                row[name] = mean
                row[name + "_error"] = math.sqrt(sum((s - mean) ** 2 for s in seen) / (len(seen) - 1) / len(seen))
                row[name + "_normal"] = expected(estimator, self.delta, self.tau)
            rows.append(row)
        return {"name": self.name, "n": self.n, "delta": self.delta, "tau": self.tau, "rows": rows}


def read(path):
    with open(path, newline="") as file:
        reader = csv.reader(file)
        names = next(reader)
        at = names.index("y")
        table = [[float(v) for v in row] for row in reader]
    return [n for n in names if n != "y"], [row[:at] + row[at + 1:] for row in table], [row[at] for row in table]


def made_up():
    """A regression for when there are no data: 344 rows of 12 columns, half of them skewed."""
    rng = random.Random(2)
    X = [[rng.gauss(0, 1) if j % 2 else rng.expovariate(1) - 1 for j in range(12)] for _ in range(344)]
    y = [float(rng.random() < logistic(sum(x) / 3)) for x in X]
    return ["x%d" % (j + 1) for j in range(12)], X, y


def figure(names, X, y, theta, sd, n=34, minibatches=MINIBATCHES):
    """At theta plus one posterior sd in a random direction per coordinate, so that gradients are not zero. Coordinates
    by the size of their noise against their scale: the median one first, then four from quiet to noisy, of those whose
    gradient can be told from zero."""
    rng = random.Random(1)
    theta = [t + s * rng.gauss(0, 1) for t, s in zip(theta, sd)]
    residual = [b - logistic(sum(u * v for u, v in zip(row, theta))) for row, b in zip(X, y)]
    def terms(j):
        return [row[j] * r for row, r in zip(X, residual)]
    def noise(j):
        t = terms(j)
        m = sum(t) / len(t)
        return sd[j] * math.sqrt(sum((v - m) ** 2 for v in t))
    def visible(j):
        """Whether the gradient is large enough beside its noise for the curves to differ from 1/2."""
        t, N = terms(j), len(X)
        return abs(math.fsum(t) - theta[j]) > 0.3 * N / math.sqrt(n) * math.sqrt(sum(v * v for v in t) / N)
    order = sorted(range(len(theta)), key=noise)
    order = [j for j in order if visible(j)] if sum(map(visible, order)) >= 5 else order
    chosen = [order[int(q * (len(order) - 1))] for q in (0.5, 0.05, 0.35, 0.75, 1.0)]
    return [Coordinate(names[j], -theta[j], terms(j), n, rng, minibatches).curves() for j in chosen]


def mode(X, y, iterations=50):
    """Posterior mode and sds of the normal approximation by coordinate, under standard normal priors: enough to choose
    a theta where no reference is at hand."""
    d = len(X[0])
    theta = [0.0] * d
    for _ in range(iterations):
        for j in range(d):
            probabilities = [logistic(sum(u * v for u, v in zip(row, theta))) for row in X]
            slope = -theta[j] + sum(row[j] * (b - q) for row, b, q in zip(X, y, probabilities))
            curvature = 1 + sum(row[j] ** 2 * q * (1 - q) for row, q in zip(X, probabilities))
            theta[j] += slope / curvature
    sd = []
    for j in range(d):
        sd.append(1 / math.sqrt(1 + sum(row[j] ** 2 * q * (1 - q) for row, q in zip(X, probabilities))))
    return theta, sd
