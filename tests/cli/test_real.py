"""The command line with the real daemon of the build."""

import csv
import json
import os
import random
import signal
import sqlite3
import struct
import subprocess
import unittest
import urllib.request

from harness import BARKERD, INTERRUPTED, JOB, OK, PATIENCE, REFUSED, Case

PLAIN = {"name": "a skewed one", "model": {"name": "skew_normal"}, "tags": ["cli"],
         "sampler": {"name": "sgbd", "variant": "vanilla", "step_size": 0.5},
         "iterations": 4000, "warmup": 1000, "chains": 2, "seed": 7}


def endless(**changes):
    """A job that nobody lives to see the end of."""
    return {**PLAIN, "name": "endless", "iterations": 90000000000, "thin": 100000, **changes}


@unittest.skipUnless(os.path.exists(BARKERD), "there is no real daemon in " + BARKERD)
class Real(Case):
    def setUp(self):
        super().setUp()
        self.stop_fake()
        del self.env["BARKER_URL"]
        del self.env["BARKER_TOKEN"]
        self.env["BARKER_STATE"] = self.path("state")
        os.mkdir(self.path("data"))
        self.daemon = None

    def start_daemon(self, address="127.0.0.1:0"):
        if os.path.exists(self.path("state/url")):
            os.unlink(self.path("state/url"))
        self.log = open(self.path("daemon.log"), "ab")
        self.daemon = subprocess.Popen(
            [BARKERD, "--listen", address, "--state", self.path("state"), "--data",
             self.path("data"), "--min_free_mb", "0", "--max_iterations", "100000000000"],
            stdout=self.log, stderr=self.log, env=self.env)
        self.addCleanup(self.stop_daemon)
        self.eventually("a daemon that is ready", self.is_ready)

    def is_ready(self):
        self.assertIsNone(self.daemon.poll(), "the daemon ended")
        return os.path.exists(self.path("state/url"))

    def stop_daemon(self, number=signal.SIGTERM):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(number)
            self.daemon.wait(PATIENCE)
        self.log.close()

    def submit(self, job, *args, code=OK):
        return self.barker("submit", self.path("job.json", json.dumps(job)), *args, code=code)

    def test_a_study_from_a_file_and_from_a_job(self):
        self.start_daemon()
        self.path("job.json", json.dumps(PLAIN))
        out = self.barker("study", "ladder", "job.json", "--wait").out
        self.assertRegex(out, r"result +(theta\[1\]: at this step size|no bias beyond chance)")
        first = self.barker("ls", "--json").out
        job = next(j for j in json.loads(first)["items"] if j["name"].endswith("step x 1"))["id"]
        made = self.barker("study", "ladder", job, "--factors", "1,0.7,0.5", "--wait", "--json")
        document = json.loads(made.out)
        self.assertEqual(document["jobs"][0]["id"], job)
        self.assertTrue(document["result"]["complete"])
        again = self.barker("study", "show", "last", "--json").out
        self.assertEqual(again, made.out, "the same bytes each time")
        self.assertEqual(len(self.barker("study", "ls").out.splitlines()), 3)
        self.barker("study", "rm", document["id"])
        self.barker("study", "show", document["id"], code=REFUSED)
        self.barker("show", job)

    def test_a_sweep_of_72_jobs_is_one_command(self):
        self.start_daemon()
        job = {**PLAIN, "iterations": 100, "chains": 2}
        groups = [{"/sampler/name": [name], "/sampler/variant": variants, "/sampler/step_size": {"from": 0.1, "to": 1, "count": 12}}
                  for name, variants in (("sgbd", ["vanilla", "corrected", "extreme"]), ("sgld", ["vanilla", "corrected", "extreme"]))]
        path = self.path("sweep.json", json.dumps({"kind": "sweep", "job": job, "grid": groups}))
        self.assertEqual(self.barker("study", path, "--check").out, "valid: 72 jobs\n")
        result = self.barker("study", path, "--wait", "--name", "all of them")
        self.assertRegex(result.out, r"progress +100%, 72 of 72 jobs")
        lines = self.barker("study", "table", "all of them").out.splitlines()
        self.assertEqual(len(lines), 73)
        self.assertIn("/sampler/step_size", lines[0])
        self.assertNotIn("succeeded", self.barker("ls").out)
        self.barker("study", "extend", "last", "--seeds", "1")
        self.barker("study", "rm", "last", code=REFUSED)
        self.barker("study", "cancel", "last")

    def fetch(self, path):
        """The body of a reply as any other client gets it."""
        with open(self.path("state/url")) as file:
            url = file.read().strip()
        with open(self.path("state/admin.token")) as file:
            headers = {"Authorization": "Bearer " + file.read().strip()}
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(urllib.request.Request(url + path, headers=headers)) as reply:
            return reply.read().decode()

    def wait_beyond(self, job_id, iteration):
        """Until the job runs and each of its chains has passed an iteration."""
        def passed():
            job = json.loads(self.barker("show", job_id, "--json").out)
            return job["state"] == "running" and all(c["iteration"] > iteration
                                                     for c in job["progress"]["chains"])
        self.eventually("iteration %d of %s" % (iteration, job_id), passed)

    def check_rounded(self, cell, value):
        if value is None:
            self.assertIn(cell, ("-", "\u2013"))
            return
        digits = len(cell.split("e")[0].partition(".")[2])
        scale = 10.0 ** int(cell.split("e")[1]) if "e" in cell else 1.0
        self.assertLessEqual(abs(float(cell) - value), 0.5000001 * scale * 10.0 ** -digits + 1e-300,
                             (cell, value))

    def test_summary_and_compare_print_the_bytes_of_the_server_and_tables_round_them(self):
        self.start_daemon()
        biased = self.submit(PLAIN, "--wait").out.strip()
        exact = self.submit({**PLAIN, "name": "exact", "sampler": {"name": "barker_mh"}},
                            "--wait").out.strip()
        made = self.barker("reference", "put", "truth", "--job", exact)
        self.assertEqual(made.out, "truth\n")
        self.barker("reference", "put", "doubtful", "--job", biased)
        for query, args in (("", ()), ("&reference=truth", ("--reference", "truth")),
                            ("&reference=truth&target_error=0.05",
                             ("--reference", "truth", "--target-error", "0.05")),
                            ("&order=worst", ("--order", "worst"))):
            with self.subTest(query):
                wanted = self.fetch("/v1/jobs/%s/summary?limit=100%s" % (biased, query))
                self.assertEqual(self.barker("summary", biased, *args, "--json").out, wanted + "\n")
        wanted = self.fetch("/v1/compare?jobs=%s,%s&reference=truth&target_error=0.05" % (biased, exact))
        self.assertEqual(self.barker("compare", biased, exact, "--reference", "truth",
                                     "--target-error", "0.05", "--json").out, wanted + "\n")
        self.assertEqual(self.barker("reference", "show", "truth", "--json").out,
                         self.fetch("/v1/references/truth") + "\n")

        document = json.loads(self.fetch("/v1/jobs/%s/summary?reference=truth" % biased))
        row = document["parameters"][0]
        lines = self.barker("summary", biased, "--reference", "truth").out.splitlines()
        cells = lines[1].split()
        keys = ("mean", "sd", "mcse_mean", "mcse_sd", "q5", "q25", "q50", "q75", "q95", "rhat",
                "ess_bulk", "ess_tail", "certified_mean_error", "certified_sd_error", "ess_per_second")
        bias_keys = ("mean", "sd", "bias_mean", "mcse_bias_mean", "bias_variance_ratio",
                     "mcse_bias_variance_ratio", "wasserstein", "wasserstein_noise")
        self.assertEqual(len(cells), 1 + len(keys) + len(bias_keys))
        for cell, value in zip(cells[1:], [row[k] for k in keys] +
                               [row["reference"][k] for k in bias_keys]):
            self.check_rounded(cell, value)
        table = [line.split() for line in lines]
        for title, key in (("bias of the mean / sd", "bias_mean"), ("Wasserstein-1 / sd", "wasserstein")):
            line = next(l for l in table if " ".join(l).startswith(title))
            for cell, part in zip(line[len(title.split()):], ("mean", "median", "max")):
                self.check_rounded(cell, document["reference"][key][part])
            self.assertEqual(line[-1], document["reference"][key]["worst"])
        compared = json.loads(wanted)
        line = next(l.split() for l in self.barker("compare", biased, exact, "--reference",
                                                   "truth").out.splitlines()
                    if l.startswith("theta[1]"))
        numbers = [[job["mean"] for job in compared["parameters"][0]["jobs"]],
                   [job["sd"] for job in compared["parameters"][0]["jobs"]],
                   [job["reference"]["bias_mean"] for job in compared["parameters"][0]["jobs"]]]
        for cell, value in zip(line[1:], sum(numbers, [])):
            self.check_rounded(cell, value)
        listed = self.barker("reference", "ls").out
        self.assertEqual([l.split()[0] for l in listed.splitlines()[1:]], ["doubtful", "truth"])
        owned = next(line.split()[1] for line in listed.splitlines() if line.startswith("truth "))
        self.assertEqual(self.barker("reference", "show", owned + "/truth", "--json").out,
                         self.fetch("/v1/references/truth") + "\n")
        self.barker("reference", "rm", "truth")
        self.barker("summary", biased, "--reference", "truth", code=REFUSED)

    def test_diagnostics_are_the_bytes_of_the_server_and_the_verdict_is_one_sentence(self):
        self.start_daemon()
        job_id = self.submit(PLAIN, "--wait").out.strip()
        out = self.barker("diagnostics", job_id, "--json", "--params", "theta[1]").out
        path = "/v1/jobs/%s/diagnostics?params=theta%%5B1%%5D" % job_id
        self.assertEqual(out.rstrip("\n"), self.fetch(path).rstrip("\n"))
        sentence = json.loads(out)["verdict"]["sentence"]
        self.assertEqual(json.loads(self.barker("show", job_id, "--json").out)["verdict"], sentence)
        self.assertIn(sentence, self.barker("show", job_id).out)
        self.assertIn(sentence, self.barker("diagnostics", job_id).out)
        self.assertEqual(self.barker("watch", job_id).out.splitlines()[-1], sentence)

    def test_a_jobs_whole_life(self):
        self.start_daemon()
        job_id = self.submit(PLAIN, "--wait").out.strip()
        self.assertRegex(job_id, "^[0-9a-z]{16}$")
        self.assertIn("a skewed one", self.barker("ls", "--tag", "cli", "--state", "succeeded").out)
        self.assertIn(job_id, self.barker("ls", "--all", "--limit", "1000").out)
        for typed in (job_id, "last", job_id[:12], job_id[-8:], "a skewed one"):
            self.assertEqual(json.loads(self.barker("show", typed, "--json").out)["id"], job_id)
        self.assertIn("5000/5000", self.barker("show", "last").out)
        self.assertIn("8000 draws from 2 chains", self.barker("summary", "last").out)
        self.assertTrue(self.barker("log", "last").out)
        self.assertIn("0 running", self.barker("queue").out)
        self.assertRegex(self.barker("open", "last").out, "^http://127.0.0.1:[0-9]+/#/jobs/" + job_id)
        self.barker("extend", "last", "--iterations", "2000")
        self.barker("watch", "last")
        self.assertIn("12000 draws from 2 chains", self.barker("summary", "last").out)
        second = self.submit({**PLAIN, "seed": 8}, "--wait").out.strip()
        self.barker("compare", job_id, second)
        self.barker("rm", "--yes", job_id)
        self.assertNotIn(job_id, self.barker("ls").out)
        self.barker("restore", job_id)
        self.barker("rm", "--yes", "--purge", job_id, second)
        self.barker("show", job_id, code=REFUSED)

    def test_draws_in_every_format(self):
        self.start_daemon()
        self.submit(PLAIN, "--wait", "-q")
        self.barker("draws", "last", "-o", "d.csv")
        with open(self.path("d.csv")) as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 8000)
        self.assertEqual({row[".chain"] for row in rows}, {"1", "2"})
        self.barker("draws", "last", "-o", "d.npy", "--chains", "2", "--warmup")
        with open(self.path("d.npy"), "rb") as file:
            self.assertEqual(file.read(6), b"\x93NUMPY")
            size = struct.unpack("<H", file.read(4)[2:])[0]
            self.assertIn(b"'shape': (1, 5000, 1)", file.read(size))
            self.assertEqual(len(file.read()), 5000 * 8)
        self.barker("draws", "last", "-o", "d.json", "--thin", "2")
        with open(self.path("d.json")) as file:
            self.assertTrue(json.load(file))
        self.barker("draws", "last", "-o", "d.sqlite")
        base = sqlite3.connect(self.path("d.sqlite"))
        self.assertEqual(base.execute("pragma integrity_check").fetchone(), ("ok",))
        base.close()
        self.barker("draws", "last", "--format", "posteriordb", "-o", "d.json")
        with open(self.path("d.json")) as file:
            self.assertEqual([len(c["theta[1]"]) for c in json.load(file)], [4000, 4000])
        self.assertIn("chains=1 to chains=2", self.barker("draws", "last", "--format", "stan",
                                                          code=REFUSED).err)
        self.barker("draws", "last", "--format", "stan", "-o", "stan")
        for chain in ("1", "2"):
            with open(self.path("stan/skew_normal_%s.csv" % chain)) as file:
                lines = [line for line in file if not line.startswith("#")]
            self.assertEqual([float(line.split(",")[6]) for line in lines[1:]],
                             [float(row["theta[1]"]) for row in rows if row[".chain"] == chain])

    def test_stan_files_of_a_running_job_are_equally_long(self):
        self.start_daemon()
        job_id = self.submit(endless(chains=3, thin=10000)).out.strip()
        self.wait_beyond(job_id, 200000)
        for attempt in ("1", "2"):
            self.barker("draws", job_id, "--format", "stan", "-o", "run" + attempt)
            folder, lengths = self.path("run" + attempt), set()
            for name in os.listdir(folder):
                with open(os.path.join(folder, name)) as file:
                    lengths.add(sum(not line.startswith("#") for line in file))
            self.assertEqual(len(lengths), 1, lengths)
            self.assertGreater(lengths.pop(), 10)
        self.barker("cancel", job_id)

    def test_pause_resume_cancel_and_their_refusals(self):
        self.start_daemon()
        job_id = self.submit(endless()).out.strip()
        self.barker("rm", "--yes", job_id, code=REFUSED)
        self.assertIn("paused", self.barker("pause", job_id).out)
        self.assertIn("paused", self.barker("pause", job_id, code=REFUSED).err)
        self.barker("resume", job_id)
        process = self.start("watch", job_id)
        self.until_said(process, "running", "stdout")
        self.barker("cancel", job_id)
        result = self.end(process)
        self.assertEqual(result.code, JOB, result)
        self.assertIn("cancelled", result.out)

    def test_a_daemon_that_is_killed_and_restarted_while_watched(self):
        self.start_daemon()
        with open(self.path("state/url")) as file:
            address = file.read().strip().split("://")[1]
        job_id = self.submit(endless()).out.strip()
        process = self.start("watch", job_id)
        self.until_said(process, "running", "stdout")
        self.stop_daemon(signal.SIGKILL)
        self.until_said(process, "lost the connection")
        self.start_daemon(address)
        self.wait_beyond(job_id, 0)  # it runs again
        self.barker("cancel", job_id)
        result = self.end(process)
        self.assertEqual(result.code, JOB, result)
        self.assertIn("lost the connection", result.err)
        self.assertIn("reconnected", result.err)
        self.assertIn("cancelled", result.out)

    def test_mistakes_in_a_job_are_all_told(self):
        self.start_daemon()
        wrong = {**PLAIN, "chains": 0, "nonsense": 1,
                 "sampler": {"name": "sgbd", "step_size": -1}}
        err = self.submit(wrong, code=REFUSED).err
        for pointer in ("/chains:", "/nonsense:", "/sampler/step_size:"):
            self.assertIn("  " + pointer, err)
        self.assertIn("The job is valid", self.submit(PLAIN, "--validate").out)
        self.assertEqual(json.loads(self.barker("ls", "--json").out)["items"], [])

    def test_data_samplers_models_and_tokens(self):
        self.start_daemon()
        normal = random.Random(1).gauss
        self.path("train.csv", "x1,x2,y\n" + "".join(
            "%r,%r,%d\n" % (normal(0, 1), normal(0, 1), i % 2) for i in range(200)))
        self.barker("data", "put", "train.csv")
        self.assertIn("train.csv", self.barker("data", "ls").out)
        out = self.barker("data", "show", "train.csv").out
        self.assertIn("x1, x2, y", out)
        self.assertIn("200", out)
        logistic = {"model": {"name": "logistic"}, "data": {"path": "train.csv", "response": "y"},
                    "sampler": {"name": "sgbd", "step_size": 0.01}, "iterations": 500}
        self.submit(logistic, "--wait")
        self.assertIn("theta[2]", self.barker("summary", "last").out)
        self.barker("data", "rm", "train.csv")
        self.assertIn("step_size", self.barker("samplers", "sgbd").out)
        self.assertIn("prior_sd", self.barker("models", "logistic").out)
        self.assertIn("version", self.barker("info").out)
        self.assertIn("admin", self.barker("me").out)
        token = self.barker("token", "add", "ada", "--days", "3").out.strip()
        self.env["BARKER_TOKEN"] = token
        self.assertIn("ada", self.barker("me").out)
        self.assertEqual(json.loads(self.barker("ls", "--json").out)["items"], [])
        mine = self.submit(PLAIN).out.strip()
        del self.env["BARKER_TOKEN"]
        self.barker("show", mine)
        self.barker("token", "rm", token.split("_")[1])
        self.env["BARKER_TOKEN"] = token
        self.assertIn("was not accepted", self.barker("me", code=REFUSED).err)

    def test_a_list_of_tokens_is_read_to_its_end(self):
        self.start_daemon()
        for k in range(105):  # more than a page
            self.barker("token", "add", "--label", "t%d" % k)
        out = self.barker("token", "ls").out
        self.assertEqual([k for k in range(105) if "t%d " % k not in out.replace("\n", " ")], [])

    def test_run_needs_nothing(self):
        self.env.pop("BARKER_STATE")
        self.path("data/job.json", json.dumps(PLAIN))
        result = self.barker("run", "data/job.json", "-o", "d.csv")
        self.assertIn("8000 draws from 2 chains", result.out)
        self.assertTrue(os.path.getsize(self.path("d.csv")))
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("barker-run")], [])

    def test_run_interrupted_leaves_nothing(self):
        self.env.pop("BARKER_STATE")
        self.path("data/job.json", json.dumps(endless(iterations=900000000)))
        terminal = self.terminal("run", "data/job.json")
        terminal.until("chain 2")
        terminal.type("\x03")
        self.assertEqual(terminal.finish().code, INTERRUPTED)
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("barker-run")], [])
