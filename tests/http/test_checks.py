"""What is looked at while a job runs and at its end: history, checks over the whole data, verdict; and
job files of the version that had none of it."""

from harness import *


def stored(daemon, job, sql):
    """Rows of a job file, as another process sees them."""
    path = os.path.join(daemon.state, "draws", job + ".db")
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=30)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def checks(daemon, job):
    rows = stored(daemon, job, "SELECT document FROM checks")
    return json.loads(rows[0][0]) if rows else None


def logistic(daemon, rows, **fields):
    name = "rows%d.csv" % rows
    if not os.path.exists(os.path.join(daemon.data, name)):
        daemon.file(name, logistic_text(rows))
    return {"model": "logistic", "data": {"path": name}, "iterations": 2000, "warmup": 500, "chains": 2,
            "seed": 5, "sampler": {"name": "sgbd", "step_size": 0.05}, "batch_size": "full", **fields}


class Checks(Case):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.ann = cls.daemon.user("ann")

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def test_a_finished_job_has_been_checked(self):
        job = self.ann.run(logistic(self.daemon, 500))
        found = checks(self.daemon, job["id"])
        self.assertEqual(list(found), ["budget", "ksd", "fssd", "energy", "reason", "brief", "certificate"])
        self.assertLessEqual(found["budget"]["draws"], 400)
        self.assertEqual(found["budget"]["limit"], max(2.0, found["budget"]["limit"]))
        energy = found["energy"]
        self.assertClose(energy["expected"], energy["mode_log_density"] - 1.5)
        self.assertClose(energy["ratio"], (energy["mode_log_density"] - energy["mean_log_density"]) / 1.5)
        self.assertTrue(0.5 < energy["ratio"] < 2, energy)
        self.assertGreater(found["ksd"]["draws"], 10)
        self.assertGreater(found["fssd"]["value"], 0)
        self.assertTrue(job["verdict"].startswith("mixing: "), job["verdict"])

    def test_checks_change_no_draw_and_can_be_switched_off(self):
        with_them = self.ann.run(logistic(self.daemon, 500))["id"]
        without = self.ann.run(logistic(self.daemon, 500, check_draws=0))["id"]
        self.assertEqual(self.ann.everything(with_them), self.ann.everything(without))
        found = checks(self.daemon, without)
        self.assertIsNone(found["ksd"])
        self.assertEqual(found["reason"], "switched off: check_draws is 0")

    def test_what_cannot_be_checked_says_why(self):
        for fields, words in (({"save": {"params": ["theta[2]"]}}, "only 1 of 3 parameters are saved"),
                              ({"save": {"params": []}}, "only 0 of 3 parameters are saved"),
                              ({"check_draws": 1}, "less than one for each of 2 chains")):
            with self.subTest(words=words):
                job = self.ann.run(logistic(self.daemon, 200, iterations=300, **fields))["id"]
                found = checks(self.daemon, job)
                self.assertIsNone(found["energy"])
                self.assertIn(words, found["reason"])

    def test_a_job_that_goes_on_has_to_be_checked_again(self):
        job = self.ann.run(logistic(self.daemon, 200, iterations=300))["id"]
        before = stored(self.daemon, job, "SELECT iteration, document FROM checks")
        self.assertEqual(before[0][0], 2 * 800)
        self.ann.act(job, "extend", {"iterations": 200})
        self.ann.wait(job)
        after = stored(self.daemon, job, "SELECT iteration, document FROM checks")
        self.assertEqual(after[0][0], 2 * 1000)
        self.assertNotEqual(json.loads(before[0][1])["energy"], json.loads(after[0][1])["energy"])

    def test_history_grows_with_the_job_and_ends_with_it(self):
        job = self.ann.submit(steady(3000000, chains=2))
        done = self.ann.wait(job)
        rows = stored(self.daemon, job, "SELECT draws, iteration, seconds, max_rhat, min_ess_bulk, "
                                        "min_ess_tail, worst, length(rhat) FROM history ORDER BY position")
        self.assertGreaterEqual(len(rows), 1)
        self.assertEqual(rows[-1][1], done["progress"]["iteration"])
        self.assertEqual(rows[-1][0], 6000)
        self.assertClose(rows[-1][3], done["summary"]["max_rhat"])
        self.assertClose(rows[-1][4], done["summary"]["min_ess_bulk"])
        self.assertClose(rows[-1][5], done["summary"]["min_ess_tail"])
        self.assertEqual(rows[-1][6:], ("theta[1]", 8))
        for k in (0, 1, 2):
            self.assertEqual([r[k] for r in rows], sorted(r[k] for r in rows))

    def test_an_event_tells_the_verdict(self):
        with self.ann.events() as events:
            job = self.ann.submit(toy(iterations=2000))
            while True:
                event = events.next()
                if event["event"] == "job.state" and event["data"]["state"] == "succeeded":
                    break
            told = event["data"]
        self.assertEqual(told["verdict"], self.ann.job(job)["verdict"])
        self.assertIn("min_ess_tail", told["summary"])

    def test_many_parameters_stay_within_bounds(self):
        daemon = Daemon()
        ann = daemon.user("ann")
        daemon.file("ratings.csv", ratings_text(940, 1680, 4000))
        job = ann.run({"model": "matrix_factorization", "data": {"path": "ratings.csv"}, "chains": 2,
                       "sampler": {"name": "sgbd", "step_size": 0.01}, "batch_size": 100,
                       "iterations": 600, "warmup": 200, "thin": 4, "seed": 3,
                       "stop_when": {"rhat": 1.0001}})
        self.assertIsNotNone(job["summary"]["worst"])
        found = checks(daemon, job["id"])
        self.assertIsNotNone(found["energy"])
        rows = stored(daemon, job["id"], "SELECT stride, length(rhat) / 8 FROM history")
        self.assertLessEqual(rows[-1][1], 100)
        self.assertEqual(stored(daemon, job["id"], "SELECT value FROM meta WHERE key = 'd'"), [(52480,)])
        if not sanitized():
            self.assertLess(daemon.status("VmHWM"), 300 * 1024)
        self.assertEqual(daemon.stop(), 0)


