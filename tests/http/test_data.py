"""Data files: uploads, what the root holds that it should not, what a job may name, bad content."""

import gzip
import hashlib
import os
import socket
import struct

import harness
from harness import Case, Daemon, logistic_text, raw, statuses, table_text, toy


def setUpModule():
    global daemon, admin, alice, bob, vera
    daemon = Daemon(upload_mb=1)
    daemon.file("train.csv", logistic_text(60))
    daemon.file("sub/folder/deep.csv", logistic_text(60))
    admin = daemon.client()
    alice, bob = daemon.user("alice"), daemon.user("bob")
    vera = daemon.user("vera", "viewer")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def logistic(path="train.csv", **data):
    return {"model": {"name": "logistic"}, "data": {"path": path, "response": "y", **data},
            "sampler": {"name": "sgbd", "step_size": 0.1}, "iterations": 20, "warmup": 20,
            "chains": 1, "seed": 1}


def check(client, spec):
    return client.post("/v1/jobs", spec, query={"validate_only": "true"})


def jobs():
    return daemon.catalogue("SELECT count(*) FROM job")[0][0]


class Uploads(Case):
    def test_an_upload_tells_its_size_and_hash_and_is_there(self):
        body = logistic_text(30, seed=9).encode()
        reply = alice.put("/v1/datasets/up.csv", body)
        self.assertEqual(reply.status, 201, reply)
        sha = hashlib.sha256(body).hexdigest()
        self.assertEqual(reply.json(), {"name": "up.csv", "bytes": len(body), "sha256": sha})
        about = alice.read("/v1/datasets/up.csv")
        self.assertEqual((about["rows"], about["columns"], about["sha256"], about["bytes"]),
                         (30, ["x1", "x2", "x3", "y"], sha, len(body)))
        self.assertFalse(about["shared"])
        first = [float(x) for x in body.decode().splitlines()[1].split(",")]
        self.assertEqual(about["preview"][0], first)
        self.assertEqual(len(alice.read("/v1/datasets/up.csv", query={"rows": 3})["preview"]), 3)
        self.assertEqual(alice.read("/v1/datasets/up.csv", query={"rows": 0})["preview"], [])
        self.assertIn("up.csv", [d["name"] for d in alice.read("/v1/datasets")["items"]])
        self.assertEqual(check(alice, logistic("up.csv")).status, 200)

    def test_a_second_upload_takes_the_place_of_the_first(self):
        self.assertEqual(alice.put("/v1/datasets/twice.csv", "a,y\n1,0\n2,1\n").status, 201)
        self.assertEqual(alice.put("/v1/datasets/twice.csv", "b,y\n1,0\n2,1\n3,1\n").status, 201)
        about = alice.read("/v1/datasets/twice.csv")
        self.assertEqual((about["columns"], about["rows"]), (["b", "y"], 3))

    def test_uploads_are_seen_by_their_owner_only(self):
        self.assertEqual(alice.put("/v1/datasets/private.csv", logistic_text(20)).status, 201)
        for client in (bob, vera, admin):
            with self.subTest(client.name):
                self.assertProblem(client.get("/v1/datasets/private.csv"), 404)
                names = [d["name"] for d in client.read("/v1/datasets")["items"]]
                self.assertNotIn("private.csv", names)
                self.assertIn("train.csv", names)
        self.assertProblem(check(bob, logistic("private.csv")), 422, pointer="/data/path")
        for path in (".users/alice/private.csv", ".users/bob/../alice/private.csv"):
            self.assertProblem(check(bob, logistic(path)), 422, pointer="/data/path")

    def test_two_users_may_use_one_name(self):
        self.assertEqual(alice.put("/v1/datasets/same.csv", "a,y\n1,0\n2,1\n").status, 201)
        self.assertEqual(bob.put("/v1/datasets/same.csv", "b,y\n1,0\n").status, 201)
        self.assertEqual(alice.read("/v1/datasets/same.csv")["columns"], ["a", "y"])
        self.assertEqual(bob.read("/v1/datasets/same.csv")["columns"], ["b", "y"])
        self.assertEqual(alice.delete("/v1/datasets/same.csv").status, 204)
        self.assertProblem(alice.get("/v1/datasets/same.csv"), 404)
        self.assertEqual(bob.read("/v1/datasets/same.csv")["columns"], ["b", "y"])

    def test_shared_files_are_read_only(self):
        self.assertProblem(alice.delete("/v1/datasets/train.csv"), 403)
        self.assertProblem(admin.delete("/v1/datasets/train.csv"), 403)
        shared = alice.read("/v1/datasets/train.csv")
        self.assertTrue(shared["shared"])
        self.assertEqual(alice.put("/v1/datasets/train.csv", "own,y\n1,0\n2,1\n").status, 201)
        self.assertEqual(alice.read("/v1/datasets/train.csv")["columns"], ["own", "y"])
        self.assertEqual(bob.read("/v1/datasets/train.csv")["sha256"], shared["sha256"])
        self.assertEqual(alice.delete("/v1/datasets/train.csv").status, 204)
        self.assertEqual(alice.read("/v1/datasets/train.csv")["sha256"], shared["sha256"])

    def test_files_in_folders_have_names_too(self):
        self.assertEqual(alice.read("/v1/datasets/sub/folder/deep.csv")["rows"], 60)
        self.assertEqual(check(alice, logistic("sub/folder/deep.csv")).status, 200)

    def test_names_of_uploads_are_plain(self):
        for name in (".hidden", "a/b.csv", "a" * 129, ".", "sub/folder/new.csv", ".users/alice/x"):
            with self.subTest(name):
                reply = alice.put("/v1/datasets/" + name, "a,b\n1,2\n")
                self.assertIn(reply.status, (400, 404, 422), reply)
        for target in ("..", "../x.csv", "a%2fb.csv", "%2e%2e%2fx", "a%00b", "a b", "a\\b", "%5c"):
            with self.subTest(target):
                data = ("PUT /v1/datasets/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                        "Content-Length: 8\r\n\r\na,b\n1,2\n" % (target, alice.token)).encode()
                self.assertEqual(statuses(raw(daemon, data)), [400])

    def test_too_large_an_upload_leaves_nothing(self):
        before = self.files()
        self.assertProblem(alice.put("/v1/datasets/big.csv", b"1,2\n" * 300000), 413)
        chunk = b"8000\r\n" + b"1,2\n" * 0x2000 + b"\r\n"
        data = ("PUT /v1/datasets/big.csv HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                "Transfer-Encoding: chunked\r\n\r\n" % alice.token).encode()
        answer = raw(daemon, data + chunk * 40 + b"0\r\n\r\n")
        self.assertIn(statuses(answer), ([413], []))
        self.assertProblem(alice.get("/v1/datasets/big.csv"), 404)
        self.assertEqual(self.files(), before)

    def test_just_as_large_as_allowed_is_fine(self):
        body = b"a,b\n" + b"1,2\n" * ((1 << 18) - 1)
        self.assertEqual(len(body), 1 << 20)
        self.assertEqual(alice.put("/v1/datasets/limit.csv", body).json()["bytes"], 1 << 20)

    def test_a_chunked_upload_arrives_whole(self):
        data = ("PUT /v1/datasets/chunked.csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                "Authorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n"
                "4\r\na,b\n\r\n4\r\n1,2\n\r\n0\r\n\r\n" % alice.token).encode()
        self.assertEqual(statuses(raw(daemon, data, shut=False)), [201])
        self.assertEqual(alice.read("/v1/datasets/chunked.csv")["preview"], [[1, 2]])

    def test_an_upload_that_is_cut_off_leaves_nothing(self):
        before = self.files()
        data = ("PUT /v1/datasets/cut.csv HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                "Content-Length: 100000\r\n\r\na,b\n1,2\n" % alice.token).encode()
        with socket.create_connection((daemon.host, daemon.port)) as upload:
            upload.sendall(data)
            self.eventually(lambda: self.files() != before, "the beginning of the upload on disk")
            # Reset instead of closed: the library notices a mere close at its next timeout, 15 s later.
            upload.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.eventually(lambda: self.files() == before, "the removal of what had arrived")
        self.assertProblem(alice.get("/v1/datasets/cut.csv"), 404)

    def test_an_empty_upload_is_refused(self):
        self.assertProblem(alice.put("/v1/datasets/nothing.csv", b""), 422, "empty")
        self.assertProblem(alice.get("/v1/datasets/nothing.csv"), 404)

    def test_what_no_job_can_use_is_shown_with_its_problem(self):
        self.assertEqual(alice.put("/v1/datasets/odd.csv", "a,b\n1,x\n").status, 201)
        about = alice.read("/v1/datasets/odd.csv")
        self.assertIn("line 2", about["problem"])
        self.assertIn("sha256", about)

    def test_of_a_huge_file_the_beginning_is_shown(self):
        daemon.file("huge.csv", b"a,b,y\n" + b"1.5,2,0\n" * 300000)
        os.truncate(os.path.join(daemon.data, "huge.csv"), (1 << 30) + 1)  # takes up no room
        try:
            shown = alice.read("/v1/datasets/huge.csv", query={"rows": 2})
        finally:
            os.unlink(os.path.join(daemon.data, "huge.csv"))
        self.assertEqual((shown["columns"], shown["preview"]), (["a", "b", "y"], [[1.5, 2, 0]] * 2))
        self.assertEqual(shown["bytes"], (1 << 30) + 1)
        self.assertLessEqual(shown.keys() & {"rows", "sha256"}, set())

    def test_deleting_what_is_not_there_is_404(self):
        self.assertProblem(alice.delete("/v1/datasets/none.csv"), 404)

    def test_uploads_are_readable_by_the_daemon_alone(self):
        alice.put("/v1/datasets/mode.csv", "a,b\n1,2\n")
        path = os.path.join(daemon.data, ".users", "alice", "mode.csv")
        self.assertEqual(os.stat(path).st_mode & 0o077, 0)

    def files(self):
        return sorted(os.path.join(d, f) for d, _, fs in os.walk(daemon.data) for f in fs)

    def eventually(self, condition, what):
        end = harness.time.monotonic() + harness.PATIENCE
        while not condition():
            self.assertLess(harness.time.monotonic(), end, "waited in vain for " + what)
            harness.time.sleep(0.01)


class Traps(Case):
    """What may lie in the data root by mistake or malice."""

    @classmethod
    def setUpClass(cls):
        outside = harness.scratch()
        with open(os.path.join(outside, "secret.csv"), "w") as file:
            file.write(logistic_text(20))
        root = daemon.data
        os.symlink(os.path.join(outside, "secret.csv"), os.path.join(root, "link-out.csv"))
        os.symlink("train.csv", os.path.join(root, "link-in.csv"))
        os.symlink("link-in.csv", os.path.join(root, "link-chain.csv"))
        os.symlink(outside, os.path.join(root, "link-folder"))
        os.symlink("/proc/self/environ", os.path.join(root, "link-proc.csv"))
        os.symlink("nowhere", os.path.join(root, "link-broken.csv"))
        os.symlink("loop.csv", os.path.join(root, "loop.csv"))
        os.link(os.path.join(outside, "secret.csv"), os.path.join(root, "hard.csv"))
        os.mkfifo(os.path.join(root, "pipe.csv"))
        os.mkdir(os.path.join(root, "folder.csv"))
        open(os.path.join(root, "empty.csv"), "w").close()
        server = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(root)  # the path of a socket is short
        server.bind("socket.csv")
        os.chdir(here)
        server.close()
        cls.names = ["link-out.csv", "link-in.csv", "link-chain.csv", "link-folder/secret.csv",
                     "link-proc.csv", "link-broken.csv", "loop.csv", "hard.csv", "pipe.csv",
                     "folder.csv", "empty.csv", "socket.csv", "sub", "link-folder"]
        try:
            os.mknod(os.path.join(root, "device.csv"), 0o20666, os.makedev(1, 5))
            cls.names.append("device.csv")
        except OSError:
            print("skipped: device files: mknod is not permitted here")

    def test_no_job_can_use_them(self):
        before = jobs()
        for name in self.names:
            with self.subTest(name):
                reply = alice.post("/v1/jobs", logistic(name))
                self.assertProblem(reply, 422, pointer="/data/path")
                self.assertNotIn("secret", reply.text.replace(name, ""))
                reply = alice.post("/v1/jobs", logistic("train.csv", test=name))
                self.assertProblem(reply, 422, pointer="/data/test")
        self.assertEqual(jobs(), before)

    def test_none_can_be_looked_at(self):
        for name in self.names:
            with self.subTest(name):
                self.assertIn(alice.get("/v1/datasets/" + name).status, (404, 422))

    def test_none_is_listed(self):
        listed = {d["name"] for d in alice.read("/v1/datasets")["items"]}
        self.assertIn("train.csv", listed)
        self.assertIn("sub/folder/deep.csv", listed)
        self.assertFalse(listed & set(self.names))

    def test_paths_that_lead_out_are_refused(self):
        for path in ("..", "../train.csv", "sub/../train.csv", "/etc/passwd", "//train.csv",
                     "./train.csv", "sub//folder/deep.csv", "train.csv/", "sub/..", ".", "/",
                     ".users/alice/x", "..\\train.csv", "%2e%2e/train.csv", "train.csv%00",
                     "a" * 256, "~/x", "x y", "http://localhost/x.csv", "file:///etc/passwd",
                     "|cat", "train.csv\n", "\u2025/x", "C:\\x"):
            with self.subTest(path):
                self.assertProblem(alice.post("/v1/jobs", logistic(path)), 422, pointer="/data/path")

    def test_a_link_swapped_in_under_the_daemons_eyes_is_never_followed(self):
        path, other = os.path.join(daemon.data, "swap.csv"), os.path.join(daemon.data, "swap.tmp")
        secret = os.path.join(os.path.realpath(os.path.join(daemon.data, "link-folder")), "secret.csv")
        with open(secret) as file:
            sha = hashlib.sha256(file.read().encode()).hexdigest()
        for turn in range(60):
            if turn % 2:
                os.symlink(secret, other)
            else:
                with open(other, "w") as file:
                    file.write("a,y\n1,0\n2,1\n")
            os.rename(other, path)
            reply = alice.get("/v1/datasets/swap.csv")
            self.assertIn(reply.status, (200, 404, 422, 503))
            self.assertNotIn(sha, reply.text)
        os.unlink(path)


BAD = {
    # text of the file: words that the message must have
    "ragged": ("a,y\n1,0\n1,0,3\n2,1\n", ["line 3"]),
    "short line": ("a,b,y\n1,2,0\n1,0\n", ["line 3"]),
    "text": ("a,y\n1,0\nhello,1\n", ["line 3", "hello"]),
    "NaN": ("a,y\n1,0\nNaN,1\n", ["line 3", "NaN"]),
    "NA": ("a,y\n1,0\nNA,1\n", ["line 3", "NA"]),
    "inf": ("a,y\n1,0\n-inf,1\n", ["line 3", "inf"]),
    "1e400": ("a,y\n1,0\n1e400,1\n", ["line 3", "1e400"]),
    "missing": ("a,y\n1,0\n,1\n", ["line 3"]),
    "hexadecimal": ("a,y\n1,0\n0x10,1\n", ["line 3", "0x10"]),
    "header only": ("a,y\n", []),
    "newline only": ("\n", []),
    "duplicate names": ("a,a,y\n1,2,0\n", ["a"]),
    "NUL": ("a,y\n1,0\n\0,1\n", ["line 3"]),
    "long cell": ("a,y\n1,0\n" + "1" * 5000 + ",1\n", ["line 3"]),
    "bad gzip": (b"\x1f\x8b\x08\x00junk", []),
    "bad npy": (b"\x93NUMPY\x01\x00\xff\xff{", []),
    "npy of objects": (b"\x93NUMPY\x01\x00\x46\x00{'descr': '|O', 'fortran_order': False, "
                       b"'shape': (2, 2), }        \n" + b"\0" * 32, []),
    "npy that promises more": (b"\x93NUMPY\x01\x00\x56\x00{'descr': '<f8', 'fortran_order': False, "
                               b"'shape': (4000000000, 2), }             \n\0\0", []),
    "utf-16": ("a,y\n1,0\n".encode("utf-16"), []),
}


def npy(rows):
    head = "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
            + b"".join(struct.pack("<d", v) for row in rows for v in row))


class Content(Case):
    def test_bad_files_are_refused_with_the_place_and_leave_no_job(self):
        before = jobs()
        for name, (text, words) in BAD.items():
            with self.subTest(name):
                daemon.file("bad.csv", text)
                reply = alice.post("/v1/jobs", logistic("bad.csv"))
                self.assertProblem(reply, 422, "bad.csv", *words, pointer="/data/path")
                reply = alice.post("/v1/jobs", logistic("train.csv", test="bad.csv"))
                self.assertProblem(reply, 422, pointer="/data/test")
        self.assertEqual(jobs(), before)

    def test_the_response_must_be_zero_or_one(self):
        for value in ("2", "0.5", "-1"):
            daemon.file("response.csv", "a,y\n1,0\n2,1\n3,%s\n" % value)
            reply = check(alice, logistic("response.csv"))
            self.assertProblem(reply, 422, "row 3", value, "0 or 1")

    def test_missing_columns_are_named_with_what_there_is(self):
        reply = check(alice, logistic(response="outcome"))
        self.assertProblem(reply, 422, "outcome", "x1", pointer="/data/response")
        reply = check(alice, logistic(columns=["x1", "x9", "x2", "x8"]))
        self.assertProblem(reply, 422, "x9", pointer="/data/columns/1")
        self.assertIn("/data/columns/3", reply.pointers())

    def test_a_test_file_must_have_the_columns_of_the_training_file(self):
        daemon.file("test-short.csv", "x1,x2,y\n1,2,0\n")
        reply = check(alice, logistic(test="test-short.csv"))
        self.assertProblem(reply, 422, "x3", pointer="/data/test")

    def test_extra_columns_of_a_test_file_and_their_order_do_not_matter(self):
        rows = [line.split(",") for line in logistic_text(20, seed=4).splitlines()]
        daemon.file("test-a.csv", "\n".join(",".join(r) for r in rows))
        mixed = [[r[3], "extra" if i == 0 else "7", r[2], r[0], r[1]] for i, r in enumerate(rows)]
        daemon.file("test-b.csv", "\n".join(",".join(r) for r in mixed))
        results = []
        for name in ("test-a.csv", "test-b.csv"):
            job = alice.run({**logistic(test=name), "metric_every": 5})["id"]
            results.append(alice.read("/v1/jobs/%s/metrics" % job))
        self.assertEqual(results[0], results[1])

    def test_many_test_rows_make_metrics_rarer_unless_the_job_says_how_often(self):
        daemon.file("test-many.csv", logistic_text(500, seed=5))
        job = {**logistic(test="test-many.csv"), "batch_size": 10, "iterations": 20000, "warmup": 0,
               "thin": 100}
        done = alice.run(job)
        every = done["request"]["metric_every"]
        self.assertEqual((every % 100, 1000 < every <= 3000), (0, True), every)
        records = alice.read("/v1/jobs/%s/metrics" % done["id"])["chains"][0]["iteration"]
        self.assertEqual(records, list(range(every, 20001, every)))
        for given, shown in ((None, every), (250, 250), (0, 0)):
            request = check(alice, {**job, "metric_every": given}).json()["job"]
            self.assertEqual(request["metric_every"], shown)

    def test_columns_intercept_and_standardising_decide_the_parameters(self):
        for data, names in (({}, 3), ({"columns": ["x2"]}, 1), ({"intercept": True}, 4),
                            ({"columns": [], "intercept": True}, 1),
                            ({"columns": ["x3", "x1"], "standardize": True}, 2)):
            with self.subTest(data):
                reply = check(alice, logistic(**data))
                self.assertEqual(reply.status, 200, reply)
                self.assertEqual(reply.json()["estimate"]["dimension"], names)
        self.assertProblem(check(alice, logistic(columns=[])), 422, pointer="/data/columns")
        self.assertProblem(check(alice, logistic(columns=["x1", "y"])), 422,
                           pointer="/data/columns/1")
        self.assertProblem(check(alice, logistic(columns=["x1", "x1"])), 422)

    def test_the_same_numbers_in_any_format_give_the_same_draws(self):
        rows = [[float(x) for x in line.split(",")] for line in logistic_text(50).splitlines()[1:]]
        lines = ["x1,x2,x3,y"] + [",".join(map(repr, r)) for r in rows]
        text = "\n".join(lines) + "\n"
        forms = {"plain.csv": text, "crlf.csv": text.replace("\n", "\r\n"), "end.csv": text.rstrip(),
                 "bom.csv": b"\xef\xbb\xbf" + text.encode(), "tab.tsv": text.replace(",", "\t"),
                 "semicolon.csv": text.replace(",", ";"), "quoted.csv": text.replace("x1", '"x1"', 1),
                 "zip.csv.gz": gzip.compress(text.encode()), "blanks.csv": text.replace(",", ", ")}
        answers = {}
        for name, content in forms.items():
            daemon.file(name, content)
            reply = check(alice, logistic(name))
            if reply.status == 422 and name in ("blanks.csv",):
                continue  # a strict reader may refuse these
            self.assertEqual(reply.status, 200, (name, reply))
            answers[name] = alice.everything(alice.run(logistic(name))["id"])
        daemon.file("array.npy", npy(rows))
        answers["array.npy"] = alice.everything(
            alice.run(logistic("array.npy", response="V4"))["id"])
        self.assertGreater(len(answers), 8)
        for name, draws in answers.items():
            self.assertEqual(draws, answers["plain.csv"], name)

    def test_precision_follows_the_data_unless_it_is_given(self):
        daemon.file("single.csv", table_text(["a", "y"], [[0.5 * i, i % 2] for i in range(30)]))
        self.assertEqual(check(alice, logistic("single.csv")).json()["precision"], "single")
        self.assertEqual(check(alice, logistic("train.csv")).json()["precision"], "double")
        for asked in ("single", "double"):
            job = alice.run(logistic("train.csv", precision=asked))
            self.assertEqual(job["precision"], asked)
        self.assertProblem(check(alice, logistic(precision="half")), 422, pointer="/data/precision")

    def test_ratings_must_be_triplets_with_whole_indices(self):
        spec = {"model": {"name": "matrix_factorization", "rank": 2}, "data": {"path": "r.csv"},
                "sampler": {"name": "sgbd", "step_size": 0.01}, "iterations": 10, "warmup": 0}
        for text, words in (("user,item,rating\n1,1,3\n0,1,2\n", ["row 2"]),
                            ("user,item,rating\n1.5,1,3\n", ["row 1"]),
                            ("user,item,rating\n1,-2,3\n", ["row 1"]),
                            ("user,thing,rating\n1,2,3\n", ["item"]),
                            ("user,item,rating\n99999999999,2,3\n", ["row 1"])):
            with self.subTest(text):
                daemon.file("r.csv", text)
                self.assertProblem(check(alice, spec), 422, *words, pointer="/data/path")
        daemon.file("r.csv", "user,item,rating\n9000000,2,3\n1,1,1\n")
        self.assertProblem(check(alice, spec), 422)  # 18 million parameters

    def test_fields_that_do_not_apply_to_a_model_are_mistakes(self):
        daemon.file("ica.csv", harness.ica_text(30))
        spec = {"model": {"name": "ica"}, "data": {"path": "ica.csv", "response": "c1",
                                                   "intercept": True},
                "sampler": {"name": "sgbd"}}
        reply = check(alice, spec)
        self.assertProblem(reply, 422, pointer="/data/response")
        self.assertIn("/data/intercept", reply.pointers())
        self.assertProblem(check(alice, toy(data={"path": "train.csv"})), 422, pointer="/data")
        spec = toy(model={"name": "logistic"})
        self.assertProblem(check(alice, spec), 422, pointer="/data")

    def test_the_shared_folder_is_looked_at_anew_each_time(self):
        daemon.file("late.csv", "a,y\n1,0\n2,1\n")
        first = check(alice, logistic("late.csv")).json()["estimate"]["rows"]
        daemon.file("late.csv", "a,y\n1,0\n2,1\n3,1\n4,0\n")
        second = check(alice, logistic("late.csv")).json()["estimate"]["rows"]
        self.assertEqual((first, second), (2, 4))
