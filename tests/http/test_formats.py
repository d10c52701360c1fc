"""Draws for other people's tools: CmdStan's CSV and posteriordb's JSON, read by the rules that their
readers go by, and by rstan where it is installed."""

import json
import os
import re
import shutil
import subprocess
import time

import harness
from harness import Case, Daemon, Table, endless, ica_text, logistic_text, ratings_text, toy


def setUpModule():
    global daemon, alice, logistic, ica, factors
    daemon = Daemon()
    daemon.file("train.csv", logistic_text(150, seed=5))
    daemon.file("ica.csv", ica_text(100, 3))
    daemon.file("ratings.csv", ratings_text(4, 3, 30))
    alice = daemon.user("alice")
    logistic = alice.run({"model": {"name": "logistic"}, "chains": 3, "seed": 4711,
                          "batch_size": 50, "data": {"path": "train.csv"}, "thin": 2,
                          "sampler": {"name": "sgbd", "variant": "corrected", "step_size": 0.15},
                          "iterations": 500, "warmup": 101})["id"]
    ica = alice.run({"model": {"name": "ica"}, "data": {"path": "ica.csv"}, "chains": 2, "seed": 3,
                     "sampler": {"name": "barker_mh"}, "iterations": 210, "warmup": 160,
                     "thin": 4})["id"]
    factors = alice.run({"model": {"name": "matrix_factorization", "rank": 2}, "chains": 1,
                         "data": {"path": "ratings.csv"}, "seed": 5, "batch_size": 10,
                         "sampler": {"name": "sgld", "variant": "vanilla", "step_size": 0.01},
                         "iterations": 30, "warmup": 10})["id"]


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


class Stan:
    """A CmdStan file, read as strictly as the strictest of its readers."""

    def __init__(self, text):
        lines = text.split("\n")
        assert lines.pop() == "", "no line end at the end"
        at = next(i for i, line in enumerate(lines) if not line.startswith("#"))
        self.config = {}
        for line in lines[:at]:
            match = re.fullmatch(r"# {1,9}(\w+)(?: = ([^=]*?)(?: \(Default\))?)?", line)
            assert match, line
            if match.group(2) is not None:
                assert match.group(1) not in self.config, line
                self.config[match.group(1)] = match.group(2)
        self.names = lines[at].split(",")
        self.warmup, at = self.rows(lines, at + 1)
        assert lines[at] == "# Adaptation terminated", lines[at]
        self.step = float(re.fullmatch(r"# Step size = (\S+)", lines[at + 1]).group(1))
        self.draws, at = self.rows(lines, at + 2)
        self.seconds = self.footer(lines[at:])
        self.counts()

    def rows(self, lines, at):
        rows = []
        while not lines[at].startswith("#"):
            cells = lines[at].split(",")
            assert len(cells) == len(self.names), lines[at]
            for name, cell in zip(self.names, cells):
                if name in ("divergent__", "treedepth__", "n_leapfrog__"):
                    assert re.fullmatch(r"\d+", cell), "%s is %s" % (name, cell)
                if not name.endswith("__"):
                    assert cell == "NaN" or len(cell) <= len(repr(float(cell))), cell
            rows.append([float(c) for c in cells])
            at += 1
        return rows, at

    @staticmethod
    def footer(lines):
        assert lines[0] == "# " and lines[4] == "# " and len(lines) == 5, lines
        assert lines[1].startswith("#  Elapsed Time: "), lines[1]
        seconds = []
        for line, what in zip(lines[1:4], ("Warm-up", "Sampling", "Total")):
            number, rest = line[17:].split(" ", 1)
            assert rest == "seconds (%s)" % what and line[16] == " ", line
            seconds.append(float(number))
        return seconds

    def counts(self):
        config = self.config
        for key in ("model", "method", "num_samples", "num_warmup", "thin", "save_warmup", "id",
                    "metric", "max_depth"):
            assert key in config, key
        assert config["algorithm"] != "fixed_param" and config["thin"] == "1"
        assert int(config["num_samples"]) == len(self.draws)
        assert config["save_warmup"] in "01", "older readers know no words"
        if config["save_warmup"] == "1":
            assert int(config["num_warmup"]) == len(self.warmup)
        else:
            assert not self.warmup
        hidden = [n for n in self.names if n.endswith("__")]
        assert self.names[:len(hidden)] == hidden and hidden[0] == "lp__"
        assert "energy__" not in hidden

    def column(self, name, warmup=False):
        at = self.names.index(name)
        return [row[at] for row in (self.warmup if warmup else self.draws)]

    def shapes(self):
        """Blocks with their shapes: elements in one row, from 1, the first index fastest."""
        blocks = {}
        for name in self.names:
            base, *index = name.split(".")
            assert re.fullmatch(r"[A-Za-z]\w*", base), name
            if not name.endswith("__"):
                assert base not in blocks or base == list(blocks)[-1], "%s is torn apart" % base
                blocks.setdefault(base, []).append([int(i) for i in index])
        for base, indices in blocks.items():
            shape, wanted = indices[-1], [[]]
            for extent in reversed(shape):
                wanted = [[i] + rest for rest in wanted for i in range(1, extent + 1)]
            assert indices == wanted, (base, indices)
            blocks[base] = tuple(shape)
        return blocks


