"""The workloads of `make bench` in NumPy: double precision, every loop over rows or coordinates a call. See worker.h."""
import math
import numpy as np
from worker import main

rng = np.random.default_rng(1)
ALPHA, SHAPE, RATE, BETA, STRETCH = 3.0, 1.0, 5.0, 0.1, 1.702


def logistic(w):
    x = rng.uniform(-1.7, 1.7, (w.N, w.d))
    y = (x[:, 0] + rng.uniform(-1.7, 1.7, w.N) > 0).astype(float)

    def gradient(theta):
        xb, yb = x, y
        if w.n:
            idx = rng.choice(w.N, w.n, replace=False)
            xb, yb = x[idx], y[idx]
        r = yb - 1 / (1 + np.exp(-(xb @ theta)))
        if not w.corrected:
            return r @ xb * (w.N / w.batch) - theta, None
        terms = xb * r[:, None]
        scale = w.N / math.sqrt(w.n) * math.sqrt((w.N - w.n) / (w.N - 1))
        return terms.sum(0) * (w.N / w.n) - theta, terms.std(0, ddof=1) * scale

    return gradient, np.zeros(w.d)


def prior(z, mu, l):
    lam, deviation = np.exp(l), z - mu
    g_mu = lam * (deviation.sum(0) - mu)
    g_l = (len(z) + 1) / 2 + SHAPE - lam * (((deviation * deviation).sum(0) + mu * mu) / 2 + RATE)
    return -lam * deviation, g_mu, g_l


def factorization(w):
    user, item = rng.integers(0, w.users, w.N), rng.integers(0, w.items, w.N)
    y = rng.integers(-2, 3, w.N).astype(float)
    k, at = w.d, np.cumsum([w.users * w.d, w.items * w.d, w.d, w.d, w.d])

    def gradient(theta):
        u, v, mu_u, mu_v, l_u, l_v = np.split(theta, at)
        u, v = u.reshape(-1, k), v.reshape(-1, k)
        (g_u, g_mu_u, g_l_u), (g_v, g_mu_v, g_l_v) = prior(u, mu_u, l_u), prior(v, mu_v, l_v)
        idx = rng.choice(w.N, w.n, replace=False)
        a, b = user[idx], item[idx]
        ua, vb = u[a], v[b]
        slope = (ALPHA * w.N / w.n * (y[idx] - (ua * vb).sum(1)))[:, None]
        np.add.at(g_u, a, slope * vb)
        np.add.at(g_v, b, slope * ua)
        return np.concatenate([g_u.ravel(), g_v.ravel(), g_mu_u, g_mu_v, g_l_u, g_l_v]), None

    start = rng.standard_normal((w.users + w.items + 4) * k)
    start[at[1]:] *= 0.1
    return gradient, start


def ica(w):
    x = rng.uniform(-1.7, 1.7, (w.N, w.d))

    def gradient(theta):
        W = theta.reshape(w.d, w.d)
        xb = x[rng.choice(w.N, w.n, replace=False)]
        slope = np.tanh(0.5 * (W @ xb.T))
        total = slope @ xb
        g = w.N * np.linalg.inv(W).T - W - w.N / w.n * total
        if not w.corrected:
            return g.ravel(), None
        variance = ((slope * slope) @ (xb * xb) - total * total / w.n) / (w.n - 1)
        scale = w.N / math.sqrt(w.n) * math.sqrt((w.N - w.n) / (w.N - 1))
        return g.ravel(), scale * np.sqrt(variance).ravel()

    return gradient, np.eye(w.d).ravel()


erfc = np.frompyfunc(math.erfc, 1, 1)  # NumPy has no error function


def skew_normal(w):
    def gradient(theta):
        ratio = 0.3989422804014327 * np.exp(-0.5 * theta * theta) / (0.5 * erfc(-theta * math.sqrt(0.5)).astype(float))
        return ratio - theta + rng.standard_normal(w.chains), None

    return gradient, np.zeros(w.chains)  # all chains in one array


def make(w):
    gradient, theta = globals()[w.model](w)
    mean, m2, smooth = np.zeros_like(theta), np.zeros_like(theta), np.zeros_like(theta)
    t = 0

    def iterate():
        nonlocal t, theta, mean, m2, smooth
        t += 1
        g, tau = gradient(theta)
        jump = w.sigma * (1 + 0.1 * rng.standard_normal(len(theta)))
        if tau is not None:
            smooth = (1 - BETA) * smooth + BETA * tau
            room = STRETCH**2 - (smooth / (1 - (1 - BETA)**t) * jump)**2
            g = g * np.where(room > 0, STRETCH / np.sqrt(np.maximum(room, 1e-300)), np.inf)
        up = rng.random(len(theta)) < 1 / (1 + np.exp(-g * jump))
        theta = theta + np.where(up, jump, -jump)
        delta = theta - mean
        mean += delta / t
        m2 += delta * (theta - mean)
        return theta

    np.seterr(over="ignore")
    return iterate


main(make)
