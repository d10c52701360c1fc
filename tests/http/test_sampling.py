"""Every sampler on every model; the same seed gives the same draws whatever the circumstances."""

import math

import harness
from harness import Case, Daemon, Table, ica_text, logistic_text, ratings_text, toy

FILES = {"regression": logistic_text(80), "rows": ica_text(80), "triplets": ratings_text(6, 5, 60)}


def setUpModule():
    global daemon, alice
    daemon = make_daemon()
    alice = daemon.client()


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def make_daemon(**settings):
    made = Daemon(**settings)
    for kind, text in FILES.items():
        made.file(kind + ".csv", text)
    return made


def variants(sampler):
    """The settings of a sampler, one per combination of its choices."""
    made = [{"name": sampler["name"]}]
    for parameter in sampler["parameters"]:
        if parameter["kind"] == "choice":
            made = [{**m, parameter["name"]: c} for m in made for c in parameter["choices"]]
    return made


def job(model, sampler, **fields):
    spec = {"model": {"name": model["name"]}, "sampler": sampler, "iterations": 60, "warmup": 120,
            "thin": 1, "chains": 2, "seed": 42, **fields}
    if model["name"] == "matrix_factorization":
        spec["model"]["rank"] = 2
    if model["data"] != "none":
        spec["data"] = {"path": model["data"] + ".csv"}
    return spec


def all_jobs(client):
    """A name and a job for every sampler with every choice on every model of this build."""
    models = client.read("/v1/models")["items"]
    made = {}
    for sampler in client.read("/v1/samplers")["items"]:
        for settings in variants(sampler):
            for model in models:
                fields = {}
                if model["data"] != "none" and not sampler["exact"]:
                    fields["batch_size"] = 20
                if not sampler["exact"]:  # chains that adapt by themselves
                    settings = {**settings, "step_size": {"kind": "auto", "fraction": 0.2}}
                words = [word for word in settings.values() if isinstance(word, str)]
                name = "%s on %s" % (" ".join(words), model["name"])
                made[name] = job(model, settings, **fields)
    return made


DIMENSIONS = {"logistic": 3, "ica": 4, "matrix_factorization": 2 * (6 + 5) + 8, "skew_normal": 1,
              "noisy_normal": 1}


class EverySampler(Case):
    def test_runs_on_every_model_to_success(self):
        jobs = {name: (spec, alice.submit(spec)) for name, spec in all_jobs(alice).items()}
        self.assertGreaterEqual(len(jobs), 60)
        for name, (spec, job_id) in jobs.items():
            with self.subTest(name):
                done = alice.wait(job_id)
                self.assertEqual(done["progress"]["iteration"], 2 * 180)
                table = Table(alice.draws(job_id))
                self.assertEqual(len(table.rows), 2 * 60)
                self.assertEqual(len(table.names), DIMENSIONS.get(spec["model"]["name"],
                                                                  len(table.names)))
                self.assertTrue(all(math.isfinite(v) for row in table.rows for v in row))
                first = table.names[0]
                self.assertNotEqual(table.of_chain(first, 1), table.of_chain(first, 2))

    def test_step_sizes_of_every_form(self):
        for sampler in ("sgbd", "sgld", "sglrw", "barker_mh", "mala"):
            forms = [0.05, [0.05, 0.1, 0.02], {"kind": "constant", "value": 0.05}, "auto",
                     {"kind": "auto"}]
            if sampler in ("sgbd", "sgld", "sglrw"):
                forms += [{"value": 0.05}, {"kind": "schedule", "value": [0.1, 0.1, 0.1], "t0": 50,
                                            "gamma": 0.6}, {"kind": "auto", "fraction": 0.2}]
            for form in forms:
                with self.subTest(sampler, form=form):
                    alice.run({"model": {"name": "logistic"}, "data": {"path": "regression.csv"},
                               "sampler": {"name": sampler, "step_size": form}, "iterations": 30,
                               "warmup": 100, "chains": 1, "seed": 1})

    def test_starts_of_every_kind(self):
        spec = {"model": {"name": "logistic"}, "data": {"path": "regression.csv"},
                "sampler": {"name": "sgbd", "step_size": 1e-9}, "iterations": 1, "warmup": 0,
                "chains": 1, "seed": 1}
        values = [0.25, -1.5, 3]
        table = Table(alice.draws(alice.run({**spec, "init": {"kind": "values", "values": values}})
                                  ["id"]))
        for name, value in zip(table.names, values):
            self.assertClose(table.values[name][0], value, absolute=1e-6)
        table = Table(alice.draws(alice.run({**spec, "init": {"kind": "zero"}})["id"]))
        self.assertLess(max(abs(v[0]) for v in table.values.values()), 1e-6)
        for kind in ("prior", "map"):
            table = Table(alice.draws(alice.run({**spec, "init": {"kind": kind}})["id"]))
            self.assertGreater(min(abs(v[0]) for v in table.values.values()), 1e-6)

    def test_batches_of_every_kind(self):
        spec = {"model": {"name": "logistic"}, "data": {"path": "regression.csv"},
                "sampler": {"name": "sgbd", "variant": "corrected", "step_size": 0.05},
                "iterations": 50, "warmup": 0, "chains": 1, "seed": 1}
        draws = {}
        for name, fields in {"full": {"batch_size": "full"}, "80": {"batch_size": 80}, "default": {},
                             "20": {"batch_size": 20}, "2": {"batch_size": 2},
                             "20 with replacement": {"batch_size": 20, "replacement": True}}.items():
            draws[name] = alice.everything(alice.run({**spec, **fields})["id"])
        self.assertEqual(draws["full"], draws["80"])
        self.assertEqual(draws["full"], draws["default"])
        self.assertEqual(len(set(draws.values())), 4)

    def test_batches_of_every_size(self):
        """Repeats that are drawn again make a batch cost more random numbers than it has rows."""
        spec = {"model": {"name": "logistic"}, "data": {"path": "regression.csv"},
                "sampler": {"name": "sgbd", "variant": "vanilla", "step_size": 0.05},
                "iterations": 500, "warmup": 0, "chains": 1, "seed": 1}
        ids = {n: alice.submit({**spec, "batch_size": n}) for n in range(1, 81, 3)}
        for n, job_id in ids.items():
            with self.subTest(n):
                alice.wait(job_id)
        self.assertEqual(len({alice.everything(i) for i in ids.values()}), len(ids))

    def test_exact_samplers_find_the_posterior(self):
        """N(0, 1) with 20000 draws: within 5 Monte-Carlo errors by the daemon's own account."""
        for sampler in ("barker_mh", "mala"):
            job_id = alice.run(toy(model={"name": "noisy_normal"}, sampler={"name": sampler},
                                   iterations=10000, warmup=1000, chains=2))["id"]
            row = alice.read("/v1/jobs/%s/summary" % job_id)["parameters"][0]
            self.assertLess(abs(row["mean"]), 5 * row["mcse_mean"])
            self.assertLess(abs(row["sd"] - 1), 5 * row["mcse_sd"])
            self.assertLess(row["rhat"], 1.02)


