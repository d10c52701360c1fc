"""Downloads and uploads: bytes arrive unchanged, and whole or not at all."""

import os
import subprocess
import threading

from harness import BARKER, INTERRUPTED, LOCAL, OK, REFUSED, UNREACHABLE, USAGE, Case


class Draws(Case):
    def setUp(self):
        super().setUp()
        self.fake.add("01aa")
        self.block = bytes(range(256)) * 4096
        self.fake.draws = [self.block] * 5

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def leftovers(self):
        return sorted(os.listdir(self.folder))

    def written(self):
        """What has been written of the file that is not d.csv yet."""
        names = [n for n in self.leftovers() if n != "d.csv"]
        return self.read(names[0]) if names else b""

    def test_bytes_arrive_as_they_are(self):
        self.barker("draws", "01aa", "-o", "d.npy")
        self.assertEqual(self.read("d.npy"), self.block * 5)
        self.assertEqual(self.leftovers(), ["d.npy"])
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(os.stat(self.path("d.npy")).st_mode & 0o777, 0o666 & ~mask)

    def test_all_options_reach_the_daemon(self):
        self.barker("draws", "01aa", "--format", "json", "--params", "theta[1],U[3,7]", "--chains",
                    "1,3", "--from", "10", "--to", "20", "--thin", "2", "--warmup", "-o", "x")
        self.assertEqual(self.fake.requests[-1]["query"],
                         "format=json&params=theta%5B1%5D%2CU%5B3%2C7%5D&chains=1%2C3&from=10&to=20"
                         "&thin=2&warmup=true")

    def test_the_ending_of_the_file_chooses_the_format(self):
        for name, form in (("a.csv", "csv"), ("a.json", "json"), ("a.npy", "npy"),
                           ("a.sqlite", "sqlite"), ("a.db", "sqlite"), ("a", "csv"), (".csv", "csv"),
                           ("a.b/c", "csv"), ("a.odd", "odd"), ("a.xls", "csv")):
            os.makedirs(self.path("a.b"), exist_ok=True)
            self.barker("draws", "01aa", "-o", name)
            self.assertEqual(self.fake.requests[-1]["query"], "format=" + form, name)

    def test_a_format_that_the_daemon_does_not_have_is_refused_with_the_list(self):
        error = self.barker("draws", "01aa", "--format", "xls", code=USAGE).err
        self.assertIn("--format xls: the daemon writes json, csv, npy, stan, sqlite, odd", error)
        self.fake.prepare("GET", "/v1/info", (200, {"version": "an old one"}, []))
        self.barker("draws", "01aa", "--format", "odd", "-o", "d")
        self.assertEqual(self.fake.requests[-1]["query"], "format=odd")

    def test_until_the_end_the_file_has_another_name(self):
        seen = []
        self.path("d.csv", "old")

        def look():
            self.eventually("the first bytes in a file", self.written)
            seen.append(self.read("d.csv"))
        self.fake.draws = [self.block, look, b"draws\n"]
        self.barker("draws", "01aa", "-o", "d.csv")
        self.assertEqual(seen, [b"old"])
        self.assertEqual(self.read("d.csv"), self.block + b"draws\n")

    def test_a_broken_transfer_leaves_the_old_file_and_nothing_else(self):
        self.path("d.csv", "old")
        self.fake.draws = [self.block, "cut"]
        result = self.barker("draws", "01aa", "-o", "d.csv", code=UNREACHABLE)
        self.assertIn("was lost", result.err)
        self.fake.prepare("GET", "/v1/jobs/01aa/draws", (409, {"title": "No draws yet"}))
        result = self.barker("draws", "01aa", "-o", "d.csv", code=REFUSED)
        self.assertIn("No draws yet", result.err)
        self.assertEqual(self.read("d.csv"), b"old")
        self.assertEqual(self.leftovers(), ["d.csv"])

    def test_interrupted_it_leaves_nothing(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.fake.draws = [self.block, over.wait, b"x"]
        process = self.start("draws", "01aa", "-o", "d.csv")
        self.eventually("a file that is being written", self.written)
        process.terminate()
        self.assertEqual(self.end(process).code, INTERRUPTED)
        self.assertEqual(self.leftovers(), [])

    def test_what_is_no_regular_file_is_written_directly(self):
        self.barker("draws", "01aa", "-o", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))
        self.assertIn("No space left", self.barker("draws", "01aa", "-o", "/dev/full", code=LOCAL).err)

    def test_a_folder_that_is_not_there_is_named(self):
        result = self.barker("draws", "01aa", "-o", "no/such/file", code=LOCAL)
        self.assertIn("cannot write no/such/file: No such file", result.err)

    def test_stdout_in_a_pipe(self):
        for args in ([], ["-o", "-"]):
            done = subprocess.run([BARKER, "draws", "01aa", "--format", "npy", *args], env=self.env,
                                  capture_output=True)
            self.assertEqual(done.returncode, OK)
            self.assertEqual(done.stdout, self.block * 5)

    def test_a_reader_that_has_enough_is_no_error(self):
        self.fake.draws = [self.block] * 50
        done = subprocess.run("%s draws 01aa | head -c 10 | wc -c; echo ${PIPESTATUS[0]}" % BARKER,
                              shell=True, executable="/bin/bash", env=self.env,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.split(), ["10", "0"])
        self.assertEqual(done.stderr, "")

    def test_binary_does_not_go_to_a_terminal(self):
        result = self.terminal("draws", "01aa", "--format", "npy").finish()
        self.assertEqual(result.code, USAGE)
        self.assertIn("use -o FILE", result.out)
        self.assertEqual(self.fake.asked(path="/v1/jobs/01aa/draws"), [])
        self.fake.draws = [b"a,b\n"]
        self.assertEqual(self.terminal("draws", "01aa").finish().out, "a,b")

    def test_a_large_transfer_needs_little_memory(self):
        self.fake.draws = [self.block] * 200
        done = subprocess.run(["bash", "-c", "ulimit -v 400000; exec %s draws 01aa -o big" % BARKER],
                              env=self.env, cwd=self.folder, capture_output=True, text=True)
        if "AddressSanitizer" in done.stderr:
            self.skipTest("a sanitizer needs the address space")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(os.path.getsize(self.path("big")), 200 * len(self.block))


