"""Jobs that leave settings to the daemon: what is left open, what the plan makes of it, and that it
is made once and kept, whatever happens in between."""

import os
import time

import harness
from harness import Case, Daemon, Table, ica_text, logistic_text, toy

CHOSEN = ("iterations", "warmup", "thin", "batch_size")


def setUpModule():
    global daemon, alice
    daemon = Daemon()
    alice = daemon.client()
    daemon.file("rows.csv", logistic_text(4000))
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
        self.assertEqual(answer["gradient"], {"estimator": "auto", "centre": "mode"})
        self.assertEqual(answer["precondition"], "auto")
        self.assertEqual(answer["init"], {"kind": "auto"})
        self.assertEqual(answer["sampler"]["variant"], "corrected")
        self.assertEqual(answer["chains"], 16)

    def test_nothing_is_open_where_it_is_given(self):
        answer = self.resolved(sampler={"name": "sgbd", "step_size": 0.05})["job"]
        self.assertEqual([answer[name] for name in CHOSEN], [10000, 5000, 1, 100])
        self.assertEqual(answer["gradient"]["estimator"], "plain")
        self.assertEqual((answer["precondition"], answer["chains"]), ("none", 4))
        self.assertEqual(answer["init"], {"kind": "zero"})

    def test_chains_of_large_or_other_models_are_four(self):
        daemon.file("wide.csv", logistic_text(50, columns=9))
        self.assertEqual(self.resolved(data={"path": "wide.csv"})["job"]["chains"], 4)
        self.assertEqual(self.resolved(model="ica", data={"path": "ica.csv"})["job"]["chains"], 4)
        reply = alice.post("/v1/jobs?validate_only=true", {"model": "skew_normal", "sampler": "sgbd"})
        self.assertEqual(reply.json()["job"]["chains"], 16)

    def test_the_estimate_of_an_open_length_is_a_bound(self):
        estimate = self.resolved()["estimate"]
        self.assertIsNone(estimate["seconds"])
        self.assertIsNone(estimate["draws"])
        self.assertClose(estimate["seconds_at_most"], 16 * 2 / 2)
        self.assertGreater(estimate["disk_bytes"], 64 << 20)
        self.assertGreater(estimate["seconds_per_iteration"], 0)
        self.assertIsNone(self.resolved(target={"seconds": None})["estimate"]["seconds_at_most"])

    def test_mistakes_say_where(self):
        for fields, pointer, words in (
                ({"gradient": {"estimator": "magic"}}, "/gradient/estimator", "control_variate"),
                ({"precondition": "sparse"}, "/precondition", "diagonal"),
                ({"target": {"sd_error": -1}}, "/target/sd_error", "-1"),
                ({"iterations": "long"}, "/iterations", "auto"),
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
        self.assertEqual(plan["auto"], ["step_size", "gradient.estimator", "precondition",
                                        "batch_size", "iterations", "warmup", "thin", "init"])
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
        done = alice.run(job(chains=2))
        again = alice.run(given(done))
        self.assertEqual(again["request"]["iterations"], done["request"]["iterations"])
        self.assertEqual(alice.everything(done["id"]), alice.everything(again["id"]))

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

    def test_a_job_that_needs_no_plan_has_none(self):
        self.assertIsNone(alice.run(toy())["plan"])

    def test_draws_keep_within_what_the_owner_may_store(self):
        small = Daemon(user_stored_mb=32)
        small.file("rows.csv", logistic_text(400))
        client = small.client()
        done = client.run(job(target={"ess": 100000, "seconds": 3}, chains=2))
        self.assertLess(done["stored_bytes"], 32 << 20)
        self.assertIn("iteration is stored: at most 8 MB of draws", " ".join(done["plan"]["why"]))
        self.assertEqual(small.stop(), 0)


def huge(folder_daemon):
    """A job whose plan takes a while: many rows, and every pass over them counts."""
    folder_daemon.file("huge.csv", logistic_text(30000, columns=12))
    return job(data={"path": "huge.csv"}, chains=2, target={"ess": 2000, "seconds": 20})


class Interrupted(Case):
    def setUp(self):
        self.daemon = Daemon()
        self.client = self.daemon.client()
        self.spec = huge(self.daemon)

    def tearDown(self):
        self.daemon.kill()

    def planning(self, job_id):
        view = self.client.job(job_id)
        return view["state"] == "running" and view["plan"]["state"] == "pending"

    def test_a_plan_survives_kill_9_and_the_draws_are_the_same(self):
        quiet = self.client.run(self.spec)
        job_id = self.client.submit(self.spec)
        wait_for(lambda: self.client.job(job_id)["progress"]["iteration"] > 0)
        plan = self.client.job(job_id)["plan"]
        self.daemon.kill()
        self.daemon.start()
        done = self.client.wait(job_id)
        self.assertEqual(done["plan"], plan)
        if given(done) == given(quiet):  # both plans looked at a clock
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

    def test_pause_and_resume_while_planning(self):
        job_id = self.client.submit(self.spec)
        wait_for(lambda: self.client.job(job_id)["state"] != "queued")
        reply = self.client.post("/v1/jobs/%s/pause" % job_id)
        self.assertIn(reply.status, (202, 409), reply)
        if reply.status == 202:
            self.assertEqual(self.client.job(job_id)["state"], "paused")
            self.assertEqual(self.client.post("/v1/jobs/%s/resume" % job_id).status, 202)
        self.assertEqual(self.client.wait(job_id)["plan"]["state"], "ready")

    def test_cancel_while_planning(self):
        job_id = self.client.submit(self.spec)
        wait_for(lambda: self.client.job(job_id)["state"] != "queued")
        self.client.post("/v1/jobs/%s/cancel" % job_id)
        self.assertIn(self.client.wait(job_id, "cancelled", "succeeded")["state"],
                      ("cancelled", "succeeded"))

    def test_an_extension_waits_for_the_plan(self):
        job_id = self.client.submit({**self.spec, "priority": -5})
        if self.planning(job_id) or self.client.job(job_id)["state"] == "queued":
            reply = self.client.post("/v1/jobs/%s/extend" % job_id, {"iterations": 10})
            self.assertIn(reply.status, (202, 409), reply)
        self.client.wait(job_id)


class Before(Case):
    def test_a_catalogue_from_before_plans_keeps_its_jobs_as_they_were(self):
        old = Daemon()
        client = old.client()
        done = client.run(toy(sampler={"name": "sgbd", "variant": "vanilla",
                                       "step_size": {"kind": "auto", "fraction": 0.2}}))
        self.assertEqual(old.stop(), 0)
        import json
        import sqlite3
        base = sqlite3.connect(os.path.join(old.state, "barkerd.db"))
        request = json.loads(base.execute("SELECT request FROM job").fetchone()[0])
        for name in ("gradient", "precondition", "target"):
            del request[name]
        request["sampler"]["step_size"] = "auto"
        base.execute("UPDATE job SET request = ?", (json.dumps(request),))
        base.execute("ALTER TABLE job DROP COLUMN plan")
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
