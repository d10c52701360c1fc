#!/usr/bin/python3
"""Computes tests/truth/answers.json: means and sds of every posterior of cases.py, by methods that share no code with
barkerd. Needs NumPy and SciPy (Debian: python3-scipy); the tests read the stored answers and need neither.

    tests/truth/answers.py              all cases; some minutes
    tests/truth/answers.py separable    one or more, the others stay; LONGER=10: with smaller errors

Up to three parameters: quadrature on a grid. Otherwise Hamiltonian Monte Carlo, 64 to 512 chains in parallel, whitened
by the covariance of a first run, with an accept step, so that the law is exact; beyond 10 000 rows, importance sampling
with control variates. `error` is the Monte-Carlo error of a mean in sds (of an sd relatively), the largest.
"""

import json
import math
import os
import sys

import numpy as np
from scipy.special import digamma, gammaln, log_ndtr

import cases

HERE = os.path.dirname(os.path.abspath(__file__))
STORED = os.path.join(HERE, "answers.json")
CHUNK = 4e6  # numbers of a matrix at a time
LENGTH = 6e8 * float(os.environ.get("LONGER", "1"))  # of chains: numbers read


# ---- laws: log density of a response, its derivatives by the linear predictor and by psi ----

def logistic(eta, y, psi):
    p = 1.0 / (1.0 + np.exp(-eta))
    return y * eta - np.logaddexp(0.0, eta), y - p, None


def probit(eta, y, psi):
    s = 2.0 * y - 1.0
    log = log_ndtr(s * eta)
    return log, s * np.exp(-0.5 * eta * eta - 0.5 * math.log(2 * math.pi) - log), None


def poisson(eta, y, psi):
    return y * eta - np.exp(eta), y - np.exp(eta), None


def negative_binomial(eta, y, psi):
    phi, mu = np.exp(psi), np.exp(eta)
    log = (gammaln(y + phi) - gammaln(phi) + phi * (psi - np.log(phi + mu)) + y * (eta - np.log(phi + mu)))
    by_phi = digamma(y + phi) - digamma(phi) + psi - np.log(phi + mu) + 1.0 - (phi + y) / (phi + mu)
    return log, y - mu * (y + phi) / (phi + mu), phi * by_phi


def linear(eta, y, psi):
    z = (y - eta) * np.exp(-psi)
    return -0.5 * z * z - psi, z * np.exp(-psi), z * z - 1.0


def student(dof):
    def law(eta, y, psi):
        z = (y - eta) * np.exp(-psi)
        slope = (dof + 1.0) * z / (dof + z * z)
        return -0.5 * (dof + 1.0) * np.log1p(z * z / dof) - psi, slope * np.exp(-psi), slope * z - 1.0
    return law


# ---- posteriors: theta of shape (points, d) -> log density, gradient ----

class Regression:
    LAWS = {"logistic": logistic, "probit": probit, "poisson": poisson, "negative_binomial": negative_binomial,
            "linear_regression": linear}
    SCALE = {"negative_binomial": ("phi", "phi_mean", "log_phi"), "linear_regression": ("sigma", "sigma_mean", "log_sigma"),
             "student_t": ("sigma", "sigma_mean", "log_sigma")}

    def __init__(self, posterior):
        model, data = posterior.model, posterior.data
        x = np.column_stack([np.asarray(c, float) for c in data.columns.values()])
        if posterior.intercept:
            x = np.column_stack([x, np.ones(len(x))])
        offset = np.asarray(data.offset if data.offset is not None else np.zeros(len(x)), float)
        rows = np.column_stack([x, offset, np.asarray(data.response, float)])
        rows, self.count = np.unique(rows, axis=0, return_counts=True)
        self.x, self.offset, self.y = rows[:, :-2], rows[:, -2], rows[:, -1]
        self.law = self.LAWS.get(model["name"]) or student(model.get("dof", 4))
        self.sd = np.broadcast_to(np.asarray(model["prior_sd"], float), (x.shape[1],))
        self.names = ["theta[%d]" % (j + 1) for j in range(x.shape[1])]
        self.known, self.rate = None, None
        if model["name"] in self.SCALE:
            known, mean, name = self.SCALE[model["name"]]
            if model.get(known, 0) > 0:
                self.known = math.log(model[known])
            else:
                self.rate = 1.0 / model.get(mean, 1.0)
                self.names.append(name)
        self.d = len(self.names)

    def __call__(self, theta):
        k = self.x.shape[1]
        step = max(1, int(CHUNK / len(self.y)))
        parts = [self.part(theta[at:at + step], k) for at in range(0, len(theta), step)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def part(self, theta, k):
        beta = theta[:, :k]
        psi = theta[:, k:] if self.rate is not None else self.known
        log, residual, by_psi = self.law(beta @ self.x.T + self.offset, self.y, psi)
        density = log @ self.count - 0.5 * np.sum((beta / self.sd) ** 2, axis=1)
        gradient = (residual * self.count) @ self.x - beta / self.sd ** 2
        if self.rate is not None:
            density = density - self.rate * np.exp(psi[:, 0]) + psi[:, 0]
            last = (by_psi @ self.count) - self.rate * np.exp(psi[:, 0]) + 1.0
            gradient = np.column_stack([gradient, last])
        return density, gradient


class Softmax:
    """theta[column, class]: the last class has none."""

    def __init__(self, posterior):
        self.x = np.column_stack([np.asarray(c, float) for c in posterior.data.columns.values()])
        y = np.asarray(posterior.data.response)
        self.classes = y.max() + 1
        self.hot = np.eye(self.classes)[y]
        self.sd = posterior.model["prior_sd"]
        columns, free = self.x.shape[1], self.classes - 1
        self.names = ["theta[%d,%d]" % (j + 1, c + 1) for j in range(columns) for c in range(free)]
        self.d = len(self.names)

    def __call__(self, theta):
        w = theta.reshape(len(theta), self.x.shape[1], -1)
        eta = np.einsum("ij,kjc->kic", self.x, w)
        eta = np.concatenate([eta, np.zeros(eta.shape[:2] + (1,))], axis=2)
        log = eta - np.logaddexp.reduce(eta, axis=2, keepdims=True)
        density = np.einsum("kic,ic->k", log, self.hot) - 0.5 * np.sum((theta / self.sd) ** 2, axis=1)
        residual = (self.hot - np.exp(log))[:, :, :-1]
        gradient = np.einsum("ij,kic->kjc", self.x, residual).reshape(theta.shape) - theta / self.sd ** 2
        return density, gradient


class SkewNormal:
    names, d = ["theta[1]"], 1

    def __init__(self, posterior):
        self.alpha = posterior.model["alpha"]

    def __call__(self, theta):
        t = theta[:, 0]
        return -0.5 * t * t + log_ndtr(self.alpha * t), None


def target_of(posterior):
    name = posterior.model["name"]
    return SkewNormal(posterior) if name == "skew_normal" else Softmax(posterior) if name == "softmax" else Regression(posterior)


# ---- quadrature ----

def grid(target, low, high, points):
    axes = [np.linspace(a, b, points) for a, b in zip(low, high)]
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, target.d)
    log, _ = target(mesh)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = weight @ mesh
    return mean, np.sqrt(weight @ (mesh - mean) ** 2), weight, mesh