class Stan(Case):
    """CmdStan files hold one chain each."""

    def setUp(self):
        super().setUp()
        self.fake.add("01aa", state="succeeded", chains=3, iteration=2000)

    def asked(self):
        return [r["query"] for r in self.fake.asked(path="/v1/jobs/01aa/draws")]

    def test_every_chain_gets_a_file_named_after_model_and_chain(self):
        for folder in ("new", "new", "slash/"):  # made when it is not there
            self.fake.requests.clear()
            self.barker("draws", "01aa", "--format", "stan", "-o", folder, "--thin", "2")
            self.assertEqual(sorted(os.listdir(self.path(folder))),
                             ["logistic_1.csv", "logistic_2.csv", "logistic_3.csv"])
            self.assertEqual(self.asked(), ["format=stan&chains=%d&thin=2" % c for c in (1, 2, 3)])
        with open(self.path("new/logistic_2.csv"), "rb") as file:
            self.assertEqual(file.read(), b"a,b\n1,2\n")

    def test_chains_can_be_chosen(self):
        self.barker("draws", "01aa", "-f", "stan", "--chains", "3,1", "-o", "some")
        self.assertEqual(sorted(os.listdir(self.path("some"))), ["logistic_1.csv", "logistic_3.csv"])
        self.barker("draws", "01aa", "-f", "stan", "--chains", "2", "-o", "one.csv")
        self.assertTrue(os.path.isfile(self.path("one.csv")))
        self.barker("draws", "01aa", "-f", "stan", "--chains", "2", "-o", "some")
        self.assertEqual(len(os.listdir(self.path("some"))), 3)
        self.assertEqual(self.barker("draws", "01aa", "-f", "stan", "--chains", "2").out,
                         "a,b\n1,2\n")

    def test_files_of_a_running_job_end_where_its_shortest_chain_is(self):
        self.fake.add("01aa", state="running", chains=3, iteration=2000)
        self.fake.jobs["01aa"]["progress"]["chains"][1]["iteration"] = 1500
        self.barker("draws", "01aa", "-f", "stan", "-o", "d")
        self.assertEqual(self.asked(), ["format=stan&chains=%d&to=1500" % c for c in (1, 2, 3)])
        self.fake.requests.clear()
        self.barker("draws", "01aa", "-f", "stan", "-o", "d", "--to", "1200")
        self.assertEqual(self.asked(), ["format=stan&chains=%d&to=1200" % c for c in (1, 2, 3)])

    def test_no_files_of_different_lengths_are_written_of_a_job_that_has_just_begun(self):
        self.fake.add("01aa", state="running", chains=3, iteration=2000)
        self.fake.jobs["01aa"]["progress"]["chains"][2]["iteration"] = 0
        result = self.barker("draws", "01aa", "-f", "stan", "-o", "d", code=REFUSED)
        self.assertIn("chain 3 has no draws yet", result.err)
        self.assertFalse(os.path.exists(self.path("d")))
        self.assertEqual(self.asked(), [])
        self.fake.add("01aa", state="cancelled", chains=3, iteration=0)  # as it will stay
        self.barker("draws", "01aa", "-f", "stan", "-o", "d")
        self.assertEqual(len(os.listdir(self.path("d"))), 3)

    def test_a_name_of_the_daemon_does_not_leave_the_folder(self):
        self.fake.jobs["01aa"]["request"]["model"]["name"] = "../../x"
        self.barker("draws", "01aa", "-f", "stan", "-o", "d")
        self.assertEqual(sorted(os.listdir(self.path("d")))[0], "______x_1.csv")

    def test_what_stands_in_the_way_is_said(self):
        self.path("taken", "old")
        result = self.barker("draws", "01aa", "-f", "stan", "-o", "taken", code=LOCAL)
        self.assertIn("taken", result.err)
        with open(self.path("taken")) as file:
            self.assertEqual(file.read(), "old")
        self.assertIn("No such file", self.barker("draws", "01aa", "-f", "stan", "-o", "no/such",
                                                  code=LOCAL).err)
        self.assertEqual(self.asked(), [])
        self.fake.prepare("GET", "/v1/jobs/01aa/draws", (409, {"title": "No draws yet"}))
        self.barker("draws", "01aa", "-f", "stan", "-o", "d", code=REFUSED)
        self.assertEqual(os.listdir(self.path("d")), [])