def stan(job, **query):
    return Stan(alice.draws(job, format="stan", **query).decode())


def stan_name(name):
    return name.replace("[", ".").replace(",", ".").replace("]", "")


class CmdStan(Case):
    def assertSameDraws(self, file, table, chain, names):
        for name in names:
            self.assertEqual(file.column(stan_name(name)), table.of_chain(name, chain), name)

    def test_files_hold_the_numbers_of_the_csv(self):
        table = Table(alice.draws(logistic))
        for chain in (1, 2, 3):
            file = stan(logistic, chains=chain)
            self.assertEqual(file.shapes(), {"theta": (3,)})
            self.assertEqual(file.config["id"], str(chain))
            self.assertEqual(len(file.draws), 250)
            self.assertSameDraws(file, table, chain, table.names)

    def test_the_header_tells_of_the_run(self):
        file = stan(logistic, chains=2)
        job = alice.job(logistic)
        for key, value in (("stan_version_major", "2"), ("model", "logistic_model"),
                           ("method", "sample"), ("algorithm", "sgbd"), ("seed", "4711"),
                           ("num_samples", "250"), ("num_warmup", "50"), ("save_warmup", "0"),
                           ("max_depth", "10"), ("metric", "unit_e"), ("sg_variant", "corrected"),
                           ("sg_step_size", "0.15"), ("sg_batch_size", "50"), ("sg_thin", "2"),
                           ("sg_warmup", "101"), ("sg_job", logistic)):
            self.assertEqual(file.config[key], value, key)
        started = job["started_at"][:19].replace("T", " ") + " UTC"
        self.assertEqual(file.config["start_datetime"], started)
        own = [k for k in file.config if k.startswith("sg_")]
        self.assertTrue(all(" " not in file.config[k] for k in own))

    def test_seconds_are_those_of_the_chain(self):
        seconds = [stan(logistic, chains=c).seconds for c in (1, 2, 3)]
        for warmup, sampling, total in seconds:
            self.assertClose(warmup + sampling, total)
            self.assertClose(warmup / total, 101 / 601)
        self.assertClose(sum(s[2] for s in seconds),
                         alice.job(logistic)["progress"]["cpu_seconds"], 1e-6)

    def test_what_is_not_known_is_no_number(self):
        file, exact = stan(logistic, chains=1), stan(ica, chains=1)
        self.assertTrue(all(x != x for x in file.column("lp__")))
        self.assertEqual(set(file.column("accept_stat__")), {1.0})
        self.assertEqual(set(file.column("stepsize__")), {0.15})
        self.assertEqual(file.step, 0.15)
        for name in ("lp__", "accept_stat__", "stepsize__"):  # of a Metropolis step that adapts
            self.assertTrue(all(x != x for x in exact.column(name)), name)
        self.assertNotEqual(exact.step, exact.step)

    def test_matrices_are_in_stans_order(self):
        file, table = stan(ica, chains=2), Table(alice.draws(ica))
        self.assertEqual(file.shapes(), {"W": (3, 3)})
        self.assertEqual(file.names[6:9], ["W.1.1", "W.2.1", "W.3.1"])
        self.assertSameDraws(file, table, 2, table.names)

    def test_several_blocks_and_one_chain(self):
        file, table = stan(factors), Table(alice.draws(factors))  # no chain need be named
        self.assertEqual(len(file.shapes()), len({n.split("[")[0] for n in table.names}))
        self.assertSameDraws(file, table, 1, table.names)

    def test_selections_keep_arrays_whole_or_make_no_arrays(self):
        table = Table(alice.draws(ica))
        file = stan(ica, chains=1, params="W[2,1],W[1,1]", thin=5)
        self.assertEqual(file.names[6:], ["W.1.1", "W.2.1"])
        self.assertEqual(file.column("W.2.1"), table.of_chain("W[2,1]", 1)[::5])
        self.assertEqual(file.config["sg_thin"], "20")
        file = stan(ica, chains=1, params="W[2,3],W[1,1]")
        self.assertEqual(sorted(file.names[6:]), ["W_1_1", "W_2_3"])
        self.assertEqual(file.column("W_2_3"), table.of_chain("W[2,3]", 1))

    def test_warmup_comes_before_the_adaptation(self):
        table = Table(alice.draws(logistic, warmup="true"))
        for query in ({}, {"thin": 7}, {"from": 60}, {"from": 150}, {"to": 80}):
            with self.subTest(query):
                file = stan(logistic, chains=3, warmup="true", **query)
                both = [i for c in json.loads(alice.draws(logistic, format="json", chains=3,
                                                          warmup="true", **query))["chains"]
                        for i in c["iterations"]]
                self.assertEqual(len(file.warmup), sum(i <= 101 for i in both))
                self.assertEqual(len(file.draws), sum(i > 101 for i in both))
                self.assertEqual(file.config["save_warmup"], "1")
                values = file.column("theta.2", warmup=True) + file.column("theta.2")
                self.assertEqual(values, [table.of_chain("theta[2]", 3)[i // 2 - 1] for i in both])

    def test_a_file_holds_one_chain(self):
        for query in ({}, {"chains": "1,3"}, {"chains": "1,2,3"}):
            reply = alice.get("/v1/jobs/%s/draws" % logistic, query={"format": "stan", **query})
            self.assertProblem(reply, 422, "one chain", "chains=1 to chains=3", pointer="?chains")
        reply = alice.get("/v1/jobs/%s/draws" % logistic, query={"format": "stan", "chains": 4})
        self.assertProblem(reply, 422, pointer="?chains")

    def test_files_are_named_after_model_and_chain(self):
        reply = alice.get("/v1/jobs/%s/draws" % logistic, query={"format": "stan", "chains": 2})
        self.assertEqual(reply.headers["Content-Disposition"],
                         'attachment; filename="logistic_2.csv"')
        self.assertTrue(reply.headers["Content-Type"].startswith("text/csv"))

    def test_a_running_job_is_cut_to_its_shortest_chain(self):
        running = alice.submit(endless(thin=500, chains=3, iterations=400000000))
        alice.until(running, lambda j: all(c["iteration"] > 50000 for c in j["progress"]["chains"]))
        alice.act(running, "pause")
        while any(c["state"] == "running" for c in alice.job(running)["progress"]["chains"]):
            time.sleep(0.01)  # until the last slices are over
        lengths = [len(c["iterations"]) for c in
                   json.loads(alice.draws(running, format="json"))["chains"]]
        files = [stan(running, chains=c) for c in (1, 2, 3)]
        self.assertEqual({len(f.draws) for f in files}, {min(lengths)})
        alice.act(running, "cancel")
        alice.wait(running, "cancelled")

    def test_a_job_without_draws_gives_a_file_without_rows(self):
        file = stan(logistic, chains=1, **{"from": 700})
        self.assertEqual((file.draws, file.config["num_samples"]), ([], "0"))

    def test_rstan_reads_the_files(self):
        """Its numbers are those of the CSV, its arrays have the shapes of the model's."""
        if shutil.which("Rscript") is None or subprocess.run(
                ["Rscript", "-e", "library(rstan)"], capture_output=True).returncode != 0:
            self.skipTest("R with rstan is not there")
        folders = []
        for job, model, chains in ((logistic, "logistic", 3), (ica, "ica", 2)):
            for warmup in ("false", "true"):
                folders.append(harness.scratch())
                for c in range(1, chains + 1):
                    self.keep(folders[-1], "%s_%d.csv" % (model, c),
                              alice.draws(job, format="stan", chains=c, warmup=warmup))
                self.keep(folders[-1], "draws.csv", alice.draws(job))
        done = subprocess.run(["Rscript", "-", *folders], input=R_READER, capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def keep(self, folder, name, body):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(body)


R_READER = r"""
suppressMessages(library(rstan))
for (folder in commandArgs(TRUE)) {
    files <- list.files(folder, "_[0-9].csv$", full.names = TRUE)
    fit <- suppressWarnings(read_stan_csv(files))
    draws <- as.array(fit)
    table <- read.csv(file.path(folder, "draws.csv"), check.names = FALSE)
    names <- setdiff(names(table), c(".chain", ".iteration", ".draw"))
    stopifnot(setequal(dimnames(draws)$parameters, c(names, "lp__")))
    for (name in names)
        stopifnot(identical(as.numeric(draws[, , name]), as.numeric(table[[name]])))
    stopifnot(all(is.nan(draws[, , "lp__"])), nrow(get_elapsed_time(fit)) == length(files))
}
"""


class Posteriordb(Case):
    def test_chains_are_objects_of_columns(self):
        for job, query in ((logistic, {}), (ica, {}), (ica, {"params": "W[3,1],W[1,2]"}),
                           (logistic, {"chains": "3,1", "warmup": "true", "thin": 7})):
            with self.subTest(query):
                table = Table(alice.draws(job, **query))
                document = json.loads(alice.draws(job, format="posteriordb", **query))
                chains = list(dict.fromkeys(table.chain))
                self.assertEqual(document, [{n: table.of_chain(n, c) for n in table.names}
                                            for c in chains])

    def test_it_is_a_file_of_json(self):
        reply = alice.get("/v1/jobs/%s/draws" % ica, query={"format": "posteriordb"})
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        self.assertEqual(reply.headers["Content-Disposition"],
                         'attachment; filename="%s.json"' % ica)

    def test_chains_of_a_running_job_are_equally_long(self):
        running = alice.submit(endless(thin=500, chains=3, iterations=400000000))
        alice.until(running, lambda j: all(c["iteration"] > 50000 for c in j["progress"]["chains"]))
        document = json.loads(alice.draws(running, format="posteriordb"))
        self.assertEqual(len({len(c["theta[1]"]) for c in document}), 1)
        self.assertGreater(len(document[0]["theta[1]"]), 0)
        alice.act(running, "cancel")
        alice.wait(running, "cancelled")

    def test_an_export_is_a_reference_as_it_is(self):
        body = alice.draws(logistic, format="posteriordb")
        reply = alice.put("/v1/references/own", body, headers={"Content-Type": "application/json"})
        self.assertIn(reply.status, (200, 201, 204), reply)
        summary = alice.read("/v1/jobs/%s/summary" % logistic, query={"reference": "own"})
        for row in summary["parameters"]:
            self.assertClose(row["reference"]["mean"], row["mean"])
            self.assertClose(row["reference"]["sd"], row["sd"])

    def test_nothing_is_an_empty_list_of_numbers(self):
        short = alice.run(toy())["id"]
        document = json.loads(alice.draws(short, format="posteriordb", **{"from": 100000}))
        self.assertEqual(document, [{"theta[1]": []}] * 2)


class Listed(Case):
    def test_every_format_of_info_is_served_as_it_is_listed(self):
        formats = alice.read("/v1/info")["draws_formats"]
        self.assertEqual([f["name"] for f in formats][:2], ["json", "csv"])
        for f in formats:
            with self.subTest(f["name"]):
                chains = {"chains": 1} if f["one_chain"] else {}
                reply = alice.get("/v1/jobs/%s/draws" % ica, query={"format": f["name"], **chains})
                self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, f["content_type"]))
                name = reply.headers.get("Content-Disposition", 'filename="x.%s"' % f["ending"])
                self.assertTrue(name.endswith('.%s"' % f["ending"]), name)

    def test_another_format_is_refused_with_the_list(self):
        reply = alice.get("/v1/jobs/%s/draws" % ica, query={"format": "xls"})
        self.assertEqual((reply.status, reply.pointers()), (422, ["?format"]), reply)
        for f in alice.read("/v1/info")["draws_formats"]:
            self.assertIn(f["name"], str(reply.json()))