def quadrature(target):
    """Widens or narrows the box until its edges hold nothing, then refines it until nothing changes. For a smooth
    density that vanishes at the edges the equidistant rule converges faster than any power."""
    low, high = np.full(target.d, -60.0), np.full(target.d, 60.0)
    points = {1: 20001, 2: 801, 3: 141}[target.d]
    for _ in range(12):
        mean, sd, weight, mesh = grid(target, low, high, points)
        inside = mesh[weight > 1e-16 * weight.max()]
        step = (high - low) / (points - 1)
        low, high = inside.min(axis=0) - 3 * step, inside.max(axis=0) + 3 * step
    finer = grid(target, low, high, int(1.4 * points))
    error = max(np.max(np.abs(finer[0] - mean) / sd), np.max(np.abs(finer[1] / sd - 1.0)))
    return finer[0], finer[1], float(error) + 1e-9, "quadrature"


# ---- Hamiltonian Monte Carlo ----

def mode_of(target):
    """Newton's method with differences of the gradient, damped. Returns the mode and the curvature there."""
    theta = np.zeros(target.d)
    if "log_sigma" in target.names and hasattr(target, "y"):
        theta[-1] = math.log(np.std(target.y) + 1e-3)
    for _ in range(200):
        density, gradient = target(theta[None])
        curvature = hessian(target, theta)
        values, vectors = np.linalg.eigh(curvature)
        step = vectors @ ((vectors.T @ gradient[0]) / np.maximum(np.abs(values), 1e-8))
        size = 1.0
        while size > 1e-12 and not target((theta + size * step)[None])[0][0] > density[0] - 1e-9 * abs(density[0]):
            size *= 0.5
        theta = theta + size * step
        if np.max(np.abs(size * step)) < 1e-9 * (1 + np.max(np.abs(theta))):
            break
    return theta, hessian(target, theta)


def hessian(target, theta):
    step = 1e-5 * (1e-3 + np.abs(theta))
    at = np.concatenate([theta + np.diag(step), theta - np.diag(step)])
    gradient = target(at)[1]
    h = -(gradient[:target.d] - gradient[target.d:]) / (2 * step[:, None])
    return 0.5 * (h + h.T)


