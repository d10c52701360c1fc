"""One user with large data, slow uploads and many requests against another; and the end of a daemon that is busy."""

import contextlib
import gzip
import json
import os
import select
import signal
import socket
import sqlite3
import struct
import subprocess
import time

import harness
from harness import ENDED, Case, Daemon, answered, command, endless, logistic_text, send_only, toy

# A daemon must end within 10 s of the first signal. This is what a loaded machine may add.
BOUND = 20 * (5 if harness.sanitized() else 1)
COLUMNS = 50


def npy_head(rows):
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, COLUMNS)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()


def write_npy(daemon, name, rows):
    """Rows 0, 0, ...: a hole on the disk, which is read for as long as any other file of its size."""
    path = os.path.join(daemon.data, name)
    with open(path, "wb") as file:
        file.write(npy_head(rows))
        file.truncate(len(npy_head(rows)) + 8 * COLUMNS * rows)
    return name


def regression(path, **fields):
    """On such rows, with a known noise: with an unknown one, which they say is 0, chains would diverge."""
    return {"model": {"name": "linear_regression", "sigma": 1.0}, "data": {"path": path, "response": "V1"},
            "sampler": {"name": "sgbd", "step_size": 0.01}, "iterations": 100, "warmup": 10, "chains": 1, "seed": 1,
            **fields}


def reads(daemon, name):
    """Whether the daemon has this data file open."""
    folder = "/proc/%d/fd" % daemon.process.pid
    for fd in os.listdir(folder):
        try:
            if os.path.basename(os.readlink(os.path.join(folder, fd))) == name:
                return True
        except FileNotFoundError:
            pass
    return False


def wait_for(condition, what):
    end = time.monotonic() + harness.PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain: " + what
        time.sleep(0.01)


class Loads(Case):
    def test_large_data_of_one_user_do_not_hold_back_another(self):
        daemon = Daemon(workers=1, cache_mb=0, cache_from_mb=1)
        hog, guest = daemon.user("hog"), daemon.user("guest")
        huge = [write_npy(daemon, "huge%d.npy" % i, 50000000) for i in range(30)]  # 20 GB each, to be read
        daemon.file("small.csv", logistic_text(200))
        pending = [send_only(hog, "POST", "/v1/jobs", json.dumps(regression(name))) for name in huge]
        wait_for(lambda: any(reads(daemon, name) for name in huge), "a load")
        small = {"model": {"name": "logistic"}, "data": {"path": "small.csv", "response": "y"}, "iterations": 2000,
                 "warmup": 10, "chains": 2, "seed": 1, "sampler": {"name": "sgbd", "step_size": 0.1}}
        job = guest.submit(small)
        self.assertEqual(guest.wait(job, *harness.ENDED)["state"], "succeeded")
        self.assertFalse([c for c in pending if answered(c)])
        for connection in pending:
            connection.close()
        daemon.kill()

    def test_jobs_that_wait_for_their_data_leave_the_workers_to_others(self):
        daemon = Daemon(workers=1, cache_mb=0, cache_from_mb=1)
        hog, guest = daemon.user("hog"), daemon.user("guest")
        names = [write_npy(daemon, "data%d.npy" % i, 1000) for i in range(4)]
        jobs = [hog.submit(regression(name, iterations=10000000)) for name in names]
        self.assertEqual(daemon.stop(), 0)
        for name in names:
            write_npy(daemon, name, 50000000)
        daemon.start()
        wait_for(lambda: any(reads(daemon, name) for name in names), "a load")
        self.assertEqual(guest.wait(guest.submit(toy(iterations=2000)), *harness.ENDED)["state"], "succeeded")
        self.assertIn(hog.job(jobs[0])["state"], ("queued", "running"))
        reasons = [j["reason"] for j in hog.read("/v1/queue")["waiting"] + hog.read("/v1/queue")["running"]]
        self.assertTrue([r for r in reasons if "data" in r], reasons)
        daemon.kill()


def pool_seconds(daemon):
    """Processor time of the threads that carry out requests, without what they leave to threads of lower priority."""
    seconds, folder = 0, "/proc/%d/task" % daemon.process.pid
    for thread in os.listdir(folder):
        with open("%s/%s/stat" % (folder, thread)) as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
        if name == "http-pool":
            seconds += sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return seconds


