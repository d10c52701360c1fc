"""Regressions through the socket: offsets, weights, and priors of each coefficient."""

import math
import random
from statistics import pstdev

from harness import Case, Daemon, Table, mean


def setUpModule():
    global daemon, alice
    daemon = Daemon()
    alice = daemon.client()
    chance = random.Random(5)
    lines = ["count,log_exposure,x"]
    for _ in range(200):
        exposure = math.exp(chance.gauss(0, 1))
        rate, count, left = 3.0 * exposure, 0, chance.expovariate(1)
        while left < rate:
            count, left = count + 1, left + chance.expovariate(1)
        lines.append("%d,%.17g,%.6f" % (count, math.log(exposure), chance.gauss(0, 1)))
    daemon.file("counts.csv", "\n".join(lines) + "\n")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def counts(**fields):
    return {"model": {"name": "poisson", "prior_sd": [0.001, 10]},
            "data": {"path": "counts.csv", "response": "count", "offset": "log_exposure",
                     "intercept": True},
            "sampler": {"name": "barker_mh"}, "iterations": 4000, "warmup": 2000, "thin": 1, "chains": 2,
            "seed": 3, **fields}


class Regressions(Case):
    def test_an_offset_and_priors_of_each_coefficient_are_used(self):
        done = alice.run(counts())
        table = Table(alice.draws(done["id"]))
        self.assertEqual(table.names[-2:], ["theta[1]", "theta[2]"])
        slope, level = ([row[k] for row in table.rows] for k in (-2, -1))
        self.assertLess(abs(mean(level) - math.log(3.0)), 0.2)
        self.assertLess(max(abs(b) for b in slope), 0.02)
        request = done["request"]
        self.assertEqual(request["model"]["prior_sd"], [0.001, 10])
        self.assertEqual(request["data"]["offset"], "log_exposure")

    def means(self, **fields):
        job = {"model": {"name": "poisson", "prior_sd": 2}, "seed": 3, "chains": 2, **fields}
        table = Table(alice.draws(alice.run(job)["id"]))
        return [[row[k] for row in table.rows] for k in (-2, -1)]

    def expect_same_posterior(self, a, b):
        for x, y in zip(a, b):
            self.assertLess(abs(mean(x) - mean(y)), 0.2 * pstdev(y))
            self.assertLess(abs(pstdev(x) / pstdev(y) - 1), 0.2)

    def test_a_row_of_weight_two_is_the_row_twice(self):
        rows = [(k % 4 == 0, 0.1 * (k % 7), k, 2 if k % 4 == 0 else k % 2) for k in range(60)]
        daemon.file("weighted.csv", "count,x,unused,w\n" + "".join(
            "%d,%.1f,%d,%d\n" % row for row in rows))
        daemon.file("repeated.csv", "count,x\n" + "".join(
            "%d,%.1f\n" % row[:2] for row in rows for _ in range(row[3])))
        weighted = {"path": "weighted.csv", "response": "count", "columns": ["x"],
                    "weights": "w", "intercept": True}
        repeated = {"path": "repeated.csv", "response": "count", "intercept": True}
        exact = {"sampler": "barker_mh", "iterations": 20000, "warmup": 2000}
        truth = self.means(data=repeated, **exact)
        self.expect_same_posterior(self.means(data=weighted, **exact), truth)
        batches = {"sampler": {"name": "sgbd", "step_size": 0.3}, "batch_size": 20,
                   "precondition": "dense", "iterations": 40000, "warmup": 1000}
        for estimator in ("plain", "control_variate"):
            self.expect_same_posterior(
                self.means(data=weighted, gradient={"estimator": estimator}, **batches), truth)

    def test_weights_that_are_none_are_refused(self):
        daemon.file("negative.csv", "count,x,w\n1,0.5,1\n0,0.7,-2\n")
        job = counts(data={"path": "negative.csv", "response": "count", "weights": "w"},
                     model="poisson")
        reply = alice.post("/v1/jobs", job)
        self.assertProblem(reply, 422, "the weight in row 2 of the training data is -2",
                           pointer="/data")

    def test_lists_and_offsets_that_do_not_fit_are_named(self):
        for fields, pointer in (({"model": {"name": "poisson", "prior_sd": [1, 2, 3]}},
                                 "/model/prior_sd"),
                                ({"data": {"path": "counts.csv", "response": "count",
                                           "offset": "nothing"}}, "/data/offset"),
                                ({"data": {"path": "counts.csv", "response": "count",
                                           "weights": "nothing"}}, "/data/weights")):
            reply = alice.post("/v1/jobs", counts(**fields))
            self.assertProblem(reply, 422, pointer=pointer)

