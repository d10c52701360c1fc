"""Jobs that leave settings to the daemon: what is left open, what the plan makes of it, and that it
is made once and kept, whatever happens in between."""

import contextlib
import glob
import json
import os
import re
import sqlite3
import time

import harness
from harness import Case, Daemon, Table, ica_text, logistic_text, toy

CHOSEN = ("iterations", "warmup", "thin", "batch_size")


def setUpModule():
    global daemon, alice
    daemon = Daemon()
    alice = daemon.client()
    daemon.file("rows.csv", logistic_text(4000))
    daemon.file("few.csv", logistic_text(40))
    daemon.file("ica.csv", ica_text(300))


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def job(**fields):
    """Nothing but model, data and sampler; cheap to satisfy."""
    return {"model": "logistic", "data": {"path": "rows.csv"}, "sampler": {"name": "sgbd"}, "seed": 5,
            "target": {"ess": 500, "seconds": 2}, **fields}


def given(done):
    """The job that was made of a planned one, to be submitted again."""
    return {key: value for key, value in done["request"].items() if key != "name"}


def wait_for(what, patience=harness.PATIENCE):
    end = time.monotonic() + patience
    while not what():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.005)


class Defaults(Case):
    def resolved(self, **fields):
        reply = alice.post("/v1/jobs?validate_only=true", job(**fields))
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def test_everything_is_open_where_the_step_size_is(self):
        answer = self.resolved()["job"]
        for name in CHOSEN:
            self.assertEqual(answer[name], "auto", name)
        self.assertEqual(answer["gradient"], {"estimator": "auto", "centre": "mode", "one_in": "auto"})
        self.assertEqual(answer["precondition"], "auto")
        self.assertEqual(answer["init"], {"kind": "auto"})
        self.assertNotIn("variant", answer["sampler"])
        self.assertEqual(answer["chains"], 16)

    def test_nothing_is_open_where_it_is_given(self):
        answer = self.resolved(sampler={"name": "sgbd", "step_size": 0.05})["job"]
        self.assertEqual([answer[name] for name in CHOSEN], [10000, 5000, 1, 100])
        self.assertEqual(answer["gradient"]["estimator"], "plain")
        self.assertEqual((answer["precondition"], answer["chains"]), ("none", 4))
        self.assertEqual(answer["init"], {"kind": "zero"})

    def test_chains_of_large_or_other_models_are_four_and_of_very_large_ones_two(self):
        daemon.file("many.csv", "user,item,rating\n" + "".join("%d,%d,%d\n" % (i, i, 1 + i % 5) for i in range(1, 151)))
        self.assertEqual(self.resolved(model="matrix_factorization", data={"path": "many.csv"})["job"]["chains"], 2)
        daemon.file("wide.csv", logistic_text(50, columns=9))
        self.assertEqual(self.resolved(data={"path": "wide.csv"})["job"]["chains"], 4)
        self.assertEqual(self.resolved(model="ica", data={"path": "ica.csv"})["job"]["chains"], 4)
        reply = alice.post("/v1/jobs?validate_only=true", {"model": "skew_normal", "sampler": "sgbd"})
        self.assertEqual(reply.json()["job"]["chains"], 16)

    def test_the_estimate_of_an_open_length_is_a_bound(self):
        estimate = self.resolved()["estimate"]
        self.assertIsNone(estimate["seconds"])
        self.assertIsNone(estimate["draws"])
        self.assertClose(estimate["seconds_at_most"], 2)
        self.assertGreater(estimate["disk_bytes"], 64 << 20)
        self.assertGreater(estimate["seconds_per_iteration"], 0)
        self.assertIsNone(self.resolved(target={"seconds": None})["estimate"]["seconds_at_most"])

    def test_mistakes_say_where(self):
        for fields, pointer, words in (
                ({"gradient": {"estimator": "magic"}}, "/gradient/estimator", "control_variate"),
                ({"precondition": "sparse"}, "/precondition", "diagonal"),
                ({"target": {"sd_error": -1}}, "/target/sd_error", "-1"),
                ({"iterations": "long"}, "/iterations", "auto"),
                ({"sampler": {"name": "sgbd", "step_size": {"kind": "auto", "fraction": 0.05}}, "precondition": "dense"},
                 "/precondition", "original coordinates"),
                ({"sampler": "mala", "gradient": {"estimator": "control_variate"}},
                 "/gradient/estimator", "exact"),
                ({"warmup": 3}, "/warmup", "at least 100")):
            with self.subTest(fields):
                self.assertProblem(alice.post("/v1/jobs", job(**fields)), 422, words, pointer=pointer)


