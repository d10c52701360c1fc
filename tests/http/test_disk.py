"""Disk space: what a user stores is counted before it is written, and given back when it goes."""

import concurrent.futures
import json
import os
import socket
import sqlite3
import time

import harness
from harness import Case, Daemon, toy

MB = 1 << 20


def document(size):
    """A reference of about so many bytes."""
    names = ["theta[%d]" % (k + 1) for k in range(10)]
    row = {"names": names, "mean": [0.5] * 10, "sd": [1.0] * 10}
    return json.dumps(dict(row, note="x" * (size - len(json.dumps(row)))))


def put(user, name, size=2000, **query):
    return user.put("/v1/references/" + name, document(size), query=query,
                    headers={"Content-Type": "application/json"})


def usage(user):
    return user.read("/v1/me")["usage"]


def eventually(condition, what):
    end = time.monotonic() + harness.PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain: " + what
        time.sleep(0.02)


class References(Case):
    def test_they_count_into_what_their_owner_may_store(self):
        small = Daemon(user_stored_mb=1)
        carol, dave = small.user("carol"), small.user("dave")
        self.assertEqual(put(carol, "a", 400000).status, 204)
        self.assertEqual(put(carol, "b", 400000).status, 204)
        self.assertProblem(put(carol, "c", 400000), 422, "carol", "of 1 MB")
        self.assertEqual(put(carol, "b", 500000).status, 204)  # in place of the other
        self.assertProblem(put(carol, "b", 700000), 422, "of 1 MB")
        self.assertGreater(usage(carol)["stored_bytes"], 899000)
        self.assertEqual(usage(carol)["references"], 2)
        self.assertEqual(put(dave, "c", 400000).status, 204)
        job = toy(iterations=20000, warmup=0)
        self.assertProblem(carol.post("/v1/jobs", job), 422, "MB")
        self.assertEqual(carol.delete("/v1/references/b").status, 204)
        self.assertLess(usage(carol)["stored_bytes"], 500000)
        self.assertEqual(put(carol, "c", 400000).status, 204)
        self.assertEqual(carol.delete("/v1/references/a").status, 204)
        self.assertEqual(carol.delete("/v1/references/c").status, 204)
        self.assertEqual(usage(carol)["stored_bytes"], 0)
        carol.run(job)
        self.assertEqual(small.stop(), 0)

    def test_many_at_once_do_not_exceed_it_together(self):
        small = Daemon(user_stored_mb=1)
        carol = small.user("carol")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [r.status for r in pool.map(lambda k: put(carol, "r%d" % k, 400000), range(8))]
        self.assertEqual(sorted(answers), [204] * 2 + [422] * 6)
        self.assertEqual(len(carol.read("/v1/references")["items"]), 2)
        self.assertEqual(small.stop(), 0)

    def test_a_user_has_so_many(self):
        small = Daemon(user_references=3)
        carol, dave = small.user("carol"), small.user("dave")
        for name in "abc":
            self.assertEqual(put(carol, name).status, 204)
        self.assertProblem(put(carol, "d"), 422, "3 references")
        self.assertEqual(put(carol, "c").status, 204)
        self.assertEqual(put(dave, "d").status, 204)
        self.assertEqual(carol.delete("/v1/references/a").status, 204)
        self.assertEqual(put(carol, "d").status, 204)
        self.assertEqual(carol.read("/v1/info")["limits"]["references"], 3)
        self.assertEqual(small.stop(), 0)

    def test_none_is_taken_when_the_disk_is_nearly_full(self):
        full = Daemon(min_free_mb=1048576)
        self.assertProblem(put(full.user("carol"), "a"), 507, "free")
        self.assertEqual(full.stop(), 0)

    def test_what_is_deleted_or_replaced_gives_the_disk_its_space_back(self):
        small = Daemon()
        carol = small.user("carol")
        path = os.path.join(small.state, "barkerd.db")
        taken = lambda: os.stat(path).st_size
        for k in range(6):
            self.assertEqual(put(carol, "r%d" % k, 4 * MB).status, 204)
        eventually(lambda: taken() > 20 * MB or os.stat(path + "-wal").st_size > 20 * MB, "growth")
        for k in range(3):
            self.assertEqual(put(carol, "r%d" % k, 2000).status, 204)
        for k in range(3, 6):
            self.assertEqual(carol.delete("/v1/references/r%d" % k).status, 204)
        eventually(lambda: taken() < 6 * MB, "a smaller file")
        self.assertEqual([r["name"] for r in carol.read("/v1/references")["items"]],
                         ["r0", "r1", "r2"])
        self.assertEqual(small.stop(), 0)
        self.assertLess(taken(), 6 * MB)

    def test_the_catalogue_of_an_earlier_version_learns_to_shrink(self):
        old = Daemon(min_free_mb=0)
        carol = old.user("carol")
        for k in range(4):
            self.assertEqual(put(carol, "r%d" % k, 4 * MB).status, 204)
        self.assertEqual(old.stop(), 0)
        path = os.path.join(old.state, "barkerd.db")
        with sqlite3.connect(path) as db:  # as it was made before
            db.isolation_level = None
            db.execute("PRAGMA auto_vacuum = NONE")
            db.execute("VACUUM")
            self.assertEqual(db.execute("PRAGMA auto_vacuum").fetchone(), (0,))
        db.close()
        old.start()
        self.assertEqual(len(carol.read("/v1/references")["items"]), 4)
        for k in range(4):
            self.assertEqual(carol.delete("/v1/references/r%d" % k).status, 204)
        eventually(lambda: os.stat(path).st_size < 6 * MB, "a smaller file")
        self.assertEqual(old.stop(), 0)


