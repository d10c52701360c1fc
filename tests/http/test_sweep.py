"""Sweeps through sockets: which jobs a grid makes, what the table says of them, what owners can do to a
sweep, and that neither a kill nor ten thousand jobs show."""

import csv
import gzip
import io
import json
import math
import os
import random
import re
import signal
import sqlite3
import statistics
import threading
import time

import harness
import test_studies
from harness import Case, Daemon

FIXTURES = os.path.join(harness.ROOT, "tests/fixtures/studies")
OVER = ("succeeded", "failed", "cancelled")
CLOCK = ("ess_median_per_second", "ess_min_per_second", "cpu_seconds")  # what a clock is in


def setUpModule():
    global daemon, admin, alice, bob, vera
    daemon = Daemon()
    admin = daemon.client()
    alice, bob, vera = daemon.user("alice"), daemon.user("bob"), daemon.user("vera", "viewer")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def fixture(name):
    with open(os.path.join(FIXTURES, name)) as file:
        return json.load(file)


def sweep(grid=None, job=None, **fields):
    """Short jobs: 200 iterations of a toy."""
    grid = [{"/sampler/step_size": [0.2, 0.4, 0.8]}] if grid is None else grid
    return {"kind": "sweep", "job": harness.toy(iterations=200, chains=2, seed=7) if job is None else job,
            "grid": grid, **fields}


def ask(client, request, **options):
    reply = client.post("/v1/studies", request, **options)
    assert reply.status == 201, reply
    return reply.json()


def see(client, study, **query):
    return client.read("/v1/studies/" + study["id"], query=query or None)


def until(client, study, condition, what):
    end = time.monotonic() + harness.PATIENCE
    while True:
        shown = see(client, study)
        if condition(shown):
            return shown
        assert time.monotonic() < end, "waited in vain for %s: %s" % (what, json.dumps(shown, indent=1)[:3000])
        time.sleep(0.05)


def finish(client, study):
    return until(client, study, lambda s: s["state"] in OVER, "the end")


def act(client, study, what, body=None, status=202):
    reply = client.post("/v1/studies/%s/%s" % (study["id"], what), body)
    assert reply.status == status, "%s: %r" % (what, reply)
    return reply.json()


def jobs_of(client, study):
    found, cursor = [], None
    while True:
        page = client.read("/v1/jobs", query={"study": study["id"], "limit": 500, **({"cursor": cursor} if cursor else {})})
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found


def budget(client, name, kind):
    """Bytes of a budget of memory, of all users."""
    return int(re.search(r'^barkerd_budget_bytes\{budget="%s",kind="%s"\} (\d+)' % (name, kind), client.get("/metrics").text, re.M).group(1))


def numbers(study):
    """Everything that must be the same whenever the request and the seed are."""
    return [(r["index"], r["setting"], r["succeeded"], r["failed"],
             {k: v for k, v in r["measures"].items() if k not in CLOCK}, r["parameters"]) for r in study["result"]["rows"]]


class Grids(Case):
    """Which jobs a grid stands for."""

    def test_groups_are_products_and_the_last_pointer_changes_fastest(self):
        study = finish(alice, ask(alice, fixture("sweep.json")))
        rows = study["result"]["rows"]
        self.assertEqual(len(rows), 30)
        self.assertEqual([r["index"] for r in rows], list(range(30)))
        self.assertEqual([r["group"] for r in rows], [0] * 24 + [1] * 6)
        steps = [r["setting"]["/sampler/step_size"] for r in rows[:12]]
        self.assertEqual((steps[0], steps[-1]), (0.05, 0.5))
        for a, b in zip(steps, steps[1:]):
            self.assertClose(b / a, 10 ** (1 / 11), relative=1e-4)
        self.assertEqual([r["setting"]["/sampler/variant"] for r in rows[:24]], ["vanilla"] * 12 + ["corrected"] * 12)
        self.assertEqual(rows[24]["setting"], {"/sampler/name": "sgld", "/sampler/variant": "vanilla", "/sampler/step_size": 0.05})
        job = alice.job(rows[24]["jobs"][0])["request"]
        self.assertEqual((job["sampler"]["name"], job["sampler"]["step_size"]), ("sgld", 0.05))

    def test_every_job_has_the_seed_of_its_position(self):
        study = finish(alice, ask(alice, sweep(seeds=2)))
        seeds = [[alice.job(j)["request"]["seed"] for j in r["jobs"]] for r in study["result"]["rows"]]
        self.assertEqual(seeds, [[7, 10], [8, 11], [9, 12]])

    def test_a_setting_is_the_job_with_that_seed(self):
        study = finish(alice, ask(alice, sweep()))
        row = study["result"]["rows"][1]
        alone = alice.run(harness.toy(iterations=200, chains=2, seed=8,
                                      sampler={**alice.job(row["jobs"][0])["request"]["sampler"]}))
        self.assertEqual(alice.everything(row["jobs"][0]), alice.everything(alone["id"]))

    def test_any_field_may_be_set(self):
        daemon.file("rows.csv", harness.logistic_text(80, columns=2))
        job = {"model": "logistic", "data": {"path": "rows.csv"}, "iterations": 60, "chains": 2, "seed": 1,
               "sampler": {"name": "sgbd", "step_size": 0.1}}
        study = finish(alice, ask(alice, sweep([{"/batch_size": [10, "full"], "/model/prior_sd": [1, 2]},
                                                {"/seed": [5, 6], "/init": [{"kind": "values", "values": [0.5, 0.5]}]}], job)))
        self.assertEqual(study["state"], "succeeded", study["reason"])
        made = [alice.job(r["jobs"][0])["request"] for r in study["result"]["rows"]]
        self.assertEqual([(m["batch_size"], m["model"]["prior_sd"]) for m in made[:4]], [(10, 1.0), (10, 2.0), ("full", 1.0), ("full", 2.0)])
        self.assertEqual([m["seed"] for m in made[4:]], [5, 6])
        self.assertEqual(made[5]["init"], {"kind": "values", "values": [0.5, 0.5]})

    def test_validate_only_stores_nothing(self):
        before = daemon.catalogue("SELECT count(*) FROM study")
        reply = alice.post("/v1/studies?validate_only=true", sweep(seeds=3))
        self.assertEqual((reply.status, reply.json()["valid"], reply.json()["jobs"]), (200, True, 9))
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM study"), before)


