#!/usr/bin/env python3
"""The exact posterior of the model matrix_factorization, by Gibbs sampling, whose conditionals it all has: what its predictions
are worth, and so how much of a held-out error is the model's own. Needs numpy. About a quarter of a second per sweep on MovieLens.

    tests/bench/gibbs.py TRAIN.csv TEST.csv [SWEEPS [SEED]]    700 sweeps otherwise; the first two sevenths are not averaged"""
import sys
import numpy as np

RANK, ALPHA, A0, B0 = 20, 3.0, 1.0, 5.0  # the model's defaults, with mu0 = 0


def triplets(path):
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    return rows[:, 0].astype(int) - 1, rows[:, 1].astype(int) - 1, rows[:, 2]


class Side:
    """Vectors of all users or of all items, with their prior; `mine` and `other` say whose vectors meet in a rating."""

    def __init__(self, rng, rows, mine, other):
        self.rng, self.other = rng, other
        self.z = rng.normal(size=(rows, RANK))
        self.mu, self.precision = np.zeros(RANK), np.ones(RANK)
        self.ratings = [np.flatnonzero(mine == k) for k in range(rows)]

    def draw_prior(self):
        n = len(self.z)
        self.mu = self.z.sum(0) / (n + 1) + self.rng.normal(size=RANK) / np.sqrt(self.precision * (n + 1))
        squares = ((self.z - self.mu) ** 2).sum(0) + self.mu ** 2
        self.precision = self.rng.gamma(A0 + (n + 1) / 2, 1 / (B0 + squares / 2))

    def draw_vectors(self, opposite, y):
        noise = self.rng.normal(size=self.z.shape)
        for k, ratings in enumerate(self.ratings):
            w = opposite[self.other[ratings]]
            root = np.linalg.cholesky(np.diag(self.precision) + ALPHA * w.T @ w)
            towards = self.precision * self.mu + ALPHA * w.T @ y[ratings]
            self.z[k] = np.linalg.solve(root.T, np.linalg.solve(root, towards) + noise[k])


def main(train, test, sweeps=700, seed=1):
    user, item, y = triplets(train)
    test_user, test_item, test_y = triplets(test)
    rng, mean, low, high = np.random.default_rng(int(seed)), y.mean(), y.min(), y.max()
    users = Side(rng, max(user.max(), test_user.max()) + 1, user, item)
    items = Side(rng, max(item.max(), test_item.max()) + 1, item, user)
    total, count, skipped = np.zeros(len(test_y)), 0, int(sweeps) * 2 // 7
    for sweep in range(1, int(sweeps) + 1):
        for side, opposite in ((users, items), (items, users)):
            side.draw_prior()
            side.draw_vectors(opposite.z, y - mean)
        predicted = np.clip((users.z[test_user] * items.z[test_item]).sum(1) + mean, low, high)
        if sweep > skipped:
            total, count = total + predicted, count + 1
        if sweep % 50 == 0 and count:
            print("%d sweeps: rMSE %.4f of a draw, %.4f of the average of %d" % (
                sweep, np.sqrt(((predicted - test_y) ** 2).mean()), np.sqrt(((total / count - test_y) ** 2).mean()), count), flush=True)


main(*sys.argv[1:])