class Planned(Case):
    def test_the_plan_is_told_and_the_request_has_all_numbers(self):
        job_id = alice.submit(job())
        first = alice.job(job_id)
        self.assertIn(first["plan"]["state"], ("pending", "ready"))
        done = alice.wait(job_id)
        plan = done["plan"]
        self.assertEqual(plan["state"], "ready")
        self.assertEqual(plan["auto"], ["step_size", "variant", "gradient.estimator", "precondition",
                                        "batch_size", "gradient.one_in", "iterations", "warmup", "thin", "init"])
        for name in CHOSEN:
            self.assertEqual(done["request"][name], plan["chosen"][name])
            self.assertNotEqual(done["request"][name], "auto")
        self.assertTrue(plan["centre"]["converged"])
        self.assertIn("energy_half", plan["checks"])
        self.assertIs(plan["target_met"], True)
        log = [line["text"] for line in alice.read("/v1/jobs/%s/log" % job_id)["items"]]
        for line in plan["why"]:
            self.assertIn("plan: " + line, log)
        total = done["request"]["warmup"] + done["request"]["iterations"]
        self.assertEqual(done["progress"]["iteration"], 16 * total)

    def test_diagnostics_are_in_the_coordinates_of_the_walk(self):
        done = alice.run(job(precondition="dense", gradient={"estimator": "control_variate"}))
        answer = alice.read("/v1/jobs/%s/diagnostics" % done["id"])
        self.assertEqual([p["coordinate"] for p in answer["parameters"]],
                         ["whitened[%d]" % (j + 1) for j in range(len(answer["parameters"]))])
        if answer["noise"]["worst"] is not None:
            self.assertIn("whitened[", answer["noise"]["worst"])
        energy = answer["checks"]["energy"]
        self.assertClose(energy["mode_log_density"], done["plan"]["centre"]["log_density"], 1e-6)
        self.assertIn("whitened", energy)
        checks = {e["check"] for e in answer["verdict"]["bias"]["evidence"]}
        self.assertIn("energy", checks)
        self.assertIn("met", answer["verdict"]["target"])

    def test_a_job_with_the_numbers_of_a_plan_has_the_same_draws(self):
        for fields in ({}, {"gradient": {"centre": "pilot"}}, {"data": {"path": "few.csv"}, "precondition": "none"}):
            with self.subTest(fields):
                done = alice.run(job(chains=2, **fields))
                again = alice.run(given(done))
                self.assertEqual(again["request"], {**done["request"], "name": again["request"]["name"]})
                self.assertEqual(alice.everything(done["id"]), alice.everything(again["id"]))

    def test_a_request_says_which_centre_it_became(self):
        for rows, centre, why in (("rows.csv", "pilot", "centre: moved to the mean of a pilot run"),
                                  ("few.csv", "mode", "centre: no pilot run, as nothing depends on a centre")):
            with self.subTest(rows):
                done = alice.run(job(data={"path": rows}, precondition="diagonal", chains=2, gradient={"centre": "pilot"}))
                self.assertEqual(done["request"]["gradient"]["centre"], centre)
                self.assertTrue([line for line in done["plan"]["why"] if line.startswith(why)], done["plan"]["why"])

    def test_a_start_that_is_impossible_is_called_that(self):
        done = alice.wait(alice.submit(job(model="ica", data={"path": "ica.csv"}, sampler={"name": "sgbd", "step_size": 0.01},
                                           init={"kind": "values", "values": [0] * 4})), "failed")
        self.assertIn("the gradient at the start", done["reason"])

    def test_an_extension_equals_a_long_job(self):
        done = alice.run(job(chains=2))
        spec = given(done)
        reply = alice.post("/v1/jobs/%s/extend" % done["id"], {"iterations": 500})
        self.assertEqual(reply.status, 202, reply)
        alice.wait(done["id"])
        longer = alice.run({**spec, "iterations": spec["iterations"] + 500})
        self.assertEqual(alice.everything(done["id"]), alice.everything(longer["id"]))

    def test_single_settings_may_be_open(self):
        step = {"name": "sgbd", "step_size": 0.2}
        for fields in ({"iterations": "auto"}, {"precondition": "dense"}, {"precondition": "diagonal"},
                       {"gradient": {"estimator": "control_variate"}, "batch_size": 50}):
            with self.subTest(fields):
                done = alice.run(job(sampler=step, chains=2, **{"iterations": 300, **fields}))
                self.assertEqual(done["request"]["sampler"]["step_size"], 0.2)
                self.assertEqual(done["plan"]["state"], "ready")
                self.assertTrue(Table(alice.draws(done["id"])).rows)

    def test_an_exact_sampler_may_be_preconditioned(self):
        done = alice.run(job(sampler="barker_mh", precondition="dense", iterations=200, chains=2))
        self.assertEqual(done["request"]["precondition"], "dense")

    def test_an_exact_sampler_is_planned_by_its_name(self):
        for sampler in ("mala", "barker_mh"):
            with self.subTest(sampler):
                done = alice.run(job(sampler=sampler, data={"path": "few.csv"}))
                self.assertEqual((done["request"]["precondition"], done["request"]["batch_size"], done["request"]["chains"]),
                                 ("dense", "full", 4))
                self.assertEqual(done["plan"]["auto"], ["step_size", "precondition", "iterations", "warmup", "thin", "init"])
                self.assertIs(done["plan"]["target_met"], True)
                self.assertLess(done["summary"]["max_rhat"], 1.05)
                self.assertGreater(done["summary"]["min_ess_bulk"], 400)
                again, settled = alice.run(job(sampler=sampler, data={"path": "few.csv"})), alice.run(given(done))
                self.assertEqual(alice.everything(done["id"]), alice.everything(again["id"]))
                self.assertEqual(alice.everything(done["id"]), alice.everything(settled["id"]))

    def test_a_job_that_needs_no_plan_has_none(self):
        self.assertIsNone(alice.run(toy())["plan"])

    def test_draws_keep_within_what_the_owner_may_store(self):
        small = Daemon(user_stored_mb=4)
        small.file("rows.csv", logistic_text(400))
        client = small.client()
        done = client.run(job(iterations=2000000, thin="auto", chains=2))
        self.assertLess(done["stored_bytes"], 4 << 20)
        self.assertIn("is stored: there is room for at most 1 MB of draws", " ".join(done["plan"]["why"]))
        self.assertEqual(small.stop(), 0)

    def test_little_room_is_enough(self):
        # In short slices: what passes through the write-ahead log is many times what the owner may store.
        small = Daemon(user_stored_mb=2, slice_ms=10)
        small.file("rows.csv", logistic_text(400))
        client = small.client()
        done = client.wait(client.submit(job(target={"ess": 20000, "seconds": 2})), "succeeded", "paused")
        self.assertEqual(done["state"], "succeeded", done["reason"])
        self.assertLess(done["stored_bytes"], 2 << 20)
        self.assertEqual(client.read("/v1/me")["usage"]["stored_bytes"], done["stored_bytes"])
        # What is left is too little for one more, which is said before it begins.
        while (reply := client.post("/v1/jobs", job(target={"ess": 500, "seconds": 1}))).status == 201:
            client.wait(reply.json()["id"])
        self.assertProblem(reply, 422, "MB")
        self.assertEqual(small.stop(), 0)