class Mistakes(Case):
    def refused(self, request, *places):
        before = daemon.catalogue("SELECT count(*) FROM job, study")
        reply = alice.post("/v1/studies", request)
        self.assertEqual(reply.status, 422, reply)
        self.assertEqual(sorted(reply.pointers()), sorted(places), reply.text)
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM job, study"), before)
        return {e["pointer"]: e["detail"] for e in reply.json()["errors"]}

    def test_a_bad_grid_gets_all_its_mistakes_at_once(self):
        step = "~1sampler~1step_size"
        self.refused(sweep([{}, {"/sampler/step_size": []}, {"/sampler/step_size": {"from": 0, "to": 1}}, 3,
                            {"sampler": [1]}, {"/sampler": ["sgld"], "/sampler/step_size": [0.1]},
                            {"/sampler/step_size": [0.1, 0.1]}, {"/sampler/step_size": {"from": 1, "to": 1.0000001, "count": 50}}],
                           seeds=0, best={"maximize": "speed"}),
                     "/grid/0", "/grid/1/" + step, "/grid/2/%s/from" % step, "/grid/2/%s/count" % step, "/grid/3",
                     "/grid/4/sampler", "/grid/5/" + step, "/grid/6/%s/1" % step, "/grid/7/" + step, "/seeds", "/best/maximize")

    def test_values_that_a_job_refuses_are_refused_where_they_stand(self):
        step = "~1sampler~1step_size"
        said = self.refused(sweep([{"/sampler/step_size": [0.1, -1, 0.2, "x"], "/chains": [2, 0]},
                                   {"/sampler/nam": ["sgld"]}, {"/sampler/name": ["sgbt"]}, {"/iteration": [5]}]),
                            "/grid/0/%s/1" % step, "/grid/0/%s/3" % step, "/grid/0/~1chains/1", "/grid/1/~1sampler~1nam/0",
                            "/grid/2/~1sampler~1name/0", "/grid/3/~1iteration/0")
        self.assertIn("sgbd", said["/grid/2/~1sampler~1name/0"])

    def test_what_no_setting_mends_is_a_mistake_of_the_job(self):
        said = self.refused(sweep([{"/sampler/step_size": [0.1, 0.2]}], harness.toy(chain=3, iterations=0)), "/job/chain", "/job/iterations")
        self.assertIn("group 0", said["/job/chain"])

    def test_the_data_decide_too(self):
        daemon.file("few.csv", harness.logistic_text(50, columns=2))
        job = {"model": "logistic", "data": {"path": "few.csv"}, "iterations": 50, "sampler": {"name": "sgbd", "step_size": 0.1}}
        self.refused(sweep([{"/batch_size": [10, 51]}, {"/data/path": ["few.csv", "none.csv"]}], job, params=["theta[1]", "theta[3]"]),
                     "/grid/0/~1batch_size/1", "/grid/1/~1data~1path/1", "/params/1")

    def test_too_many_twice_the_same_and_contradictions(self):
        self.refused(sweep([{"/sampler/step_size": {"from": 0.1, "to": 1, "count": 200}, "/chains": list(range(1, 52))}]), "/grid/0")
        self.refused(sweep([{"/sampler/step_size": {"from": 0.1, "to": 1, "count": 400}}], seeds=26), "/seeds")
        self.refused(sweep([{"/sampler/step_size": [0.1, 0.2]}, {"/sampler/step_size": [0.3, 0.2]}]), "/grid/1")
        self.refused(sweep([{"/seed": [1, 2]}], seeds=2), "/seeds")
        self.refused(sweep(best={"maximize": "ess_min", "minimize": "ess_min"}), "/best")
        self.refused(sweep(best={"minimize": "bias_mean_mean"}), "/best")
        self.refused(sweep(reference="nowhere"), "/reference")
        self.refused({"kind": "sweep"}, "/job", "/grid")
        deep = "/a" * 17
        self.refused(sweep([{deep: [1]}, {"/sampler/step_sizes": []}]), "/grid/0/" + deep.replace("/", "~1"), "/grid/1/~1sampler~1step_sizes")
        self.refused(sweep(grids=[]), "/grids")


