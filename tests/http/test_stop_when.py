"""Jobs that end when they are good enough, or when their time is up."""

import re

from harness import *

EARLY = re.compile(r"stopped early: largest R-hat ([0-9.]+) <= ([0-9.]+) and smallest bulk and tail ESS "
                   r"([0-9]+) >= ([0-9]+) after ([0-9]+) of ([0-9]+) iterations per chain")


def by_chain(body):
    """The rows of every chain, as text without their number among all."""
    chains = {}
    for line in body.decode().splitlines()[1:]:
        chain, iteration, _, *values = line.split(",")
        chains.setdefault(chain, []).append((iteration, *values))
    return chains


class StopWhen(Case):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.ann = cls.daemon.user("ann")

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def log(self, job):
        return [line["text"] for line in self.ann.read("/v1/jobs/%s/log" % job)["items"]]

    def assertBeginning(self, part, whole):
        """The draws of every chain of `part` are those with which `whole` begins."""
        part, whole = by_chain(part), by_chain(whole)
        self.assertEqual(sorted(part), sorted(whole))
        for chain, rows in part.items():
            self.assertTrue(rows)
            self.assertEqual(rows, whole[chain][:len(rows)])

    def test_a_job_that_is_good_enough_ends_and_says_why(self):
        spec = toy(iterations=800000000, warmup=1000, thin=2000, chains=2,
                   stop_when={"rhat": 1.05, "ess": 200})
        job = self.ann.wait(self.ann.submit(spec))
        found = EARLY.fullmatch(job["reason"])
        self.assertTrue(found, job["reason"])
        rhat, ess = job["summary"]["max_rhat"], job["summary"]
        self.assertLessEqual(rhat, 1.05)
        self.assertGreaterEqual(min(ess["min_ess_bulk"], ess["min_ess_tail"]), 200)
        self.assertEqual(found.group(1), "%.4f" % rhat)
        self.assertEqual((found.group(2), found.group(4), found.group(6)),
                         ("1.05", "200", "800001000"))
        self.assertEqual(int(found.group(5)), min(c["iteration"] for c in job["progress"]["chains"]))
        self.assertLess(job["progress"]["fraction"], 1)
        self.assertIsNone(job["progress"]["eta_seconds"])
        self.assertEqual({c["state"] for c in job["progress"]["chains"]}, {"stopped"})
        self.assertEqual(job["request"]["stop_when"], {"rhat": 1.05, "ess": 200, "seconds": None})
        self.assertEqual(job["stop_cause"], "stop_when")
        self.assertIn("stopped early", job["verdict"])
        log = self.log(job["id"])
        self.assertTrue(any("slightly biased" in line for line in log), log)
        self.assertEqual(log[-1], "succeeded: " + job["reason"])
        # The numbers are those of the draws that everybody sees, all of them.
        rows = self.ann.read("/v1/jobs/%s/summary" % job["id"])["parameters"]
        self.assertClose(rows[0]["rhat"], rhat)
        # The same job without stop_when has the same draws.
        most = max(c["iteration"] for c in job["progress"]["chains"]) - 1000
        plain = self.ann.run(dict(spec, stop_when=None, check_draws=0, iterations=most))
        self.assertBeginning(self.ann.everything(job["id"]), self.ann.everything(plain["id"]))

    def test_a_job_whose_time_is_up_ends_and_is_extended_from_where_it_is(self):
        spec = steady(4000000, stop_when={"seconds": 0.001})  # over after the first slices
        job = self.ann.wait(self.ann.submit(spec))
        self.assertRegex(job["reason"], r"^stopped early: the limit of 0.001 s is reached \(stop_when\.seconds\) after [0-9]+ of "
                                        r"4001000 iterations per chain$")
        self.assertEqual(job["stop_cause"], "time_limit")
        self.assertFalse(any("biased" in line for line in self.log(job["id"])))
        so_far = max(0, max(c["iteration"] for c in job["progress"]["chains"]) - 1000)
        self.assertLess(so_far, 4000000)
        extended = self.ann.act(job["id"], "extend", {"iterations": 500})
        self.assertIsNone(extended["request"]["stop_when"])
        self.assertIsNone(extended["stop_cause"])
        self.assertIn("extended by 500 iterations; stop_when no longer applies",
                      self.log(job["id"]))
        done = self.ann.wait(job["id"])
        self.assertEqual(done["reason"], "all chains are complete")
        self.assertEqual(done["progress"]["iteration"], 2 * (so_far + 1500))
        plain = self.ann.run(dict(spec, stop_when=None, iterations=so_far + 500))
        self.assertEqual(self.ann.everything(job["id"]), self.ann.everything(plain["id"]))

    def test_what_is_not_met_changes_nothing(self):
        spec = toy(iterations=3000, chains=2, stop_when={"rhat": 1.0000001, "ess": 100000,
                                                         "seconds": 3600})
        job = self.ann.run(spec)
        self.assertEqual(job["reason"], "all chains are complete")
        plain = self.ann.run(dict(spec, stop_when=None, check_draws=0))
        self.assertEqual(self.ann.everything(job["id"]), self.ann.everything(plain["id"]))
        again = self.ann.act(job["id"], "extend", {"iterations": 100})
        self.assertIsNone(again["request"]["stop_when"])
        self.ann.wait(job["id"])

    def test_time_does_not_run_out_on_a_paused_job(self):
        job = self.ann.submit(endless(stop_when={"seconds": 0.2}))
        while True:
            reply = self.ann.post("/v1/jobs/%s/pause" % job)
            if reply.status == 202:
                break
            self.assertEqual(reply.status, 409, reply)
            if self.ann.job(job)["state"] == "succeeded":
                return  # the machine was too slow for that
        time.sleep(0.4)
        self.assertEqual(self.ann.job(job)["state"], "paused")
        self.ann.act(job, "resume")
        self.assertIn("(stop_when.seconds)", self.ann.wait(job)["reason"])

    def test_mistakes_are_named(self):
        for stop, pointer in (({}, "/stop_when"), ({"rhat": 0.9}, "/stop_when/rhat"),
                              ({"ess": 0}, "/stop_when/ess"), ({"seconds": 0}, "/stop_when/seconds"),
                              ({"iterations": 5}, "/stop_when/iterations"), (7, "/stop_when")):
            with self.subTest(stop=stop):
                reply = self.ann.post("/v1/jobs", toy(stop_when=stop))
                self.assertProblem(reply, 422, pointer=pointer)
        for draws in (-1, 10001, "all"):
            with self.subTest(check_draws=draws):
                reply = self.ann.post("/v1/jobs", toy(check_draws=draws))
                self.assertProblem(reply, 422, pointer="/check_draws")


class Killed(Case):
    def test_a_killed_job_stops_as_well_and_loses_nothing(self):
        daemon = Daemon()
        ann = daemon.user("ann")
        spec = toy(iterations=800000000, warmup=1000, thin=2000, chains=2, stop_when={"ess": 150})
        job = ann.submit(spec)
        for i in range(4):
            ann.wait_progress(job, 100000 * (i + 1))
            daemon.kill()
            daemon.start()
            ann = daemon.client(ann.token)
        done = ann.wait(job)
        self.assertTrue(done["reason"].startswith("stopped early: smallest bulk and tail ESS"), done)
        most = max(c["iteration"] for c in done["progress"]["chains"]) - 1000
        plain = ann.run(dict(spec, stop_when=None, iterations=most))
        whole = by_chain(ann.everything(plain["id"]))
        for chain, rows in by_chain(ann.everything(job)).items():
            self.assertEqual(rows, whole[chain][:len(rows)])
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(command("check", state=daemon.state).returncode, 0)
