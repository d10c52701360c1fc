"""Regressions through the socket: offsets, and priors of each coefficient."""

import math
import random

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
            "sampler": {"name": "barker_mh"}, "iterations": 4000, "warmup": 2000, "chains": 2,
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

    def test_lists_and_offsets_that_do_not_fit_are_named(self):
        for fields, pointer in (({"model": {"name": "poisson", "prior_sd": [1, 2, 3]}},
                                 "/model/prior_sd"),
                                ({"data": {"path": "counts.csv", "response": "count",
                                           "offset": "nothing"}}, "/data/offset")):
            reply = alice.post("/v1/jobs", counts(**fields))
            self.assertProblem(reply, 422, pointer=pointer)

