"""Downloads that take their time: how many a user may have at once, and what each of them costs."""

import socket
import time

import harness
from harness import Case, Daemon, Table, toy

SLOW = 24  # readers


def setUpModule():
    global daemon, alice, bob, dora, job, small
    daemon = Daemon(user_downloads=3)
    alice, bob, dora = (daemon.user(name) for name in ("alice", "bob", "dora"))
    job = alice.run(toy(iterations=1500000, warmup=0, chains=2, visibility="lab"))["id"]
    small = alice.run(toy(visibility="lab"))["id"]


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


class Slow:
    """A client that reads the beginning of a download and then no more."""

    def __init__(self, user, job_id, form="csv"):
        self.socket = socket.create_connection((user.daemon.host, user.daemon.port))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.sendall(("GET /v1/jobs/%s/draws?format=%s HTTP/1.1\r\nHost: localhost\r\n"
                             "Authorization: Bearer %s\r\n\r\n" % (job_id, form, user.token)).encode())
        self.head = self.socket.recv(600)
        self.status = int(self.head.split()[1])

    def close(self):
        self.socket.close()


class Limit(Case):
    def hold(self, user, count, form="csv"):
        """Takes as many places. That a connection was closed is noticed soon, not at once."""
        held, end = [], time.monotonic() + harness.PATIENCE
        while len(held) < count:
            held.append(Slow(user, job, form))
            if held[-1].status == 200:
                continue
            self.assertEqual(held[-1].status, 429)
            held.pop().close()
            self.assertLess(time.monotonic(), end, "places are not given back")
            time.sleep(0.02)
        return held

    def let_go(self, held):
        for s in held:
            s.close()

    def test_a_user_has_so_many_downloads_at_the_same_time(self):
        for form in ("csv", "npy", "json", "posteriordb", "sqlite"):
            with self.subTest(form):
                held = self.hold(alice, 3, form)
                for wanted in ("csv", "stan", "sqlite"):
                    reply = alice.get("/v1/jobs/%s/draws" % small,
                                      query={"format": wanted, "chains": 1})
                    self.assertProblem(reply, 429, "3 of your downloads")
                    self.assertGreater(int(reply.headers["Retry-After"]), 0)
                self.assertEqual(alice.get("/v1/jobs/%s/summary" % small).status, 200)
                self.assertEqual(len(Table(dora.draws(small)).rows), 200, "others have their own")
                self.let_go(held)

    def test_whatever_ends_a_download_gives_its_place_back(self):
        for _ in range(5):  # read to the end, refused, head only
            bob.draws(small)
            self.assertEqual(bob.get("/v1/jobs/%s/draws" % small, query={"params": "x"}).status, 422)
            self.assertEqual(bob.get("/v1/jobs/%s/draws" % small,
                                     query={"format": "stan"}).status, 422)
            self.assertEqual(bob.get("/v1/jobs/%s/draws" % small,
                                     query={"format": "sqlite", "thin": 2}).status, 422)
            self.assertEqual(bob.get("/v1/jobs/0000000000000000/draws").status, 404)
            self.assertEqual(bob.request("HEAD", "/v1/jobs/%s/draws" % small).status, 200)
        for _ in range(2):  # left in the middle
            self.let_go(self.hold(bob, 3))

    def test_a_user_who_is_made_again_has_all_downloads(self):
        carol = daemon.user("carol")
        held = self.hold(carol, 3)
        self.assertEqual(daemon.client().delete("/v1/users/carol").status, 204)
        carol = daemon.user("carol")
        again = [Slow(carol, job) for _ in range(3)]
        self.assertEqual([s.status for s in again], [200] * 3)
        self.let_go(held + again)
        self.let_go(self.hold(carol, 3))


class Memory(Case):
    def test_a_reader_that_stalls_holds_little(self):
        if harness.sanitized():
            self.skipTest("a sanitizer's memory is not the daemon's")
        other = Daemon(user_downloads=1000)
        user = other.user("dora")
        big = user.run(toy(iterations=600000, warmup=0, chains=2))["id"]
        user.draws(big)
        for form in ("csv", "npy", "json"):
            before = other.status("VmRSS")
            held = [Slow(user, big, form) for _ in range(SLOW)]
            self.assertEqual({s.status for s in held}, {200})
            time.sleep(0.5)  # what is sent ahead has been made by then
            each = (other.status("VmRSS") - before) / SLOW
            self.assertLess(each, 2048, "%s: %.0f kB for each reader" % (form, each))
            for s in held:
                s.close()
        self.assertEqual(other.stop(), 0)
