"""Studies through sockets: the ladder of step sizes, who sees it, and what a kill leaves of it."""

import json
import math
import os
import random
import sqlite3
import struct
import threading
import time
import unittest

import harness
from harness import ENDED, Case, Daemon

SHARED = os.environ.get("BARKER_SHARED", os.path.join(os.path.dirname(harness.ROOT), "shared"))
SEPSIS = os.path.join(SHARED, "data", "sepsis_train.csv")


def setUpModule():
    global daemon, admin, alice, bob, vera
    daemon = Daemon()
    admin = daemon.client()
    alice, bob, vera = daemon.user("alice"), daemon.user("bob"), daemon.user("vera", "viewer")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def ladder(job=None, **fields):
    return {"kind": "ladder", "job": harness.toy() if job is None else job, **fields}


def ask(client, request, **options):
    reply = client.post("/v1/studies", request, **options)
    assert reply.status == 201, reply
    return reply.json()


def finish(client, study):
    """Waits for the jobs; returns the study with its result."""
    for job in study["jobs"]:
        client.wait(job["id"])
    return client.read("/v1/studies/" + study["id"])


def row(study, name="theta[1]"):
    return next(r for r in study["result"]["parameters"] if r["name"] == name)


def steps(client, study):
    return [client.job(j["id"])["request"]["sampler"]["step_size"] for j in study["jobs"]]


# ---- what it is for ----

def langevin_variance(sigma, tau):
    """Of a Langevin chain on a standard normal with normal gradient noise, by its recursion."""
    return (1 + sigma ** 2 * tau ** 2 / 4) / (1 - sigma ** 2 / 4)


class Truth(Case):
    """Toy targets, where the answer is known: a standard normal with gradient noise of sd 1."""

    def run_toy(self, sampler, **fields):
        job = {"model": {"name": "noisy_normal", "noise_scale": 1.0}, "sampler": sampler,
               "iterations": 250000, "warmup": 2000, "thin": 2, "chains": 4, "seed": 2385}
        return finish(alice, ask(alice, ladder(job, **fields)))

    def test_langevin_is_extrapolated_as_theory_says(self):
        study = self.run_toy({"name": "sgld", "variant": "vanilla", "step_size": 0.8})
        self.assertEqual(study["state"], "succeeded")
        self.assertTrue(study["result"]["complete"])
        found = row(study)
        exact = [langevin_variance(s, 1.0) for s in (0.8, 0.4)]
        for side, variance in zip(found["factors"], exact):
            self.assertLess(abs(side["sd"] - math.sqrt(variance)), 4.5 * side["mcse_sd"], side)
        want = (4 * exact[1] - exact[0]) / 3
        got = found["sd"]
        self.assertLess(abs(got["extrapolated"] - math.sqrt(want)), 4.5 * got["error"], got)
        self.assertLess(abs(got["extrapolated"] ** 2 - 1), abs(exact[0] - 1) / 8, "hardly better")
        excess = math.sqrt(exact[0] / want) - 1
        self.assertLess(abs(got["difference"] - excess), 4.5 * got["difference_error"], got)
        self.assertGreater(got["z"], 20)
        self.assertLess(abs(found["mean"]["z"]), 4.5, "the mean has no bias")
        self.assertTrue(found["biased"])
        self.assertEqual(study["result"]["biased"], 1)
        self.assertIn("theta[1]: at this step size its sd is", study["result"]["sentence"])

    def test_the_two_point_numbers_are_richardsons(self):
        study = finish(alice, ask(alice, ladder(harness.toy(iterations=5000))))
        found = row(study)
        one, half = found["factors"]
        self.assertEqual([one["factor"], half["factor"]], [1.0, 0.5])
        mean = found["mean"]
        self.assertClose(mean["extrapolated"], (4 * half["mean"] - one["mean"]) / 3)
        self.assertClose(mean["error"], math.hypot(4 * half["mcse_mean"], one["mcse_mean"]) / 3)
        self.assertClose(mean["z"], (one["mean"] - half["mean"])
                         / math.hypot(one["mcse_mean"], half["mcse_mean"]))
        variance = (4 * half["sd"] ** 2 - one["sd"] ** 2) / 3
        self.assertClose(found["sd"]["extrapolated"], math.sqrt(variance))
        self.assertClose(found["sd"]["difference"], one["sd"] / math.sqrt(variance) - 1)
        self.assertClose(mean["difference"],
                         (one["mean"] - mean["extrapolated"]) / math.sqrt(variance))

    def test_the_numbers_of_each_factor_are_those_of_its_summary(self):
        study = finish(alice, ask(alice, ladder()))
        for job, side in zip(study["jobs"], row(study)["factors"]):
            summary = alice.read("/v1/jobs/%s/summary" % job["id"])["parameters"][0]
            for key in ("mean", "mcse_mean", "sd", "mcse_sd", "rhat", "ess_bulk"):
                self.assertEqual(side[key], summary[key], key)

    def test_other_samplers_come_near_the_truth_too(self):
        for sampler in ({"name": "sgbd", "variant": "vanilla", "step_size": 1.0},
                        {"name": "sgbd", "variant": "vanilla", "noise": "gaussian",
                         "step_size": 0.8},
                        {"name": "sglrw", "step_size": 0.6}):
            with self.subTest(sampler):
                found = row(self.run_toy(sampler))
                bias = abs(found["factors"][0]["sd"] - 1)
                left = abs(found["sd"]["extrapolated"] - 1)
                self.assertLess(left, 4.5 * found["sd"]["error"] + bias / 4, found)
                self.assertTrue(found["biased"] or bias < 0.02, found)

    def test_a_bias_of_the_mean_is_found(self):
        """The Langevin mean of a skew normal is off; the truth is 0.7979 alpha/sqrt(1+alpha^2)."""
        alpha = 5.0
        job = {"model": {"name": "skew_normal", "alpha": alpha, "noise_sd": 0.1},
               "sampler": {"name": "sgld", "variant": "vanilla", "step_size": 0.5},
               "iterations": 250000, "warmup": 2000, "chains": 4, "seed": 11}
        found = row(finish(alice, ask(alice, ladder(job))))
        truth = math.sqrt(2 / math.pi) * alpha / math.sqrt(1 + alpha ** 2)
        off, left = (abs(x - truth) for x in (found["factors"][0]["mean"],
                                              found["mean"]["extrapolated"]))
        self.assertGreater(abs(found["mean"]["z"]), 5, found)
        self.assertLess(left, off / 2, found)

    def test_nothing_is_found_where_nothing_is(self):
        study = self.run_toy({"name": "sgbd", "variant": "vanilla", "step_size": 0.1})
        self.assertEqual(study["result"]["biased"], 0, study["result"]["sentence"])
        self.assertRegex(study["result"]["sentence"],
                         r"^no bias beyond chance in 1 parameter: .* cannot be excluded$")

    def test_three_factors_test_the_law_itself(self):
        """Far beyond the noise tolerance the variance grows with sigma, not with its square."""
        good = self.run_toy({"name": "sgld", "variant": "vanilla", "step_size": 0.4},
                            factors=[1, 0.7, 0.5])
        self.assertGreater(row(good)["sd"]["fit_p_value"], 1e-4)
        job = {"model": {"name": "noisy_normal", "noise_scale": 10.0}, "seed": 3,
               "sampler": {"name": "sgbd", "variant": "vanilla", "step_size": 1.0},
               "iterations": 250000, "warmup": 2000, "thin": 2, "chains": 4}
        bad = finish(alice, ask(alice, ladder(job, factors=[1, 0.6, 0.3])))
        self.assertLess(row(bad)["sd"]["fit_p_value"], 1e-6, row(bad))
        self.assertTrue(any("law of the squared step size" in c for c in bad["result"]["cautions"]),
                        bad["result"]["cautions"])