def huge(folder_daemon, rows=30000):
    """A job whose plan takes a while: many rows, and every pass over them counts."""
    folder_daemon.file("huge%d.csv" % rows, logistic_text(rows, columns=12))
    return job(data={"path": "huge%d.csv" % rows}, chains=2, target={"ess": 2000, "seconds": 20})


class Interrupted(Case):
    def setUp(self):
        self.daemon = Daemon()
        self.client = self.daemon.client()
        self.spec = huge(self.daemon)

    def tearDown(self):
        self.daemon.kill()

    def planning(self, job_id):
        view = self.client.job(job_id)
        return view["phase"] == "planning"

    def caught_planning(self, act):
        """Acts on a job while it is being planned, and returns its id; where the plan was ready before that had an effect, on one
        with more rows. `act` tells whether it was in time."""
        for rows in (30000, 60000, 120000, 240000):
            job_id = self.client.submit(huge(self.daemon, rows))
            wait_for(lambda: self.client.job(job_id)["state"] != "queued")
            if self.planning(job_id) and act(job_id):
                return job_id
        self.fail("the plan is always made before anything else happens to the job")

    def acted(self, job_id, what, state):
        done = self.client.post("/v1/jobs/%s/%s" % (job_id, what)).status == 202
        view = self.client.wait(job_id, state, "succeeded")
        return done and view["plan"]["state"] == "pending"

    def stored_plan(self, job_id):
        """The document in the job's file; None: there is none yet."""
        path = os.path.join(self.daemon.state, "draws", job_id + ".db")
        try:
            with contextlib.closing(sqlite3.connect("file:%s?mode=ro" % path, uri=True)) as base:
                found = base.execute("SELECT value FROM meta WHERE key = 'plan_document'").fetchone()
        except sqlite3.OperationalError:
            return None  # no file, or no tables
        return found and json.loads(found[0])

    def test_a_plan_survives_kill_9_and_the_draws_are_the_same(self):
        quiet = self.client.run(self.spec)
        job_id = self.client.submit(self.spec)
        wait_for(lambda: self.client.job(job_id)["progress"]["iteration"] > 0)
        plan = self.client.job(job_id)["plan"]
        self.daemon.kill()
        self.daemon.start()
        done = self.client.wait(job_id)
        self.assertEqual(done["plan"], plan)
        self.assertEqual(done["plan"], quiet["plan"])
        self.assertEqual(self.client.everything(job_id), self.client.everything(quiet["id"]))
        again = self.client.run(given(done))
        self.assertEqual(self.client.everything(job_id), self.client.everything(again["id"]))

    def test_a_plan_that_was_cut_short_is_made_again(self):
        job_id = self.client.submit(self.spec)
        wait_for(lambda: self.client.job(job_id)["state"] != "queued")
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.client.wait(job_id)["plan"]["state"], "ready")

    def test_an_orderly_stop_while_planning_is_prompt_and_loses_nothing(self):
        job_id = self.client.submit(self.spec)
        wait_for(lambda: self.client.job(job_id)["state"] != "queued")
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.start()
        self.assertEqual(self.client.wait(job_id)["plan"]["state"], "ready")

    def test_a_kill_between_the_file_and_the_catalogue_loses_no_plan(self):
        # The lock of the catalogue is the test's: the plan gets into the file, and no further.
        catalogue = sqlite3.connect(os.path.join(self.daemon.state, "barkerd.db"), isolation_level=None)

        def kill_between(job_id):
            catalogue.execute("BEGIN IMMEDIATE")
            in_time = self.stored_plan(job_id) is None
            if in_time:
                wait_for(lambda: self.stored_plan(job_id))
                self.daemon.kill()
            catalogue.execute("ROLLBACK")
            return in_time

        job_id = self.caught_planning(kill_between)
        told = catalogue.execute("SELECT plan FROM job WHERE id = ?", (job_id,)).fetchone()
        catalogue.close()
        self.assertEqual(json.loads(told[0])["state"], "pending")
        plan = self.stored_plan(job_id)
        self.daemon.start()
        done = self.client.wait(job_id)
        self.assertEqual(done["plan"], plan)
        self.assertEqual(done["request"]["iterations"], plan["chosen"]["iterations"])
        log = [line["text"] for line in self.client.read("/v1/jobs/%s/log" % job_id)["items"]]
        for line in plan["why"]:
            self.assertEqual(log.count("plan: " + line), 1)
        again = self.client.run(given(done))
        self.assertEqual(self.client.everything(job_id), self.client.everything(again["id"]))

    def test_phases_follow_the_work_and_are_null_unless_the_job_runs(self):
        with self.client.events() as stream:
            job_id = self.client.submit(self.spec)
            self.assertIn(self.client.job(job_id)["phase"], (None, "planning"))
            events = stream.until(lambda e: e["data"].get("id") == job_id and e["data"]["state"] == "succeeded")
        seen = []
        for data in [e["data"] for e in events if e["data"].get("id") == job_id]:
            self.assertEqual(data["phase"] is None, data["state"] != "running", data)
            if data["phase"] is not None and data["phase"] not in seen:
                seen.append(data["phase"])
        self.assertEqual(seen, ["planning", "sampling", "checking"])
        self.assertIsNone(self.client.job(job_id)["phase"])
        self.assertEqual({j["phase"] for j in self.client.read("/v1/jobs")["items"]}, {None})

    def test_pause_and_resume_while_planning(self):
        job_id = self.caught_planning(lambda j: self.acted(j, "pause", "paused"))
        view = self.client.until(job_id, lambda j: {c["state"] for c in j["progress"]["chains"]} == {"paused"})
        self.assertEqual((view["plan"]["state"], view["progress"]["iteration"]), ("pending", 0))
        self.assertIsNone(self.stored_plan(job_id))
        self.client.act(job_id, "resume")
        self.assertEqual(self.client.wait(job_id)["plan"]["state"], "ready")

    def test_cancel_while_planning(self):
        job_id = self.caught_planning(lambda j: self.acted(j, "cancel", "cancelled"))
        view = self.client.job(job_id)
        self.assertEqual((view["plan"]["state"], view["progress"]["iteration"]), ("pending", 0))
        self.assertIsNone(self.stored_plan(job_id))
        self.assertEqual(view["reason"], "cancelled by its owner before it began")
        self.assertProblem(self.client.post("/v1/jobs/%s/extend" % job_id, {"iterations": 10}), 409, "submit it again")
        self.assertProblem(self.client.get("/v1/jobs/%s/summary" % job_id), 409, "the job has no draws")

    def test_an_extension_waits_for_the_plan(self):
        job_id = self.client.submit({**self.spec, "priority": -5})
        if self.planning(job_id) or self.client.job(job_id)["state"] == "queued":
            reply = self.client.post("/v1/jobs/%s/extend" % job_id, {"iterations": 10})
            self.assertIn(reply.status, (202, 409), reply)
        self.client.wait(job_id)