class Table(Case):
    def test_a_row_is_the_mean_over_its_seeds_with_its_error(self):
        study = finish(alice, ask(alice, sweep(seeds=3, reference="exact", job=harness.toy(iterations=4000, chains=2, seed=3))))
        made = study["result"]["references"][0]
        self.assertEqual((made["state"], made["setting"]), ("ready", {}))
        self.assertEqual(alice.job(made["job"])["request"]["sampler"]["name"], "nuts")
        self.assertEqual(alice.put("/v1/references/own", {"parameters": alice.read("/v1/jobs/%s/summary" % made["job"])["parameters"]}).status, 204)
        for row in study["result"]["rows"]:
            ess, bias, shift, ratio = [], [], [], []
            for job in row["jobs"]:
                found = alice.read("/v1/jobs/%s/summary" % job, query={"reference": "own"})["parameters"][0]
                ess.append(found["ess_bulk"])
                bias.append(found["reference"]["bias_mean"])
                shift.append((found["mean"] - found["reference"]["mean"]) / found["reference"]["sd"])
                ratio.append((found["sd"] / found["reference"]["sd"]) ** 2)
            at = row["measures"]
            for name, values in (("ess_min", ess), ("ess_median", ess), ("bias_mean_mean", bias), ("bias_mean_max", bias),
                                 ("variance_ratio_median", ratio), ("variance_ratio_max", ratio)):
                self.assertClose(at[name]["value"], statistics.mean(values), 1e-6, note=name)
                self.assertClose(at[name]["error"], statistics.stdev(values) / math.sqrt(3), 1e-4, 1e-9, note=name)
            self.assertClose(row["parameters"]["theta[1]"]["shift"]["value"], statistics.mean(shift), 1e-4, 1e-6)
            self.assertEqual((at["draws"]["value"], at["draws"]["error"]), (8000.0, 0.0))

    def test_one_seed_has_the_error_of_its_job(self):
        study = finish(alice, ask(alice, sweep(reference="exact")))
        row = study["result"]["rows"][0]
        summary = alice.read("/v1/jobs/%s/summary" % row["jobs"][0])["parameters"][0]
        self.assertClose(row["parameters"]["theta[1]"]["mean"]["error"], summary["mcse_mean"])
        self.assertIsNone(row["measures"]["ess_min"]["error"])
        self.assertGreater(row["measures"]["bias_mean_mean"]["error"], 0)
        self.assertTrue(any("one seed" in c for c in study["result"]["cautions"]))

    def test_every_posterior_of_the_grid_has_a_reference_of_its_own(self):
        """Skew normals of known means; noise is no part of the posterior."""
        job = {"model": {"name": "skew_normal", "noise_sd": 0.5}, "sampler": {"name": "sgbd", "step_size": 0.2},
               "iterations": 20000, "chains": 2, "seed": 4}
        study = finish(alice, ask(alice, sweep([{"/model/alpha": [1, 5], "/model/noise_sd": [0.2, 0.5]}], job, reference="exact")))
        made = study["result"]["references"]
        self.assertEqual([m["setting"] for m in made], [{"/model/alpha": 1}, {"/model/alpha": 5}])
        self.assertEqual(study["progress"]["jobs"], 6)
        for row in study["result"]["rows"]:
            alpha = row["setting"]["/model/alpha"]
            mean = math.sqrt(2 / math.pi) * alpha / math.sqrt(1 + alpha ** 2)
            sd = math.sqrt(1 - mean ** 2)
            theta = row["parameters"]["theta[1]"]
            self.assertLess(abs(theta["shift"]["value"] - (theta["mean"]["value"] - mean) / sd), 0.06, row)

    def test_held_out_metrics_are_measures(self):
        daemon.file("train.csv", harness.logistic_text(100, columns=2))
        daemon.file("test.csv", harness.logistic_text(40, columns=2, seed=5))
        job = {"model": "logistic", "data": {"path": "train.csv", "test": "test.csv"}, "iterations": 400, "metric_every": 20,
               "chains": 2, "seed": 1, "sampler": {"name": "sgbd", "step_size": 0.1}}
        study = finish(alice, ask(alice, sweep([{"/sampler/step_size": [0.1, 0.2]}], job, best={"minimize": "log_loss_ergodic"})))
        row = study["result"]["rows"][0]
        chains = alice.read("/v1/jobs/%s/metrics" % row["jobs"][0])["chains"]
        last = [c["ergodic"]["log_loss"][-1] for c in chains]
        self.assertClose(row["measures"]["log_loss_ergodic"]["value"], statistics.mean(last), 1e-9)
        kept = [statistics.mean(v for v, i in zip(c["draw"]["log_loss"], c["iteration"]) if i > 200) for c in chains]
        self.assertClose(row["measures"]["log_loss_draw"]["value"], statistics.mean(kept), 1e-9)
        self.assertIn("accuracy_draw", study["result"]["columns"])
        self.assertEqual(study["result"]["best"]["by"], "log_loss_ergodic")

    def test_the_best_keeps_the_bounds_and_names_its_rivals(self):
        rule = {"maximize": "ess_min", "at_most": {"variance_ratio_median": 1.5}, "at_least": {"draws": 100}}
        study = finish(alice, ask(alice, sweep(seeds=2, reference="exact", best=rule,
                                               grid=[{"/sampler/step_size": [0.3, 0.5, 0.8, 30]}], job=harness.toy(iterations=2000, chains=2, seed=3))))
        rows, best = study["result"]["rows"], study["result"]["best"]
        good = [r for r in rows if r["measures"]["variance_ratio_median"]["value"] <= 1.5]
        self.assertLess(len(good), len(rows), "the bound does nothing")
        most = max(good, key=lambda r: r["measures"]["ess_min"]["value"])
        self.assertEqual((best["index"], best["rows"]), (most["index"], len(good)))
        self.assertNotIn(best["index"], best["rivals"])
        none = finish(alice, ask(alice, sweep(best={"maximize": "ess_min", "at_least": {"draws": 1e9}})))
        self.assertIsNone(none["result"]["best"])
        self.assertTrue(any("bounds" in c for c in none["result"]["cautions"]))

    def test_chains_that_diverge_are_counted_and_not_measured(self):
        job = harness.toy(model={"name": "skew_normal", "alpha": 100, "noise_sd": 1}, sampler={"name": "sgld", "step_size": 0.1},
                          iterations=2000, chains=2, seed=3)
        study = finish(alice, ask(alice, sweep([{"/sampler/step_size": [0.05, 1e60]}], job)))
        self.assertEqual((study["state"], study["progress"]["failed"]), ("succeeded", 1))
        good, bad = study["result"]["rows"]
        self.assertEqual((bad["state"], bad["failed"], bad["diverged"], bad["succeeded"]), ("ended", 1, 1, 0))
        self.assertIn("diverged", bad["reason"])
        self.assertIsNone(bad["measures"]["ess_min"]["value"])
        self.assertIsNotNone(good["measures"]["draws"]["value"])

    def test_chains_that_have_not_mixed_are_a_caution(self):
        study = finish(alice, ask(alice, sweep([{"/sampler/step_size": [0.001, 0.5]}], harness.toy(iterations=3000, chains=2, seed=3, init="prior"))))
        rhats = [r["measures"]["max_rhat"]["value"] for r in study["result"]["rows"]]
        self.assertTrue(rhats[0] > 1.2 > rhats[1], rhats)
        self.assertTrue(any(c.startswith("settings with an R-hat above 1.2") and c.endswith(": 1") for c in study["result"]["cautions"]), study["result"]["cautions"])

    def test_csv_and_pages_hold_the_same_numbers(self):
        study = finish(alice, ask(alice, sweep(seeds=2)))
        path = "/v1/studies/%s/table" % study["id"]
        reply = alice.get(path, query={"format": "csv"})
        self.assertIn("text/csv", reply.headers["Content-Type"])
        lines = list(csv.DictReader(io.StringIO(reply.text)))
        paged, cursor = [], 0
        while cursor is not None:
            page = alice.read(path, query={"limit": 2, "cursor": cursor})
            paged += page["items"]
            cursor = page["next"]
        self.assertEqual(paged, study["result"]["rows"])
        for line, row in zip(lines, paged):
            self.assertEqual(float(line["/sampler/step_size"]), row["setting"]["/sampler/step_size"])
            self.assertEqual(line["jobs"].split(), row["jobs"])
            for name in study["result"]["columns"]:
                value = row["measures"][name]["value"]
                self.assertEqual(line[name] == "", value is None)
                if value is not None:
                    self.assertClose(float(line[name]), value, 1e-9)
            self.assertClose(float(line["theta[1].sd"]), row["parameters"]["theta[1]"]["sd"]["value"], 1e-9)
        self.assertProblem(alice.get("/v1/studies/%s/table" % ask(alice, {"kind": "ladder", "job": harness.toy()})["id"]), 422, "only a sweep")

    def test_the_table_outlives_the_draws(self):
        study = finish(alice, ask(alice, sweep()))
        job = study["result"]["rows"][1]["jobs"][0]
        self.assertEqual(alice.delete("/v1/jobs/%s?purge=true" % job).status, 204)
        self.assertEqual(see(alice, study)["result"], study["result"])

    def test_a_stored_reference_and_a_job_serve_too(self):
        exact = alice.run(harness.toy(model={"name": "skew_normal", "noise_sd": 0}, sampler="nuts", iterations=3000, chains=2, seed=1))["id"]
        own = {"parameters": alice.read("/v1/jobs/%s/summary" % exact)["parameters"]}
        self.assertEqual(alice.put("/v1/references/named", own).status, 204)
        by_name = finish(alice, ask(alice, sweep(reference="named")))
        by_job = finish(alice, ask(alice, sweep(reference=exact)))
        for a, b in zip(by_name["result"]["rows"], by_job["result"]["rows"]):
            self.assertClose(a["measures"]["bias_mean_mean"]["value"], b["measures"]["bias_mean_mean"]["value"], 1e-6)
        self.assertEqual(by_name["result"]["references"], [{"name": "named", "job": None, "state": "ready", "setting": {}}])


