"""The workloads of `make bench` in PyTorch on the CPU: its default single precision, gradients written down rather than by
autograd, which is slower. Batches are with replacement: a permutation per iteration would cost more than all the rest. See worker.h."""
import math
import torch
from worker import main

torch.manual_seed(1)
torch.set_num_threads(1)
torch.set_grad_enabled(False)
ALPHA, SHAPE, RATE, BETA, STRETCH = 3.0, 1.0, 5.0, 0.1, 1.702


def logistic(w):
    x = torch.rand(w.N, w.d).sub_(0.5).mul_(3.4)
    y = (x[:, 0] + 3.4 * (torch.rand(w.N) - 0.5) > 0).float()

    def gradient(theta):
        xb, yb = x, y
        if w.n:
            idx = torch.randint(w.N, (w.n,))
            xb, yb = x[idx], y[idx]
        r = yb - torch.sigmoid(xb @ theta)
        if not w.corrected:
            return r @ xb * (w.N / w.batch) - theta, None
        terms = xb * r[:, None]
        return terms.sum(0) * (w.N / w.n) - theta, terms.std(0) * (w.N / math.sqrt(w.n))

    return gradient, torch.zeros(w.d)


def prior(z, mu, l):
    lam, deviation = torch.exp(l), z - mu
    g_mu = lam * (deviation.sum(0) - mu)
    g_l = (len(z) + 1) / 2 + SHAPE - lam * (((deviation * deviation).sum(0) + mu * mu) / 2 + RATE)
    return -lam * deviation, g_mu, g_l


def factorization(w):
    user, item = torch.randint(w.users, (w.N,)), torch.randint(w.items, (w.N,))
    y = torch.randint(-2, 3, (w.N,)).float()
    k, sizes = w.d, [w.users * w.d, w.items * w.d, w.d, w.d, w.d, w.d]

    def gradient(theta):
        u, v, mu_u, mu_v, l_u, l_v = torch.split(theta, sizes)
        u, v = u.view(-1, k), v.view(-1, k)
        (g_u, g_mu_u, g_l_u), (g_v, g_mu_v, g_l_v) = prior(u, mu_u, l_u), prior(v, mu_v, l_v)
        idx = torch.randint(w.N, (w.n,))
        a, b = user[idx], item[idx]
        ua, vb = u[a], v[b]
        slope = (ALPHA * w.N / w.n * (y[idx] - (ua * vb).sum(1)))[:, None]
        g_u.index_add_(0, a, slope * vb)
        g_v.index_add_(0, b, slope * ua)
        return torch.cat([g_u.view(-1), g_v.view(-1), g_mu_u, g_mu_v, g_l_u, g_l_v]), None

    start = torch.randn(sum(sizes))
    start[-4 * k:] *= 0.1
    return gradient, start


def ica(w):
    x = torch.rand(w.N, w.d).sub_(0.5).mul_(3.4)

    def gradient(theta):
        W = theta.view(w.d, w.d)
        xb = x[torch.randint(w.N, (w.n,))]
        slope = torch.tanh(0.5 * (W @ xb.T))
        total = slope @ xb
        g = w.N * torch.linalg.inv(W).T - W - w.N / w.n * total
        if not w.corrected:
            return g.reshape(-1), None
        variance = ((slope * slope) @ (xb * xb) - total * total / w.n) / (w.n - 1)
        return g.reshape(-1), w.N / math.sqrt(w.n) * torch.sqrt(variance).view(-1)

    return gradient, torch.eye(w.d).view(-1)


def skew_normal(w):
    def gradient(theta):
        ratio = torch.exp(-0.5 * theta * theta - 0.9189385332 - torch.special.log_ndtr(theta))
        return ratio - theta + torch.randn(w.chains), None

    return gradient, torch.zeros(w.chains)  # all chains in one tensor


def make(w):
    gradient, theta = globals()[w.model](w)
    mean, m2, smooth = torch.zeros_like(theta), torch.zeros_like(theta), torch.zeros_like(theta)
    t = 0

    def iterate():
        nonlocal t, theta, smooth
        t += 1
        g, tau = gradient(theta)
        jump = w.sigma * (1 + 0.1 * torch.randn(len(theta)))
        if tau is not None:
            smooth = (1 - BETA) * smooth + BETA * tau
            room = STRETCH**2 - (smooth / (1 - (1 - BETA)**t) * jump)**2
            g = g * torch.where(room > 0, STRETCH * torch.rsqrt(room), math.inf)
        up = torch.rand(len(theta)) < torch.sigmoid(g * jump)
        theta = theta + torch.where(up, jump, -jump)
        delta = theta - mean
        mean.add_(delta, alpha=1 / t)
        m2.addcmul_(delta, theta - mean)
        return theta

    return iterate


main(make)