class Repeated(Case):
    """The same request and seed give the same draws, although nobody named a number."""

    def test_an_unplanned_request_gives_the_same_plan_and_the_same_draws(self):
        requests = {"rows": job(target={"seconds": 20}),
                    "few rows": job(data={"path": "few.csv"}, target={"seconds": 20}),
                    "no data": {"model": "skew_normal", "sampler": "sgbd", "seed": 5, "target": {"ess": 500}},
                    "short of time": job(target={"ess": 1e8, "seconds": 0.2})}
        for name, request in requests.items():
            with self.subTest(name):
                first, second = [alice.run(request) for _ in range(2)]
                if harness.sanitized() and name == "short of time":  # the clock may end it
                    self.assertEqual(first["plan"], second["plan"])
                    continue
                self.assertEqual(first["stop_cause"], "completed")
                self.assertEqual(first["plan"], second["plan"])
                draws = [alice.draws(done["id"], format="npy", warmup="true") for done in (first, second)]
                self.assertEqual(draws[0], draws[1])

    def test_neither_workers_nor_load_change_a_plan(self):
        request = job(data={"path": "few.csv"}, target={"seconds": 20})
        alone = alice.run(request)
        many = Daemon(workers=8)
        many.file("few.csv", logistic_text(40))
        client = many.client()
        busy = [client.submit({**request, "seed": seed}) for seed in range(6)] + [client.submit(request)]
        done = [client.wait(job_id) for job_id in busy][-1]
        self.assertEqual(done["plan"], alone["plan"])
        self.assertEqual(client.everything(done["id"]), alice.everything(alone["id"]))
        self.assertEqual(many.stop(), 0)

    def test_a_slow_machine_ends_early_and_says_so_with_a_prefix_of_the_draws(self):
        if "emulated" not in alice.read("/v1/info")["isa_available"]:
            self.skipTest("there are no emulated kernels to be slow with")
        request = job(chains=2, thin=5000, check_draws=0, target={"ess": 1e9, "seconds": 2})
        whole = alice.run(request)
        slow = Daemon(env={"BARKER_ISA": "emulated"}, slice_ms=50)
        slow.file("rows.csv", logistic_text(4000))
        client = slow.client()
        done = client.run(request)
        self.assertEqual((done["state"], done["stop_cause"]), ("succeeded", "time_limit"))
        self.assertIn("the limit of 4.5 s of processor time is reached (target.seconds is 2)", done["reason"])
        self.assertEqual(done["plan"], whole["plan"])
        everything, some = Table(alice.everything(whole["id"])), Table(client.everything(done["id"]))
        for chain in (1, 2):
            for name in some.names:
                prefix = some.of_chain(name, chain)
                self.assertTrue(0 < len(prefix) < len(everything.of_chain(name, chain)))
                self.assertEqual(prefix, everything.of_chain(name, chain)[:len(prefix)])
        longer = client.post("/v1/jobs/%s/extend" % done["id"], {"iterations": 100})
        self.assertEqual(longer.status, 202, longer)
        self.assertEqual(client.wait(done["id"])["stop_cause"], "completed")
        self.assertEqual(slow.stop(), 0)


