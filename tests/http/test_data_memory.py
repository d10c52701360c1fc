"""Small files that unpack to a lot: previews and loads of them take little memory."""

import gzip
import struct
import threading

import harness
from harness import Case, Daemon

MB = 1 << 20
AT_ONCE = 6


def setUpModule():
    global daemon, alice
    daemon = Daemon(data_memory_mb=64, cache_from_mb=1, unpacked_mb=300)
    alice = daemon.user("alice")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def packed(head, block, blocks):
    """The bytes of a gzip of `head` and so many times `block`, as members in a row."""
    return gzip.compress(head) + gzip.compress(block) * blocks


def npy_head(rows, columns, fortran):
    head = "{'descr': '<f8', 'fortran_order': %s, 'shape': (%d, %d), }" % (fortran, rows, columns)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()


def preview(client, name, rows, replies):
    replies.append(client.get("/v1/datasets/" + name, query={"rows": rows}))


def at_once(daemon, client, name, rows):
    """The answers to previews from several connections, and by how much (MB) memory grew."""
    replies = []
    threads = [threading.Thread(target=preview, args=(client, name, rows, replies))
               for _ in range(AT_ONCE)]
    with open("/proc/%d/clear_refs" % daemon.process.pid, "w") as file:
        file.write("5")  # VmHWM begins anew
    before = daemon.status("VmHWM")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies, (daemon.status("VmHWM") - before) / 1024


class Previews(Case):
    def test_a_packed_array_in_fortran_order_takes_little_memory(self):
        rows = 100 * MB // 80
        daemon.file("fortran.npy.gz", packed(npy_head(rows, 10, True), bytes(MB), 100))
        replies, grown = at_once(daemon, alice, "fortran.npy.gz", 3)
        self.assertEqual([r.status for r in replies], [200] * AT_ONCE, replies)
        shown = replies[0].json()
        self.assertEqual((shown["rows"], shown["preview"]), (rows, [[0] * 10] * 3))
        self.assertLess(grown, harness.MEMORY_SLACK * 60)

    def test_wide_rows_are_shown_up_to_a_number_of_values(self):
        line = b"1" + b",0" * 9999 + b"\n"
        daemon.file("wide.csv.gz", packed(line, line * 100, 10))
        replies, grown = at_once(daemon, alice, "wide.csv.gz", 1000)
        self.assertEqual([r.status for r in replies], [200] * AT_ONCE, replies[0])
        shown = replies[0].json()
        self.assertEqual((shown["rows"], len(shown["columns"])), (1001, 10000))
        self.assertEqual(len(shown["preview"]), 10)
        self.assertTrue(all(row == [1] + [0] * 9999 for row in shown["preview"]))
        self.assertLess(grown, harness.MEMORY_SLACK * 150)

    def test_a_long_line_takes_memory_that_is_counted(self):
        small = Daemon(request_memory_mb=128)  # 64 MB for one user, 32 MB for one such preview
        small.file("line.csv.gz", packed(b"", b"1," * (MB // 2), 100))
        replies, grown = at_once(small, small.user("alice"), "line.csv.gz", 10)
        for reply in replies:
            if reply.status == 200:
                self.assertIn("bytes", reply.json()["problem"])
            else:
                self.assertProblem(reply, 503, "request_memory_mb")
        self.assertLess(grown, harness.MEMORY_SLACK * 100)
        self.assertEqual(small.stop(), 0)

    def test_rows_beyond_what_is_unpacked_are_not_counted(self):
        daemon.file("long.csv.gz", packed(b"a,y\n", b"1,0\n" * (MB // 4), 1030))
        shown = alice.read("/v1/datasets/long.csv.gz", query={"rows": 2})
        self.assertEqual((shown["columns"], shown["preview"]), (["a", "y"], [[1, 0]] * 2))
        self.assertIn("sha256", shown)
        self.assertNotIn("rows", shown)


def job(path):
    return {"model": {"name": "logistic"}, "data": {"path": path, "response": "V2"},
            "sampler": {"name": "sgbd", "step_size": 0.1}, "iterations": 20, "warmup": 20,
            "chains": 1, "seed": 1}


def regression(path):
    """A job that keeps its data in memory. Responses are 0: with a free sigma it would diverge."""
    return {"model": {"name": "linear_regression", "sigma": 1}, "data": {"path": path, "response": "V1"},
            "sampler": {"name": "sgbd", "step_size": 0.01}, "iterations": 1000000000, "thin": 1000000, "warmup": 10,
            "chains": 1, "seed": 1}


class Loads(Case):
    def test_a_file_that_unpacks_to_too_much_is_refused_with_the_limit(self):
        daemon.file("bomb.csv.gz", packed(b"", b"1,0\n0,1\n" * (MB // 8), 400))
        reply = alice.post("/v1/jobs", job("bomb.csv.gz"))
        self.assertProblem(reply, 422, "bomb.csv.gz", "300 MB", "unpacked_mb",
                           pointer="/data/path")

    def test_what_is_read_counts_before_it_is_there(self):
        small = Daemon(data_memory_mb=64, cache_mb=0)
        client = small.user("alice")
        small.file("wide.csv.gz", packed(b"", b"1,0\n0,1\n" * (MB // 8), 60))
        with open("/proc/%d/clear_refs" % small.process.pid, "w") as file:
            file.write("5")
        before = small.status("VmHWM")
        reply = client.post("/v1/jobs", job("wide.csv.gz"))
        self.assertProblem(reply, 422, "64 MB", pointer="/data/path")
        metrics = client.get("/metrics").body.decode()
        self.assertNotIn('barkerd_budget_bytes{budget="data",kind="most_used"} 0\n', metrics)
        self.assertLess((small.status("VmHWM") - before) / 1024, harness.MEMORY_SLACK * 90)
        self.assertEqual(small.stop(), 0)

    def test_data_that_are_used_again_count_for_their_user(self):
        small = Daemon(data_memory_mb=64, cache_mb=0, cache_from_mb=1000)
        eve, ann = small.user("eve"), small.user("ann")
        names = ["data%d.npy" % i for i in range(4)]
        for name in names:  # 12 MB each in memory
            small.file(name, npy_head(50000, 50, False) + bytes(8 * 50 * 50000))
        for name in names[:3]:
            self.assertEqual(eve.post("/v1/jobs", regression(name), query={"validate_only": "true"}).status, 200)
        held = [eve.submit(regression(name)) for name in names[:2]]
        for name in held:
            eve.wait_progress(name, 1)
        self.assertProblem(eve.post("/v1/jobs", regression(names[2])), 503, "at most half (data_memory_mb)")
        ann.wait_progress(ann.submit(regression(names[3])), 1)
        self.assertEqual(small.stop(), 0)