class Interrupted(Case):
    """A job whose checks take long: they are cut short, and made in the end."""

    def setUp(self):
        self.daemon = Daemon()
        self.ann = self.daemon.user("ann")
        # Long enough to be met, short for whom waits: ten thousand passes over the data. The chains'
        # own time would allow 2 s, which is cut short by every end below.
        self.spec = logistic(self.daemon, 60000, iterations=600, warmup=200, check_draws=10000,
                             thin=1)

    def tearDown(self):
        self.daemon.kill()

    def being_checked(self, job):
        return self.ann.until(job, lambda j: "being checked" in j["reason"] or j["state"] in ENDED,
                              "the checks")

    def test_a_stop_does_not_wait_for_checks_and_the_next_start_makes_them(self):
        for how in ("stop", "kill"):
            with self.subTest(how=how):
                job = self.ann.submit(self.spec)
                self.being_checked(job)
                if how == "stop":
                    self.assertEqual(self.daemon.stop(), 0)
                else:
                    self.daemon.kill()
                self.daemon.start()
                self.ann = self.daemon.client(self.ann.token)
                done = self.ann.wait(job)
                self.assertEqual(done["reason"], "all chains are complete")
                found = checks(self.daemon, job)
                self.assertIsNotNone(found["energy"])
                self.assertEqual(len(stored(self.daemon, job, "SELECT * FROM history WHERE iteration = 1600")),
                                 1)

    def test_checks_are_not_made_twice(self):
        job = self.ann.run(self.spec)["id"]
        before = stored(self.daemon, job, "SELECT * FROM checks")
        self.assertEqual(self.daemon.stop(), 0)
        # As if it had been killed after the checks and before the end was stored.
        db = sqlite3.connect(os.path.join(self.daemon.state, "barkerd.db"))
        db.execute("UPDATE job SET state = 'running', ended_ms = 0 WHERE id = ?", (job,))
        db.commit()
        db.close()
        self.daemon.start()
        self.ann = self.daemon.client(self.ann.token)
        self.assertEqual(self.ann.wait(job)["reason"], "all chains are complete")
        self.assertEqual(stored(self.daemon, job, "SELECT * FROM checks"), before)

    def test_a_job_can_be_cancelled_while_it_is_checked(self):
        job = self.ann.submit(self.spec)
        if self.being_checked(job)["state"] in ENDED:
            self.skipTest("the checks were too quick to meet")
        reply = self.ann.post("/v1/jobs/%s/cancel" % job)
        if reply.status == 409:
            self.skipTest("the checks were too quick to meet")
        self.assertEqual(reply.status, 202, reply)
        self.assertEqual(self.ann.wait(job, "cancelled")["state"], "cancelled")

    def test_data_that_are_gone_fail_no_complete_job(self):
        job = self.ann.submit(self.spec)
        if self.being_checked(job)["state"] in ENDED:
            self.skipTest("the checks were too quick to meet")
        self.daemon.kill()
        self.daemon.file(self.spec["data"]["path"], logistic_text(100))
        self.daemon.start()
        self.ann = self.daemon.client(self.ann.token)
        self.assertEqual(self.ann.wait(job)["state"], "succeeded")
        found = checks(self.daemon, job)
        self.assertIsNone(found["energy"])
        self.assertIn("is not that of the submission", found["reason"])


class Versions(Case):
    def make_old(self, daemon, job):
        """Takes from a job file what version 1 did not have."""
        db = sqlite3.connect(os.path.join(daemon.state, "draws", job + ".db"))
        db.executescript("DROP TABLE history; DROP TABLE checks; DROP TABLE part; DELETE FROM meta WHERE key NOT IN ("
                         "'request', 'width', 'd', 'chains', 'thin', 'warmup', 'tile_draws', 'tile_columns');"
                         "PRAGMA user_version = 1;")
        db.close()

    def test_job_files_of_version_1_are_read_and_extended(self):
        daemon = Daemon()
        ann = daemon.user("ann")
        spec = toy(iterations=500)
        job = ann.run(spec)["id"]
        whole = ann.everything(ann.run(dict(spec, iterations=800))["id"])
        self.assertEqual(daemon.stop(), 0)
        self.make_old(daemon, job)
        daemon.start()
        ann = daemon.client(ann.token)
        before = ann.everything(job)
        for what in ("summary", "diagnostics", "trace?params=theta%5B1%5D", "metrics", "log"):
            self.assertEqual(ann.get("/v1/jobs/%s/%s" % (job, what)).status, 200, what)
        self.assertEqual(stored(daemon, job, "PRAGMA user_version"), [(1,)])
        ann.act(job, "extend", {"iterations": 300})
        ann.wait(job)
        self.assertEqual(stored(daemon, job, "PRAGMA user_version"), [(3,)])
        self.assertIsNotNone(checks(daemon, job)["energy"])
        self.assertEqual(ann.everything(job), whole)
        self.assertNotEqual(before, whole)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(command("check", state=daemon.state).returncode, 0)
