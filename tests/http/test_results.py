"""Results: draws in every format, summaries, traces, densities, metrics, comparisons, references,
each held against what this file computes from the draws by itself."""

import csv
import io
import json
import math
import os
import socket
import sqlite3
import statistics
import struct
import threading

import harness
from harness import (Case, Daemon, Npy, Table, endless, ica_text, logistic_text, mean, quantile, sd,
                     toy, variance)

TRAIN, TEST = logistic_text(150, seed=5), logistic_text(60, seed=6)


def setUpModule():
    global daemon, alice, bob, job, ica
    daemon = Daemon()
    daemon.file("train.csv", TRAIN)
    daemon.file("test.csv", TEST)
    daemon.file("ica.csv", ica_text(100, 3))
    alice, bob = daemon.user("alice"), daemon.user("bob")
    job = alice.run({"model": {"name": "logistic"}, "chains": 3, "seed": 12, "batch_size": 50,
                     "data": {"path": "train.csv", "test": "test.csv"}, "metric_every": 1,
                     "sampler": {"name": "sgbd", "variant": "corrected", "step_size": 0.15},
                     "iterations": 500, "warmup": 100})["id"]
    ica = alice.run({"model": {"name": "ica"}, "data": {"path": "ica.csv"}, "chains": 2, "seed": 3,
                     "sampler": {"name": "sgbd", "step_size": 0.05}, "iterations": 210, "warmup": 60,
                     "thin": 4})["id"]


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def draws_json(job_id, **query):
    return json.loads(alice.draws(job_id, format="json", **query))


def iterations(job_id, **query):
    """Of each chain's draws; only the JSON has them."""
    return [c["iterations"] for c in draws_json(job_id, **query)["chains"]]


