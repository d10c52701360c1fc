"""MAMBA through sockets: rounds, budget, scores against a calculation of its own, kills."""

import json
import math
import os
import random
import time
import unittest

import harness
import test_studies
from harness import Case, Daemon
from test_sweep import FIXTURES, act, ask, finish, fixture, jobs_of, see

SEPSIS = test_studies.SEPSIS


def setUpModule():
    global daemon, admin, alice, bob
    daemon = Daemon()
    admin = daemon.client()
    alice, bob = daemon.user("alice"), daemon.user("bob")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def mamba(**fields):
    return {"kind": "mamba", "job": harness.toy(model={"name": "noisy_normal", "noise_scale": 1}, sampler="sgbd", seed=3),
            "arms": {"from": 0.05, "to": 5, "count": 6}, "budget": 6000, **fields}


class Rounds(Case):
    def test_arms_continue_their_chains_until_one_is_left(self):
        study = finish(alice, ask(alice, fixture("mamba.json")))
        result = study["result"]
        self.assertEqual((study["state"], result["complete"]), ("succeeded", True))
        self.assertEqual([(r["arms"], r["kept"]) for r in result["rounds"]], [(10, 3), (3, 1)])
        first, second = (r["iterations"] for r in result["rounds"])
        kept = [a for a in result["arms"] if len(a["scores"]) == 2]
        self.assertEqual(len(kept), 3)
        best = sorted((a["scores"][0]["fssd"], a["index"]) for a in result["arms"])[:3]
        self.assertEqual(sorted(i for _, i in best), [a["index"] for a in kept])
        chosen = min(kept, key=lambda a: a["scores"][1]["fssd"])
        self.assertEqual(result["chosen"]["index"], chosen["index"])
        self.assertEqual([a["state"] for a in result["arms"]].count("chosen"), 1)
        for arm in result["arms"]:
            made = alice.job(arm["job"])["request"]
            self.assertEqual(made["sampler"]["step_size"], arm["step_size"])
            self.assertEqual(made["iterations"], first + second if arm in kept else first)
            self.assertEqual((made["chains"], made["check_draws"], made["seed"]), (1, 0, 1 + arm["index"]))
        long = alice.run({**alice.job(chosen["job"])["request"], "name": "at once"})
        self.assertEqual(alice.everything(chosen["job"]), alice.everything(long["id"]))

    def test_gradients_count_in_the_budget_and_never_beyond_it(self):
        for budget in (1000, 20000, 123457):
            result = finish(alice, ask(alice, mamba(budget=budget)))["result"]
            spent = result["budget"]
            self.assertLessEqual(spent["spent"], budget)
            self.assertGreater(spent["spent"], 0.9 * budget - 100)
            self.assertAlmostEqual(spent["spent"], spent["iterations"] + spent["gradients"])
            self.assertEqual(spent["gradient_cost"], 1.0)
            self.assertEqual(spent["gradients"], sum(s["draws"] for a in result["arms"] for s in a["scores"]))
            self.assertLessEqual(spent["gradients"], budget / 2)

    def test_the_cost_of_a_gradient_is_that_of_its_rows(self):
        daemon.file("rows.csv", harness.logistic_text(300, columns=2))
        job = {"model": "logistic", "data": {"path": "rows.csv"}, "batch_size": 30, "sampler": "sgbd", "seed": 1}
        result = finish(alice, ask(alice, mamba(job=job, arms=[0.02, 0.05, 0.1], budget=4000)))["result"]
        self.assertEqual(result["budget"]["gradient_cost"], 10.0)
        self.assertEqual([(r["arms"], r["kept"]) for r in result["rounds"]], [(3, 1)])

    def test_the_variance_check_is_that_of_the_draws(self):
        """Of the last half of the chain: the gradient of a standard normal is -theta, so the check is its variance."""
        study = finish(alice, ask(alice, mamba(arms=[0.2, 0.4], halving=2, budget=4000)))
        for arm in study["result"]["arms"]:
            score = arm["scores"][0]
            draws = harness.Table(alice.draws(arm["job"], warmup="true")).of_chain("theta[1]", 1)
            half = draws[len(draws) - study["result"]["rounds"][0]["iterations"] // 2 // self.thin(arm["job"]):]
            used = [half[int((i + 0.5) * len(half) / score["draws"])] for i in range(score["draws"])]
            self.assertClose(score["variance_check"], harness.variance(used), 1e-6)

    def thin(self, job):
        return alice.job(job)["request"]["thin"]

    def test_the_same_request_and_seed_choose_the_same(self):
        one, other = (finish(alice, ask(alice, mamba())) for _ in range(2))
        strip = lambda s: [(a["step_size"], a["state"], a["scores"]) for a in s["result"]["arms"]]
        self.assertEqual(strip(one), strip(other))
        self.assertNotEqual(strip(one), strip(finish(alice, ask(alice, mamba(job={**mamba()["job"], "seed": 4})))))

    def test_arms_that_run_away_are_out_and_say_why(self):
        job = harness.toy(model={"name": "noisy_normal", "noise_scale": 1}, sampler={"name": "sgld"}, seed=3)
        result = finish(alice, ask(alice, mamba(job=job, arms=[0.3, 0.5, 0.7, 1e60], halving=2)))["result"]
        self.assertEqual(result["arms"][3]["state"], "out")
        self.assertIn("diverged", result["arms"][3]["reason"])
        self.assertIsNone(result["arms"][3]["scores"][0]["fssd"])
        self.assertIn(result["chosen"]["index"], (0, 1, 2))

    def test_it_is_never_called_optimal_and_an_edge_is_named(self):
        study = finish(alice, ask(alice, mamba(arms=[0.001, 0.002, 0.5])))
        self.assertTrue(study["result"]["chosen"]["edge"])
        self.assertTrue(any("edge" in c for c in study["result"]["cautions"]))
        self.assertTrue(any("variances" in c for c in study["result"]["cautions"]))
        self.assertNotIn("optimal", json.dumps(study))

    def test_mistakes_come_at_once(self):
        def refused(request, *places):
            reply = alice.post("/v1/studies", request)
            self.assertEqual((reply.status, sorted(reply.pointers())), (422, sorted(places)), reply.text)
            return reply.text
        refused({"kind": "mamba"}, "/job", "/arms", "/budget")
        refused(mamba(halving=1, locations=0, arms=[0.1], budget="x", more=1), "/halving", "/locations", "/arms", "/budget", "/more")
        refused(mamba(arms=[0.1, -1]), "/arms/1")
        refused(mamba(arms=[0.1, 1e200]), "/arms/1")
        refused(mamba(job=harness.toy(sampler="nuts")), "/job/sampler")
        refused(mamba(job=harness.toy(sampler="sgbd", chain=2)), "/job/chain")
        self.assertIn("need", refused(mamba(budget=150), "/budget"))

    def test_actions(self):
        study = finish(alice, ask(alice, mamba()))
        self.assertProblem(alice.post("/v1/studies/%s/extend" % study["id"], {"seeds": 1}), 409, "cannot be extended")
        self.assertProblem(alice.get("/v1/studies/%s/table" % study["id"]), 422, "only a sweep")
        self.assertEqual(len(jobs_of(alice, study)), 6)
        self.assertEqual(bob.get("/v1/studies/" + study["id"]).status, 404)
        self.assertEqual(alice.delete("/v1/studies/" + study["id"]).status, 204)
        self.assertEqual(alice.get("/v1/studies/" + study["id"]).status, 404)


class Description(test_studies.Description):
    def test_studies_fit_it_in_every_state(self):
        self.document = admin.read("/openapi.json")
        schema = {"$ref": "#/components/schemas/Study"}
        study = ask(alice, mamba(budget=100000))
        shown = [study]
        while shown[-1]["state"] not in harness.ENDED:
            shown.append(see(alice, study))
            time.sleep(0.05)
        for one in shown:
            self.assertIsNone(self.fits(schema, one, "study"))
        fractions = [s["progress"]["fraction"] for s in shown]
        self.assertEqual(fractions, sorted(fractions), "progress goes back")


class Kill(Case):
    def test_a_killed_study_goes_on_and_says_the_same(self):
        request = mamba(budget=200000, arms={"from": 0.05, "to": 5, "count": 9})
        peace = finish(alice, ask(alice, request))
        own, rng = Daemon(), random.Random(7)
        user = own.user("kim")
        study = ask(user, request)
        kills = 0
        for _ in range(10):
            time.sleep(rng.uniform(0.05, 0.3))
            if own.catalogue("SELECT state FROM study")[0][0] in harness.ENDED:
                break
            own.kill()
            kills += 1
            own.start()
        self.assertGreater(kills, 1, "too fast for this to mean anything")
        shown = finish(user, study)
        self.assertEqual([(a["step_size"], a["state"], a["scores"]) for a in shown["result"]["arms"]],
                         [(a["step_size"], a["state"], a["scores"]) for a in peace["result"]["arms"]])
        self.assertEqual(own.stop(), 0)


@unittest.skipUnless(os.path.exists(SEPSIS), "there is no " + SEPSIS)
class Sepsis(Case):
    def test_barker_dynamics_bear_larger_steps_than_langevin(self):
        """The geometric mean over four seeds; the paper has 1.36e-3 and 3.24e-4."""
        own = Daemon(data=os.path.join(test_studies.SHARED, "data"))
        user = own.user("stan")
        logs = {"sgbd": [], "sgld": []}
        for seed in range(1, 5):
            for sampler, low in (("sgbd", 1e-4), ("sgld", 1e-5)):
                job = {"model": {"name": "logistic", "prior_sd": 1.0}, "data": {"path": "sepsis_train.csv", "response": "y"},
                       "batch_size": 881, "init": {"kind": "map"}, "seed": 100 * seed, "sampler": {"name": sampler, "variant": "vanilla"}}
                study = finish(user, ask(user, {"kind": "mamba", "job": job, "budget": 20000,
                                                "arms": {"from": low, "to": 50 * low, "count": 10}}))
                logs[sampler].append(math.log(study["result"]["chosen"]["step_size"]))
        ratio = math.exp((sum(logs["sgbd"]) - sum(logs["sgld"])) / 4)
        self.assertGreater(ratio, 2.5, logs)
        self.assertEqual(own.stop(), 0)
