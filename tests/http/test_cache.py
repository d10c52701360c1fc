"""The binary form of large data files: the same draws with it and without, whatever happens to it."""

import os
import threading
import time

from harness import PATIENCE, Case, Daemon, logistic_text


def setUpModule():
    global TEXT, OTHER
    TEXT, OTHER = logistic_text(20000, 8, seed=4), logistic_text(20000, 8, seed=5)


MAPPED = {"cache_from_mb": 0, "data_memory_mb": 1}  # the data take more
LOADED = {"cache_from_mb": 0}
WITHOUT = {"cache_mb": 0}


def job(path="big.csv", **fields):
    return {"model": {"name": "logistic"}, "data": {"path": path, "response": "y"},
            "sampler": {"name": "sgbd", "step_size": 0.01}, "batch_size": 100, "iterations": 3000,
            "warmup": 300, "thin": 10, "chains": 2, "seed": 11, **fields}


def metric(client, name):
    for line in client.get("/metrics").text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError("there is no metric " + name)


def cached(daemon):
    folder = os.path.join(daemon.state, "cache")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def cached_path(daemon):
    names = cached(daemon)
    assert len(names) == 1, names
    return os.path.join(daemon.state, "cache", names[0])


class Cache(Case):
    daemon = None

    def start(self, **settings):
        """A daemon with the large file in its data folder."""
        self.daemon = Daemon(start=False, **settings)
        self.daemon.file("big.csv", TEXT)
        self.daemon.start()
        return self.daemon.client()

    def tearDown(self):
        if self.daemon is not None:
            self.assertEqual(self.daemon.stop(), 0)

    def expected(self):
        """The draws without any cache."""
        if not hasattr(Cache, "plain"):
            client = self.start(**WITHOUT)
            Cache.plain = client.everything(client.run(job())["id"])
            self.assertEqual(cached(self.daemon), [])
            self.daemon.stop()
        return Cache.plain

    def draws(self):
        client = self.daemon.client()
        return client.everything(client.run(job())["id"])

    def test_draws_are_the_same_without_cache_cold_warm_and_mapped(self):
        expected = self.expected()
        client = self.start(**LOADED)
        self.assertEqual(self.draws(), expected)
        self.assertEqual(len(cached(self.daemon)), 1)
        self.assertEqual(metric(client, "barkerd_data_mapped_bytes"), 0)
        self.assertGreater(metric(client, "barkerd_data_bytes"), 0)
        for settings in (LOADED, MAPPED):
            with self.subTest(settings):
                self.daemon.stop()
                self.daemon.settings.update(settings)
                self.daemon.start()
                self.assertEqual(self.draws(), expected)
                self.assertEqual(metric(self.daemon.client(), "barkerd_data_cache_made_total"), 0)
        self.assertEqual(metric(self.daemon.client(), "barkerd_data_bytes"), 0)

    def test_what_does_not_fit_into_memory_is_refused_without_a_cache_and_runs_with_one(self):
        client = self.start(**{**MAPPED, "cache_mb": 0})
        self.assertProblem(client.post("/v1/jobs", job()), 422, "memory", pointer="/data/path")
        self.daemon.restart(cache_mb=100)
        self.assertEqual(self.draws(), self.expected())

    def test_jobs_that_come_at_once_make_one_file(self):
        client = self.start(**MAPPED)
        ids = []
        threads = [threading.Thread(target=lambda: ids.append(client.submit(job())))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(ids), 4)
        for job_id in ids:
            client.wait(job_id)
            self.assertEqual(client.everything(job_id), self.plain_or_run())
        self.assertEqual(len(cached(self.daemon)), 1)

    def plain_or_run(self):
        if not hasattr(Cache, "plain"):
            mine, self.daemon = self.daemon, None
            self.expected()
            self.daemon = mine
        return Cache.plain

    def test_a_damaged_file_is_made_again(self):
        for settings in (LOADED, MAPPED):
            with self.subTest(settings):
                expected = self.expected()
                self.start(**settings)
                self.draws()
                self.daemon.stop()
                with open(cached_path(self.daemon), "r+b") as file:
                    file.seek(100000)
                    file.write(b"damage")
                self.daemon.start()
                self.assertEqual(self.draws(), expected)
                client = self.daemon.client()
                self.assertEqual(metric(client, "barkerd_data_cache_damaged_total"), 1)
                self.assertIn("event=cache.damaged", self.daemon.log())
                self.daemon.stop()

    def test_a_file_that_is_cut_short_in_use_kills_nobody_and_changes_no_draw(self):
        # Unlike logistic regression this reads the mapped rows themselves, in every iteration.
        long = job(model={"name": "probit"}, iterations=60000, thin=100)
        client = self.start(**WITHOUT)
        expected = client.everything(client.run(long)["id"])
        self.daemon.stop()
        client = self.start(**MAPPED)
        while True:  # until it is caught on its way
            job_id = client.submit(long)
            client.wait_progress(job_id, 1)
            os.truncate(cached_path(self.daemon), 4096)
            client.wait(job_id)
            self.assertTrue(self.daemon.alive())
            self.assertEqual(client.everything(job_id), expected)
            if "can no longer be read" in self.daemon.log():
                break

    def test_a_source_that_changed_fails_its_jobs_and_serves_new_ones(self):
        client = self.start(**MAPPED)
        old = client.submit(job(iterations=50000000, thin=1000000))
        client.wait_progress(old, 1)
        self.daemon.stop()
        self.daemon.file("big.csv", OTHER)
        self.daemon.start()
        client = self.daemon.client()
        self.assertIn("content of big.csv", client.wait(old, "failed")["reason"])
        self.assertNotEqual(self.draws(), self.plain_or_run())
        self.assertEqual(len(cached(self.daemon)), 2)

    def test_without_room_on_disk_data_go_to_memory_or_are_refused(self):
        client = self.start(cache_from_mb=0, cache_mb=1)
        self.assertEqual(self.draws(), self.plain_or_run())
        self.assertEqual(cached(self.daemon), [])
        self.assertIn("event=cache.skipped", self.daemon.log())
        self.daemon.restart(data_memory_mb=1)
        self.assertProblem(self.daemon.client().post("/v1/jobs", job()), 507, "cache_mb", "memory")
        self.daemon.restart(cache_mb=100, data_memory_mb=1)
        self.assertEqual(self.draws(), self.plain_or_run())

    def test_old_files_make_room_for_new_ones(self):
        client = self.start(cache_from_mb=0, cache_mb=2, data_memory_mb=1)
        self.daemon.file("other.csv", OTHER)
        client.run(job())
        first = cached(self.daemon)
        end = time.monotonic() + PATIENCE
        while metric(client, "barkerd_data_mapped_bytes") > 0:  # what is in use stays
            self.assertLess(time.monotonic(), end)
        client.run(job("other.csv"))
        self.assertEqual(len(cached(self.daemon)), 1)
        self.assertNotEqual(cached(self.daemon), first)
        self.assertEqual(metric(client, "barkerd_data_cache_removed_total"), 1)

    def test_kill_9_while_it_is_written_leaves_nothing_behind(self):
        self.daemon = Daemon(start=False, **MAPPED)
        lines = TEXT.split("\n", 1)
        for copies in (4, 8, 16, 32):
            self.daemon.file("big.csv", lines[0] + "\n" + lines[1] * copies)
            self.daemon.start()
            client = self.daemon.client()
            thread = threading.Thread(target=self.give_up, args=(client,))
            thread.start()
            end = time.monotonic() + PATIENCE
            while not any(n.startswith("new-") for n in cached(self.daemon)) and thread.is_alive():
                self.assertLess(time.monotonic(), end)
            self.daemon.kill()
            thread.join()
            caught = any(n.startswith("new-") for n in cached(self.daemon))
            self.daemon.start()
            self.assertEqual([n for n in cached(self.daemon) if n.startswith("new-")], [])
            if caught:
                break
            self.daemon.stop()
        self.assertTrue(caught, "the daemon was never caught writing")
        self.daemon.file("big.csv", TEXT)
        self.assertEqual(self.draws(), self.plain_or_run())

    def give_up(self, client):
        try:
            client.post("/v1/jobs", job(), query={"validate_only": "true"})
        except OSError:
            pass
        except Exception as error:  # http.client has its own for a daemon that is gone
            if "Remote" not in type(error).__name__ and "Incomplete" not in type(error).__name__:
                raise
