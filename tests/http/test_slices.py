"""What a job shows between slices: chains that have stopped, time that is up, and what its file takes up."""

from harness import *


class Slices(Case):
    def setUp(self):
        self.daemon = Daemon(workers=1, slice_ms=300)
        self.ann = self.daemon.user("ann")

    def tearDown(self):
        assert self.daemon.stop() == 0

    def test_who_watches_a_paused_job_sees_its_chains_stop(self):
        job = self.ann.submit(endless(chains=2))
        for _ in range(10):
            self.ann.until(job, lambda j: any(c["state"] == "running" for c in j["progress"]["chains"]))
            self.ann.act(job, "pause")
            # By long polls alone: nothing else happens to the job.
            seen = self.ann.until(job, lambda j: {c["state"] for c in j["progress"]["chains"]} == {"paused"},
                                  "chains that have stopped")
            self.assertEqual(seen["state"], "paused")
            self.ann.act(job, "resume")

    def test_time_is_up_when_every_chain_has_draws(self):
        job = self.ann.wait(self.ann.submit(endless(chains=4, stop_when={"seconds": 0.001})))
        self.assertIn("0.001 s of wall clock are over", job["reason"])
        self.assertEqual([c["iteration"] > 0 for c in job["progress"]["chains"]], [True] * 4)

    def test_growing_files_count_against_the_quota_of_their_owner(self):
        job = self.ann.submit(endless(chains=2))
        self.ann.until(job, lambda j: j["progress"]["iteration"] > 0)
        self.ann.act(job, "pause")
        seen = self.ann.until(job, lambda j: {c["state"] for c in j["progress"]["chains"]} == {"paused"})
        self.assertGreater(seen["stored_bytes"], 0)
        self.assertGreaterEqual(self.ann.read("/v1/me")["usage"]["stored_bytes"], seen["stored_bytes"])


class Newcomers(Case):
    def test_a_long_slice_ends_for_a_job_that_has_had_none(self):
        daemon = Daemon(workers=1, slice_ms=60000)
        ann, ben = daemon.user("ann"), daemon.user("ben")
        for client in (ann, ben):
            job = ann.submit(endless(name="of ann", chains=1))
            ann.until(job, lambda j: j["progress"]["chains"][0]["state"] == "running")
            client.run(toy(iterations=1000, chains=2))
            ann.act(job, "cancel")
            effort = ann.wait(job, "cancelled")["progress"]
            self.assertLess(effort["cpu_seconds"], 30)  # one slice would have 60
        assert daemon.stop() == 0