class Description(test_studies.Description):
    """The answers are what openapi.json says."""

    def test_studies_fit_it_in_every_state(self):
        self.document = admin.read("/openapi.json")
        schema = {"$ref": "#/components/schemas/Study"}
        running = ask(alice, sweep(job=harness.endless(), reference="exact"))
        until(alice, running, lambda s: s["progress"]["under_way"] > 2, "jobs under way")
        ended = finish(alice, ask(alice, sweep(seeds=2, reference="exact", best={"maximize": "ess_min"})))
        for study in (running, see(alice, running), ended):
            self.assertIsNone(self.fits(schema, study, "study"))
            self.assertIsNone(self.fits({"$ref": "#/components/schemas/StudyRequest"}, study["request"], "request"))
        self.assertIsNone(self.fits({"$ref": "#/components/schemas/StudyList"}, alice.read("/v1/studies"), "list"))
        act(alice, running, "cancel")


class Owning(Case):
    def test_jobs_of_a_sweep_are_in_its_list_only(self):
        user = daemon.user("lone")
        own = user.run(harness.toy())["id"]
        study = finish(user, ask(user, sweep(seeds=2)))
        self.assertEqual([j["id"] for j in user.read("/v1/jobs")["items"]], [own])
        self.assertEqual([j["id"] for j in user.read("/v1/jobs", query={"state": "succeeded"})["items"]], [own])
        listed = jobs_of(user, study)
        self.assertEqual(sorted(j["id"] for j in listed), sorted(j for r in study["result"]["rows"] for j in r["jobs"]))
        self.assertEqual({j["id"] for j in admin.read("/v1/jobs", query={"owner": "all", "limit": 500})["items"]} & {j["id"] for j in listed}, set())
        shown = user.read("/v1/studies")["items"][0]
        self.assertEqual((shown["id"], shown["jobs"], shown["progress"]["ended"]), (study["id"], [], 6))

    def test_pause_resume_and_cancel(self):
        long = harness.endless()
        study = ask(alice, sweep([{"/sampler/step_size": {"from": 0.1, "to": 1, "count": 40}}], long))
        running = until(alice, study, lambda s: s["progress"]["under_way"] == 4, "jobs under way")
        self.assertEqual(len(running["jobs"]), 4, "more than twice the workers")
        self.assertProblem(alice.delete("/v1/studies/" + study["id"]), 409, "cancel it first")
        self.assertProblem(alice.post("/v1/studies/%s/resume" % study["id"]), 409, "cannot be resumed")
        self.assertEqual(act(alice, study, "pause")["state"], "paused")
        until(alice, study, lambda s: all(j["state"] == "paused" for j in s["jobs"]), "pauses")
        act(alice, study, "resume")
        until(alice, study, lambda s: any(j["state"] in ("running", "queued") for j in s["jobs"]), "jobs that go on")
        act(alice, study, "cancel")
        ended = finish(alice, study)
        self.assertEqual((ended["state"], ended["progress"]["ended"], ended["progress"]["failed"]), ("cancelled", 4, 4))
        self.assertIsNotNone(ended["ended_at"])
        self.assertEqual(len(jobs_of(alice, study)), 4)
        self.assertProblem(alice.post("/v1/studies/%s/cancel" % study["id"]), 409)
        self.assertProblem(alice.post("/v1/studies/%s/extend" % study["id"], {"seeds": 1}), 409, "ended by itself")

    def test_a_ladder_has_the_same_actions(self):
        study = ask(alice, {"kind": "ladder", "job": harness.endless()})
        act(alice, study, "pause")
        self.assertEqual(see(alice, study)["state"], "paused")
        act(alice, study, "resume")
        act(alice, study, "cancel")
        finish(alice, study)
        self.assertProblem(alice.post("/v1/studies/%s/pause" % study["id"]), 409)
        self.assertProblem(alice.post("/v1/studies/%s/extend" % study["id"], {"seeds": 1}), 409, "extend the jobs")

    def test_more_seeds_are_those_that_a_larger_sweep_would_have_had(self):
        small, large = ask(alice, sweep(seeds=2)), ask(alice, sweep(seeds=5))
        first = finish(alice, small)
        act(alice, small, "extend", {"seeds": 3})
        self.assertEqual(numbers(finish(alice, small)), numbers(finish(alice, large)))
        grown = see(alice, small)
        self.assertEqual([r["jobs"][:2] for r in grown["result"]["rows"]], [r["jobs"] for r in first["result"]["rows"]])
        for body in ({}, {"seeds": 1, "iterations": 1}, {"seeds": 0}, {"seed": 1}):
            self.assertProblem(alice.post("/v1/studies/%s/extend" % small["id"], body), 422)
        self.assertProblem(alice.post("/v1/studies/%s/extend" % small["id"], {"seeds": 1000}), 422) if 3 * 1005 > 10000 else None

    def test_more_iterations_continue_every_chain(self):
        study = finish(alice, ask(alice, sweep(seeds=2)))
        ids = [r["jobs"] for r in study["result"]["rows"]]
        act(alice, study, "extend", {"iterations": 300})
        grown = finish(alice, study)
        self.assertEqual([r["jobs"] for r in grown["result"]["rows"]], ids)
        for row in grown["result"]["rows"]:
            self.assertEqual((row["succeeded"], row["measures"]["draws"]["value"]), (2, 1000.0))
        whole = alice.run({**alice.job(ids[0][0])["request"], "iterations": 500})
        self.assertEqual(alice.everything(ids[0][0]), alice.everything(whole["id"]))

    def test_delete_takes_the_jobs_along_and_the_trash_gives_them_back(self):
        user = daemon.user("tidy")
        study = finish(user, ask(user, sweep()))
        jobs = [j["id"] for j in jobs_of(user, study)]
        self.assertEqual(user.delete("/v1/studies/" + study["id"]).status, 204)
        self.assertEqual(user.get("/v1/studies/" + study["id"]).status, 404)
        self.assertEqual(user.read("/v1/studies")["items"], [])
        end = time.monotonic() + harness.PATIENCE
        while daemon.catalogue("SELECT count(*) FROM study WHERE id = ?", study["id"]) != [(0,)]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        for job in jobs:
            self.assertEqual(user.get("/v1/jobs/" + job).status, 404)
        self.assertEqual(user.post("/v1/jobs/%s/restore" % jobs[0]).status, 200)
        self.assertEqual([j["id"] for j in user.read("/v1/jobs")["items"]], jobs[:1])
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM study_job WHERE study = ?", study["id"]), [(0,)])

    def test_who_may_see_it(self):
        hidden = finish(alice, ask(alice, sweep()))
        shared = finish(alice, ask(alice, sweep(job=harness.toy(iterations=50, visibility="lab"))))
        path = "/v1/studies/%s"
        for who in (bob, vera):
            self.assertProblem(who.get(path % hidden["id"]), 404, "no such study")
            self.assertProblem(who.get(path % hidden["id"] + "/table"), 404)
            self.assertEqual(who.read(path % shared["id"])["result"]["settings"], 3)
            self.assertEqual(who.get(path % shared["id"] + "/table").status, 200)
            for what in ("pause", "resume", "cancel"):
                self.assertIn(who.post(path % shared["id"] + "/" + what).status, (403,))
        self.assertProblem(bob.delete(path % shared["id"]), 403, "owner")
        self.assertEqual(admin.get(path % hidden["id"]).status, 200)

    def test_a_viewer_gets_no_new_jobs(self):
        """Who is no user any more keeps what has run; as a user again, the sweep goes on."""
        own = Daemon(workers=1)
        boss, demoted = own.client(), own.user("demoted")
        study = ask(demoted, sweep(seeds=100))
        until(demoted, study, lambda s: s["progress"]["ended"] > 0, "the first jobs")
        boss.post("/v1/users", {"name": "demoted", "role": "viewer"})
        until(boss, study, lambda s: s["progress"]["under_way"] == 0, "the last jobs of a viewer")
        stopped = until(boss, study, lambda s: "may not submit jobs any more" in s["reason"], "the reason")
        self.assertEqual(stopped["state"], "running")
        self.assertLess(stopped["progress"]["ended"], stopped["progress"]["jobs"])
        boss.post("/v1/users", {"name": "demoted", "role": "user"})
        until(boss, study, lambda s: s["progress"]["ended"] > stopped["progress"]["ended"], "more jobs")
        boss.post("/v1/users", {"name": "demoted", "role": "viewer"})
        act(boss, study, "cancel")
        self.assertEqual(finish(boss, study)["state"], "cancelled")
        self.assertEqual(own.stop(), 0)

    def test_a_sweep_that_meets_a_quota_waits(self):
        own = Daemon(user_active_jobs=1)
        user = own.user("small")
        other = user.submit(harness.endless())
        study = ask(user, sweep())
        until(user, study, lambda s: "unfinished jobs" in s["reason"], "the quota in words")
        self.assertEqual(see(user, study)["progress"]["ended"], 0)
        user.act(other, "cancel")
        self.assertEqual(finish(user, study)["state"], "succeeded")
        self.assertEqual(own.stop(), 0)

    def test_the_same_key_is_the_same_sweep(self):
        key = {"Idempotency-Key": "sweep"}
        first, again = (alice.post("/v1/studies", sweep(), headers=key) for _ in range(2))
        self.assertEqual(first.json()["id"], again.json()["id"])


