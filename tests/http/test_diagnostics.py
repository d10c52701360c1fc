"""Verdicts and the numbers behind them: on the sepsis data where the truth is known, and in every
situation a job can be in."""

import json
import math
import os
import shutil
import unittest

import harness
from harness import Case, Daemon, endless, logistic_text, mean, ratings_text, steady, toy, variance

SHARED = os.path.join(os.path.dirname(harness.ROOT), "shared")
SEPSIS = os.path.join(SHARED, "data", "sepsis_train.csv")
STAN = os.path.join(SHARED, "references", "sepsis_posterior.json")


def setUpModule():
    global daemon, alice, bob
    daemon = Daemon(slice_ms=200)
    daemon.file("train.csv", logistic_text(400, seed=5))
    daemon.file("ratings.csv", ratings_text(60, 40, 900))
    alice, bob = daemon.user("alice"), daemon.user("bob")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def diagnostics(job_id, **query):
    return alice.read("/v1/jobs/%s/diagnostics" % job_id, query=query)


def evidence(answer, check):
    found = [e for e in answer["verdict"]["bias"]["evidence"] if e["check"] == check]
    return found[0] if found else None


def logistic(**fields):
    return {"model": {"name": "logistic"}, "data": {"path": "train.csv"}, "chains": 2, "seed": 5,
            "sampler": {"name": "sgbd", "variant": "vanilla", "step_size": 0.05},
            "iterations": 4000, "warmup": 1000, **fields}


class Verdicts(Case):
    def assertOneSentence(self, job_id):
        """The job, its diagnostics and its row in the list say the same."""
        sentence = alice.job(job_id)["verdict"]
        self.assertTrue(sentence)
        verdict, job = diagnostics(job_id)["verdict"], alice.job(job_id)
        self.assertEqual(verdict["sentence"], sentence)
        self.assertEqual((job["mixing"], job["bias"]), (verdict["mixing"]["level"], verdict["bias"]["level"]))
        self.assertTrue(sentence.startswith(("mixing: " + job["mixing"], "diverged: ")), sentence)
        listed = [j for j in alice.read("/v1/jobs")["items"] if j["id"] == job_id]
        self.assertEqual(listed[0]["verdict"], sentence)
        return sentence


