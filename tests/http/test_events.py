"""The event stream: what comes, to whom, in which order; replay and reset."""

import time

import harness
from harness import Case, Daemon, Events, endless, steady, toy


def setUpModule():
    global daemon, admin, alice, bob
    daemon = Daemon()
    admin = daemon.client()
    alice, bob = daemon.user("alice"), daemon.user("bob")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def about(job, kind=None, state=None):
    def matches(event):
        data = event["data"]
        return (data.get("id") == job and kind in (None, event["event"])
                and state in (None, data.get("state")))
    return matches


def of_job(events, job):
    return [e for e in events if e["data"].get("id") == job]


class Stream(Case):
    def test_it_begins_at_once_with_headers_against_buffering(self):
        with alice.events() as stream:
            self.assertEqual(stream.status, 200)
            self.assertTrue(stream.headers["Content-Type"].startswith("text/event-stream"))
            self.assertEqual(stream.headers["Cache-Control"], "no-store")
            self.assertEqual(stream.headers["X-Accel-Buffering"], "no")
            end = time.monotonic() + harness.PATIENCE
            while stream.retry is None and time.monotonic() < end:
                stream.next(0.1)
            self.assertEqual(stream.retry, 3000)

    def test_a_jobs_life_comes_in_order(self):
        with alice.events() as stream:
            job = alice.submit(steady(8000000, thin=2000))
            seen = of_job(stream.until(about(job, "job.state", "succeeded")), job)
        states = [e["data"]["state"] for e in seen if e["event"] == "job.state"]
        self.assertEqual(states[0], "queued")
        self.assertEqual(states[-2:], ["running", "succeeded"])
        progress = [e["data"]["progress"]["iteration"] for e in seen if e["event"] == "job.progress"]
        self.assertGreater(len(progress), 1)
        self.assertEqual(progress, sorted(progress))
        last = seen[-1]["data"]
        self.assertEqual(last["progress"]["fraction"], 1)
        ids = [int(e["id"]) for e in seen]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertEqual(last["reason"], alice.job(job)["reason"])

    def test_the_queue_is_told_of(self):
        with alice.events() as stream:
            job = alice.submit(toy())
            seen = stream.until(about(job, "job.state", "succeeded"))
            seen += stream.until(lambda e: e["event"] == "queue.changed")
        self.assertIn("queue.changed", [e["event"] for e in seen])

    def test_only_ones_own_and_the_labs_events_come(self):
        with bob.events() as theirs, admin.events() as all_of_them:
            private = alice.submit(toy(name="private"))
            lab = alice.submit(toy(name="lab", visibility="lab"))
            own = bob.submit(toy())
            seen = []
            done = set()
            while done != {lab, own}:
                event = theirs.next()
                self.assertIsNotNone(event, "the events did not come")
                seen.append(event)
                if event["data"].get("state") == "succeeded":
                    done.add(event["data"]["id"])
            alice.wait(private)
            while (event := theirs.next(0.5)) is not None:
                seen.append(event)
            self.assertEqual(of_job(seen, private), [])
            self.assertNotIn(private, str(seen))
            all_of_them.until(about(private, "job.state", "succeeded"))

    def test_changes_of_finished_jobs_are_told(self):
        job = alice.run(toy())["id"]
        with alice.events() as stream:
            alice.patch("/v1/jobs/" + job, {"name": "renamed"})
            stream.until(about(job, "job.state"))

    def test_nothing_is_missed_by_a_client_that_comes_back(self):
        with alice.events() as whole:
            first = Events(alice)
            job = alice.submit(steady())
            before = first.until(about(job, "job.progress"))
            last_id = before[-1]["id"]
            first.close()
            alice.wait(job)
            with alice.events(last_id) as second:
                after = second.until(about(job, "job.state", "succeeded"))
            reference = whole.until(about(job, "job.state", "succeeded"))
        self.assertNotIn("reset", [e["event"] for e in after])
        self.assertEqual(self.since(job, before + after), self.since(job, reference))

    @staticmethod
    def since(job, events):
        """The ids from the first event of a job on: before it there are echoes of earlier tests."""
        first = events.index(of_job(events, job)[0])
        return [e["id"] for e in events[first:]]

    def test_a_client_that_has_everything_gets_no_reset(self):
        with alice.events() as stream:
            job = alice.submit(toy())
            stream.until(about(job, "job.state", "succeeded"))
            last = stream.until(lambda e: e["event"] == "queue.changed")
        with alice.events(last[-1]["id"]) as stream:
            self.assertIsNone(stream.next(0.5))
            job = alice.submit(toy())
            first = stream.next()
            self.assertNotEqual(first["event"], "reset")

    def test_what_cannot_be_replayed_is_a_reset(self):
        alice.run(toy())
        for last_id in ("1", "99999999999999999", "abc", "-5", "0", "1.5", "18446744073709551616"):
            with self.subTest(last_id), alice.events(last_id) as stream:
                event = stream.next()
                self.assertEqual(event["event"], "reset")
                later = stream.next(0.2)  # nothing is replayed; what follows the end of the job above may still come
                self.assertTrue(later is None or later["event"] == "queue.changed", later)

    def test_after_a_reset_the_stream_goes_on(self):
        with alice.events("1") as stream:
            reset = stream.next()
            job = alice.submit(toy())
            seen = stream.until(about(job, "job.state", "succeeded"))
            self.assertGreater(int(seen[0]["id"]), int(reset["id"]))

    def test_events_of_a_restarted_daemon_reset_its_old_clients(self):
        other = Daemon()
        carol = other.user("carol")
        with carol.events() as stream:
            job = carol.submit(toy())
            last = stream.until(about(job, "job.state", "succeeded"))[-1]["id"]
        other.restart()
        with carol.events(last) as stream:
            self.assertEqual(stream.next()["event"], "reset")
        self.assertEqual(other.stop(), 0)

    def test_a_revoked_token_opens_no_stream(self):
        spare = daemon.user("alice")
        alice.delete("/v1/tokens/" + spare.token_id)
        with spare.events() as stream:
            self.assertEqual(stream.status, 401)

    def test_too_many_streams_of_one_user_are_refused_and_others_are_not(self):
        streams = []
        try:
            for _ in range(40):
                stream = bob.events()
                streams.append(stream)
                if stream.status != 200:
                    break
            self.assertEqual(streams[-1].status, 429)
            self.assertGreater(len(streams), 8)
            with alice.events() as stream:
                self.assertEqual(stream.status, 200)
        finally:
            for stream in streams:
                stream.close()

    def test_closed_streams_are_forgotten(self):
        carol = daemon.user("carol")
        end = time.monotonic() + harness.PATIENCE
        for _ in range(3):
            streams = [carol.events() for _ in range(8)]
            for stream in streams:
                stream.close()
            alice.run(toy(visibility="lab"))  # traffic: a dead stream is noticed when it is written to
        while time.monotonic() < end:
            alice.run(toy(visibility="lab"))
            with carol.events() as stream:
                if stream.status == 200:
                    return
        self.fail("closed streams still count")

    def test_a_client_that_never_reads_hinders_nobody(self):
        lazy = alice.events()
        job = alice.submit(endless())
        with alice.events() as stream:
            for _ in range(20):
                stream.until(about(job, "job.progress"))
        alice.act(job, "cancel")
        alice.wait(job, "cancelled")
        lazy.close()

    def test_streams_end_when_the_daemon_does(self):
        other = Daemon()
        carol = other.user("carol")
        streams = [carol.events() for _ in range(5)]
        for stream in streams:
            self.assertEqual(stream.status, 200)
        self.assertEqual(other.stop(), 0)
        for stream in streams:
            while stream.next(20) is not None:
                pass
            self.assertTrue(stream.ended)