def hmc(target, centre, factor, chains, iterations, rng, start=None):
    """theta = centre + factor u. Steps and lengths vary at random. Returns the kept draws, (iterations, chains, d)."""
    d = target.d
    u = rng.standard_normal((chains, d)) if start is None else start
    def at(v):
        log, gradient = target(centre + v @ factor.T)
        return log, gradient @ factor
    log, gradient = at(u)
    size, kept = 0.9 / d ** 0.25, []
    for k in range(-(iterations // 4), iterations):
        steps = int(rng.integers(1, 2 + int(1.8 / size)))
        step = size * rng.uniform(0.8, 1.2)
        p = rng.standard_normal((chains, d))
        v, g, energy = u, gradient, log - 0.5 * np.sum(p * p, axis=1)
        for _ in range(steps):
            p = p + 0.5 * step * g
            v = v + step * p
            new, g = at(v)
            p = p + 0.5 * step * g
        accept = np.log(rng.random(chains)) < np.nan_to_num(new - 0.5 * np.sum(p * p, axis=1) - energy, nan=-np.inf)
        u, gradient, log = np.where(accept[:, None], v, u), np.where(accept[:, None], g, gradient), np.where(accept, new, log)
        if k < 0:
            size *= math.exp(0.3 * (accept.mean() - 0.85))
        else:
            kept.append(u.copy())
    return np.array(kept), u


def sampled(target):
    rng = np.random.default_rng(1)
    work = len(getattr(target, "y", getattr(target, "x", ()))) * target.d
    chains = int(min(512, max(64, 4e6 / work)))
    iterations = int(min(20000, max(1000, LENGTH / (work * chains))))
    mode, curvature = mode_of(target)
    values, vectors = np.linalg.eigh(curvature)
    factor = vectors / np.sqrt(np.maximum(values, 1e-10))
    draws, last = hmc(target, mode, factor, chains, iterations // 3, rng)
    theta = mode + draws.reshape(-1, target.d) @ factor.T
    centre, finer = theta.mean(axis=0), np.linalg.cholesky(np.cov(theta.T).reshape(target.d, target.d))
    start = np.linalg.solve(finer, (mode + last @ factor.T - centre).T).T
    draws, _ = hmc(target, centre, finer, chains, iterations, rng, start)
    theta = centre + draws @ finer.T
    mean, sd = theta.mean(axis=(0, 1)), theta.std(axis=(0, 1))
    spread = theta.mean(axis=0).std(axis=0, ddof=1) / math.sqrt(chains) / sd
    squares = ((theta - mean) ** 2).mean(axis=0).std(axis=0, ddof=1) / math.sqrt(chains) / (2 * sd * sd)
    return mean, sd, float(max(spread.max(), squares.max())), "hmc"


# ---- importance sampling, for many rows ----

def stein(u, g):
    """Functions of whitened points u, with scores g, whose mean under the posterior is zero: Stein's operator on
    polynomials of first and second degree."""
    d = u.shape[1]
    first, second = np.triu_indices(d)
    return np.column_stack([g, u[:, first] * g[:, second] + u[:, second] * g[:, first] + 2.0 * (first == second)])


def regressed(f, weight, controls):
    """Means of the columns of f under the weights, less what the controls explain; and their errors."""
    root = np.sqrt(weight)[:, None]
    design = np.column_stack([np.ones(len(f)), controls])
    beta = np.linalg.lstsq(root * design, root * f, rcond=None)[0]
    residual = f - design @ beta
    return beta[0], np.sqrt(np.sum((weight[:, None] * residual) ** 2, axis=0))


def weighted(target):
    """Points of a Student law around the mode, weighted; means and squares with Stein's controls."""
    rng, dof = np.random.default_rng(1), 8.0
    d, rows = target.d, len(target.y)
    points = int(min(200000, max(1500, 20 * LENGTH / (rows * d))))
    mode, curvature = mode_of(target)
    factor = np.linalg.cholesky(np.linalg.inv(curvature))
    u = rng.standard_normal((points, d)) / np.sqrt(rng.chisquare(dof, (points, 1)) / dof)
    log, gradient = target(mode + u @ factor.T)
    weight = log + 0.5 * (dof + d) * np.log1p(np.sum(u * u, axis=1) / dof)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    theta, controls = u @ factor.T, stein(u, gradient @ factor)
    mean, mean_error = regressed(theta, weight, controls)
    square, square_error = regressed((theta - mean) ** 2, weight, controls)
    sd = np.sqrt(square)
    return mode + mean, sd, float(max(np.max(mean_error / sd), np.max(square_error / (2 * square)))), "importance"


def way(target):
    rows = len(getattr(target, "y", ()))
    if target.d == 1 or (target.d == 2 and rows < 1000) or (target.d == 3 and rows <= 50):
        return quadrature
    return weighted if rows > 10000 else sampled


def main():
    wanted = sys.argv[1:] or list(cases.CASES)
    stored = {}
    if os.path.exists(STORED):
        with open(STORED) as f:
            stored = json.load(f)
    for name in wanted:
        target = target_of(cases.CASES[name]())
        mean, sd, error, method = way(target)(target)
        stored[name] = {"method": method, "error": float("%.2g" % error), "names": target.names,
                        "mean": [float("%.10g" % m) for m in mean], "sd": [float("%.10g" % s) for s in sd]}
        print("%-30s %-10s error %.2g  %s" % (name, method, error, " ".join("%.4g (%.4g)" % p for p in zip(mean, sd))), flush=True)
        ordered = {n: stored[n] for n in cases.CASES if n in stored}
        with open(STORED, "w") as f:
            f.write("{\n" + ",\n".join("%s: %s" % (json.dumps(n), json.dumps(a)) for n, a in ordered.items()) + "\n}\n")


if __name__ == "__main__":
    main()
