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
        self.assertIn("the limit of 0.001 s is reached (stop_when.seconds)", job["reason"])
        self.assertEqual([c["iteration"] > 0 for c in job["progress"]["chains"]], [True] * 4)

    def test_growing_files_count_against_the_quota_of_their_owner(self):
        job = self.ann.submit(endless(chains=2))
        self.ann.until(job, lambda j: j["progress"]["iteration"] > 0)
        self.ann.act(job, "pause")
        seen = self.ann.until(job, lambda j: {c["state"] for c in j["progress"]["chains"]} == {"paused"})
        self.assertGreater(seen["stored_bytes"], 0)
        self.assertGreaterEqual(self.ann.read("/v1/me")["usage"]["stored_bytes"], seen["stored_bytes"])


class Large(Case):
    def test_a_chain_whose_state_is_larger_than_a_value_of_the_database_resumes_exactly(self):
        daemon = Daemon(workers=1, slice_ms=50)
        daemon.file("wide.csv", ratings_text(120000, 100, 3000))
        ann = daemon.user("ann")
        spec = {"model": {"name": "matrix_factorization", "rank": 3}, "data": {"path": "wide.csv"},
                "sampler": {"name": "sgbd", "step_size": 0.01}, "batch_size": 100, "chains": 1,
                "iterations": 120, "warmup": 20, "thin": 10, "seed": 4,
                "save": {"params": ["U[1,1]", "V[1,1]", "V[100,3]"]}}
        whole = ann.run(spec)["id"]
        job = ann.submit(spec)
        ann.until(job, lambda j: j["progress"]["iteration"] > 0)
        daemon.kill()
        with sqlite3.connect(os.path.join(daemon.state, "draws", job + ".db")) as db:
            size = db.execute("SELECT (SELECT sum(length(bytes)) FROM state) + sum(length(bytes)) "
                              "FROM part").fetchone()[0]
        db.close()
        self.assertGreater(size, 16 << 20)
        daemon.start()
        ann.wait(job)
        draws = [{**ann.read("/v1/jobs/%s/draws" % j), "job": None} for j in (whole, job)]
        self.assertEqual(draws[0], draws[1])
        self.assertEqual(daemon.stop(), 0)


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