# ---- which jobs ----

class Jobs(Case):
    def test_factor_1_is_the_job_itself_and_the_others_have_seeds_of_their_own(self):
        job = harness.toy(name="mine", seed=100, iterations=500)
        alone = alice.run(job)["id"]
        study = finish(alice, ask(alice, ladder(job, factors=[0.5, 1, 0.25])))
        self.assertEqual([j["setting"] for j in study["jobs"]],
                         [{"factor": 0.5, "seed": 101}, {"factor": 1.0, "seed": 100},
                          {"factor": 0.25, "seed": 102}])
        self.assertEqual([alice.job(j["id"])["request"]["seed"] for j in study["jobs"]],
                         [101, 100, 102])
        self.assertEqual(steps(alice, study), [0.25, 0.5, 0.125])
        self.assertEqual([j["name"] for j in study["jobs"]],
                         ["mine, step x 0.5", "mine, step x 1", "mine, step x 0.25"])
        self.assertEqual(alice.everything(study["jobs"][1]["id"]), alice.everything(alone))
        self.assertEqual(study["name"], "mine: step sizes")

    def test_every_form_of_a_step_size_is_multiplied(self):
        daemon.file("two.csv", harness.logistic_text(50, columns=2))
        base = {"model": "logistic", "data": {"path": "two.csv"}, "iterations": 50, "chains": 2}
        for given, half in ((0.2, 0.1), ([0.2, 0.06], [0.1, 0.03]),
                            ({"value": 0.2, "t0": 50, "gamma": 0.6},
                             {"kind": "schedule", "value": 0.1, "t0": 50.0, "gamma": 0.6})):
            with self.subTest(given):
                study = ask(alice, ladder({**base, "sampler": {"name": "sgbd",
                                                               "step_size": given}}))
                self.assertEqual(steps(alice, study)[1], half)
                self.assertEqual(finish(alice, study)["state"], "succeeded")

    def test_what_else_the_job_says_is_kept(self):
        job = harness.toy(tags=["paper"], note="seen", priority=7, visibility="lab", thin=2)
        for part in ask(alice, ladder(job))["jobs"]:
            made = alice.job(part["id"])
            self.assertEqual((made["tags"], made["note"], made["priority"], made["visibility"],
                              made["request"]["thin"]), (["paper"], "seen", 7, "lab", 2))

    def test_lengthen_lets_small_steps_come_as_far(self):
        job = harness.toy(iterations=100, warmup=60, thin=5)
        study = ask(alice, ladder(job, factors=[1, 0.5, 2], lengthen=True))
        made = [alice.job(j["id"])["request"] for j in study["jobs"]]
        self.assertEqual([(r["iterations"], r["warmup"], r["thin"]) for r in made],
                         [(100, 60, 5), (400, 240, 20), (100, 60, 5)])
        self.assertTrue(study["request"]["lengthen"])

    def test_a_finished_job_is_used_and_not_run_again(self):
        old = alice.run(harness.toy(seed=50))
        before = len(alice.read("/v1/jobs", query={"limit": 500})["items"])
        study = finish(alice, ask(alice, ladder(old["id"])))
        self.assertEqual(study["jobs"][0]["id"], old["id"])
        self.assertEqual(alice.job(old["id"])["revision"], old["revision"])
        self.assertEqual(len(alice.read("/v1/jobs", query={"limit": 500})["items"]), before + 1)
        self.assertEqual(study["request"]["job"], old["id"])
        self.assertEqual(study["jobs"][1]["setting"], {"factor": 0.5, "seed": 51})
        log = alice.read("/v1/jobs/%s/log" % study["jobs"][1]["id"])["items"]
        self.assertEqual(log[0]["text"], "submitted by alice for study " + study["id"])

    def chosen(self, job):
        """The root mean square over the chains of the step sizes that a job chose by itself."""
        path = os.path.join(daemon.state, "draws", job + ".db")
        db = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=30)
        blobs = [b for b, in db.execute("SELECT data FROM vector WHERE kind = 'sigma'")]
        db.close()
        values = [struct.unpack("<%dd" % (len(b) // 8), b) for b in blobs]
        self.assertEqual(len(values), 2)
        return [math.sqrt(sum(v * v for v in x) / len(x)) for x in zip(*values)]

    def test_automatic_steps_are_those_that_the_job_chose(self):
        daemon.file("three.csv", harness.logistic_text(300, columns=3))
        job = {"model": "logistic", "data": {"path": "three.csv"}, "batch_size": 60,
               "sampler": {"name": "sgbd", "variant": "corrected",
                           "step_size": {"kind": "auto", "fraction": 0.2}},
               "iterations": 2000, "chains": 2, "seed": 4}
        self.assertProblem(alice.post("/v1/studies", ladder(job)), 422, "auto is chosen again",
                           pointer="/job/sampler/step_size")
        old = alice.run(job)["id"]
        study = finish(alice, ask(alice, ladder(old)))
        for got, sigma in zip(steps(alice, study)[1], self.chosen(old)):
            self.assertClose(got, sigma / 2)
        self.assertEqual(len(study["result"]["parameters"]), 3)

    def test_a_planned_job_is_run_again_in_its_own_coordinates(self):
        daemon.file("four.csv", harness.logistic_text(500, columns=3))
        job = {"model": "logistic", "data": {"path": "four.csv"}, "sampler": "sgbd", "chains": 2,
               "seed": 4, "target": {"ess": 300, "seconds": 1}}
        self.assertProblem(alice.post("/v1/studies", ladder(job)), 422, "chosen again")
        self.assertProblem(alice.post("/v1/studies", ladder({
            **job, "sampler": {"name": "sgbd", "step_size": 0.3}, "iterations": "auto"})), 422,
            "chosen again")
        old = alice.run(job)
        study = finish(alice, ask(alice, ladder(old["id"])))
        half = alice.job(study["jobs"][1]["id"])["request"]
        self.assertClose(half["sampler"]["step_size"], old["request"]["sampler"]["step_size"] / 2)
        for name in ("gradient", "precondition", "batch_size", "iterations", "warmup", "thin"):
            self.assertEqual(half[name], old["request"][name], name)
        self.assertEqual(len(study["result"]["parameters"]), 3)

    def test_a_finished_job_must_have_succeeded_on_the_same_data(self):
        running = alice.submit(harness.endless())
        self.assertProblem(alice.post("/v1/studies", ladder(running)), 409, "has succeeded")
        alice.act(running, "cancel")
        alice.wait(running, "cancelled")
        self.assertProblem(alice.post("/v1/studies", ladder(running)), 409, "cancelled")
        daemon.file("moving.csv", harness.logistic_text(60))
        job = {"model": "logistic", "data": {"path": "moving.csv"}, "iterations": 50,
               "sampler": {"name": "sgbd", "step_size": 0.1}}
        old = alice.run(job)["id"]
        daemon.file("moving.csv", harness.logistic_text(61, seed=9))
        before = daemon.catalogue("SELECT count(*) FROM job")
        self.assertProblem(alice.post("/v1/studies", ladder(old)), 422, "data have changed")
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM job"), before)


class Mistakes(Case):
    TOY = harness.toy()

    def test_each_is_named_with_its_place(self):
        toy = self.TOY
        extreme = {"name": "sgbd", "variant": "extreme", "step_size": 0.5}
        cases = [
            ({}, "/kind", "is required"),
            ({"kind": "sweeep"}, "/kind", "ladder"),
            ({"kind": 3}, "/kind", "not a number"),
            ({"kind": "ladder"}, "/job", "is required"),
            ({"kind": "ladder", "job": 3}, "/job", "or the id"),
            ({"kind": "ladder", "job": "short"}, "/job", "or the id"),
            (ladder(toy, factor=[1]), "/factor", "factors"),
            (ladder(toy, name=""), "/name", ""),
            (ladder(toy, factors=[1]), "/factors", "2 to 8"),
            (ladder(toy, factors=1), "/factors", "2 to 8"),
            (ladder(toy, factors=[1] * 9), "/factors", "2 to 8"),
            (ladder(toy, factors=[0.5, 0.25]), "/factors", "must contain 1"),
            (ladder(toy, factors=[1, 0.5, 0.5]), "/factors/2", "twice"),
            (ladder(toy, factors=[1, 0]), "/factors/1", "0.01 to 10"),
            (ladder(toy, factors=[1, -1]), "/factors/1", "0.01 to 10"),
            (ladder(toy, factors=[1, "x"]), "/factors/1", "number"),
            (ladder(toy, lengthen="yes"), "/lengthen", ""),
            (ladder({"model": "nothing", "sampler": "sgbd"}), "/job/model", ""),
            (ladder({**toy, "chain": 3}), "/job/chain", "chains"),
            (ladder({**toy, "sampler": {"name": "sgbd", "step_size": -1}}),
             "/job/sampler/step_size", ""),
            (ladder({**toy, "sampler": extreme}), "/job/sampler/variant", "does not tend"),
            (ladder({**toy, "sampler": {**extreme, "name": "sgld"}}), "/job/sampler/variant", ""),
            (ladder({**toy, "sampler": "barker_mh"}), "/job/sampler", "exact"),
            (ladder({**toy, "sampler": "mala"}), "/job/sampler", "exact"),
            (ladder({**toy, "sampler": "sgbd"}), "/job/sampler/step_size", "auto"),
            (ladder({"model": "logistic", "data": {"path": "none.csv"},
                     "sampler": {"name": "sgbd", "step_size": 0.1}}), "/job/data/path", ""),
            (ladder({**toy, "sampler": {"name": "sgbd", "step_size": [0.1, 0.2]}}),
             "/job/sampler/step_size", "2 numbers"),
            (ladder({**toy, "reference": "none"}), "/job/reference", ""),
        ]
        before = daemon.catalogue("SELECT count(*) FROM job, study")
        for request, pointer, words in cases:
            with self.subTest(json.dumps(request)[:120]):
                self.assertProblem(alice.post("/v1/studies", request), 422, words, pointer=pointer)
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM job, study"), before)

    def test_several_are_said_at_once(self):
        reply = alice.post("/v1/studies", {"kind": "ladder", "factors": [1, 1, 99], "lengthen": 0})
        self.assertEqual(set(reply.pointers()), {"/job", "/factors/1", "/factors/2", "/lengthen"})

    def test_a_job_that_does_not_exist_or_is_somebody_elses_is_not_found(self):
        theirs = bob.run(harness.toy())["id"]
        unknown = alice.post("/v1/studies", ladder("0" * 16))
        self.assertProblem(unknown, 404, "no such job")
        self.assertEqual(alice.post("/v1/studies", ladder(theirs)).body, unknown.body)
        self.assertEqual(bob.patch("/v1/jobs/" + theirs, {"visibility": "lab"}).status, 200)
        self.assertEqual(ask(alice, ladder(theirs))["jobs"][0]["id"], theirs)

    def test_bodies_that_are_no_json_objects_are_refused(self):
        for body in ("", "[]", "{", '"ladder"', '{"kind": "ladder", "kind": "ladder"}'):
            with self.subTest(body):
                reply = alice.post("/v1/studies", body,
                                   headers={"Content-Type": "application/json"})
                self.assertIn(reply.status, (400, 422), reply)


# ---- asking twice, quotas ----

class Once(Case):
    def test_the_same_key_and_body_is_the_same_study(self):
        request, key = ladder(), {"Idempotency-Key": "once"}
        first = alice.post("/v1/studies", request, headers=key)
        again = alice.post("/v1/studies", request, headers=key)
        self.assertEqual((first.status, again.status), (201, 201))
        self.assertEqual(first.json()["id"], again.json()["id"])
        self.assertEqual([j["id"] for j in first.json()["jobs"]],
                         [j["id"] for j in again.json()["jobs"]])
        self.assertIsNone(first.headers["Idempotency-Replayed"])
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        self.assertEqual(first.headers["Location"], "/v1/studies/" + first.json()["id"])
        self.assertProblem(alice.post("/v1/studies", ladder(factors=[1, 0.7]), headers=key), 422,
                           "another body")
        self.assertEqual(bob.post("/v1/studies", request, headers=key).status, 201)

    def test_keys_of_jobs_and_of_studies_are_different_things(self):
        key = {"Idempotency-Key": "both"}
        self.assertEqual(alice.post("/v1/jobs", harness.toy(), headers=key).status, 201)
        self.assertEqual(alice.post("/v1/studies", ladder(), headers=key).status, 201)

    def test_many_at_once_with_one_key_are_one(self):
        replies, request = [], ladder(name="race")
        threads = [threading.Thread(target=lambda: replies.append(alice.post(
            "/v1/studies", request, headers={"Idempotency-Key": "race"}))) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual({r.status for r in replies}, {201})
        self.assertEqual(len({r.json()["id"] for r in replies}), 1)
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM study WHERE name = 'race'"), [(1,)])

    def test_a_study_counts_all_of_its_jobs(self):
        small = Daemon(user_active_jobs=3)
        user = small.user("eve")
        user.submit(harness.endless())
        before = small.catalogue("SELECT count(*) FROM job")
        self.assertProblem(user.post("/v1/studies", ladder(harness.endless(), factors=[1, .5, .2])),
                           422, "unfinished jobs")
        self.assertEqual(small.catalogue("SELECT count(*) FROM job"), before)
        self.assertEqual(small.catalogue("SELECT count(*) FROM study"), [(0,)])
        self.assertEqual(len(ask(user, ladder(harness.endless()))["jobs"]), 2)
        self.assertEqual(small.stop(), 0)


# ---- looking at it ----

class Showing(Case):
    def test_state_and_progress_are_those_of_the_jobs(self):
        study = ask(alice, ladder(harness.endless(chains=2, thin=1000)))
        ids = [j["id"] for j in study["jobs"]]
        path = "/v1/studies/" + study["id"]
        for i in ids:
            alice.wait(i, "running")
        shown = alice.read(path)
        self.assertEqual((shown["state"], shown["reason"]), ("running", "0 of 2 jobs have ended"))
        self.assertEqual(shown["progress"]["ended"], 0)
        self.assertIsNone(shown["ended_at"])
        alice.act(ids[0], "pause")
        self.assertEqual(alice.read(path)["state"], "running")
        alice.act(ids[1], "pause")
        self.assertEqual(alice.read(path)["state"], "paused")
        for i in ids:
            alice.act(i, "cancel")
            alice.wait(i, "cancelled")
        shown = alice.read(path)
        self.assertEqual(shown["state"], "cancelled")
        self.assertIn(ids[0], shown["reason"])
        self.assertIsNotNone(shown["ended_at"])

    def test_there_are_provisional_answers_while_jobs_run(self):
        study = ask(alice, ladder(harness.endless(chains=2, thin=1000)))
        path = "/v1/studies/" + study["id"]
        early = alice.read(path)
        if early["result"] is None:
            self.assertIn("draws after warm-up are needed", early["result_reason"])
        end = time.monotonic() + harness.PATIENCE
        while True:
            shown = alice.read(path)
            found = shown["result"] and row(shown)
            if found and found["mean"]["extrapolated"] is not None:
                break
            self.assertLess(time.monotonic(), end, shown)
        self.assertFalse(shown["result"]["complete"])
        self.assertTrue(any(c.startswith("provisional") for c in shown["result"]["cautions"]))
        for job in study["jobs"]:
            alice.act(job["id"], "cancel")

    def test_a_deleted_job_leaves_a_gap(self):
        study = finish(alice, ask(alice, ladder(factors=[1, 0.5, 0.25])))
        path = "/v1/studies/" + study["id"]
        self.assertEqual(alice.delete("/v1/jobs/" + study["jobs"][1]["id"]).status, 204)
        shown = alice.read(path)
        self.assertEqual(shown["state"], "failed")
        self.assertIn("deleted", shown["reason"])
        self.assertIsNone(shown["jobs"][1]["state"])
        self.assertEqual([f["factor"] for f in shown["result"]["factors"]], [1.0, 0.25])
        self.assertFalse(shown["result"]["complete"])
        self.assertEqual(alice.delete("/v1/jobs/" + study["jobs"][0]["id"]).status, 204)
        shown = alice.read(path)
        self.assertIsNone(shown["result"], "nothing without factor 1")
        self.assertIn("factor 1", shown["result_reason"])

    def test_parameters_are_chosen_and_limited(self):
        daemon.file("four.csv", harness.logistic_text(80, columns=4))
        job = {"model": "logistic", "data": {"path": "four.csv"}, "iterations": 4000, "seed": 5,
               "sampler": {"name": "sgbd", "step_size": 0.3}, "chains": 2}
        study = finish(alice, ask(alice, ladder(job)))
        path = "/v1/studies/" + study["id"]
        all_rows = study["result"]["parameters"]
        self.assertEqual(len(all_rows), 4)
        self.assertEqual((study["result"]["measured"], study["result"]["saved"],
                          study["result"]["parameters_total"]), (4, 4, 4))
        sure = [max(abs(r[w]["difference"]) - 2 * r[w]["difference_error"] for w in ("mean", "sd"))
                for r in all_rows]
        self.assertEqual(sure, sorted(sure, reverse=True))
        two = alice.read(path, query={"limit": 2})["result"]
        self.assertEqual(two["parameters"], all_rows[:2])
        self.assertEqual(two["measured"], 4)
        one = alice.read(path, query={"params": "theta[3]"})["result"]
        self.assertEqual([r["name"] for r in one["parameters"]], ["theta[3]"])
        self.assertEqual(one["parameters"][0]["factors"], row(study, "theta[3]")["factors"])
        self.assertProblem(alice.get(path, query={"params": "theta[9]"}), 422, "theta[9]")
        self.assertProblem(alice.get(path, query={"limit": 0}), 422, "limit")

    def test_very_many_parameters_are_looked_at_in_part(self):
        daemon.file("ratings.csv", harness.ratings_text(600, 600, 3000))
        job = {"model": {"name": "matrix_factorization", "rank": 5}, "data": {"path": "ratings.csv"},
               "sampler": {"name": "sgbd", "step_size": 0.001}, "iterations": 40, "warmup": 10,
               "chains": 2, "seed": 3}
        result = finish(alice, ask(alice, ladder(job)))["result"]
        self.assertEqual((result["saved"], result["measured"]), (6020, 3010))
        self.assertEqual(len(result["parameters"]), 100)
        self.assertIn("3010 of 6020 saved parameters were measured, evenly spaced",
                      result["cautions"])

    def test_jobs_without_draws_say_so(self):
        study = finish(alice, ask(alice, ladder(harness.toy(save={"params": []}))))
        self.assertEqual(study["state"], "succeeded")
        self.assertIsNone(study["result"])
        self.assertIn("0 of 2 jobs have some", study["result_reason"])

    def test_a_restart_changes_nothing(self):
        own = Daemon()
        user = own.user("ruth")
        study = finish(user, ask(user, ladder(harness.toy(iterations=3000))))
        half = ask(user, ladder(harness.steady(iterations=400000)))
        own.restart()
        self.assertEqual(user.read("/v1/studies/" + study["id"]), study)
        self.assertEqual(finish(user, half)["state"], "succeeded")
        self.assertEqual(own.stop(), 0)


class Description(Case):
    """The answers are what openapi.json says."""

    def fits(self, schema, value, where):
        """As much of JSON schema as studies need. Returns what is wrong, or None."""
        if "$ref" in schema:
            return self.fits(self.document["components"]["schemas"][schema["$ref"].split("/")[-1]],
                             value, where)
        if "oneOf" in schema:
            wrong = [self.fits(s, value, where) for s in schema["oneOf"]]
            return None if wrong.count(None) == 1 else "%s: %s" % (where, wrong)
        kinds = schema.get("type", [])
        names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
                 float: "number", type(None): "null"}
        got = names[type(value)]
        allowed = kinds if isinstance(kinds, list) else [kinds]
        if allowed and got not in allowed and not (got == "integer" and "number" in allowed):
            return "%s is %s instead of %s" % (where, got, kinds)
        if "enum" in schema and value not in schema["enum"]:
            return "%s is %r" % (where, value)
        inside = []
        if got == "array" and "items" in schema:
            inside = [(schema["items"], v, "%s[%d]" % (where, i)) for i, v in enumerate(value)]
        if got == "object" and "properties" in schema:
            missing = set(schema.get("required", ())) - set(value)
            extra = set(value) - set(schema["properties"])
            if missing or (extra and schema.get("additionalProperties") is False):
                return "%s lacks %s and has %s" % (where, missing, extra)
            inside = [(schema["properties"][k], v, where + "." + k) for k, v in value.items()
                      if k in schema["properties"]]
        return next((w for w in (self.fits(*i) for i in inside) if w), None)

    def test_studies_fit_it_in_every_state(self):
        self.document = admin.read("/openapi.json")
        schema = {"$ref": "#/components/schemas/Study"}
        running = ask(alice, ladder(harness.endless()))
        ended = finish(alice, ask(alice, ladder(factors=[1, 0.5, 0.25])))
        bare = finish(alice, ask(alice, ladder(harness.toy(save={"params": []}))))
        gap = finish(alice, ask(alice, ladder()))
        alice.delete("/v1/jobs/" + gap["jobs"][0]["id"])
        shown = [running, ended, bare] + [alice.read("/v1/studies/" + s["id"])
                                          for s in (running, gap)]
        for study in shown:
            self.assertIsNone(self.fits(schema, study, "study"))
            self.assertIsNone(self.fits({"$ref": "#/components/schemas/StudyRequest"},
                                        study["request"], "request"))
        page = alice.read("/v1/studies")
        self.assertIsNone(self.fits({"$ref": "#/components/schemas/StudyList"}, page, "list"))
        self.assertIsNotNone(self.fits(schema, {**ended, "more": 1}, "study"))
        self.assertIsNotNone(self.fits(schema, {**ended, "name": 1}, "study"))
        for job in running["jobs"]:
            alice.act(job["id"], "cancel")


class Lists(Case):
    @classmethod
    def setUpClass(cls):
        cls.lara, cls.karl = daemon.user("lara"), daemon.user("karl")
        cls.ids = []
        for i in range(5):
            job = harness.toy(visibility="lab" if i % 2 else "private")
            cls.ids.append(ask(cls.lara, ladder(job, name="number %d" % i))["id"])

    def names(self, client, **query):
        return [s["name"] for s in client.read("/v1/studies", query=query)["items"]]

    def test_ones_own_newest_first_without_results(self):
        items = self.lara.read("/v1/studies")["items"]
        self.assertEqual([s["id"] for s in items], self.ids[::-1])
        for s in items:
            self.assertNotIn("result", s)
            self.assertEqual(len(s["jobs"]), 2)

    def test_others_see_what_is_for_the_lab(self):
        self.assertEqual(self.names(self.karl), [])
        self.assertEqual(self.names(self.karl, owner="lara"), ["number 3", "number 1"])
        self.assertEqual(self.names(vera, owner="lara"), ["number 3", "number 1"])
        self.assertEqual(len(self.names(admin, owner="lara")), 5)
        self.assertIn("number 3", self.names(self.karl, owner="all"))
        self.assertNotIn("number 2", self.names(self.karl, owner="all"))

    def test_pages_follow_each_other(self):
        seen, cursor = [], None
        while True:
            page = self.lara.read("/v1/studies",
                                  query={"limit": 2, **({"cursor": cursor} if cursor else {})})
            seen += [s["id"] for s in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        self.assertEqual(seen, self.ids[::-1])

    def test_filters(self):
        job = self.lara.read("/v1/studies/" + self.ids[2])["jobs"][1]["id"]
        self.assertEqual(self.names(self.lara, job=job), ["number 2"])
        self.assertEqual(self.names(self.lara, job="0" * 16), [])
        self.assertEqual(len(self.names(self.lara, kind="ladder")), 5)
        self.assertProblem(self.lara.get("/v1/studies", query={"kind": "x"}), 422, "ladder")
        self.assertProblem(self.lara.get("/v1/studies", query={"cursor": "x"}), 422, "cursor")
        self.assertProblem(self.lara.get("/v1/studies", query={"limit": 101}), 422, "100")


class Access(Case):
    def test_who_may_see_all_jobs_may_see_the_study(self):
        study = ask(alice, ladder())
        path = "/v1/studies/" + study["id"]
        unknown = bob.get("/v1/studies/" + "0" * 16)
        self.assertProblem(unknown, 404, "no such study")
        self.assertEqual(bob.get(path).body, unknown.body)
        self.assertEqual(admin.get(path).status, 200)
        for job in study["jobs"]:
            self.assertEqual(bob.get(path).status, 404)
            alice.patch("/v1/jobs/" + job["id"], {"visibility": "lab"})
        self.assertEqual((bob.get(path).status, vera.get(path).status), (200, 200))
        self.assertProblem(bob.delete(path), 403, "owner")
        self.assertProblem(vera.delete(path), 403)
        alice.patch("/v1/jobs/" + study["jobs"][0]["id"], {"visibility": "private"})
        self.assertEqual(bob.get(path).body, unknown.body)
        self.assertEqual(bob.delete(path).status, 404)

    def test_a_job_that_becomes_private_is_hidden_in_the_study_of_another(self):
        theirs = bob.run(harness.toy(visibility="lab"))["id"]
        study = finish(alice, ask(alice, ladder(theirs)))
        self.assertIsNotNone(study["result"])
        bob.patch("/v1/jobs/" + theirs, {"visibility": "private"})
        shown = alice.read("/v1/studies/" + study["id"])
        self.assertIsNone(shown["jobs"][0]["name"])
        self.assertIsNone(shown["jobs"][0]["summary"])
        self.assertIsNone(shown["result"])

    def test_deleting_a_study_keeps_its_jobs(self):
        study = finish(alice, ask(alice, ladder()))
        path = "/v1/studies/" + study["id"]
        reply = alice.delete(path)
        self.assertEqual((reply.status, reply.body), (204, b""))
        self.assertEqual(alice.get(path).status, 404)
        self.assertEqual(alice.delete(path).status, 404)
        for job in study["jobs"]:
            self.assertEqual(alice.job(job["id"])["state"], "succeeded")
        running = ask(alice, ladder(harness.endless()))
        self.assertEqual(admin.delete("/v1/studies/" + running["id"]).status, 204)
        for job in running["jobs"]:
            self.assertNotIn(alice.job(job["id"])["state"], ENDED)
            alice.act(job["id"], "cancel")


# ---- kill -9 ----

class Kill(Case):
    """Whatever moment the daemon is killed at, a study is there with all of its jobs or not at all,
    and what was acknowledged is there."""

    def storm(self, client, stop, acknowledged, n):
        k = 0
        while not stop.is_set():
            key = "%d.%d.%d" % (self.round, n, k)
            request = ladder(harness.toy(seed=k), name=key,
                             factors=[1, 0.7, 0.5, 0.3] if k % 2 else [1, 0.5])
            self.asked[key] = request
            try:
                reply = client.post("/v1/studies", request, headers={"Idempotency-Key": key})
            except (OSError, harness.http.client.HTTPException):
                continue  # killed under way: the same again
            if reply.status == 201:
                acknowledged[key] = reply.json()["id"]
                k += 1

    def check(self, own, client, acknowledged):
        orphans = own.catalogue(
            "SELECT count(*) FROM job WHERE id NOT IN (SELECT job FROM study_job)")
        gaps = own.catalogue(
            "SELECT count(*) FROM study_job WHERE job NOT IN (SELECT id FROM job)")
        self.assertEqual((orphans, gaps), ([(0,)], [(0,)]))
        for name, jobs in own.catalogue("SELECT name, count(*) FROM study JOIN study_job "
                                        "ON study = id GROUP BY id"):
            self.assertEqual(jobs, len(self.asked[name]["factors"]), name)
        for key, study in list(acknowledged.items())[-20:]:
            self.assertEqual(client.get("/v1/studies/" + study).status, 200, key)
            again = client.post("/v1/studies", self.asked[key], headers={"Idempotency-Key": key})
            self.assertEqual(again.json()["id"], study)

    def test_a_study_is_there_whole_or_not_at_all(self):
        own = Daemon(user_active_jobs=100000)
        client, acknowledged, self.asked = own.user("kim"), {}, {}
        rng = random.Random(5)
        for self.round in range(5):
            stop = threading.Event()
            threads = [threading.Thread(target=self.storm, args=(client, stop, acknowledged, n))
                       for n in range(3)]
            for t in threads:
                t.start()
            end, before = time.monotonic() + harness.PATIENCE, len(acknowledged)
            while len(acknowledged) < before + 2 and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.1, 0.6))
            own.kill()
            stop.set()
            for t in threads:
                t.join()
            own.start()
            self.check(own, client, acknowledged)
        self.assertGreater(len(acknowledged), 5, "too little for this to mean anything")
        last = client.read("/v1/studies/" + list(acknowledged.values())[-1])
        self.assertEqual(finish(client, last)["state"], "succeeded")
        self.assertEqual(own.stop(), 0)


# ---- the real thing ----

@unittest.skipUnless(os.path.exists(SEPSIS), "there is no " + SEPSIS)
class Sepsis(Case):
    """88 163 rows, d = 4. Langevin at sigma = 4e-4 inflates theta[1], the best determined
    coordinate, many times over; the ladder must say so from its own draws alone."""

    def test_langevin_inflates_the_best_determined_coordinate(self):
        own = Daemon(data=os.path.join(SHARED, "data"))
        user = own.user("stan")
        job = {"model": {"name": "logistic", "prior_sd": 1.0},
               "data": {"path": "sepsis_train.csv", "response": "y"},
               "sampler": {"name": "sgld", "variant": "vanilla", "step_size": 4e-4},
               "init": {"kind": "map"}, "batch_size": 881, "iterations": 20000, "warmup": 2000,
               "thin": 4, "chains": 4, "seed": 123, "metric_every": 0}
        old = user.run(job)["id"]
        study = finish(user, ask(user, ladder(old)))
        found = row(study)
        with open(os.path.join(SHARED, "references", "sepsis_posterior.json")) as file:
            truth = json.load(file)["sd"][0]
        one, half = found["factors"]
        self.assertGreater(one["sd"] / truth, 5, "not what this test is about")
        self.assertTrue(found["biased"], found)
        self.assertEqual(study["result"]["parameters"][0]["name"], "theta[1]")
        self.assertGreater(found["sd"]["difference"], 0.5, found)
        self.assertIn("theta[1]: at this step size its sd is", study["result"]["sentence"])
        self.assertTrue(any("half a posterior sd" in c for c in study["result"]["cautions"]))
        self.assertEqual(own.stop(), 0)