class Processors(Case):
    def test_what_takes_long_does_not_take_the_processors_from_jobs(self):
        daemon = Daemon(workers=1)
        hog = daemon.user("hog")
        hog.put("/v1/datasets/bomb.csv.gz", gzip.compress(b"x,y\n" + b"1,0\n" * (25 << 20), 6))
        before = pool_seconds(daemon)
        pending = [send_only(hog, "GET", "/v1/datasets/bomb.csv.gz?rows=10", "") for _ in range(8)]
        wait_for(lambda: all(answered(c) for c in pending), "the previews")
        self.assertLess(pool_seconds(daemon) - before, 0.2)
        self.assertEqual([c.recv(12)[9:] for c in pending], [b"200"] * len(pending))
        daemon.kill()


    def test_what_requests_take_of_the_processors_counts_as_recent_use(self):
        daemon = Daemon(workers=1)
        hog = daemon.user("hog")
        job = hog.run(toy(iterations=20000, warmup=0))["id"]

        def used():
            return next(u["usage_seconds"] for u in hog.read("/v1/queue")["users"] if u["name"] == "hog")

        daemon.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "barkerd.db"))) as db, db:
            db.execute("UPDATE user SET usage = 100, usage_ms = ?", (int(1000 * time.time()), ))
        daemon.start()
        before = used()
        wait_for(lambda: hog.get("/v1/jobs/%s/density?bins=500" % job).status == 200 and used() > before + 0.1,
                 "requests to be counted")
        self.assertEqual(daemon.stop(), 0)

    def test_a_download_does_not_take_the_processors_from_one_who_has_used_less(self):
        daemon = Daemon(workers=1)
        hog, guest = daemon.user("hog"), daemon.user("guest")
        job = hog.run(toy(iterations=300000, warmup=0, thin=1))["id"]
        daemon.stop()
        with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "barkerd.db"))) as db, db:
            db.execute("UPDATE user SET usage = 1000000, usage_ms = ? WHERE name = 'hog'", (int(1000 * time.time()), ))
        daemon.start(reads_per_second=20)  # half a thousandth of a processor
        other = guest.submit(endless())
        guest.wait_progress(other, 1)
        link, got = send_only(hog, "GET", "/v1/jobs/%s/draws?format=csv" % job, ""), bytearray()
        link.settimeout(harness.PATIENCE)
        got += link.recv(65536)
        before = guest.job(other)["progress"]["iteration"]

        def reads(condition):  # 429 on a slow machine, where a request takes long and counts as several
            reply = guest.get("/v1/jobs/" + other)
            return reply.status == 200 and condition(reply.json())
        while not reads(lambda j: j["progress"]["iteration"] >= 10 * before):
            while select.select([link], [], [], 0.2)[0]:
                got += link.recv(65536)
                self.assertLess(len(got), 4000000, "the download goes on as if nobody else were there")
        self.assertNotIn(b"\r\n0\r\n", got)
        while guest.post("/v1/jobs/%s/cancel" % other).status == 429 or not reads(lambda j: j["state"] in ENDED):
            time.sleep(0.2)
        while not got.endswith(b"\r\n0\r\n\r\n"):
            got += link.recv(65536)
        self.assertEqual(daemon.stop(), 0)