class Sampler(Case):
    """Jobs that name no sampler."""

    def nameless(self, **fields):
        return {key: value for key, value in job(**fields).items() if key != "sampler"}

    def test_few_rows_get_an_exact_one_which_the_job_then_names(self):
        spec = self.nameless(data={"path": "few.csv"}, target={"seconds": 10})
        asked = alice.post("/v1/jobs?validate_only=true", spec).json()["job"]
        self.assertEqual((asked["sampler"], asked["name"], asked["iterations"]), ({"name": "auto"}, "logistic", "auto"))
        job_id = alice.submit(spec)
        done = alice.wait(job_id)
        chosen = done["request"]["sampler"]["name"]
        self.assertIn(chosen, ("mala", "nuts"))
        self.assertEqual((done["plan"]["auto"][0], done["plan"]["chosen"]["sampler"]), ("sampler", chosen))
        self.assertIs(done["plan"]["target_met"], True)
        why = done["plan"]["why"][-1]
        self.assertRegex(why, r"^sampler: %s, exact: \S+ s expected for 10000 effective draws \(\S+ passes over 40 rows each\); "
                              r"sgbd would take \S+ s and be approximate$" % chosen)
        self.assertIn(job_id, [j["id"] for j in alice.read("/v1/jobs", query={"sampler": chosen})["items"]])
        self.assertNotIn(job_id, [j["id"] for j in alice.read("/v1/jobs", query={"sampler": "auto"})["items"]])
        for again in (alice.run(spec), alice.run({**spec, "sampler": {"name": "auto"}}), alice.run(given(done))):
            self.assertEqual(again["request"]["sampler"], done["request"]["sampler"])
            self.assertEqual(alice.everything(again["id"]), alice.everything(job_id))

    def test_too_little_time_for_exact_ones_means_an_approximate_one(self):
        done = alice.run(self.nameless(target={"seconds": 0.2}))
        self.assertEqual(done["request"]["sampler"]["name"], "sgbd")
        self.assertRegex(done["plan"]["why"][-1], "^sampler: sgbd, approximate: .* exact")
        again = alice.run(self.nameless(target={"seconds": 0.2}))
        self.assertEqual(again["plan"], done["plan"])
        if not harness.sanitized():  # there the clock may end it
            self.assertEqual(alice.everything(again["id"]), alice.everything(done["id"]))

    def test_what_only_approximate_ones_have_decides(self):
        done = alice.run(self.nameless(data={"path": "few.csv"}, batch_size=20))
        self.assertEqual((done["request"]["sampler"]["name"], done["request"]["batch_size"]), ("sgbd", 20))

    def test_a_length_of_ones_own_may_be_given(self):
        done = alice.run(self.nameless(data={"path": "few.csv"}, iterations=300, warmup=200, thin=1, chains=2))
        self.assertIn(done["request"]["sampler"]["name"], ("mala", "nuts"))
        self.assertEqual(len(Table(alice.draws(done["id"])).rows), 600)

    def test_a_model_without_data(self):
        done = alice.run({"model": "skew_normal", "seed": 3})
        self.assertIn(done["request"]["sampler"]["name"], ("mala", "nuts"))

    def test_mistakes(self):
        for sampler, pointer, words in (({"name": "auto", "step_size": 0.1}, "/sampler/step_size", "name the sampler"),
                                        ({"name": "auto", "variant": "vanilla"}, "/sampler/variant", "name the sampler"),
                                        ({}, "/sampler/name", "is required"), ("Auto", "/sampler", "auto")):
            with self.subTest(sampler):
                self.assertProblem(alice.post("/v1/jobs", job(sampler=sampler)), 422, words, pointer=pointer)
        ladder = {"kind": "ladder", "job": {"model": "skew_normal", "iterations": 1000}}
        self.assertProblem(alice.post("/v1/studies", ladder), 422, "name a stochastic-gradient sampler", pointer="/job/sampler")

    def test_it_survives_kill_9_between_plan_and_draws(self):
        own = Daemon()
        own.file("rows.csv", logistic_text(4000))
        client = own.client()
        spec = self.nameless(target={"seconds": 60}, chains=2)
        job_id = client.submit(spec)
        wait_for(lambda: client.job(job_id)["progress"]["iteration"] > 0)
        named = client.job(job_id)["request"]["sampler"]
        own.kill()
        own.start()
        done = client.wait(job_id)
        self.assertEqual(done["request"]["sampler"], named)
        self.assertEqual(client.everything(job_id), client.everything(client.run(spec)["id"]))
        own.kill()


