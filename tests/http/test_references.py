"""Reference posteriors, and jobs measured against them: every number against what this file
computes from the draws by itself."""

import concurrent.futures
import json
import math
import os
import random
import shutil
import statistics
import subprocess

import harness
from harness import Case, Daemon, Table, endless, logistic_text, mean, quantile, sd, toy

QUANTILES = {"q5": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
BIASES = ("bias_mean", "bias_variance", "bias_variance_ratio")
SHARED = os.path.join(os.path.dirname(harness.ROOT), "shared", "references")
ROWS = logistic_text(120, seed=5)


def setUpModule():
    global daemon, alice, bob, job, exact
    daemon = Daemon()
    daemon.file("train.csv", ROWS)
    daemon.file("other.csv", logistic_text(120, seed=6))
    alice, bob = daemon.user("alice"), daemon.user("bob")
    job = alice.run(logistic(chains=3))["id"]
    exact = alice.run(logistic(sampler={"name": "barker_mh"}, iterations=2000, warmup=1000, thin=1,
                               batch_size="full"))["id"]


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def logistic(**fields):
    return {"model": {"name": "logistic"}, "data": {"path": "train.csv"}, "chains": 2, "seed": 12,
            "sampler": {"name": "sgbd", "variant": "corrected", "step_size": 0.3},
            "batch_size": 40, "iterations": 400, "warmup": 100, **fields}


def put(name, document, client=None, **query):
    body = document if isinstance(document, str) else json.dumps(document)
    return (client or alice).put("/v1/references/" + name, body, query=query,
                                 headers={"Content-Type": "application/json"})


def summary(job_id, **query):
    return alice.read("/v1/jobs/%s/summary" % job_id, query=query)


def columns(job_id):
    return Table(alice.draws(job_id)).values


def reference_draws(n=300, chains=2, seed=1):
    """Chains of an autoregression for theta[1] and theta[3], and one name that no job has."""
    source = random.Random(seed)
    made = []
    for _ in range(chains):
        chain = {"theta[1]": [], "elsewhere": [], "theta[3]": []}
        for name, draws in chain.items():
            x = 0.0
            for _ in range(n):
                x = 0.4 * x + source.gauss(0, 1)
                draws.append(round(0.2 + 0.3 * x, 9))
        made.append(chain)
    return made


def pooled(chains):
    return {name: [v for c in chains for v in c[name]] for name in chains[0]}


# ---- plain computations ----

def wasserstein(a, b):
    """The area between two distribution functions."""
    a, b = sorted(a), sorted(b)
    steps = sorted([(v, 1 / len(a)) for v in a] + [(v, -1 / len(b)) for v in b])
    area, gap = [], 0.0
    for (x, rise), (following, _) in zip(steps, steps[1:]):
        gap += rise
        area.append(abs(gap) * (following - x))
    return math.fsum(area)


def wasserstein_noise(b, ess):
    b = sorted(b)
    area = []
    for i in range(1, len(b)):
        f = i / len(b)
        area.append(min(math.sqrt(2 * f * (1 - f) / (math.pi * ess)), 2 * f * (1 - f))
                    * (b[i] - b[i - 1]))
    return math.fsum(area)


def errors(row, m, s, mcse_m=0.0, mcse_s=0.0):
    """Of the biases, to first order: derivatives by hand."""
    e_mean, e_sd, ratio = row["mcse_mean"], row["mcse_sd"], (row["sd"] / s) ** 2
    return {"bias_mean": math.hypot(e_mean / s, mcse_m / s, (row["mean"] - m) / s * mcse_s / s),
            "bias_variance": math.hypot(2 * row["sd"] * e_sd / s, (ratio + 1) * mcse_s),
            "bias_variance_ratio": math.hypot(2 * row["sd"] * e_sd / s ** 2,
                                              2 * ratio * mcse_s / s)}


class AgainstDraws(Case):
    @classmethod
    def setUpClass(cls):
        cls.chains = reference_draws()
        assert put("draws", cls.chains).status == 204
        cls.kept = alice.read("/v1/references/draws")
        cls.summary = summary(job, reference="draws")
        cls.draws = columns(job)

    def test_biases_quantiles_and_distances_are_those_of_the_draws(self):
        reference = pooled(self.chains)
        seen = 0
        for row in self.summary["parameters"]:
            if row["name"] not in reference:
                self.assertIsNone(row["reference"])
                continue
            seen += 1
            x, b, got = self.draws[row["name"]], reference[row["name"]], row["reference"]
            i = self.kept["names"].index(row["name"])
            m, s = mean(b), sd(b)
            with self.subTest(row["name"]):
                self.assertClose(got["mean"], m, 1e-12)
                self.assertClose(got["sd"], s, 1e-12)
                self.assertClose(got["bias_mean"], abs(mean(x) - m) / s, 1e-9)
                self.assertClose(got["bias_variance"], abs(sd(x) ** 2 - s * s) / s, 1e-9)
                self.assertClose(got["bias_variance_ratio"], abs((sd(x) / s) ** 2 - 1), 1e-9)
                wanted = errors(row, m, s, self.kept["mcse_mean"][i], self.kept["mcse_sd"][i])
                for key, value in wanted.items():
                    self.assertClose(got["mcse_" + key], value, 1e-9, note=key)
                for key, p in QUANTILES.items():
                    self.assertClose(got["quantile_differences"][key],
                                     (quantile(x, p) - quantile(b, p)) / s, 1e-9, note=key)
                self.assertClose(got["wasserstein"], wasserstein(x, b) / s, 1e-9)
                ess = 1 / (1 / row["ess_bulk"] + 1 / self.kept["ess_bulk"][i])
                self.assertClose(got["wasserstein_noise"], wasserstein_noise(b, ess) / s, 1e-9)
                self.assertNotIn("reason", got)
        self.assertEqual(seen, 2)

    def test_over_parameters_there_are_mean_median_maximum_and_whose_it_is(self):
        rows = [r for r in self.summary["parameters"] if r["reference"]]
        whole = self.summary["reference"]
        self.assertEqual((whole["name"], whole["parameters"], whole["looked_at"], whole["draws"]),
                         ("draws", 2, 2, 1200))
        readers = {k: lambda r, k=k: r["reference"][k]
                   for k in BIASES + ("wasserstein", "wasserstein_noise")}
        for q in QUANTILES:
            readers[q] = lambda r, q=q: abs(r["reference"]["quantile_differences"][q])
        for key, read in readers.items():
            got = whole["quantile_differences"][key] if key in QUANTILES else whole[key]
            values = [read(r) for r in rows]
            with self.subTest(key):
                self.assertClose(got["mean"], mean(values), 1e-12)
                self.assertClose(got["median"], statistics.median(values), 1e-12)
                self.assertClose(got["max"], max(values), 1e-12)
                self.assertEqual(got["worst"], max(rows, key=read)["name"])

    def test_draws_are_kept_as_moments_errors_quantiles_and_points(self):
        reference = pooled(self.chains)
        self.assertEqual(self.kept["names"], list(reference))
        for i, (name, x) in enumerate(reference.items()):
            self.assertClose(self.kept["mean"][i], mean(x), 1e-12)
            self.assertClose(self.kept["sd"][i], sd(x), 1e-12)
            for key, p in QUANTILES.items():
                self.assertClose(self.kept[key][i], quantile(x, p), 1e-12)
            self.assertEqual(self.kept["points"][i], sorted(x))
            self.assertLess(self.kept["ess_bulk"][i], 500)
        self.assertEqual(put("again", self.kept).status, 204)  # a copy of what was kept
        again = summary(job, reference="again")
        again["reference"]["name"] = "draws"
        self.assertEqual(again, self.summary)

    def test_many_draws_are_thinned_to_quantiles_that_stand_for_them(self):
        chains = reference_draws(n=3000, seed=2)
        self.assertEqual(put("many", chains).status, 204)
        kept = alice.read("/v1/references/many")
        x = pooled(chains)["theta[1]"]
        points = kept["points"][kept["names"].index("theta[1]")]
        self.assertEqual(len(points), 2000)
        for k in (0, 1, 777, 1000, 1999):
            self.assertClose(points[k], quantile(x, (k + 0.5) / 2000), 1e-12)
        row = summary(job, reference="many", params="theta[1]")["parameters"][0]
        whole = wasserstein(self.draws["theta[1]"], x) / sd(x)
        self.assertClose(row["reference"]["wasserstein"], whole, 1e-2)

    def test_what_concerns_all_parameters_comes_with_the_first_page(self):
        first = summary(job, reference="draws", limit=1, target_error=0.1)
        second = summary(job, reference="draws", limit=1, cursor=first["next"], target_error=0.1)
        self.assertEqual(first["reference"], self.summary["reference"])
        for key in ("reference", "efficiency", "cost"):
            self.assertIn(key, first)
            self.assertNotIn(key, second)
        self.assertEqual(first["parameters"][0]["reference"],
                         self.summary["parameters"][0]["reference"])

    def test_worst_first_gives_the_same_rows(self):
        rows = summary(job, reference="draws", order="worst")["parameters"]
        self.assertEqual({r["name"]: r for r in rows},
                         {r["name"]: r for r in self.summary["parameters"]})

    def test_a_comparison_has_the_same_numbers(self):
        answer = alice.read("/v1/compare", query={"jobs": "%s,%s" % (job, exact),
                                                  "reference": "draws", "target_error": 0.2})
        for i, job_id in enumerate((job, exact)):
            own = summary(job_id, reference="draws", target_error=0.2)
            self.assertEqual(answer["jobs"][i]["reference"], own["reference"])
            self.assertEqual(answer["jobs"][i]["cost"], own["cost"])
            for key, value in own["efficiency"].items():
                self.assertEqual(answer["jobs"][i]["iterations" if key == "gradients" else key], value)
            rows = {r.pop("name"): r for r in own["parameters"]}
            self.assertEqual({p["name"]: p["jobs"][i] for p in answer["parameters"]}, rows)
        self.assertEqual(answer["jobs"][0]["batch_size"], 40)


class Moments(Case):
    def test_what_moments_cannot_tell_is_null_with_a_reason(self):
        rows = [{"name": "theta[1]", "mean": 0.5, "sd": 0.25, **{q: 0.5 for q in QUANTILES}},
                {"name": "theta[2]", "mean": 0.5, "sd": 0.25}, {"name": "theta[3]", "mean": 1, "sd": 0}]
        self.assertEqual(put("moments", {"parameters": rows}).status, 204)
        answer = summary(job, reference="moments")
        first, second, third = (r["reference"] for r in answer["parameters"])
        for part in (first, second):
            self.assertIsNone(part["wasserstein"])
            self.assertIsNone(part["wasserstein_noise"])
            self.assertGreater(part["mcse_bias_mean"], 0)
        self.assertIsNotNone(first["quantile_differences"]["q25"])
        self.assertIsNone(second["quantile_differences"]["q25"])
        self.assertIn("no draws", first["reason"])
        self.assertIn("not all quantiles", second["reason"])
        self.assertIn("constant", third["reason"])
        self.assertTrue(all(third[k] is None for k in BIASES + ("wasserstein",)))
        whole = answer["reference"]
        self.assertIsNone(whole["wasserstein"]["max"])
        self.assertIsNone(whole["wasserstein"]["worst"])
        notes = " ".join(whole["notes"])
        self.assertIn("no Monte-Carlo errors", notes)
        self.assertIn("Wasserstein distances are not known", notes)

    def test_a_reference_of_another_model_says_so(self):
        put("strange", {"names": ["beta", "gamma"], "mean": [0, 0], "sd": [1, 1]})
        answer = summary(job, reference="strange")
        whole = answer["reference"]
        self.assertEqual((whole["parameters"], whole["looked_at"], whole["draws"]), (0, 0, 0))
        self.assertIn("no parameter in common", whole["notes"][0])
        self.assertIn('"theta[1]"', whole["notes"][0])
        self.assertIn('"beta"', whole["notes"][0])
        self.assertTrue(all(r["reference"] is None for r in answer["parameters"]))
        cost = summary(job, reference="strange", target_error=0.1)["cost"]
        self.assertIsNone(cost["seconds"])
        self.assertTrue(cost["reason"])

    def test_half_of_the_names_are_counted(self):
        put("half", {"names": ["theta[2]", "alpha", "beta"], "mean": [0, 0, 0], "sd": [1, 1, 1]})
        notes = summary(job, reference="half")["reference"]["notes"]
        self.assertIn("2 of the job's 3 parameters are not in the reference", notes)
        self.assertIn("2 of the reference's 3 parameters are not among the job's draws", notes)

    def test_a_job_without_enough_draws_has_nulls(self):
        put("one", {"names": ["theta[1]"], "mean": [0], "sd": [1]})
        few = alice.run(toy(iterations=2, warmup=0))["id"]
        row = summary(few, reference="one", target_error=0.1)["parameters"][0]
        self.assertIsNotNone(row["reference"]["bias_mean"])
        self.assertIsNone(row["reference"]["mcse_bias_mean"])
        self.assertIn("too few draws", row["reference"]["reason"])
        self.assertIsNone(row["cost"]["ess"])
        none = alice.run(toy(save={"params": []}))["id"]
        self.assertEqual(summary(none, reference="one", target_error=0.1)["reference"]["parameters"], 0)

    def test_a_job_that_runs_is_measured_as_far_as_it_is(self):
        put("one", {"names": ["theta[1]"], "mean": [0], "sd": [1]})
        running = alice.submit(endless(thin=500, chains=1, iterations=400000000))
        alice.wait_progress(running, 100000)
        answer = summary(running, reference="one", target_error=0.05)
        self.assertIsNotNone(answer["parameters"][0]["reference"]["bias_mean"])
        self.assertGreater(answer["efficiency"]["gradients"], 0)
        alice.act(running, "cancel")
        alice.wait(running, "cancelled")

    def test_bodies_that_are_not_json_or_not_a_reference(self):
        for body, status in (('{"names": ["a"], "mean": [NaN], "sd": [1]}', 400),
                             ('[{"a": [1, Infinity]}]', 400), ('[{"a": [1, 1e999]}]', 400),
                             ('{"names": ["a", "a"], "mean": [1, 2], "sd": [1, 1]}', 422),
                             ('{"names": ["a"], "names": ["b"], "mean": [1], "sd": [1]}', 400),
                             ('[{"a": [1, null, 2]}]', 422), ('{"names": ["a"], "mean": [null], "sd": [1]}', 422),
                             ('{"job": 5}', 422), ('{"job": "x", "names": ["a"]}', 422)):
            with self.subTest(body):
                self.assertEqual(put("bad", body).status, status)
        self.assertProblem(alice.get("/v1/references/bad"), 404)

    def test_two_hundred_thousand_parameters(self):
        names = ["U[%d,%d]" % (k // 20 + 1, k % 20 + 1) for k in range(199999)] + ["theta[1]"]
        document = {"names": names, "mean": [0.5] * 200000, "sd": [1.25] * 200000}
        self.assertEqual(put("huge", document).status, 204)
        answer = summary(job, reference="huge")
        self.assertEqual(answer["reference"]["parameters"], 1)
        x = columns(job)["theta[1]"]
        self.assertClose(answer["parameters"][0]["reference"]["bias_mean"],
                         abs(mean(x) - 0.5) / 1.25, 1e-9)
        self.assertEqual(alice.read("/v1/references/huge"), document)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:  # all at once do not run out of memory
            replies = pool.map(lambda _: alice.get("/v1/jobs/%s/summary" % job,
                                                   query={"reference": "huge"}), range(8))
            self.assertEqual([r.status for r in replies], [200] * 8)
        document = {k: v + v[:1] for k, v in document.items()}
        document["names"][-1] = "one more"
        reply = put("huge", document)
        self.assertProblem(reply, 422, pointer="/names")
        self.assertIn("200001 parameters", reply.text)

    def test_a_body_beyond_the_limit_is_refused_before_it_is_read(self):
        head = ("PUT /v1/references/over HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (alice.token, (16 << 20) + 1))
        self.assertEqual(harness.statuses(harness.raw(daemon, head.encode(), shut=False)), [413])
        # As many draws as go in are taken: what is kept of them is small.
        chain = {"a": [k % 97 for k in range(5500000)]}
        body = json.dumps([chain], separators=(",", ":"))
        self.assertLess(len(body), 16 << 20)
        self.assertEqual(put("brimful", body).status, 204)
        self.assertLess(len(alice.get("/v1/references/brimful").body), 100000)


class FromJobs(Case):
    def test_a_job_makes_a_reference(self):
        self.assertEqual(put("made", {"job": exact}).status, 204)
        kept, rows = alice.read("/v1/references/made"), summary(exact)["parameters"]
        self.assertEqual(kept["names"], [r["name"] for r in rows])
        draws = columns(exact)
        for i, row in enumerate(rows):
            for key in ("mean", "sd", "mcse_mean", "mcse_sd", "ess_bulk") + tuple(QUANTILES):
                self.assertClose(kept[key][i], row[key], 1e-12, note=key)
            x = draws[row["name"]]
            self.assertEqual(len(kept["points"][i]), 2000)
            self.assertClose(kept["points"][i][1234], quantile(x, 1234.5 / 2000), 1e-12)
        made_by = kept["made_by"]
        self.assertEqual((made_by["job"], made_by["sampler"]["name"], made_by["model"]["name"]),
                         (exact, "barker_mh", "logistic"))
        self.assertEqual(made_by["data_sha256"], alice.job(exact)["data_sha256"])
        self.assertNotIn("path", made_by["data"])
        itself = summary(exact, reference="made")["reference"]
        for key in BIASES:
            self.assertLess(itself[key]["max"], 1e-9)
        self.assertLess(itself["wasserstein"]["max"], 2e-3)
        self.assertFalse([n for n in itself["notes"] if "other" in n])
        self.assertTrue([n for n in itself["notes"] if "this job itself" in n])

    def test_a_corrected_job_is_near_the_exact_one(self):
        put("made", {"job": exact})
        long = alice.run(logistic(iterations=20000, warmup=1000, thin=2,
                                  sampler={"name": "sgbd", "variant": "corrected", "step_size": 0.1}))
        answer = summary(long["id"], reference="made")
        for row in answer["parameters"]:
            part = row["reference"]
            self.assertLess(part["bias_mean"], 0.25 + 4 * part["mcse_bias_mean"], row)
            self.assertLess(part["wasserstein"], 0.25 + 4 * part["wasserstein_noise"], row)

    def test_the_log_density_comes_from_the_checks(self):
        put("made", {"job": exact})
        kept = alice.read("/v1/references/made")
        checks = alice.read("/v1/jobs/%s/diagnostics" % exact)["checks"]
        energy = (checks or {}).get("energy") or {}
        if energy.get("mean_log_density") is None:
            self.assertNotIn("log_density", kept)
            self.skipTest("the job has no energy check")
        self.assertEqual(kept["log_density"], {"mean": energy["mean_log_density"],
                                               "mcse": energy["mcse"]})
        answer = alice.read("/v1/compare", query={"jobs": "%s,%s" % (exact, job), "reference": "made"})
        for side, job_id in zip(answer["jobs"], (exact, job)):
            own = alice.read("/v1/jobs/%s/diagnostics" % job_id)["checks"]["energy"]
            got = side["energy"]
            difference = own["mean_log_density"] - kept["log_density"]["mean"]
            error = math.hypot(own["mcse"], kept["log_density"]["mcse"])
            self.assertEqual(got["mean_log_density"], own["mean_log_density"])
            self.assertEqual(got["reference_mean"], kept["log_density"]["mean"])
            self.assertAlmostEqual(got["difference"], difference, delta=1e-9)
            self.assertAlmostEqual(got["z"], difference / error, delta=1e-6)
            self.assertAlmostEqual(got["variance_ratio"], 1 - 2 * difference / 3, delta=1e-9)

    def test_energy_against_a_given_log_density(self):
        put("dense", {"names": ["theta[1]"], "mean": [0], "sd": [1],
                      "log_density": {"mean": -12.5, "mcse": 0.5}})
        put("plain", {"names": ["theta[1]"], "mean": [0], "sd": [1]})
        for name, value in (("dense", -12.5), ("plain", None)):
            sides = alice.read("/v1/compare", query={"jobs": "%s,%s" % (exact, job),
                                                     "reference": name})["jobs"]
            for side in sides:
                self.assertEqual(side["energy"]["reference_mean"], value)
                if value is None:
                    self.assertIsNone(side["energy"]["z"])
                    self.assertIn("no mean log density", side["energy"]["reason"])

    def test_a_biased_or_unmixed_job_makes_one_with_a_warning(self):
        self.assertEqual(put("doubtful", {"job": job}).status, 204)
        warning = alice.read("/v1/references/doubtful")["warning"]
        self.assertIn("made by sgbd, a sampler that is not exact", warning)
        note = [n for n in summary(exact, reference="doubtful")["reference"]["notes"] if warning in n]
        self.assertTrue(note)
        short = alice.run(logistic(sampler={"name": "barker_mh"}, batch_size="full", iterations=20,
                                   warmup=100))["id"]
        put("short", {"job": short})
        warning = alice.read("/v1/references/short")["warning"]
        self.assertNotIn("not exact", warning)
        self.assertIn("effective sample size", warning)

    def test_other_data_another_prior_or_preparation_is_noted(self):
        put("made", {"job": exact})
        for fields, words in (({"data": {"path": "other.csv"}}, "other data"),
                              ({"model": {"name": "logistic", "prior_sd": 3.0}}, "another model"),
                              ({"data": {"path": "train.csv", "standardize": True}},
                               "another preparation of the data")):
            other = alice.run(logistic(**fields))["id"]
            notes = summary(other, reference="made")["reference"]["notes"]
            self.assertTrue([n for n in notes if words in n], (words, notes))

    def test_jobs_that_cannot_be_one(self):
        running = alice.submit(endless())
        self.assertProblem(put("no", {"job": running}), 409)
        alice.act(running, "cancel")
        alice.wait(running, "cancelled")
        few = alice.run(toy(iterations=2, warmup=0))["id"]
        reply = put("no", {"job": few})
        self.assertProblem(reply, 409)
        self.assertIn("at least 4", reply.text)
        none = alice.run(toy(save={"params": []}))["id"]
        self.assertProblem(put("no", {"job": none}), 409)
        self.assertProblem(put("no", {"job": "0000000000000000"}), 404)
        self.assertProblem(put("no", {"job": "../x"}), 404)
        self.assertProblem(put("no", {"job": exact}, client=bob), 404)
        self.assertProblem(alice.get("/v1/references/no"), 404)

    def test_a_job_that_the_lab_sees_may_be_anybodys_reference(self):
        mine = alice.run(toy(visibility="lab", iterations=500))["id"]
        self.assertEqual(put("bobs", {"job": mine}, client=bob).status, 204)
        self.assertEqual(bob.read("/v1/references/bobs")["names"], ["theta[1]"])


class Names(Case):
    def test_columns_of_the_data_become_coordinates(self):
        document = {"dataset": "train.csv", "N": 120, "model": "y ~ x", "parameters": ["a", "b", "c"],
                    "dimension": 3, "mean": [0.5, 1, 2], "sd": [1, 2, 3], "variance": [1, 4, 9],
                    "mcse_mean": [0.1, 0.1, 0.1],
                    "quantiles": {"q05": [0, 0, 0], "q25": [1, 1, 1], "q50": [2, 2, 2],
                                  "q75": [3, 3, 3], "q95": [4, 4, 4]}}
        self.assertEqual(put("columns", document).status, 204)
        self.assertEqual(alice.read("/v1/references/columns"), document)
        whole = summary(job, reference="columns")["reference"]
        self.assertEqual(whole["parameters"], 0)
        self.assertIn("?names=theta", whole["notes"][0])
        self.assertEqual(put("columns", document, names="theta").status, 204)
        kept = alice.read("/v1/references/columns")
        self.assertEqual(kept["names"], ["theta[1]", "theta[2]", "theta[3]"])
        self.assertEqual(kept["labels"], ["a", "b", "c"])
        self.assertEqual((kept["mean"], kept["sd"]), ([0.5, 1, 2], [1, 2, 3]))
        self.assertEqual((kept["q5"], kept["q95"], kept["mcse_mean"]), ([0] * 3, [4] * 3, [0.1] * 3))
        answer = summary(job, reference="columns")
        x = columns(job)
        for i, row in enumerate(answer["parameters"]):
            m, s = document["mean"][i], document["sd"][i]
            self.assertClose(row["reference"]["bias_mean"], abs(mean(x[row["name"]]) - m) / s, 1e-9)
            self.assertClose(row["reference"]["mcse_bias_mean"],
                             errors(row, m, s, 0.1)["bias_mean"], 1e-9)

    def test_a_block_has_a_plain_name(self):
        document = {"names": ["a"], "mean": [0], "sd": [1]}
        for names in ("", "theta[1]", "1st", "a b", "x" * 33, "é"):
            self.assertProblem(put("x", document, names=names), 422, pointer="?names")
        self.assertEqual(put("x", document, names="W_2").status, 204)
        self.assertEqual(alice.read("/v1/references/x")["names"], ["W_2[1]"])

    def test_the_lab_s_own_references_are_taken_as_they_are(self):
        if not os.path.isdir(SHARED):
            self.skipTest("there is no " + SHARED)
        for name, d in (("sepsis", 4), ("arrhythmia", 101)):
            with open(os.path.join(SHARED, name + "_posterior.json")) as file:
                text = file.read()
            self.assertEqual(put(name, text, names="theta").status, 204)
            kept, source = alice.read("/v1/references/" + name), json.loads(text)
            self.assertEqual(kept["names"], ["theta[%d]" % (k + 1) for k in range(d)])
            self.assertEqual(kept["mean"], source["mean"])
            self.assertEqual(kept["q5"], source["quantiles"]["q05"])
            self.assertEqual(kept["ess_bulk"], source["ess_bulk"])


class Cost(Case):
    def test_seconds_and_gradients_follow_from_the_numbers_beside_them(self):
        truth = {"theta[1]": (0.4, 0.3), "theta[2]": (-0.2, 0.3), "theta[3]": (0.0, 9.0)}
        put("truth", {"names": list(truth), "mean": [m for m, _ in truth.values()],
                      "sd": [s for _, s in truth.values()]})
        warmup, iterations = 3 * 100, 3 * 500
        reached = set()
        for target in (0.01, 0.05, 0.3, 5):
            answer = summary(job, reference="truth", target_error=target)
            seconds = answer["efficiency"]["cpu_seconds"]
            for row in answer["parameters"]:
                part, cost = row["reference"], row["cost"]
                noise, bias = row["mcse_mean"] / part["sd"], part["bias_mean"]
                error = part["mcse_bias_mean"]
                bias = math.sqrt(bias ** 2 - error ** 2) if bias > 2 * error else 0.0
                self.assertAlmostEqual(cost["bias"], bias, delta=1e-12)
                self.assertAlmostEqual(cost["error"], math.hypot(bias, noise), delta=1e-12)
                self.assertEqual(cost["target_error"], target)
                if bias >= target:
                    self.assertEqual([cost[k] for k in ("ess", "seconds", "gradients")], [None] * 3)
                    self.assertIn("the bias alone is", cost["reason"])
                    reached.add(False)
                    continue
                factor = noise ** 2 / (target ** 2 - bias ** 2)
                ess = (row["sd"] / row["mcse_mean"]) ** 2 * factor
                gradients = warmup + (iterations - warmup) * factor
                self.assertClose(cost["ess"], ess, 1e-9)
                self.assertClose(cost["ess"], (row["sd"] / part["sd"]) ** 2 / (target ** 2 - bias ** 2),
                                 1e-9)
                self.assertClose(cost["gradients"], gradients, 1e-9)
                self.assertClose(cost["seconds"], seconds * gradients / iterations, 1e-9)
                reached.add(True)
            costs = {r["name"]: r["cost"] for r in answer["parameters"]}
            worst = answer["cost"].pop("worst")
            self.assertEqual(answer["cost"], costs[worst])
            if answer["cost"]["seconds"] is None:
                self.assertEqual(answer["cost"]["bias"], max(
                    c["bias"] for c in costs.values() if c["seconds"] is None))
            else:
                self.assertEqual(answer["cost"]["seconds"], max(c["seconds"] for c in costs.values()))
        self.assertEqual(reached, {True, False})

    def test_without_a_reference_the_bias_counts_as_nothing_and_that_is_said(self):
        answer = summary(job, target_error=0.02)
        for row in answer["parameters"]:
            self.assertClose(row["cost"]["ess"], 1 / 0.02 ** 2, 1e-9)
            self.assertIsNone(row["cost"]["bias"])
            self.assertIn("no reference", row["cost"]["reason"])
        ess = answer["efficiency"]["min_ess_bulk"]
        self.assertClose(answer["cost"]["ess"], 2500, 1e-9)
        self.assertClose(answer["cost"]["gradients"], 300 + 1200 * 2500 / ess, 1e-9)

    def test_efficiency_is_what_came_out_over_what_went_in(self):
        answer = summary(job)
        head = alice.job(job)
        chains = alice.read("/v1/jobs/%s/diagnostics" % job)["chains"]
        efficiency = answer["efficiency"]
        self.assertEqual(efficiency["gradients"], 1500)
        self.assertClose(efficiency["cpu_seconds"], sum(c["cpu_seconds"] for c in chains), 1e-9)
        self.assertEqual(efficiency["min_ess_bulk"], head["summary"]["min_ess_bulk"])
        for row in [{**efficiency, "ess_bulk": efficiency["min_ess_bulk"]}] + answer["parameters"]:
            self.assertClose(row["ess_per_second"], row["ess_bulk"] / efficiency["cpu_seconds"], 1e-12)
            self.assertClose(row["ess_per_gradient"], row["ess_bulk"] / 1500, 1e-12)

    def test_jobs_of_different_posteriors_share_no_reference(self):
        same = {"model": {"name": "logistic", "prior_sd": 2}, "data": {"path": "same.csv"}, "sampler": {"name": "mala"},
                "batch_size": "full", "chains": 1, "iterations": 50, "warmup": 100}
        for name, seed in (("same.csv", 1), ("copy.csv", 1), ("other.csv", 2)):
            daemon.file(name, logistic_text(60, seed=seed))
        alice.put("/v1/references/shared", {"names": ["theta[1]"], "mean": [0], "sd": [1]})
        one = alice.run(same)["id"]
        for change, how in (({"sampler": {"name": "barker_mh"}, "data": {"path": "copy.csv"}}, None),
                            ({"model": {"name": "logistic", "prior_sd": 3}}, "model.prior_sd is 2.0 and 3.0"),
                            ({"model": {"name": "probit", "prior_sd": 2}}, 'model.name is "logistic" and "probit"'),
                            ({"data": {"path": "same.csv", "standardize": True}}, "data.standardize is false and true"),
                            ({"data": {"path": "other.csv"}}, "the data files differ")):
            with self.subTest(how):
                both = "%s,%s" % (one, alice.run({**same, **change})["id"])
                answer = alice.read("/v1/compare", query={"jobs": both})
                against = alice.get("/v1/compare", query={"jobs": both, "reference": "shared"})
                if how is None:
                    self.assertIsNone(answer["differs"])
                    self.assertEqual(against.status, 200, against)
                else:
                    self.assertIn(how, answer["differs"])
                    self.assertProblem(against, 422, how.split(" is ")[0], pointer="?reference")

    def test_an_offset_or_weights_of_one_job_alone_make_another_posterior(self):
        daemon.file("two.csv", "x1,x2,w,y\n" + "".join("%d.5,1,%d,%d\n" % (k % 5, 1 + k % 3, k % 2) for k in range(40)))
        base = {"model": {"name": "poisson", "prior_sd": 2}, "data": {"path": "two.csv", "columns": ["x1", "x2"]},
                "sampler": {"name": "mala"}, "batch_size": "full", "chains": 1, "iterations": 50, "warmup": 100}
        one = alice.run(base)["id"]
        for role in ("offset", "weights"):
            with self.subTest(role):
                other = alice.run({**base, "data": {**base["data"], role: "w"}})["id"]
                for jobs in ((one, other), (other, one)):
                    answer = alice.read("/v1/compare", query={"jobs": ",".join(jobs)})
                    self.assertIn("data." + role, answer["differs"] or "")

    def test_the_noise_of_a_toy_is_not_its_posterior(self):
        ids = [alice.run(toy(model={"name": "noisy_normal", "noise_scale": scale}))["id"] for scale in (0, 2)]
        self.assertIsNone(alice.read("/v1/compare", query={"jobs": ",".join(ids)})["differs"])

    def test_a_target_out_of_range_is_a_mistake(self):
        for target in ("0", "-1", "1e-7", "10.5", "nan", "inf", "0x1p-4", "", "0.05sd", " 0.05", "1e999"):
            for path, query in (("/v1/jobs/%s/summary" % job, {}),
                                ("/v1/compare", {"jobs": "%s,%s" % (job, exact)})):
                with self.subTest(target, path=path):
                    reply = alice.get(path, query={"target_error": target, **query})
                    self.assertProblem(reply, 422, pointer="?target_error")
                    self.assertIn("from 1e-06 to 10", reply.text)
        for target in ("1e-6", "10", "0.05", "5e-2", ".5"):
            self.assertEqual(alice.get("/v1/jobs/%s/summary" % job,
                                       query={"target_error": target}).status, 200)


class Quantiles(Case):
    def test_their_errors_are_those_of_posterior(self):
        script = ("suppressPackageStartupMessages(library(posterior));"
                  "if (packageVersion('posterior')[, 1:2] != '1.4') quit(status = 3);"
                  "t <- read.csv(file('stdin'), check.names = FALSE);"
                  "for (p in names(t)[-(1:3)]) { x <- sapply(split(t[[p]], t$.chain), identity);"
                  "cat(p, format(c(mcse_quantile(x, c(.05, .25, .5, .75, .95), names = FALSE),"
                  "mcse_mean(x), mcse_sd(x)), digits = 17), '\\n') }")
        if not shutil.which("Rscript"):
            self.skipTest("Rscript is not there")
        made = subprocess.run(["Rscript", "-e", script], input=alice.draws(job), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if made.returncode:
            self.skipTest("posterior 1.4 is not there")
        keys = ["mcse_" + q for q in QUANTILES] + ["mcse_mean", "mcse_sd"]
        rows = {r["name"]: r for r in summary(job)["parameters"]}
        lines = made.stdout.decode().split("\n")[:-1]
        self.assertEqual(len(lines), 3)
        for line in lines:
            name, *numbers = line.split()
            for key, number in zip(keys, numbers):
                self.assertClose(rows[name][key], float(number), 1e-8, note="%s %s" % (name, key))


class Described(Case):
    """The answers are what openapi.json says."""

    KINDS = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
             "null": type(None), "boolean": bool}

    @classmethod
    def setUpClass(cls):
        cls.schemas = alice.read("/openapi.json")["components"]["schemas"]

    def fits(self, schema, value, where):
        """What is wrong, or None. As much of JSON schema as is needed here."""
        if "$ref" in schema:
            return self.fits(self.schemas[schema["$ref"].split("/")[-1]], value, where)
        if "oneOf" in schema:
            wrong = [self.fits(s, value, where) for s in schema["oneOf"]]
            return None if wrong.count(None) == 1 else (where, wrong)
        kinds = schema.get("type", list(self.KINDS))
        if not any(isinstance(value, self.KINDS[k]) for k in ([kinds] if isinstance(kinds, str) else kinds)):
            return where, kinds, value
        parts = []
        if isinstance(value, dict):
            known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
            for key in schema.get("required", []):
                if key not in value:
                    return where, "lacks", key
            for key, part in value.items():
                if key not in known and more is False:
                    return where, "knows no", key
                parts.append((known.get(key, more if isinstance(more, dict) else {}), part, key))
        elif isinstance(value, list):
            parts = [(schema.get("items", {}), part, str(i)) for i, part in enumerate(value)]
        for inner, part, key in parts:
            wrong = self.fits(inner, part, where + "/" + key)
            if wrong:
                return wrong
        return None

    def test_summaries_comparisons_and_references(self):
        put("schema-job", {"job": exact})
        put("schema-rows", {"parameters": [{"name": "theta[1]", "mean": 0, "sd": 1}]})
        put("schema-draws", reference_draws(n=20))
        names = ("schema-job", "schema-rows", "schema-draws")
        queries = [{}, {"target_error": 0.1}] + [{"reference": n, "target_error": t}
                                                for n in names for t in (0.001, 5)]
        for query in queries:
            with self.subTest(query):
                self.assertIsNone(self.fits({"$ref": "Summary"}, summary(job, **query), ""))
                compared = alice.read("/v1/compare", query={"jobs": "%s,%s" % (job, exact), **query})
                self.assertIsNone(self.fits({"$ref": "Comparison"}, compared, ""))
        for name in names:
            kept = alice.read("/v1/references/" + name)
            self.assertIsNone(self.fits({"$ref": "Reference"}, kept, ""))
        self.assertIsNotNone(self.fits({"$ref": "Summary"}, {**summary(job), "more": 1}, ""))