class Determinism(Case):
    """Byte-identical draws."""

    @classmethod
    def setUpClass(cls):
        names = ("sgbd corrected", "sgld modified", "sglrw", "barker_mh", "mala", "sgbd extreme")
        cls.specs = {}
        for name, spec in all_jobs(alice).items():
            if name.startswith(names) and not name.endswith("skew_normal"):
                spec = {**spec, "iterations": 400, "thin": 3, "chains": 3}
                if spec["model"]["name"] == "logistic":
                    spec["data"] = {**spec["data"], "test": "regression.csv"}
                    spec["metric_every"] = 7
                cls.specs[name] = spec
        cls.specs["long"] = harness.steady()
        cls.reference = cls.collect(alice)

    @classmethod
    def collect(cls, client):
        ids = {name: client.submit(spec) for name, spec in cls.specs.items()}
        results = {}
        for name, job_id in ids.items():
            client.wait(job_id)
            results[name] = client.everything(job_id)
            if cls.specs[name]["model"]["name"] == "logistic":
                results[name + " metrics"] = client.read("/v1/jobs/%s/metrics" % job_id)["chains"]
        return results

    def draws(self, **settings):
        other = make_daemon(**settings)
        results = self.collect(other.client())
        self.assertEqual(other.stop(), 0)
        return results

    def compare(self, reference=None, **settings):
        for name, draws in self.draws(**settings).items():
            with self.subTest(name):
                self.assertEqual(draws, (reference or self.reference)[name])

    def test_with_one_worker_and_long_slices(self):
        self.compare(workers=1, slice_ms=1000)

    def test_with_two_workers_and_the_shortest_slices(self):
        self.compare(workers=2, slice_ms=10)

    def test_with_another_instruction_set_that_has_fused_multiply_adds(self):
        info = alice.read("/v1/info")
        for isa in info["isa_available"]:
            if isa != info["isa"] and "portable" not in (isa, info["isa"]):
                with self.subTest(isa):
                    self.compare(env={"BARKER_ISA": isa})

    def test_without_fused_multiply_adds_it_repeats_itself(self):
        once = self.draws(workers=1, env={"BARKER_ISA": "portable"})
        self.compare(once, slice_ms=10, env={"BARKER_ISA": "portable"})

    def test_when_more_jobs_run_than_are_kept_in_memory(self):
        ids = [alice.submit(harness.steady(seed=k)) for k in range(12)]
        for k, job_id in enumerate(ids):
            alice.wait(job_id)
        again = [alice.run(harness.steady(seed=k))["id"] for k in (0, 11)]
        self.assertEqual(alice.everything(again[0]), alice.everything(ids[0]))
        self.assertEqual(alice.everything(again[1]), alice.everything(ids[11]))

    def test_another_chain_changes_no_other(self):
        few = Table(alice.everything(alice.run(toy(chains=2))["id"]))
        many = Table(alice.everything(alice.run(toy(chains=5))["id"]))
        for chain in (1, 2):
            self.assertEqual(few.of_chain("theta[1]", chain), many.of_chain("theta[1]", chain))
        self.assertEqual(len({tuple(many.of_chain("theta[1]", c)) for c in range(1, 6)}), 5)

    def test_what_is_saved_and_how_often_changes_no_draw(self):
        spec = {**self.specs["mala on logistic"], "chains": 1}
        whole = Table(alice.everything(alice.run({**spec, "thin": 1})["id"]))
        part = Table(alice.everything(alice.run({**spec, "thin": 7, "metric_every": 0, "save":
                                                 {"params": ["theta[3]", "theta[1]"]}})["id"]))
        self.assertEqual(part.names, ["theta[1]", "theta[3]"])
        for name in part.names:
            self.assertEqual(part.values[name], whole.values[name][6::7])

    def test_another_seed_gives_other_draws(self):
        draws = {alice.everything(alice.run(toy(seed=k))["id"]) for k in (0, 1, 2, 2 ** 53 - 1)}
        self.assertEqual(len(draws), 4)