class References(Case):
    """What sweeps are measured against is read within the memory of their owner, and only while he may see it."""

    def reserved(self, reference, own, user):
        """The most memory that requests had at any time while a sweep was measured against it."""
        own.restart()
        user = own.client(user.token)
        study = finish(user, ask(user, sweep([{"/sampler/step_size": [0.2, 0.4]}], self.wide(), reference=reference)))
        self.assertIsNotNone(study["result"]["rows"][1]["measures"]["bias_mean_mean"]["value"])
        return budget(user, "requests", "most_used"), study

    @staticmethod
    def wide(**fields):
        return {"model": "logistic", "data": {"path": "wide.csv"}, "iterations": 50, "warmup": 50, "chains": 2, "seed": 1,
                "sampler": {"name": "sgbd", "step_size": 0.1}, **fields}

    def test_their_memory_is_reserved(self):
        """300 parameters with 2000 points each: 5 MB as a reference, many times that as a document while it is read."""
        own = Daemon()
        user = own.user("kim")
        own.file("wide.csv", harness.logistic_text(40, columns=300))
        job = user.run(self.wide(iterations=2000, sampler={"name": "sgbd", "step_size": 0.05}))["id"]
        text = {"parameters": [{"name": "theta[%d]" % (k + 1), "mean": 0, "sd": 1, "points": [i / 1e6 for i in range(2000)]}
                               for k in range(300)]}
        self.assertEqual(user.put("/v1/references/large", text).status, 204)
        document = own.catalogue("SELECT length(document) FROM reference")[0][0]
        most, study = self.reserved("large", own, user)
        self.assertGreater(most, 5 * document)
        most, _ = self.reserved(job, own, user)
        self.assertGreater(most, 300 * 2000 * 8 + 2000 * 2 * 200)
        self.assertEqual(budget(user, "requests", "used"), 0)
        own.restart(request_memory_mb=16)  # 8 MB for one user: not enough for the document, but for the sweep
        user = own.client(user.token)
        without = finish(user, ask(user, sweep([{"/sampler/step_size": [0.2, 0.4]}], self.wide(), reference="large")))
        for a, b in zip(without["result"]["rows"], study["result"]["rows"]):
            self.assertEqual(a["measures"]["ess_min"], b["measures"]["ess_min"])
            self.assertIsNone(a["measures"]["bias_mean_mean"]["value"])
        self.assertTrue(any("biases that are not known" in c for c in without["result"]["cautions"]), without["result"]["cautions"])
        self.assertEqual(own.stop(), 0)

    def test_a_job_that_has_become_private_is_no_reference(self):
        own = Daemon(user_active_jobs=1)
        boss, kim, lee = own.client(), own.user("kim"), own.user("lee")
        exact = kim.run(harness.toy(sampler="nuts", iterations=1000, model={"name": "skew_normal", "noise_sd": 0}, visibility="lab"))["id"]
        for who, visibility, known in ((lee, "lab", True), (lee, "private", False), (kim, "private", True), (boss, "private", True)):
            kim.patch("/v1/jobs/" + exact, {"visibility": "lab"})
            other = who.submit(harness.endless())  # all that the quota allows: the sweep waits
            study = ask(who, sweep([{"/sampler/step_size": [0.4]}], reference=exact))
            self.assertEqual(kim.patch("/v1/jobs/" + exact, {"visibility": visibility}).status, 200)
            who.end(other)
            ended = finish(who, study)
            for row in ended["result"]["rows"]:
                self.assertEqual(row["measures"]["bias_mean_mean"]["value"] is not None, known, (who.name, visibility))
                self.assertIsNotNone(row["measures"]["ess_min"]["value"])
            self.assertEqual(any("biases that are not known" in c for c in ended["result"]["cautions"]), not known)
        self.assertIn("is not shared any more", own.log())
        self.assertEqual(own.stop(), 0)

    def test_nor_is_it_for_the_jobs_that_end_later(self):
        exact = alice.run(harness.toy(sampler="nuts", iterations=1000, model={"name": "skew_normal", "noise_sd": 0}, visibility="lab"))["id"]
        long, early = 4000000, False
        while not early:
            self.assertEqual(alice.patch("/v1/jobs/" + exact, {"visibility": "lab"}).status, 200)
            study = ask(bob, sweep([{"/iterations": [200]}, {"/iterations": [long], "/thin": [1000]}], reference=exact))
            until(bob, study, lambda s: s["result"]["rows"][0]["state"] == "ended", "the first job")
            early = bob.post("/v1/studies/%s/pause" % study["id"]).status == 202
            self.assertEqual(alice.patch("/v1/jobs/" + exact, {"visibility": "private"}).status, 200)
            early = early and see(bob, study)["result"]["rows"][1]["succeeded"] == 0
            bob.post("/v1/studies/%s/resume" % study["id"])
            ended, long = finish(bob, study), 4 * long
        first, second = [r["measures"]["bias_mean_mean"]["value"] for r in ended["result"]["rows"]]
        self.assertIsNotNone(first)
        self.assertIsNone(second)