class Draws(Case):
    def test_csv_is_a_table_for_data_frames(self):
        reply = alice.get("/v1/jobs/%s/draws" % job, query={"format": "csv"})
        self.assertTrue(reply.headers["Content-Type"].startswith("text/csv"))
        self.assertIn(job, reply.headers["Content-Disposition"])
        self.assertTrue(reply.text.startswith('.chain,.iteration,.draw,"theta[1]","theta[2]",'))
        table = Table(reply.body)
        self.assertEqual(table.names, ["theta[1]", "theta[2]", "theta[3]"])
        self.assertEqual(len(table.rows), 1500)
        self.assertEqual(table.draw, list(range(1, 1501)))
        self.assertEqual(table.chain, [1] * 500 + [2] * 500 + [3] * 500)
        self.assertEqual(table.iteration, list(range(1, 501)) * 3)  # R's posterior counts draws

    def test_numbers_are_written_as_short_as_they_can_be_read_back(self):
        rows = list(csv.reader(io.StringIO(alice.draws(job).decode())))[1:]
        for row in rows[:300]:
            for cell in row[3:]:
                shortest = repr(float(cell))
                self.assertLessEqual(len(cell), len(shortest))

    def test_json_and_npy_hold_the_numbers_of_the_csv(self):
        for job_id, query in ((job, {}), (ica, {}), (job, {"warmup": "true"}), (ica, {"thin": 3}),
                              (ica, {"params": "W[3,1],W[1,2]"}), (job, {"chains": "3,1"}),
                              (job, {"from": 200, "to": 300, "thin": 7})):
            with self.subTest(query):
                table = Table(alice.draws(job_id, **query))
                document = draws_json(job_id, **query)
                array = Npy(alice.draws(job_id, format="npy", **query))
                chains = list(dict.fromkeys(table.chain))
                self.assertEqual(document["parameters"], table.names)
                self.assertEqual([c["chain"] for c in document["chains"]], chains)
                count = table.chain.count(chains[0])
                self.assertEqual(array.shape, (len(chains), count, len(table.names)))
                for c, chain in enumerate(document["chains"]):
                    self.assertEqual(len(chain["iterations"]), count)
                    for p, name in enumerate(table.names):
                        column = table.of_chain(name, chain["chain"])
                        self.assertEqual(chain["values"][name], column)
                        self.assertEqual([array.at(c, i, p) for i in range(count)], column)

    def test_warmup_is_left_out_unless_it_is_asked_for(self):
        whole, part = Table(alice.draws(job, warmup="true")), Table(alice.draws(job))
        self.assertEqual(iterations(job, warmup="true"), [list(range(1, 601))] * 3)
        self.assertEqual(part.of_chain("theta[2]", 2), whole.of_chain("theta[2]", 2)[100:])
        self.assertEqual(alice.draws(job, warmup="false"), alice.draws(job))

    def test_thinned_jobs_number_their_draws_by_iteration(self):
        self.assertEqual(iterations(ica, warmup="true"), [list(range(4, 271, 4))] * 2)
        self.assertEqual(iterations(ica), [list(range(64, 271, 4))] * 2)

    def test_from_to_and_thin_choose_iterations(self):
        whole = Table(alice.draws(job))
        for query, wanted in (({"from": 150}, range(150, 601)), ({"to": 120}, range(101, 121)),
                              ({"from": 300, "to": 310}, range(300, 311)),
                              ({"from": 600, "to": 600}, [600]), ({"thin": 100}, range(101, 601, 100)),
                              ({"from": 150, "thin": 200}, [150, 350, 550]), ({"from": 601}, []),
                              ({"from": 700, "to": 10 ** 15}, []), ({"to": 50}, []), ({"to": 0}, []),
                              ({"from": 0}, range(101, 601))):
            with self.subTest(query):
                part = Table(alice.draws(job, **query))
                self.assertEqual(iterations(job, **query), [list(wanted)] * 3)
                self.assertEqual(part.of_chain("theta[1]", 2), [
                    v for v, i in zip(whole.of_chain("theta[1]", 2), range(101, 601))
                    if i in set(wanted)])
        self.assertProblem(alice.get("/v1/jobs/%s/draws" % job, query={"from": 9, "to": 5}), 422)

    def test_parameters_come_in_the_order_asked_for_with_commas_in_brackets(self):
        names = ["W[2,3]", "W[1,1]", "W[3,2]"]
        table = Table(alice.draws(ica, params=",".join(names)))
        self.assertEqual(table.names, names)
        whole = Table(alice.draws(ica))
        for name in names:
            self.assertEqual(table.values[name], whole.values[name])
        self.assertEqual(len(whole.names), 9)

    def test_bad_choices_are_mistakes(self):
        for query, pointer in (({"params": "W[4,1]"}, "?params"), ({"params": "W[1"}, "?params"),
                               ({"params": "W[1,1],W[1,1]"}, "?params"), ({"params": ""}, "?params"),
                               ({"params": "theta[1]"}, "?params"), ({"chains": "3"}, "?chains"),
                               ({"chains": "0"}, "?chains"), ({"chains": "1,1"}, "?chains"),
                               ({"chains": "one"}, "?chains"), ({"chains": "-1"}, "?chains"),
                               ({"format": "xls"}, "?format"), ({"warmup": "yes"}, "?warmup"),
                               ({"thin": "0"}, "?thin"), ({"format": "sqlite", "thin": 2}, "?thin")):
            with self.subTest(query):
                reply = alice.get("/v1/jobs/%s/draws" % ica, query=query)
                self.assertProblem(reply, 422, pointer=pointer)

    def test_the_sqlite_file_is_whole_and_says_the_same(self):
        body = alice.draws(job, format="sqlite")
        path = os.path.join(harness.scratch(), "job.sqlite")
        with open(path, "wb") as file:
            file.write(body)
        db = sqlite3.connect(path)
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        names = [r[0] for r in db.execute("SELECT name FROM parameter ORDER BY position")]
        self.assertEqual(names, ["theta[1]", "theta[2]", "theta[3]"])
        table = Table(alice.draws(job, warmup="true"))
        for chain in (1, 2, 3):
            columns = [[], [], []]
            for first, count, data in db.execute(
                    "SELECT first, draws, data FROM tile WHERE chain = ? ORDER BY first", (chain,)):
                self.assertEqual(first, len(columns[0]))
                numbers = struct.unpack("<%dd" % (len(data) // 8), data)
                for k in range(3):
                    columns[k] += numbers[k * count:(k + 1) * count]
            for name, column in zip(names, columns):
                self.assertEqual(column, table.of_chain(name, chain))
        request, = db.execute("SELECT value FROM meta WHERE key = 'request'").fetchone()
        self.assertEqual(json.loads(request)["seed"], 12)
        db.close()

    def test_draws_can_be_read_while_the_job_runs(self):
        running = alice.submit(endless(thin=5000, chains=2, iterations=40000000000))
        alice.wait_progress(running, 100000)
        before = 0
        for _ in range(3):
            for at in iterations(running):
                self.assertEqual(at, list(range(5000, 5000 * len(at) + 1, 5000)))
            table = Table(alice.draws(running))
            self.assertGreaterEqual(len(table.rows), before)
            before = len(table.rows)
            array = Npy(alice.draws(running, format="npy"))
            self.assertEqual((array.shape[0], array.shape[2]), (2, 1))
            document = draws_json(running)
            for chain in document["chains"]:
                self.assertEqual(len(chain["values"]["theta[1]"]), len(chain["iterations"]))
            body = alice.draws(running, format="sqlite")
            self.assertEqual(body[:16], b"SQLite format 3\0")
            self.assertEqual(alice.get("/v1/jobs/%s/summary" % running).status, 200)
        alice.act(running, "cancel")
        alice.wait(running, "cancelled")

    def test_a_client_that_leaves_in_the_middle_of_a_download_hurts_nobody(self):
        big = alice.run(toy(iterations=100000, warmup=0, chains=2))["id"]
        for form in ("csv", "json", "npy", "sqlite"):
            connection = socket.create_connection((daemon.host, daemon.port))
            connection.sendall(("GET /v1/jobs/%s/draws?format=%s HTTP/1.1\r\nHost: localhost\r\n"
                                "Authorization: Bearer %s\r\n\r\n" % (big, form, alice.token)).encode())
            connection.recv(1000)
            connection.close()
        self.assertEqual(len(Table(alice.draws(big)).rows), 200000)
        self.assertTrue(daemon.alive())

    def test_formats_of_known_length_say_it(self):
        reply = alice.get("/v1/jobs/%s/draws" % job, query={"format": "npy"})
        self.assertEqual(int(reply.headers["Content-Length"]), len(reply.body))

    def test_json_without_a_format_is_the_default(self):
        reply = alice.get("/v1/jobs/%s/draws" % job)
        self.assertTrue(reply.headers["Content-Type"].startswith("application/json"))
        self.assertEqual(reply.body, alice.draws(job, format="json"))


# ---- mixing measures after Vehtari et al. (2021), computed the plain way ----

def ranks_to_normal(chains):
    flat = sorted((v, c, i) for c, chain in enumerate(chains) for i, v in enumerate(chain))
    ranks = [[0.0] * len(chain) for chain in chains]
    start = 0
    while start < len(flat):
        end = start
        while end + 1 < len(flat) and flat[end + 1][0] == flat[start][0]:
            end += 1
        for _, c, i in flat[start:end + 1]:
            ranks[c][i] = (start + end) / 2 + 1
        start = end + 1
    normal, total = statistics.NormalDist(), len(flat)
    return [[normal.inv_cdf((r - 0.375) / (total + 0.25)) for r in chain] for chain in ranks]


def split(chains):
    half = len(chains[0]) // 2
    return [part for c in chains for part in (c[:half], c[len(c) - half:])]


def plain_rhat(chains):
    n = len(chains[0])
    between = n * variance([mean(c) for c in chains])
    within = mean([variance(c) for c in chains])
    return math.sqrt((between / within + n - 1) / n)


def rhat(chains):
    middle = statistics.median([v for c in chains for v in c])
    folded = [[abs(v - middle) for v in c] for c in chains]
    return max(plain_rhat(ranks_to_normal(split(c))) for c in (chains, folded))


def autocovariance(x):
    n, centre = len(x), mean(x)
    d = [v - centre for v in x]
    return [math.fsum(d[i] * d[i + lag] for i in range(n - lag)) / n for lag in range(n)]


def ess(chains):
    n, m = len(chains[0]), len(chains)
    covariances = [autocovariance(c) for c in chains]
    within = mean([a[0] for a in covariances]) * n / (n - 1)
    plus = within * (n - 1) / n + (variance([mean(c) for c in chains]) if m > 1 else 0)

    def rho(t):
        return 1 - (within - mean([a[t] for a in covariances])) / plus
    values = [1.0, rho(1)]
    t = 1
    even, odd = values
    while t < n - 5 and even + odd > 0:
        t += 2
        even, odd = rho(t - 1), rho(t)
        if even + odd >= 0:
            values += [even, odd]
    if even > 0:
        values.append(even)
    length = len(values) // 2 * 2
    pairs = values[:]
    for k in range(2, length, 2):
        if pairs[k] + pairs[k + 1] > pairs[k - 2] + pairs[k - 1]:
            pairs[k] = pairs[k + 1] = (pairs[k - 2] + pairs[k - 1]) / 2
    tail = pairs[length] if len(pairs) > length else 0
    tau = -1 + 2 * math.fsum(pairs[:length]) + tail
    return m * n / max(tau, 1 / math.log10(m * n))


class Summary(Case):
    def test_moments_and_quantiles_are_those_of_the_draws(self):
        for job_id in (job, ica):
            table = Table(alice.draws(job_id))
            summary = alice.read("/v1/jobs/%s/summary" % job_id)
            self.assertEqual(summary["draws"], len(table.rows))
            self.assertEqual(summary["chains"], len(set(table.chain)))
            self.assertEqual([p["name"] for p in summary["parameters"]], table.names)
            for row in summary["parameters"]:
                x = table.values[row["name"]]
                with self.subTest(row["name"]):
                    self.assertClose(row["mean"], mean(x), 1e-10)
                    self.assertClose(row["sd"], sd(x), 1e-10)
                    for name, p in (("q5", 0.05), ("q25", 0.25), ("q50", 0.5), ("q75", 0.75),
                                    ("q95", 0.95)):
                        self.assertClose(row[name], quantile(x, p), 1e-12, note=name)

    def test_rhat_and_ess_are_those_of_the_draws(self):
        table = Table(alice.draws(job))
        for row in alice.read("/v1/jobs/%s/summary" % job)["parameters"]:
            chains = [table.of_chain(row["name"], c) for c in (1, 2, 3)]
            with self.subTest(row["name"]):
                self.assertClose(row["rhat"], rhat(chains), 1e-8)
                self.assertClose(row["ess_bulk"], ess(ranks_to_normal(split(chains))), 1e-6)
                self.assertClose(row["mcse_mean"], row["sd"] / math.sqrt(ess(split(chains))), 1e-6)
                self.assertGreater(row["ess_tail"], 0)
                self.assertGreater(row["mcse_sd"], 0)

    def test_the_jobs_own_line_is_the_worst_of_it(self):
        rows = alice.read("/v1/jobs/%s/summary" % job)["parameters"]
        head = alice.job(job)["summary"]
        self.assertClose(head["max_rhat"], max(r["rhat"] for r in rows), 1e-9)
        self.assertClose(head["min_ess_bulk"], min(r["ess_bulk"] for r in rows), 1e-9)
        self.assertEqual(head["worst"], max(rows, key=lambda r: r["rhat"])["name"])

    def test_worst_first(self):
        rows = alice.read("/v1/jobs/%s/summary" % ica, query={"order": "worst"})["parameters"]
        values = [r["rhat"] for r in rows]
        self.assertEqual(values, sorted(values, reverse=True))
        declared = alice.read("/v1/jobs/%s/summary" % ica)["parameters"]
        self.assertEqual(sorted(r["name"] for r in rows), sorted(r["name"] for r in declared))
        self.assertEqual({r["name"]: r for r in rows}, {r["name"]: r for r in declared})

    def test_pages_make_up_the_whole(self):
        whole = alice.read("/v1/jobs/%s/summary" % ica)["parameters"]
        for order in ("declared", "worst"):
            seen, cursor = [], None
            while True:
                query = {"limit": 4, "order": order, **({"cursor": cursor} if cursor else {})}
                page = alice.read("/v1/jobs/%s/summary" % ica, query=query)
                seen += page["parameters"]
                cursor = page["next"]
                if cursor is None:
                    break
            self.assertEqual(len(seen), 9)
            self.assertEqual({r["name"]: r for r in seen}, {r["name"]: r for r in whole})

    def test_chosen_parameters(self):
        rows = alice.read("/v1/jobs/%s/summary" % ica, query={"params": "W[2,1],W[1,3]"})["parameters"]
        self.assertEqual([r["name"] for r in rows], ["W[2,1]", "W[1,3]"])
        self.assertProblem(alice.get("/v1/jobs/%s/summary" % ica, query={"params": "x"}), 422,
                           pointer="?params")
        self.assertProblem(alice.get("/v1/jobs/%s/summary" % ica, query={"order": "best"}), 422,
                           pointer="?order")

    def test_what_cannot_be_computed_is_null_with_a_reason(self):
        few = alice.run(toy(iterations=2, warmup=0, chains=1))["id"]
        row = alice.read("/v1/jobs/%s/summary" % few)["parameters"][0]
        self.assertIsNone(row["rhat"])
        self.assertTrue(row["reason"])
        still = alice.run({"model": {"name": "logistic"}, "data": {"path": "train.csv"},
                           "sampler": {"name": "sgbd", "step_size": 1e-300}, "iterations": 200,
                           "init": {"kind": "values", "values": [1, 2, 3]}, "warmup": 0,
                           "chains": 2, "seed": 1})["id"]
        row = alice.read("/v1/jobs/%s/summary" % still)["parameters"][0]
        self.assertIsNone(row["rhat"])
        self.assertTrue(row["reason"])
        self.assertEqual(row["sd"], 0)
        self.assertEqual(alice.get("/v1/jobs/%s/density" % still).status, 200)

    def test_a_job_that_saves_nothing_has_an_empty_summary(self):
        none = alice.run(toy(save={"params": []}))["id"]
        summary = alice.read("/v1/jobs/%s/summary" % none)
        self.assertEqual(summary["parameters"], [])
        self.assertEqual(summary["efficiency"]["reason"], "the effective sample size is not known")
        for path in ("draws", "trace", "density", "metrics", "diagnostics"):
            self.assertEqual(alice.get("/v1/jobs/%s/%s" % (none, path)).status, 200, path)


    def test_many_draws_have_one_effective_sample_size(self):
        done = alice.run(toy(model={"name": "noisy_normal", "noise_scale": 0}, iterations=80000, warmup=0,
                             chains=16, sampler={"name": "sgbd", "step_size": 1.5}))
        answer = alice.read("/v1/jobs/%s/summary" % done["id"])
        self.assertLessEqual(answer["draws"], 1000000)
        self.assertEqual(answer["draws_stored"], 1280000)
        ess = answer["parameters"][0]["ess_bulk"]
        self.assertEqual(answer["efficiency"]["min_ess_bulk"], ess)
        self.assertEqual(done["summary"]["min_ess_bulk"], ess)


class Plots(Case):
    def test_a_short_trace_is_whole(self):
        table = Table(alice.draws(ica, warmup="true"))
        trace = alice.read("/v1/jobs/%s/trace" % ica, query={"params": "W[1,2]", "warmup": "true"})
        (parameter,) = trace["parameters"]
        self.assertEqual(parameter["name"], "W[1,2]")
        self.assertEqual(trace["warmup_end"], 60)
        for chain in parameter["chains"]:
            self.assertEqual(chain["value"], table.of_chain("W[1,2]", chain["chain"]))
            self.assertEqual(chain["iteration"], list(range(4, 271, 4)))

    def test_a_decimated_trace_keeps_spikes(self):
        # Cauchy noise in the gradient gives chains with spikes, here 20000 draws of one.
        spiky = alice.run(toy(model={"name": "noisy_normal", "noise": "cauchy"}, iterations=20000,
                              warmup=500, sampler={"name": "sgld", "step_size": 0.3}))["id"]
        table = Table(alice.draws(spiky))
        for points in (10, 11, 100, 999):
            trace = alice.read("/v1/jobs/%s/trace" % spiky, query={"max_points": points,
                                                                  "warmup": "false"})
            (parameter,) = trace["parameters"]
            self.assertEqual([c["chain"] for c in parameter["chains"]], [1, 2])
            for chain in parameter["chains"]:
                column = table.of_chain("theta[1]", chain["chain"])
                self.assertLessEqual(len(chain["value"]), points)
                self.assertGreater(len(chain["value"]), points // 2 - 2)
                self.assertEqual(max(chain["value"]), max(column))
                self.assertEqual(min(chain["value"]), min(column))
                self.assertEqual(chain["iteration"], sorted(set(chain["iteration"])))
                for i, v in zip(chain["iteration"], chain["value"]):
                    self.assertEqual(column[i - 501], v)

    def test_a_stretch_of_a_trace_has_what_lies_between(self):
        """Iterations from and to belong to it, also where thinning left none at them."""
        path = "/v1/jobs/%s/trace" % ica
        whole = alice.read(path, query={"params": "W[1,2]"})["parameters"][0]["chains"]
        for a, b in ((1, 7), (40, 173), (41, 172), (172, 172), (173, 175), (0, 10 ** 15), (200, 10)):
            part = alice.read(path, query={"params": "W[1,2]", "from": a, "to": b})["parameters"][0]["chains"]
            for all_of, some in zip(whole, part):
                with self.subTest(a=a, b=b, chain=some["chain"]):
                    want = [(i, v) for i, v in zip(all_of["iteration"], all_of["value"]) if a <= i <= b]
                    self.assertEqual(list(zip(some["iteration"], some["value"])), want)

    def test_a_stretch_of_a_trace_is_finer_than_the_whole(self):
        path = "/v1/jobs/%s/trace" % ica
        for query, most in (({}, 10), ({"from": 101, "to": 140}, 10)):
            trace = alice.read(path, query={"params": "W[1,2]", "max_points": 10, **query})
            steps = trace["parameters"][0]["chains"][0]["iteration"]
            self.assertLessEqual(len(steps), most)
        self.assertEqual(steps, list(range(104, 141, 4)))  # ten draws in ten points: every one

    def test_warm_up_is_left_out_of_a_stretch_too(self):
        path = "/v1/jobs/%s/trace" % ica
        part = alice.read(path, query={"params": "W[1,1]", "from": 1, "to": 90, "warmup": "false"})
        for chain in part["parameters"][0]["chains"]:
            self.assertEqual(chain["iteration"][0], 60 + part["thin"])
            self.assertLessEqual(chain["iteration"][-1], 90)

    def test_traces_take_chains_and_parameters(self):
        trace = alice.read("/v1/jobs/%s/trace" % ica, query={"params": "W[3,3],W[1,1]", "chains": "2"})
        self.assertEqual([p["name"] for p in trace["parameters"]], ["W[3,3]", "W[1,1]"])
        for parameter in trace["parameters"]:
            self.assertEqual([c["chain"] for c in parameter["chains"]], [2])
        for query, pointer in (({"params": "W[9,9]"}, "?params"), ({"chains": "7"}, "?chains"),
                               ({"max_points": 1}, "?max_points"),
                               ({"max_points": 10 ** 9}, "?max_points")):
            self.assertProblem(alice.get("/v1/jobs/%s/trace" % ica, query=query), 422, pointer=pointer)

    def test_densities_integrate_to_one(self):
        table = Table(alice.draws(job))
        answer = alice.read("/v1/jobs/%s/density" % job, query={"params": "theta[2],theta[1]", "bins": 20})
        self.assertEqual([p["name"] for p in answer["parameters"]], ["theta[2]", "theta[1]"])
        for parameter in answer["parameters"]:
            column = table.values[parameter["name"]]
            curve = parameter["density"]
            area = math.fsum((x1 - x0) * (y0 + y1) / 2 for x0, x1, y0, y1 in zip(
                curve["x"], curve["x"][1:], curve["y"], curve["y"][1:]))
            self.assertAlmostEqual(area, 1, delta=0.01)
            self.assertGreaterEqual(min(curve["y"]), 0)
            edges = parameter["histogram"]["edges"]
            self.assertEqual(len(edges), 21)
            self.assertEqual((edges[0], edges[-1]), (min(column), max(column)))
            for chain in parameter["histogram"]["chains"]:
                self.assertEqual(sum(chain["counts"]), 500)
                values = table.of_chain(parameter["name"], chain["chain"])
                inside = sum(edges[3] <= v < edges[4] for v in values)
                self.assertLessEqual(abs(inside - chain["counts"][3]), 1)  # a value on an edge
            # The kernel estimate at the middle, by its definition.
            h, n = curve["bandwidth"], len(column)
            spread = min(sd(column), (quantile(column, 0.75) - quantile(column, 0.25)) / 1.34)
            self.assertClose(h, 0.9 * spread * n ** -0.2, 1e-6)
            x = curve["x"][100]
            direct = math.fsum(math.exp(-((x - v) / h) ** 2 / 2) for v in column) \
                / (n * h * math.sqrt(2 * math.pi))
            self.assertClose(curve["y"][100], direct, 0.02)

    def test_bins_are_bounded(self):
        for bins in (0, 4, 10 ** 6, -1):
            self.assertProblem(alice.get("/v1/jobs/%s/density" % job, query={"bins": bins}), 422,
                               pointer="?bins")

    def test_the_requests_of_two_open_pages_are_all_answered(self):
        """A browser has six connections, and a page that is left has its own requests still under way."""
        long = alice.run(toy(iterations=500000, warmup=0, chains=4, save={"params": ["theta[1]"]}))["id"]
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(alice.get("/v1/jobs/%s/trace" % long)))
                   for _ in range(13)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([r.text for r in replies if r.status != 200], [])

    def test_metrics_are_those_of_the_draws_on_the_test_data(self):
        rows = [[float(v) for v in line.split(",")] for line in TEST.splitlines()[1:]]
        table = Table(alice.everything(job))
        answer = alice.read("/v1/jobs/%s/metrics" % job, query={"max_points": 20000})
        self.assertEqual(answer["names"], ["log_loss", "accuracy"])
        for chain in answer["chains"]:
            theta = list(zip(*(table.of_chain(n, chain["chain"]) for n in table.names)))
            self.assertEqual(chain["iteration"], list(range(1, 601)))
            sums, count = [0.0] * len(rows), 0
            for k, draw in enumerate(theta):
                p = [1 / (1 + math.exp(-sum(a * b for a, b in zip(r, draw)))) for r in rows]
                seen = [q if r[-1] == 1 else 1 - q for q, r in zip(p, rows)]
                if k % 50 == 0:
                    self.assertClose(chain["draw"]["log_loss"][k],
                                     -mean([math.log(q) for q in seen]), 1e-6)
                    self.assertClose(chain["draw"]["accuracy"][k], mean([q > 0.5 for q in seen]), 1e-9)
                if k < 100:
                    self.assertIsNone(chain["ergodic"]["log_loss"][k])  # warm-up
                    continue
                sums = [s + q for s, q in zip(sums, seen)]
                count += 1
                if k % 100 == 99:
                    self.assertClose(chain["ergodic"]["log_loss"][k],
                                     -mean([math.log(s / count) for s in sums]), 1e-6)

    def test_metrics_are_thinned_evenly_to_the_ends(self):
        answer = alice.read("/v1/jobs/%s/metrics" % job, query={"max_points": 13})
        for chain in answer["chains"]:
            self.assertLessEqual(len(chain["iteration"]), 13)
            self.assertEqual((chain["iteration"][0], chain["iteration"][-1]), (1, 600))

    def test_a_job_without_test_data_has_no_metrics(self):
        answer = alice.read("/v1/jobs/%s/metrics" % ica)
        self.assertEqual(answer["names"], [])

    def test_diagnostics_answer_with_what_there_is(self):
        answer = alice.read("/v1/jobs/%s/diagnostics" % job)
        self.assertTrue(answer)
        self.assertIn("theta[1]", json.dumps(answer))

    def test_the_log_can_be_read_on(self):
        whole = alice.read("/v1/jobs/%s/log" % job)
        self.assertGreaterEqual(len(whole["items"]), 3)
        for entry in whole["items"]:
            self.assertTrue(entry["text"])
            self.assertRegex(entry["at"], r"^\d{4}-\d\d-\d\dT")
        numbers = [e["seq"] for e in whole["items"]]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        rest = alice.read("/v1/jobs/%s/log" % job, query={"after": 1, "limit": 1})
        self.assertEqual(rest["items"], whole["items"][1:2])


class Compare(Case):
    def test_the_same_numbers_side_by_side(self):
        other = alice.run({"model": {"name": "logistic"}, "chains": 2, "seed": 13,
                           "data": {"path": "train.csv"}, "sampler": {"name": "mala"},
                           "iterations": 300, "warmup": 200})["id"]
        answer = alice.read("/v1/compare", query={"jobs": "%s,%s" % (job, other)})
        self.assertEqual([j["id"] for j in answer["jobs"]], [job, other])
        for k, job_id in enumerate((job, other)):
            rows = {r["name"]: r for r in alice.read("/v1/jobs/%s/summary" % job_id)["parameters"]}
            for parameter in answer["parameters"]:
                self.assertEqual({"name": parameter["name"], **parameter["jobs"][k]},
                                 rows[parameter["name"]])
        self.assertEqual([p["name"] for p in answer["parameters"]], ["theta[1]", "theta[2]", "theta[3]"])
        for limit, more in ((2, True), (3, False), (4, False)):
            answer = alice.read("/v1/compare", query={"jobs": "%s,%s" % (job, other), "limit": limit})
            self.assertEqual((len(answer["parameters"]), answer["more"]), (min(3, limit), more))

    def test_bad_choices(self):
        for jobs in (None, "", job, "%s,%s" % (job, job), ",".join([job] * 9)):
            query = {"jobs": jobs} if jobs is not None else {}
            self.assertProblem(alice.get("/v1/compare", query=query), 422, pointer="?jobs")
        self.assertProblem(alice.get("/v1/compare", query={"jobs": job + ",0000000000000000"}), 404)
        self.assertProblem(alice.get("/v1/compare", query={"jobs": "%s,%s" % (job, ica),
                                                           "reference": "none"}), 422)
        self.assertProblem(bob.get("/v1/compare", query={"jobs": "%s,%s" % (job, ica)}), 404)


class References(Case):
    def put(self, name, document, client=None, **query):
        return (client or alice).put("/v1/references/" + name, json.dumps(document), query=query,
                                     headers={"Content-Type": "application/json"})

    def biases(self, m, s, m_ref, s_ref):
        return {"bias_mean": abs(m - m_ref) / s_ref, "bias_variance": abs(s * s - s_ref * s_ref) / s_ref,
                "bias_variance_ratio": abs(s * s / (s_ref * s_ref) - 1)}

    def check(self, name, reference):
        table = Table(alice.draws(job))
        summary = alice.read("/v1/jobs/%s/summary" % job, query={"reference": name})
        all_of_them = {k: [] for k in ("bias_mean", "bias_variance", "bias_variance_ratio")}
        for row in summary["parameters"]:
            if row["name"] not in reference:
                self.assertIsNone(row["reference"])
                continue
            x = table.values[row["name"]]
            wanted = self.biases(mean(x), sd(x), *reference[row["name"]])
            for key, value in wanted.items():
                self.assertClose(row["reference"][key], value, 1e-8, note=key)
                all_of_them[key].append(value)
        for key, values in all_of_them.items():
            whole = summary["reference"][key]
            self.assertClose(whole["mean"], mean(values), 1e-8)
            self.assertClose(whole["median"], statistics.median(values), 1e-8)
            self.assertClose(whole["max"], max(values), 1e-8)

    def test_biases_against_moments(self):
        truth = {"theta[1]": (0.5, 0.25), "theta[2]": (-1.25, 0.3), "theta[3]": (0.1, 2.0)}
        reply = self.put("moments", {"parameters": [{"name": n, "mean": m, "sd": s}
                                                    for n, (m, s) in truth.items()]})
        self.assertEqual(reply.status, 204, reply)
        self.check("moments", truth)

    def test_a_reference_without_spread_says_why_there_are_no_numbers(self):
        self.put("thin", {"parameters": [{"name": "theta[1]", "mean": 0, "sd": 0},
                                         {"name": "theta[2]", "mean": 0, "sd": 1e-308}]})
        rows = alice.read("/v1/jobs/%s/summary" % job, query={"reference": "thin"})["parameters"]
        for row, words in zip(rows, ("is constant", "so small")):
            self.assertIsNone(row["reference"]["mcse_bias_variance_ratio"])
            self.assertIn(words, row["reference"]["reason"])

    def test_biases_against_columns_and_variances(self):
        self.assertEqual(self.put("columns", {"names": ["theta[3]", "theta[1]"], "mean": [1, 2],
                                              "variance": [4, 0.25]}).status, 204)
        self.check("columns", {"theta[3]": (1, 2), "theta[1]": (2, 0.5)})

    def test_biases_against_posteriordb_draws(self):
        chains = [{"theta[1]": [0.1, 0.5, 0.9, 0.3], "theta[2]": [1.0, 2.0, 4.0, 8.0]},
                  {"theta[1]": [0.2, 0.4, 1.9, 0.6], "theta[2]": [-1.0, 2.5, 4.5, 8.5]}]
        self.assertEqual(self.put("draws", chains).status, 204)
        pooled = {n: chains[0][n] + chains[1][n] for n in chains[0]}
        self.check("draws", {n: (mean(x), sd(x)) for n, x in pooled.items()})

    def test_a_summary_can_be_the_reference_of_another_job(self):
        summary = alice.read("/v1/jobs/%s/summary" % job)
        self.assertEqual(self.put("itself", summary).status, 204)
        again = alice.read("/v1/jobs/%s/summary" % job, query={"reference": "itself"})
        for row in again["parameters"]:
            for key in ("bias_mean", "bias_variance", "bias_variance_ratio"):
                self.assertAlmostEqual(row["reference"][key], 0, delta=1e-9)

    def test_a_job_may_name_its_reference(self):
        self.put("named", {"parameters": [{"name": "theta[1]", "mean": 0, "sd": 1}]})
        done = alice.run(toy(reference="named"))
        self.assertEqual(done["request"]["reference"], "named")

    def test_in_comparisons(self):
        self.put("both", {"parameters": [{"name": "theta[1]", "mean": 0, "sd": 1}]})
        other = alice.run({"model": {"name": "logistic"}, "chains": 2, "seed": 13,
                           "data": {"path": "train.csv"}, "sampler": {"name": "barker_mh"},
                           "iterations": 100, "warmup": 200})["id"]
        answer = alice.read("/v1/compare", query={"jobs": "%s,%s" % (job, other), "reference": "both"})
        for entry, job_id in zip(answer["jobs"], (job, other)):
            x = Table(alice.draws(job_id)).values["theta[1]"]
            self.assertClose(entry["reference"]["bias_mean"]["max"], abs(mean(x)), 1e-8)

    def test_they_are_kept_listed_replaced_and_deleted(self):
        document = {"parameters": [{"name": "theta[1]", "mean": 0.5, "sd": 1.5}]}
        self.put("kept", document)
        self.assertEqual(alice.read("/v1/references/kept"), document)
        listed = {r["name"]: r for r in alice.read("/v1/references")["items"]}
        self.assertEqual((listed["kept"]["owner"], listed["kept"]["visibility"]), ("alice", "private"))
        document["parameters"][0]["mean"] = 2.5
        self.put("kept", document)
        self.assertEqual(alice.read("/v1/references/kept"), document)
        self.assertEqual(alice.delete("/v1/references/kept").status, 204)
        self.assertProblem(alice.get("/v1/references/kept"), 404)
        self.assertProblem(alice.delete("/v1/references/kept"), 404)

    def test_lab_references_are_readable_by_all_and_deleted_by_none(self):
        document = {"parameters": [{"name": "theta[1]", "mean": 0, "sd": 1}]}
        self.assertEqual(self.put("lab", document, visibility="lab").status, 204)
        self.put("own", document)
        self.assertEqual(bob.read("/v1/references/lab"), document)
        self.assertProblem(bob.get("/v1/references/own"), 404)
        names = [r["name"] for r in bob.read("/v1/references")["items"]]
        self.assertIn("lab", names)
        self.assertNotIn("own", names)
        self.assertIn(bob.delete("/v1/references/lab").status, (403, 404))
        self.assertEqual(bob.run(toy(reference="lab"))["state"], "succeeded")
        self.assertEqual(alice.get("/v1/references/lab").status, 200)
        self.assertProblem(self.put("lab", document, visibility="public"), 422, pointer="?visibility")

    def test_mistakes_are_pointed_at(self):
        good = {"name": "theta[1]", "mean": 0, "sd": 1}
        for document in ({}, [], {"parameters": []}, {"parameters": {}}, {"parameters": [{}]},
                         {"parameters": [{"name": "a", "mean": 1}]},
                         {"parameters": [{"name": "a", "mean": "1", "sd": 1}]},
                         {"parameters": [{"name": "a", "mean": 1, "sd": -1}]},
                         {"parameters": [good, good]}, {"names": ["a"], "mean": [1, 2], "sd": [1]},
                         [{"a": []}], [{"a": [1, "x"]}], [{"a": [1, 2]}, {"b": [1, 2]}], [5], "x", 7):
            with self.subTest(document):
                reply = self.put("bad", document)
                self.assertIn(reply.status, (400, 422), reply)
                if reply.status == 422:
                    self.assertTrue(reply.pointers(), reply)
        self.assertProblem(alice.get("/v1/references/bad"), 404)

    def test_names_are_plain(self):
        document = {"parameters": [{"name": "theta[1]", "mean": 0, "sd": 1}]}
        for name in (".hidden", "x" * 65, "a~b"):
            self.assertIn(self.put(name, document).status, (400, 404, 422), name)
        for name in ("a/b", "a/b/c"):
            self.assertEqual(self.put(name, document).status, 403, "nobody writes in the name of another")
        self.assertEqual(self.put("x" * 64, document).status, 204)

    def test_a_large_one_is_taken_and_a_huge_one_is_not(self):
        chain = {"theta[1]": [float(k % 97) for k in range(200000)]}
        self.assertEqual(self.put("large", [chain]).status, 204)
        x = chain["theta[1]"]
        self.check("large", {"theta[1]": (mean(x), sd(x))})
        head = ("PUT /v1/references/huge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                "Content-Type: application/json\r\nContent-Length: 200000000\r\n\r\n" % alice.token)
        self.assertEqual(harness.statuses(harness.raw(daemon, head.encode(), shut=False)), [413])