class Data(Case):
    def test_put_sends_the_file_under_its_name_or_another(self):
        content = bytes(range(256)) * 9999
        self.path("train.csv", content)
        self.assertEqual(self.barker("data", "put", "./train.csv").out, "train.csv\n")
        self.barker("data", "put", "train.csv", "other-name_2.csv")
        self.assertEqual(self.fake.datasets, {"train.csv": content, "other-name_2.csv": content})
        self.assertEqual(self.fake.requests[-1]["path"], "/v1/datasets/other-name_2.csv")
        self.assertEqual(self.fake.requests[-1]["headers"]["Content-Length"], str(len(content)))

    def test_a_name_that_no_data_file_can_have_is_explained(self):
        self.path("my data.csv", "x,y\n1,2\n")
        for args in (["my data.csv"], ["my data.csv", "a/b"], ["my data.csv", "é.csv"]):
            with self.subTest(args=args):
                error = self.barker("data", "put", *args, code=USAGE).err
                self.assertIn("is not a valid name", error)
                self.assertIn(os.path.basename(args[0]) if len(args) == 1 else args[1], error)
        self.assertEqual(self.fake.requests, [])
        self.barker("data", "put", "my data.csv", "my_data.csv")

    def test_put_streams_stdin(self):
        self.barker("data", "put", "-", "piped", data=b"x,y\n1,2\n")
        self.assertEqual(self.fake.datasets["piped"], b"x,y\n1,2\n")

    def test_an_empty_file_is_sent_too(self):
        self.barker("data", "put", self.path("empty", ""))
        self.assertEqual(self.fake.datasets["empty"], b"")

    def test_a_refused_upload_says_why(self):
        self.path("big", b"x" * 100)
        self.fake.prepare("PUT", "/v1/datasets/big",
                          (413, {"title": "Larger than the limit", "detail": "at most 10 bytes"}))
        self.assertIn("at most 10 bytes", self.barker("data", "put", "big", code=REFUSED).err)

    def test_ls_show_rm(self):
        self.assertIn("no data files", self.barker("data", "ls").err)
        self.fake.datasets["a.csv"] = b"12345"
        self.assertEqual(self.barker("data", "ls").out.split(),
                         ["name", "size", "shared", "a.csv", "5", "B", "no"])
        out = self.barker("data", "show", "a.csv").out
        for words in ("1.23 MB", "x1, y", "-1.5", "ab" * 32):
            self.assertIn(words, out)
        self.barker("data", "rm", "a.csv")
        self.assertEqual(self.fake.datasets, {})