class Loading(Case):
    def test_pages_are_answered_while_a_sweep_is_being_checked(self):
        """Data that take long to load hold no turn, of which a user may have only one."""
        own, blocks = Daemon(data_memory_mb=2000, cache_mb=0, unpacked_mb=100000), 16
        user, turns = own.user("kim"), min(3, max(1, os.sysconf("SC_NPROCESSORS_ONLN") // 2))  # that one user has
        study = finish(user, ask(user, sweep()))
        while True:
            names, replies = ["rows%d-%d.csv.gz" % (blocks, k) for k in range(turns)], []
            for name in names:
                own.file(name, gzip.compress(b"x,y\n") + gzip.compress(b"1,0\n0,1\n" * (1 << 17)) * blocks)
            job = {"model": "logistic", "data": {"path": names[0]}, "iterations": 20, "chains": 1, "sampler": {"name": "sgbd", "step_size": 0.1}}
            threads = [threading.Thread(target=lambda name: replies.append(user.post(
                "/v1/studies?validate_only=true", sweep([{"/chains": [1, 2]}], {**job, "data": {"path": name}}))), args=(name,)) for name in names]
            for thread in threads:
                thread.start()
            while budget(user, "data", "used") == 0 and not replies:
                time.sleep(0.005)
            page = user.get("/v1/studies/" + study["id"])
            early = not replies
            for thread in threads:
                thread.join()
            self.assertEqual([r.status for r in replies], [200] * turns, replies)
            self.assertEqual(page.status, 200, page)
            if early:
                break
            self.assertLess(blocks, 100, "pages wait for the data of a sweep")
            blocks *= 3
        self.assertEqual(own.stop(), 0)


class Kill(Case):
    def test_a_killed_sweep_goes_on_and_says_the_same(self):
        """Killed at random moments: every position is run once, and the numbers are those of a run in peace."""
        grid = [{"/sampler/step_size": {"from": 0.1, "to": 1, "count": 12}}]
        request = sweep(grid, harness.toy(iterations=3000, chains=2, seed=11), seeds=3, reference="exact")
        peace = finish(alice, ask(alice, request))
        own, rng = Daemon(), random.Random(3)
        user = own.user("kim")
        study = ask(user, request)
        kills = 0
        for _ in range(12):
            time.sleep(rng.uniform(0.05, 0.4))
            over = own.catalogue("SELECT state FROM study")[0][0] in OVER
            own.kill()
            kills += not over
            if over:
                break
            self.assertEqual(own.catalogue("SELECT count(*) - count(DISTINCT position) FROM study_job"), [(0,)])
            self.assertEqual(own.catalogue("SELECT count(*) FROM job WHERE id NOT IN (SELECT job FROM study_job)"), [(0,)])
            own.start()
        if not own.alive():
            own.start()
        self.assertGreater(kills, 2, "too fast for this to mean anything")
        self.assertEqual(numbers(finish(user, study)), numbers(peace))
        self.assertEqual(own.catalogue("SELECT count(*), count(DISTINCT job), max(position) FROM study_job"), [(37, 37, 36)])
        self.assertEqual(own.catalogue("SELECT ended, submitted FROM study"), [(37, 37)])
        self.assertEqual(own.stop(), 0)

    def test_an_extension_is_made_once(self):
        own, rng = Daemon(), random.Random(5)
        user = own.user("kim")
        study = finish(user, ask(user, sweep([{"/sampler/step_size": {"from": 0.1, "to": 1, "count": 8}}])))
        act(user, study, "extend", {"iterations": 5000})
        for _ in range(6):
            time.sleep(rng.uniform(0.02, 0.2))
            own.restart() if rng.random() < 0.3 else (own.kill(), own.start())
        grown = finish(user, study)
        self.assertEqual({r["measures"]["draws"]["value"] for r in grown["result"]["rows"]}, {2 * 5200.0})
        self.assertEqual(own.stop(), 0)

    def test_a_deletion_goes_on(self):
        own = Daemon()
        user = own.user("kim")
        study = finish(user, ask(user, sweep([{"/sampler/step_size": {"from": 0.1, "to": 1, "count": 12}}])))
        self.assertEqual(user.delete("/v1/studies/" + study["id"]).status, 204)
        own.kill()
        own.start()
        end = time.monotonic() + harness.PATIENCE
        while own.catalogue("SELECT count(*) FROM study") != [(0,)]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertEqual(own.catalogue("SELECT count(*) FROM job WHERE deleted_ms = 0"), [(0,)])
        self.assertEqual(own.stop(), 0)


class Many(Case):
    """Ten thousand jobs of a sweep do not slow what others wait for: measured in processor time, with and
    without them."""

    @staticmethod
    def cpu(own):
        with open("/proc/%d/stat" % own.process.pid) as file:
            words = file.read().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def costs(self, own):
        """Processor seconds of a start, and of lists, submissions and the queue."""
        own.restart()
        start = self.cpu(own)
        user = own.client(own.token)
        for _ in range(400):
            user.read("/v1/jobs")
            user.read("/v1/jobs", query={"state": "succeeded", "owner": "all"})
            user.read("/v1/jobs", query={"state": "active"})
            user.read("/v1/queue")
            user.read("/v1/studies")
        return start, self.cpu(own) - start

    def multiply(self, own, study, count):
        """Copies of an ended job and its outcome, as members of its study."""
        db = sqlite3.connect(os.path.join(own.state, "barkerd.db"))
        columns = [c[1] for c in db.execute("PRAGMA table_info(job)") if c[1] not in ("id", "idempotency_key", "body_hash")]
        names = ", ".join('"%s"' % c for c in columns)
        db.execute("WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < ?) INSERT INTO job (id, %s) "
                   "SELECT printf('07%%014d', k), %s FROM n, (SELECT * FROM job WHERE study = ? LIMIT 1)" % (names, names), (count, study))
        db.execute("WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < ?) INSERT INTO study_job "
                   "(study, position, job, setting, outcome, goal) SELECT study, k + 100, printf('07%014d', k), setting, outcome, goal "
                   "FROM n, (SELECT * FROM study_job WHERE study = ? LIMIT 1)", (count, study))
        db.execute("UPDATE study SET jobs = jobs + ?, ended = ended + ?, submitted = submitted + ?", (count, count, count))
        db.commit()
        db.close()

    def test_ten_thousand_jobs_cost_the_others_nothing(self):
        own = Daemon()
        user = own.user("mass")
        own.token = user.token
        for i in range(20):
            user.run(harness.toy(iterations=20, seed=i))
        study = finish(user, ask(user, sweep()))
        alone = self.costs(own)
        self.assertEqual(own.stop(), 0)
        self.multiply(own, study["id"], 10000)
        own.start()
        many = self.costs(own)
        shown = see(own.client(own.token), study)
        self.assertEqual(shown["progress"]["jobs"], 10003)
        self.assertEqual(len(own.client(own.token).read("/v1/jobs")["items"]), 20)
        self.assertLess(many[1], 2 * alone[1] + 0.1, "requests: %s without, %s with" % (alone, many))
        self.assertLess(many[0], 2 * alone[0] + 0.5, "start: %s without, %s with" % (alone, many))
        self.assertEqual(own.stop(), 0)

    def test_only_a_few_jobs_are_under_way(self):
        own = Daemon()
        user = own.user("mass")
        study = ask(user, sweep([{"/sampler/step_size": {"from": 0.1, "to": 1, "count": 5000}}], harness.endless(), seeds=2))
        until(user, study, lambda s: s["progress"]["under_way"] == 4, "jobs under way")
        self.assertEqual(own.catalogue("SELECT count(*) FROM job"), [(4,)])
        queue = user.read("/v1/queue")
        self.assertLessEqual(len(queue["running"]) + len(queue["waiting"]), 4)
        act(user, study, "cancel")
        finish(user, study)
        self.assertEqual(own.stop(), 0)