class Before(Case):
    def test_a_catalogue_from_before_plans_keeps_its_jobs_as_they_were(self):
        old = Daemon()
        client = old.client()
        done = client.run(toy(sampler={"name": "sgbd", "variant": "vanilla",
                                       "step_size": {"kind": "auto", "fraction": 0.2}}))
        self.assertEqual(old.stop(), 0)
        base = sqlite3.connect(os.path.join(old.state, "barkerd.db"))
        request = json.loads(base.execute("SELECT request FROM job").fetchone()[0])
        for name in ("gradient", "precondition", "target"):
            del request[name]
        request["sampler"]["step_size"] = "auto"
        base.execute("UPDATE job SET request = ?", (json.dumps(request),))
        for path in sorted(glob.glob(os.path.join(harness.ROOT, "schema/migrations/*.sql")))[3:]:
            with open(path) as file:
                text = file.read()
            for table in re.findall(r"CREATE TABLE (\w+)", text):
                base.execute("DROP TABLE " + table)
            for index in re.findall(r"CREATE INDEX (\w+)", text):
                base.execute("DROP INDEX " + index)
            for table, column in re.findall(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", text):
                base.execute("ALTER TABLE %s DROP COLUMN %s" % (table, column))
        base.execute("PRAGMA user_version = 3")
        base.commit()
        base.close()
        old.start()
        read = client.job(done["id"])
        self.assertIsNone(read["plan"])
        self.assertEqual((read["request"]["gradient"]["estimator"], read["request"]["precondition"]),
                         ("plain", "none"))
        self.assertEqual(client.post("/v1/jobs/%s/extend" % done["id"], {"iterations": 50}).status, 202)
        self.assertEqual(client.wait(done["id"])["progress"]["iteration"], 2 * 250)
        self.assertEqual(old.stop(), 0)