class Uploads(Case):
    def test_uploads_of_one_user_at_a_time_are_bounded(self):
        daemon = Daemon(user_uploads=2)
        hog, guest = daemon.user("hog"), daemon.user("guest")
        text = logistic_text(10)
        slow = [socket.create_connection((daemon.host, daemon.port), timeout=harness.PATIENCE) for _ in range(2)]
        for i, connection in enumerate(slow):
            connection.sendall(("PUT /v1/datasets/slow%d.csv HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                                "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n" % (i, hog.token)).encode())
            self.assertIn(b" 100 ", connection.recv(100))  # it has been admitted
            connection.sendall(b"x")
        self.assertEqual(hog.put("/v1/datasets/more.csv", text).status, 429)
        self.assertEqual(guest.put("/v1/datasets/more.csv", text).status, 201)
        for connection in slow:
            connection.close()
        wait_for(lambda: hog.put("/v1/datasets/more.csv", text).status == 201, "the end of the uploads")
        self.assertEqual(daemon.stop(), 0)


class Connections(Case):
    def test_connections_of_one_address_are_bounded(self):
        daemon = Daemon(connections_per_address=8)
        held = [socket.create_connection((daemon.host, daemon.port)) for _ in range(8)]
        for connection in held:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(connection.recv(100))
        for _ in range(100):
            more = socket.create_connection((daemon.host, daemon.port), timeout=harness.PATIENCE)
            try:
                more.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertEqual(more.recv(100), b"")
            except OSError:
                pass  # reset
            more.close()
        self.assertLess(daemon.log().count("event=http.warned"), 90, "every refusal is in the log")
        other = socket.create_connection((daemon.host, daemon.port), timeout=harness.PATIENCE,
                                         source_address=("127.0.0.2", 0))
        other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b"200", other.recv(100))
        self.assertEqual(daemon.stop(), 0)


class Ending(Case):
    def ends(self, daemon, *statuses):
        try:
            self.assertIn(daemon.process.wait(BOUND), statuses)
        except subprocess.TimeoutExpired:
            daemon.kill()
            self.fail("the daemon does not end:\n" + daemon.last_words())
        daemon.check_log()

    def whole(self, daemon, *jobs):
        """Nothing is damaged, and what was acknowledged is there."""
        checked = command("check", state=daemon.state)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        daemon.start()
        client = daemon.client()
        for job in jobs:
            self.assertIn(client.job(job)["state"], ("queued", "running"))
        daemon.kill()


class End(Ending):
    def test_the_end_does_not_wait_for_data(self):
        daemon = Daemon(workers=1, cache_mb=0, cache_from_mb=1)
        client = daemon.client()
        name = write_npy(daemon, "data.npy", 1000)
        job, other = client.submit(regression(name, iterations=10000000)), client.submit(endless())
        self.assertEqual(daemon.stop(), 0)
        write_npy(daemon, name, 100000000)  # 40 GB
        daemon.start()
        asked = [send_only(client, "POST", "/v1/jobs", json.dumps(regression(name))) for _ in range(3)]
        wait_for(lambda: reads(daemon, name), "the load")
        daemon.process.send_signal(signal.SIGTERM)
        self.ends(daemon, 0)
        write_npy(daemon, name, 1000)
        self.whole(daemon, job, other)
        for connection in asked:
            connection.close()

    def locked(self):
        """A daemon whose catalogue another process has locked, with a request that waits for it."""
        daemon = Daemon(workers=1)
        client = daemon.client()
        job = client.submit(endless())
        client.wait(job, "running")
        lock = sqlite3.connect(os.path.join(daemon.state, "barkerd.db"), isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN IMMEDIATE")
        waits = send_only(client, "POST", "/v1/jobs", json.dumps(endless()))
        return daemon, job, lock, waits

    def test_the_end_does_not_wait_for_a_lock_of_another_process(self):
        daemon, job, lock, waits = self.locked()
        daemon.process.send_signal(signal.SIGTERM)
        self.ends(daemon, 0)
        self.assertFalse(waits.recv(100).startswith(b"HTTP/1.1 2"))
        lock.close()
        self.whole(daemon, job)

    def test_the_end_does_not_wait_for_who_reads_the_log(self):
        for signals in ((signal.SIGTERM, ), (signal.SIGTERM, signal.SIGINT)):
            with self.subTest(signals):
                reader, writer = os.pipe()
                daemon = Daemon(start=False)
                daemon.process = subprocess.Popen(daemon.argv(), env=daemon.env, stderr=writer, start_new_session=True)
                daemon.wait_ready()
                os.set_blocking(writer, False)
                try:
                    while os.write(writer, b"x"):
                        pass
                except BlockingIOError:
                    os.set_blocking(writer, True)
                for number in signals:
                    daemon.process.send_signal(number)
                    time.sleep(0.2)  # two at once would be taken for one
                self.ends(daemon, 0, 3)
                os.close(reader)
                os.close(writer)

    def test_a_second_signal_ends_at_once(self):
        for _ in range(4):  # again when the first signal was enough before the second one came
            daemon, job, lock, waits = self.locked()
            daemon.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not os.path.exists(os.path.join(daemon.state, "url")), "the end to begin")
            daemon.process.send_signal(signal.SIGINT)
            self.ends(daemon, 0, 3)
            status = daemon.process.returncode
            lock.close()
            waits.close()
            if status == 3:
                break
        self.assertEqual(status, 3)
        self.assertIn("second signal", daemon.log())
        self.whole(daemon, job)


class Busy(Ending):
    """The end while work is under way that may last: each function begins some, and returns what must still be there,
    jobs that have not ended and connections."""

    def end_while(self, work, attempts=6):
        """Again with more of it where it was over before the signal came."""
        for size in (4 ** k for k in range(attempts)):
            daemon = Daemon(workers=1)
            client = daemon.client()
            jobs, connections = work(daemon, client, size)
            daemon.process.send_signal(signal.SIGTERM)
            self.ends(daemon, 0)
            self.assertNotIn("shutdown took too long", daemon.log())
            for connection in connections:
                connection.close()
            checked = command("check", state=daemon.state)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            daemon.start(workers=1)
            states = [daemon.client().job(job)["state"] for job in jobs]
            daemon.kill()
            if all(state in ("queued", "running") for state in states):
                return
            self.assertLessEqual(set(states), {"queued", "running", "succeeded"})
        self.fail("the work was always over too soon")

    def in_phase(self, daemon, client, phase, rows, **fields):
        """A job on so many rows, as soon as it is in this phase."""
        daemon.file("rows.csv", logistic_text(rows, columns=5))
        job = client.submit({"model": "logistic", "data": {"path": "rows.csv"}, "seed": 1, **fields})
        client.until(job, lambda j: j["phase"] == phase or j["state"] in harness.ENDED, phase)
        return [job], []

    def test_a_plan(self):
        self.end_while(lambda daemon, client, size: self.in_phase(daemon, client, "planning", 200000 * size), attempts=3)

    def test_the_checks_of_a_job_that_has_ended(self):
        self.end_while(lambda daemon, client, size: self.in_phase(
            daemon, client, "checking", 5000 * size, sampler={"name": "sgbd", "step_size": 0.01}, batch_size=100,
            iterations=5000, warmup=0, thin=1, chains=2, check_draws=10000))

    def with_draws(self, client, size):
        return client.run(toy(iterations=300000 * size, warmup=0, thin=1))["id"], client.submit(endless())

    def test_downloads_and_streams(self):
        def work(_, client, size):
            job, other = self.with_draws(client, size)
            links = [send_only(client, "GET", path, "") for path in ("/v1/events", "/v1/jobs/%s/draws?format=csv" % job)]
            for link in links:
                self.assertTrue(link.recv(20))
            return [other], links
        self.end_while(work)

    def test_a_copy_and_a_purge_that_waits_for_it(self):
        def work(daemon, client, size):
            job, other = self.with_draws(client, 4 * size)
            links = [send_only(client, "GET", "/v1/jobs/%s/draws?format=sqlite" % job, "")]
            wait_for(lambda: os.listdir(os.path.join(daemon.state, "tmp")) or answered(links[0]), "the copy")
            links.append(send_only(client, "DELETE", "/v1/jobs/%s?purge=true" % job, ""))
            return [other], links
        self.end_while(work)

    def test_an_upload_and_what_requests_compute(self):
        def work(_, client, size):
            job, other = self.with_draws(client, size)
            links = [send_only(client, "GET", "/v1/jobs/%s/density?bins=500" % job, "") for _ in range(20)]
            links.append(send_only(client, "PUT", "/v1/datasets/half.csv", "x,y\n", {"Content-Length": 1000}))
            return [other], links
        self.end_while(work)

    def test_a_backup(self):
        def work(daemon, client, size):
            _, other = self.with_draws(client, 4 * size)
            copy = os.path.join(daemon.folder, "copy")
            process = subprocess.Popen([harness.BARKERD, "backup", copy, "--state", daemon.state], env=daemon.env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            wait_for(lambda: os.path.isdir(copy) or process.poll() is not None, "the backup")
            self.backup = process, copy
            return [other], []
        self.end_while(work)
        process, copy = self.backup
        self.assertEqual(process.wait(harness.PATIENCE), 0)
        checked = command("check", state=copy)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


class Summaries(Case):
    def test_summaries_of_one_user_leave_room_for_those_of_another(self):
        daemon = Daemon(workers=2)
        hog, guest = daemon.user("hog"), daemon.user("guest")
        daemon.file("wide.csv", logistic_text(100, columns=100))
        large = hog.run({"model": {"name": "logistic"}, "data": {"path": "wide.csv", "response": "y"}, "iterations": 60000,
                         "warmup": 0, "chains": 1, "seed": 1, "batch_size": 10, "sampler": {"name": "sgbd", "step_size": 0.01}})["id"]
        small = guest.run(toy(iterations=100, warmup=0))["id"]
        path = "/v1/jobs/%s/summary?limit=100" % large
        pending = [send_only(hog, "GET", path, "") for _ in range(40)]
        wait_for(lambda: any(answered(c) for c in pending), "a first summary")
        self.assertEqual(guest.get("/v1/jobs/%s/summary" % small).status, 200)
        self.assertTrue([c for c in pending if not answered(c)], "the summaries were over too soon")
        daemon.kill()


class Purges(Case):
    def test_a_purge_that_waits_for_a_copy_holds_back_nobody(self):
        daemon = Daemon(workers=2)
        hog, guest = daemon.user("hog"), daemon.user("guest")
        iterations, waits = 1500000, False
        while not waits and iterations < 50000000:  # again when the copy was made too soon
            large = hog.run(toy(iterations=iterations, warmup=0, thin=1))["id"]
            small = guest.run(toy())["id"]
            copy = send_only(hog, "GET", "/v1/jobs/%s/draws?format=sqlite" % large, "")
            purge = send_only(hog, "DELETE", "/v1/jobs/%s?purge=true" % large, "")
            wait_for(lambda: answered(purge) or hog.get("/v1/jobs/" + large).status == 404, "the purge to begin")
            guest.act(small, "extend", {"iterations": 10})
            guest.wait(small)
            self.assertEqual(guest.delete("/v1/jobs/" + small).status, 204)
            waits = not answered(purge)
            self.assertTrue(purge.recv(100).startswith(b"HTTP/1.1 204"))
            copy.close()
            iterations *= 2
        self.assertTrue(waits, "what another user asked for was answered after the purge only")
        self.assertEqual(hog.read("/v1/jobs", query={"trash": "true"})["items"], [])
        self.assertEqual(daemon.stop(), 0)