@unittest.skipUnless(os.path.exists(SEPSIS) and os.path.exists(STAN), "there is no " + SEPSIS)
class Sepsis(Verdicts):
    """The variance ratios that a verdict announces are held against Stan's posterior."""

    @classmethod
    def setUpClass(cls):
        shutil.copy(SEPSIS, daemon.data)
        with open(STAN) as file:
            cls.stan = json.load(file)

    def job(self, **fields):
        return {"model": {"name": "logistic"}, "data": {"path": "sepsis_train.csv"}, "chains": 2,
                "seed": 7, "batch_size": 881, "thin": 10, "warmup": 1000,
                "init": {"kind": "values", "values": self.stan["mean"]}, **fields}

    def steps(self, factor):
        return [factor * sd for sd in self.stan["sd"]]

    def test_langevin_with_one_step_for_all_scales_is_flagged_for_theta_1(self):
        job_id = alice.run(self.job(iterations=20000,
                                    sampler={"name": "sgld", "step_size": 4e-4}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        self.assertEqual(answer["verdict"]["bias"]["level"], "strong")
        self.assertIn("x the noise tolerance of theta[1], 25 % of all proposals beyond", sentence)
        self.assertIn("expect the variance of theta[1] inflated", sentence)
        noise, first = evidence(answer, "noise"), answer["parameters"][0]
        self.assertEqual((noise["parameter"], noise["level"]), ("theta[1]", "strong"))
        self.assertGreater(noise["step_ratio"], 5)
        self.assertGreater(noise["marginal_variance_ratio"], 50)
        # and so it is
        self.assertGreater(first["variance"] / self.stan["sd"][0] ** 2, 50)
        # the numbers hang together
        self.assertClose(noise["step_ratio"], 4e-4 * noise["tau"] / 2)
        self.assertClose(first["tolerance"], 2 / first["tau"])
        self.assertClose(first["variance_ratio"], 1 + (4e-4 * first["tau"]) ** 2 / 4)
        self.assertEqual((first["beyond"], answer["noise"]["coordinates_beyond"]), (1, 1))
        self.assertEqual(answer["noise"]["worst"], "theta[1]")
        self.assertIn("%d rows" % answer["noise"]["batch_size"], answer["noise"]["text"])
        self.assertTrue(answer["noise"]["text"].startswith(
            "1 of 4 step sizes is beyond the noise tolerance, that of theta[1]: a step size of at "))
        for other in answer["parameters"][1:]:
            self.assertLess(other["step_ratio"], 1)

    def test_barker_at_a_tenth_of_the_sds_is_flagged_gently(self):
        job_id = alice.run(self.job(iterations=60000, sampler={
            "name": "sgbd", "variant": "vanilla", "step_size": self.steps(0.1)}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        noise = evidence(answer, "noise")
        self.assertEqual(answer["verdict"]["bias"]["level"], "mild", sentence)
        # about three quarters of the proposals, because the coordinates are correlated
        self.assertGreater(noise["beyond_all"], 0.65)
        self.assertLess(noise["beyond_all"], 0.85)
        self.assertClose(noise["beyond_all"], mean([p["beyond"] for p in answer["parameters"]]))
        self.assertIn("%.0f %% of all proposals beyond" % (100 * noise["beyond_all"]), sentence)
        # sds are about 11 % too large, variances 23 %; narrow directions far more
        self.assertGreater(noise["marginal_variance_ratio"], 1.1)
        self.assertLess(noise["marginal_variance_ratio"], 1.4)
        self.assertGreater(noise["variance_ratio"], 3)
        self.assertEqual(answer["noise"]["coordinates_beyond"], 3)

    def test_the_full_batch_with_the_same_steps_is_not_flagged(self):
        job_id = alice.run(self.job(iterations=400, warmup=50, thin=1, batch_size="full", sampler={
            "name": "sgbd", "variant": "vanilla", "step_size": self.steps(0.1)}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        self.assertEqual(answer["verdict"]["bias"]["level"], "unknown", sentence)
        self.assertIn("bias: unknown until the chains have mixed", sentence)
        noise, = (e for e in answer["verdict"]["bias"]["evidence"] if e["check"] == "noise")
        self.assertEqual(noise["level"], "none seen")
        self.assertIn("not known: ", sentence)
        self.assertIn("the bias of the step size itself", answer["verdict"]["unknown"])
        self.assertIsNone(answer["noise"]["step_ratio"])
        self.assertTrue(answer["noise"]["reason"])

    def test_a_reference_confirms_what_the_noise_announces(self):
        stan = {"names": ["theta[%d]" % j for j in (1, 2, 3, 4)], "mean": self.stan["mean"],
                "sd": self.stan["sd"]}
        alice.put("/v1/references/stan", json.dumps(stan),
                  headers={"Content-Type": "application/json"})
        job_id = alice.run(self.job(iterations=20000, reference="stan",
                                    sampler={"name": "sgld", "step_size": 4e-4}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        against = evidence(answer, "reference")
        self.assertEqual((against["level"], against["reference"]), ("strong", "stan"), sentence)
        self.assertEqual(against["variance_ratio"]["parameter"], "theta[1]")
        self.assertClose(1 + against["variance_ratio"]["bias"],
                         variance_of_draws(job_id, "theta[1]") / stan["sd"][0] ** 2, 1e-6)
        self.assertRegex(sentence, r"against reference stan .*the variance of theta\[1\] is \d+ x "
                                   "the reference's")


def variance_of_draws(job_id, name):
    return variance(harness.Table(alice.draws(job_id, format="csv")).values[name])


class Situations(Verdicts):
    def test_a_job_that_mixes_and_has_no_noise_is_told_so(self):
        job_id = alice.run(logistic(batch_size="full", iterations=60000))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        mixing = answer["verdict"]["mixing"]
        self.assertEqual((mixing["level"], answer["verdict"]["bias"]["level"]),
                         ("good", "none seen"), sentence)
        self.assertTrue(sentence.startswith("mixing: good (largest R-hat 1.0"), sentence)
        self.assertIn("Stein p ", sentence)
        self.assertIn("energy ", sentence)
        self.assertRegex(sentence, r"not known: biases too small for \d+ draws to show")
        # the same numbers as in the checks and in the summary
        stein, energy = evidence(answer, "stein"), evidence(answer, "energy")
        self.assertEqual({k: stein[k] for k in answer["checks"]["ksd"]}, answer["checks"]["ksd"])
        self.assertEqual({k: energy[k] for k in answer["checks"]["energy"]},
                         answer["checks"]["energy"])
        rows = alice.read("/v1/jobs/%s/summary" % job_id)["parameters"]
        self.assertEqual(mixing["max_rhat"], max(r["rhat"] for r in rows))
        self.assertEqual(mixing["min_ess_bulk"], min(r["ess_bulk"] for r in rows))
        self.assertEqual(mixing["min_ess_tail"], min(r["ess_tail"] for r in rows))
        self.assertEqual(mixing["seconds_to_target"], 0)

    def test_exact_samplers_have_no_bias_by_construction(self):
        job_id = alice.run(logistic(sampler={"name": "barker_mh"}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        self.assertIn("bias: none by construction once the chains have mixed", sentence)
        self.assertEqual(answer["noise"]["reason"], "the sampler uses exact gradients")
        for row in answer["parameters"]:
            self.assertEqual((row["tau"], row["step_ratio"], row["variance_ratio"]),
                             (None, None, None))
            self.assertGreater(row["step_size"], 0)

    def test_trees_are_counted_and_their_gradients_are_the_cost(self):
        request = {"sampler": {"name": "nuts"}, "iterations": 400, "warmup": 200, "chains": 2}
        answer = diagnostics(alice.run(logistic(**request))["id"])
        gradients = sum(c["gradients"] for c in answer["chains"])
        efficiency = answer["efficiency"]
        self.assertGreater(gradients, 2 * 2 * 600)
        self.assertEqual(efficiency["gradients"], gradients)
        self.assertClose(efficiency["ess_per_gradient"] * gradients, efficiency["min_ess_bulk"])
        for chain in answer["chains"]:
            self.assertEqual(chain["divergences"], 0)
            self.assertTrue(0.6 < chain["acceptance"] < 0.99, chain["acceptance"])
        self.assertNotIn("diverged", answer["verdict"]["sentence"])
        self.assertEqual(answer["verdict"]["mixing"]["divergences"], 0)

    def test_diverged_transitions_are_in_the_verdict(self):
        steep = {"name": "nuts", "step_size": 1.0}
        job_id = alice.run(logistic(sampler=steep, iterations=2000, warmup=100))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        diverged = sum(c["divergences"] for c in answer["chains"])
        self.assertGreater(diverged, 20)
        self.assertEqual(answer["verdict"]["mixing"]["divergences"], diverged)
        self.assertIn("and %d transition" % diverged, sentence)
        self.assertIn("diverged after warm-up", sentence)

    def test_a_job_that_needs_longer_says_by_how_much_to_extend_it(self):
        job_id = alice.run(logistic(batch_size="full", iterations=300, warmup=20,
                                    sampler={"name": "sgbd", "step_size": 0.02}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        self.assertEqual(answer["verdict"]["mixing"]["level"], "poor")
        cost = answer["efficiency"]["cost_to_target"]
        if cost["iterations"] is None:
            self.assertIn("how long it takes cannot be estimated", sentence)
            self.assertTrue(cost["reason"])
        else:
            self.assertIn("extend it by ", sentence)
            self.assertClose(cost["gradients"], 2 * cost["iterations"])

    def test_extreme_variants_are_too_narrow(self):
        job_id = alice.run(logistic(batch_size=100, sampler={
            "name": "sgld", "variant": "extreme", "step_size": 0.02}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        self.assertEqual(answer["verdict"]["bias"]["level"], "strong")
        self.assertIn("the spread of this variant is that of the gradient noise", sentence)
        self.assertIn("take another variant", answer["noise"]["text"])

    def test_a_diverged_job_is_not_judged(self):
        job_id = alice.submit(logistic(batch_size=50, init={"kind": "values", "values": [1e200] * 3},
                                       sampler={"name": "sgld", "step_size": 1e60}))
        job = alice.wait(job_id, "failed")
        self.assertEqual(job["state"], "failed", job["reason"])
        sentence = self.assertOneSentence(job_id)
        self.assertRegex(sentence, r"^diverged: chain [12] at iteration \d+; its draws are not from "
                                   "the posterior; mixing and bias: not judged$")

    def test_a_cancelled_job_is_judged_by_what_it_has(self):
        job_id = alice.submit(endless())
        alice.wait_progress(job_id, 1000)
        alice.act(job_id, "cancel")
        alice.wait(job_id, "cancelled")
        sentence = self.assertOneSentence(job_id)
        self.assertRegex(sentence, r"; cancelled after \d+ of 90000000000 iterations$")

    def test_a_paused_job_says_how_far_it_is(self):
        job_id = alice.submit(endless(thin=1000))
        alice.wait_progress(job_id, 20000)
        alice.act(job_id, "pause")
        alice.wait(job_id, "paused")
        self.assertTrue(self.assertOneSentence(job_id).startswith("mixing: "))
        alice.act(job_id, "cancel")

    def test_warm_up_is_no_sample(self):
        job_id = alice.submit(endless(warmup=90000000000, iterations=1000000))
        alice.wait_progress(job_id, 1000)
        answer = diagnostics(job_id)
        verdict = answer["verdict"]
        self.assertEqual((verdict["mixing"]["level"], verdict["bias"]["level"]),
                         ("unknown", "unknown"))
        self.assertRegex(verdict["mixing"]["text"], r"^unknown \(the slowest chain has done \d+ of "
                                                    r"90000000000 warm-up iterations\)$")
        self.assertEqual(answer["checks"], None)
        self.assertEqual(answer["checks_reason"], "the checks run when the job ends")
        self.assertEqual(answer["parameters"][0]["mean"], None)
        self.assertTrue(answer["reasons"]["mean"])
        alice.act(job_id, "cancel")

    def test_few_draws_are_too_few(self):
        job_id = alice.run(toy(iterations=3))["id"]
        sentence = self.assertOneSentence(job_id)
        self.assertIn("mixing: unknown (3 draws of each chain are too few)", sentence)
        self.assertEqual(diagnostics(job_id)["verdict"]["mixing"]["max_rhat"], None)

    def test_constants_are_called_so(self):
        # steps that vanish against the position
        job_id = alice.run(toy(init={"kind": "values", "values": [1e15]},
                               sampler={"name": "sgbd", "step_size": 1e-9}))["id"]
        answer, sentence = diagnostics(job_id, params="theta[1]"), self.assertOneSentence(job_id)
        self.assertIn("mixing: poor (no parameter moves)", sentence)
        for chain in answer["details"][0]["autocorrelation"]:
            self.assertEqual((chain["lags"], chain["reason"]),
                             (None, "the chain is constant, or not finite"))

    def test_only_some_parameters_saved(self):
        job_id = alice.run(logistic(save={"params": ["theta[2]"]}))["id"]
        answer, sentence = diagnostics(job_id), self.assertOneSentence(job_id)
        self.assertIn("mixing of the 2 parameters that are not saved", sentence)
        self.assertEqual([p["name"] for p in answer["parameters"]],
                         ["theta[1]", "theta[2]", "theta[3]"])
        self.assertIn("saved", answer["checks"]["reason"])

    def test_a_job_without_a_file_is_a_conflict_and_anothers_is_not_there(self):
        blocker = [alice.submit(endless(priority=50)) for _ in range(2)]
        job_id = alice.submit(toy(priority=-50))
        reply = alice.get("/v1/jobs/%s/diagnostics" % job_id)
        if alice.job(job_id)["state"] == "queued":
            self.assertProblem(reply, 409)
        self.assertProblem(bob.get("/v1/jobs/%s/diagnostics" % job_id), 404)
        for other in blocker:
            alice.act(other, "cancel")

    def test_events_carry_the_sentence_of_the_job(self):
        with alice.events() as events:
            job_id = alice.submit(steady(500000))
            event = events.until(lambda e: e["event"] == "job.state" and
                                 e["data"]["id"] == job_id and
                                 e["data"]["state"] == "succeeded")[-1]
        self.assertEqual(event["data"]["verdict"], self.assertOneSentence(job_id))


class Numbers(Verdicts):
    @classmethod
    def setUpClass(cls):
        cls.job_id = alice.run(logistic(batch_size=40, iterations=3000, thin=2, chains=3))["id"]

    def test_parameters_are_paged_and_sorted(self):
        whole = diagnostics(self.job_id)["parameters"]
        self.assertEqual([p["index"] for p in whole], [1, 2, 3])
        worst = diagnostics(self.job_id, order="worst")["parameters"]
        self.assertEqual(worst, sorted(whole, key=lambda p: -p["step_ratio"]))
        pages, cursor = [], "0"
        while cursor is not None:
            page = diagnostics(self.job_id, order="worst", limit=2, cursor=cursor)
            pages += page["parameters"]
            cursor = page["next"]
        self.assertEqual(pages, worst)
        self.assertEqual(diagnostics(self.job_id)["noise"]["step_ratio"], worst[0]["step_ratio"])

    def test_autocorrelation_is_that_of_the_draws(self):
        answer = diagnostics(self.job_id, params="theta[2],theta[1]")
        self.assertEqual([d["name"] for d in answer["details"]], ["theta[2]", "theta[1]"])
        table = harness.Table(alice.draws(self.job_id, format="csv", warmup="false"))
        for detail in answer["details"]:
            for part in detail["autocorrelation"]:
                x = table.of_chain(detail["name"], part["chain"])
                self.assertEqual(part["draws"], len(x))
                centre, n = mean(x), len(x)
                total = math.fsum((v - centre) ** 2 for v in x)
                self.assertEqual(len(part["lags"]), 201)
                for lag in (0, 1, 7, 200):
                    other = math.fsum((x[i] - centre) * (x[i + lag] - centre)
                                      for i in range(n - lag)) / total
                    self.assertClose(part["lags"][lag], other, 1e-8, 1e-10)

    def test_the_history_ends_with_what_the_job_shows(self):
        answer, job = diagnostics(self.job_id, params="theta[1]"), alice.job(self.job_id)
        history = answer["history"]
        self.assertEqual(history["max_rhat"][-1], job["summary"]["max_rhat"])
        self.assertEqual(history["min_ess_bulk"][-1], job["summary"]["min_ess_bulk"])
        self.assertEqual(history["worst"][-1], job["summary"]["worst"])
        self.assertEqual(history["draws"][-1], 1500)
        self.assertEqual(history["iterations"][-1], 12000)
        self.assertEqual(len({len(v) for v in history.values()}), 1)
        rows = alice.read("/v1/jobs/%s/summary" % self.job_id)["parameters"]
        self.assertClose(answer["details"][0]["history"]["rhat"][-1], rows[0]["rhat"])
        self.assertClose(answer["details"][0]["history"]["ess_bulk"][-1], rows[0]["ess_bulk"])

    def test_moments_are_those_of_every_iteration(self):
        job_id = alice.run(logistic(batch_size=40, iterations=500, thin=1))["id"]
        table = harness.Table(alice.draws(job_id, format="csv", warmup="false"))
        for row in diagnostics(job_id)["parameters"]:
            self.assertClose(row["mean"], mean(table.values[row["name"]]), 1e-9)
            self.assertClose(row["variance"], variance(table.values[row["name"]]), 1e-9)

    def test_bad_questions(self):
        path = "/v1/jobs/%s/diagnostics" % self.job_id
        for query, pointer in (({"order": "best"}, "?order"), ({"params": "theta[9]"}, "?params"),
                               ({"limit": "0"}, "?limit"), ({"cursor": "x"}, "?cursor")):
            self.assertProblem(alice.get(path, query=query), 422, pointer=pointer)
        self.assertEqual(diagnostics(self.job_id, cursor="77")["parameters"], [])

    def test_many_parameters_stay_paged(self):
        job_id = alice.run({"model": {"name": "matrix_factorization", "rank": 5}, "chains": 2,
                            "data": {"path": "ratings.csv"}, "batch_size": 90, "seed": 4,
                            "sampler": {"name": "sgbd", "variant": "vanilla", "step_size": 0.02},
                            "iterations": 600, "warmup": 100, "thin": 5})["id"]
        first = diagnostics(job_id, order="worst", limit=3)
        self.assertEqual(first["parameters_total"], (60 + 40) * 5 + 20)
        self.assertEqual((len(first["parameters"]), first["next"]), (3, "3"))
        names = [p["name"] for p in first["parameters"]]
        self.assertTrue(all(n[0] in "UVml" for n in names), names)
        self.assertOneSentence(job_id)