class Names(Case):
    """A name belongs to its owner; the lab sees one of a name."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.ana, cls.ben, cls.eve = (cls.daemon.user(n) for n in ("ana", "ben", "eve"))

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def source(self, user, name, **query):
        return user.read("/v1/references/" + name, query=query)["note"]

    def put(self, user, name, mark, **query):
        body = json.dumps({"names": ["theta[1]"], "mean": [0], "sd": [1], "note": mark})
        return user.put("/v1/references/" + name, body, query=query,
                        headers={"Content-Type": "application/json"})

    def test_another_users_lab_reference_of_that_name_is_not_shadowed(self):
        self.assertEqual(self.put(self.ana, "truth", "ana's", visibility="lab").status, 204)
        self.assertProblem(self.put(self.ben, "truth", "ben's", visibility="lab"), 409,
                           "ana/truth")
        self.assertEqual(self.source(self.eve, "truth"), "ana's")
        self.assertEqual(self.put(self.ben, "truth", "ben's").status, 204)
        self.assertEqual(self.source(self.eve, "truth"), "ana's")
        self.assertEqual(self.source(self.ben, "truth"), "ben's")
        self.assertEqual(self.source(self.ben, "ana/truth"), "ana's")
        self.assertEqual(self.source(self.ben, "ben/truth"), "ben's")
        self.assertEqual(self.eve.get("/v1/references/ben/truth").status, 404)
        self.assertEqual(self.put(self.ana, "truth", "ana's second", visibility="lab").status, 204)
        self.assertEqual(self.source(self.eve, "ana/truth"), "ana's second")

    def test_only_ones_own_is_stored_and_deleted(self):
        self.assertEqual(self.put(self.ana, "ana/mine", "ana's", visibility="lab").status, 204)
        self.assertEqual(self.source(self.ana, "mine"), "ana's")
        self.assertProblem(self.put(self.ben, "ana/mine", "ben's"), 403)
        self.assertProblem(self.ben.delete("/v1/references/ana/mine"), 403)
        self.assertEqual(self.ben.delete("/v1/references/mine").status, 404)
        for name in ("ana/x/y", "ANA/x", "anabel/x"):
            self.assertIn(self.put(self.ana, name, "").status, (403, 422), name)
        self.assertEqual(self.ana.delete("/v1/references/ana/mine").status, 204)
        self.assertEqual(self.ana.get("/v1/references/mine").status, 404)

    def test_an_ambiguous_name_is_answered_with_what_it_may_mean(self):
        mine = Daemon(min_free_mb=0)
        ana, ben, eve = (mine.user(n) for n in ("ana", "ben", "eve"))
        for user, mark in ((ana, "ana's"), (ben, "ben's")):
            self.assertEqual(self.put(user, "old", mark).status, 204)
        self.assertEqual(mine.stop(), 0)
        db = sqlite3.connect(os.path.join(mine.state, "barkerd.db"))
        with db:  # an earlier version let both be
            db.execute("UPDATE reference SET lab = 1")
        db.close()
        mine.start()
        self.assertProblem(eve.get("/v1/references/old"), 409, "ana/old", "ben/old")
        self.assertProblem(eve.post("/v1/jobs", toy(reference="old")), 409, "ana/old")
        job = eve.run(toy(reference="ben/old"))
        self.assertEqual(job["request"]["reference"], "ben/old")
        self.assertProblem(eve.get("/v1/jobs/%s/summary" % job["id"], query={"reference": "old"}),
                           409, "ben/old")
        summary = eve.read("/v1/jobs/%s/summary" % job["id"], query={"reference": "ana/old"})
        self.assertIsNotNone(summary["reference"])
        self.assertEqual(self.source(ana, "old"), "ana's")
        self.assertEqual(mine.stop(), 0)


class HalfSent:
    """An upload that stops in the middle."""

    def __init__(self, user, name, size):
        self.socket = socket.create_connection((user.daemon.host, user.daemon.port))
        self.socket.sendall(("PUT /v1/datasets/%s HTTP/1.1\r\nHost: localhost\r\n"
                             "Content-Length: %d\r\nAuthorization: Bearer %s\r\n\r\n"
                             % (name, size, user.token)).encode())

    def send(self, size):
        try:
            self.socket.sendall(b"1,2\n" * (size // 4))
        except OSError:
            pass  # answered and closed
        return self

    def status(self):
        self.socket.settimeout(harness.PATIENCE)
        return int(self.socket.recv(600).split()[1])

    def close(self):
        self.socket.close()


class Uploads(Case):
    def folder(self, small, user):
        path = os.path.join(small.data, ".users", user)
        return [os.path.join(path, n) for n in os.listdir(path)] if os.path.exists(path) else []

    def bytes(self, small, user):
        total = 0
        for path in self.folder(small, user):
            try:
                total += os.stat(path).st_size
            except FileNotFoundError:
                pass
        return total

    def test_those_under_way_do_not_exceed_the_quota_together(self):
        small = Daemon(user_stored_mb=1)
        carol, dave = small.user("carol"), small.user("dave")
        held = [HalfSent(carol, "f%d.csv" % k, 500000).send(4) for k in range(5)]
        eventually(lambda: self.bytes(small, "carol") == 20, "five uploads under way")
        for h in held:
            h.send(399996)
        eventually(lambda: self.bytes(small, "carol") > MB or len(self.folder(small, "carol")) == 2
                   and self.bytes(small, "carol") == 800000, "refusals")
        self.assertLessEqual(self.bytes(small, "carol"), MB)
        self.assertEqual(usage(carol)["upload_bytes"], 800000)
        self.assertEqual(dave.put("/v1/datasets/d.csv", b"1,2\n" * 200000).status, 201)
        answers = [h.send(100000).status() for h in held]
        self.assertEqual(sorted(answers), [201] * 2 + [422] * 3)
        self.assertEqual(usage(carol)["upload_bytes"], 1000000)
        for h in held:
            h.close()
        self.assertEqual(small.stop(), 0)

    def test_one_that_ends_in_the_middle_gives_back_what_it_had(self):
        small = Daemon(user_stored_mb=1)
        carol = small.user("carol")
        held = HalfSent(carol, "f.csv", 1000000).send(900000)
        eventually(lambda: usage(carol)["upload_bytes"] == 900000, "what has arrived")
        self.assertProblem(carol.put("/v1/datasets/g.csv", b"1,2\n" * 125000), 422, "1 MB")
        held.close()
        eventually(lambda: usage(carol)["upload_bytes"] == 0, "its end")
        self.assertEqual(carol.put("/v1/datasets/g.csv", b"1,2\n" * 125000).status, 201)
        self.assertEqual(small.stop(), 0)

    def test_a_user_has_so_many_files(self):
        small = Daemon(user_files=3)
        carol = small.user("carol")
        send = lambda name: carol.put("/v1/datasets/" + name, b"1,2\n")
        for name in "abc":
            self.assertEqual(send(name).status, 201)
        self.assertProblem(send("d"), 422, "3 data files")
        self.assertEqual(send("c").status, 201)
        self.assertEqual(carol.delete("/v1/datasets/a").status, 204)
        held = HalfSent(carol, "d", 100).send(4)
        eventually(lambda: usage(carol)["uploads"] == 3, "the one under way")
        self.assertProblem(send("e"), 422, "3 data files")
        self.assertEqual(held.send(96).status(), 201)
        held.close()
        self.assertEqual(small.stop(), 0)

    def test_what_a_crash_left_is_gone_after_the_next_start(self):
        small = Daemon()
        carol = small.user("carol")
        held = HalfSent(carol, "f.csv", 500000).send(400000)
        eventually(lambda: self.bytes(small, "carol") == 400000, "what was sent")
        small.kill()
        held.close()
        self.assertEqual(len(self.folder(small, "carol")), 1)
        small.start()
        self.assertEqual(self.folder(small, "carol"), [])
        self.assertEqual(usage(carol)["upload_bytes"], 0)
        self.assertEqual(small.stop(), 0)


class Copies(Case):
    def slow(self, user, job):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((user.daemon.host, user.daemon.port))
        s.sendall(("GET /v1/jobs/%s/draws?format=sqlite HTTP/1.1\r\nHost: localhost\r\n"
                   "Authorization: Bearer %s\r\n\r\n" % (job, user.token)).encode())
        self.assertEqual(int(s.recv(600).split()[1]), 200)
        return s

    def reserved(self, small):
        lines = small.client().get("/metrics").text.splitlines()
        return float(next(l.split()[1] for l in lines if l.startswith("barkerd_copies_bytes ")))

    def test_those_under_way_have_their_space_to_themselves(self):
        small = Daemon(copies_mb=32)
        carol, dave = small.user("carol"), small.user("dave")
        job = carol.run(toy(iterations=900000, warmup=0, chains=1, visibility="lab"))
        self.assertGreater(job["stored_bytes"], 6 * MB)
        self.assertLess(job["stored_bytes"], 10 * MB)
        path = "/v1/jobs/%s/draws" % job["id"]
        copy = lambda user: user.get(path, query={"format": "sqlite"})
        held = [self.slow(carol, job["id"])]
        if job["stored_bytes"] <= 8 * MB:
            held.append(self.slow(carol, job["id"]))
        self.assertProblem(copy(carol), 503, "copies", "carol")
        self.assertEqual(carol.get(path, query={"format": "npy"}).status, 200)
        held += [self.slow(dave, job["id"]) for _ in range(len(held))]
        self.assertProblem(copy(dave), 503, "copies")
        self.assertGreater(self.reserved(small), len(held) * 6 * MB)
        for s in held:
            s.close()
        eventually(lambda: copy(carol).status == 200, "space that is given back")
        for _ in range(4):
            self.assertEqual(copy(dave).status, 200)
        eventually(lambda: self.reserved(small) == 0, "the end of the last copy")
        self.assertEqual(small.stop(), 0)


class Studies(Case):
    def test_a_user_has_so_many(self):
        small = Daemon(user_studies=2)
        carol = small.user("carol")
        make = lambda: carol.post("/v1/studies", {"kind": "ladder", "job": toy()})
        made = [make() for _ in range(2)]
        self.assertEqual([m.status for m in made], [201] * 2, made)
        self.assertProblem(make(), 422, "2 studies")
        self.assertEqual(carol.delete("/v1/studies/" + made[0].json()["id"]).status, 204)
        self.assertEqual(make().status, 201)
        self.assertEqual(small.stop(), 0)


class Jobs(Case):
    def test_a_user_has_so_many_in_all(self):
        small = Daemon(user_jobs=3, trash_hours=0)
        carol, dave = small.user("carol"), small.user("dave")
        jobs = [carol.run(toy(seed=k))["id"] for k in range(3)]
        self.assertProblem(carol.post("/v1/jobs", toy()), 422, "3 jobs")
        dave.run(toy())
        self.assertEqual(carol.delete("/v1/jobs/" + jobs[0]).status, 204)
        eventually(lambda: carol.post("/v1/jobs", toy()).status == 201, "room for another")
        self.assertEqual(small.stop(), 0)

    def test_the_log_of_a_job_keeps_its_newest_lines(self):
        small = Daemon()
        carol = small.user("carol")
        job = carol.run(toy())["id"]
        self.assertEqual(small.stop(), 0)
        db = sqlite3.connect(os.path.join(small.state, "barkerd.db"))
        with db:
            db.executemany("INSERT INTO log VALUES (?, ?, 1, 'x')",
                           [(job, k) for k in range(100, 3100)])
        db.close()
        small.start()
        carol.act(job, "extend", {"iterations": 100})
        carol.wait(job)
        rows = small.catalogue("SELECT count(*), min(seq) FROM log WHERE job = ?", job)
        self.assertLessEqual(rows[0][0], 1000)
        self.assertGreater(rows[0][1], 2000)
        self.assertEqual(small.stop(), 0)
