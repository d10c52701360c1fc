"""Valid requests with something wrong in them, thousands of kinds: never a 5xx, never a crash, and
always a problem document. MUTANTS=COUNT and SEED=NUMBER make longer and other runs."""

import gzip
import os
import random

import harness
import mutate
import test_data
import test_routes
from harness import Case, Daemon, ica_text, logistic_text, ratings_text, toy

JSON = {"Content-Type": "application/json"}
JOBS = [
    {"name": "n", "tags": ["t"], "note": "x", "model": {"name": "logistic", "prior_sd": 1.0},
     "data": {"path": "train.csv", "test": "train.csv", "response": "y", "columns": ["x1", "x2"],
              "intercept": True, "standardize": True, "precision": "auto"},
     "sampler": {"name": "sgbd", "variant": "corrected", "step_size": 0.01, "beta": 0.1,
                 "noise": "bimodal"},
     "batch_size": 10, "replacement": False, "iterations": 20, "warmup": 120, "thin": 2, "chains": 2,
     "seed": 1, "init": {"kind": "values", "values": [0.1, 0.2, 0.3]}, "save": {"params": ["theta[1]"]},
     "metric_every": 5, "reference": None, "priority": 0, "visibility": "private"},
    toy(sampler={"name": "sgld", "step_size": {"value": 0.1, "t0": 10, "gamma": 0.5}},
        init={"kind": "map", "steps": 5}),
    {"model": {"name": "matrix_factorization", "rank": 2, "alpha": 3, "mu0": 0, "a0": 1, "b0": 5},
     "data": {"path": "ratings.csv"}, "sampler": {"name": "sglrw", "step_size": 0.01}, "iterations": 10,
     "warmup": 5, "chains": 1},
    {"model": {"name": "ica"}, "data": {"path": "ica.csv"}, "sampler": {"name": "mala"},
     "iterations": 10, "warmup": 100, "chains": 1},
]
REFERENCES = [{"parameters": [{"name": "theta[1]", "mean": 0.5, "sd": 1.5, "q5": 0.1}]},
              {"names": ["a", "b"], "mean": [1, 2], "sd": [1, 2]}, [{"a": [1.0, 2.0]}, {"a": [2.0, 3.0]}],
              {"names": ["theta[1]", "theta[2]"], "mean": [1, 2], "sd": [1, 2], "mcse_mean": [0.1, 0.2],
               "mcse_sd": [0.1, 0.2], "ess_bulk": [10, 20], "points": [[1, 2, 3.5], [2, 2]],
               "log_density": {"mean": -3, "mcse": 0.1}, "made_by": {"model": {}}, "warning": "w"},
              {"parameters": ["a", "b"], "mean": [1, 2], "sd": [1, 2], "variance": [1, 4],
               "quantiles": {"q05": [0, 1], "q50": [1, 2]}, "N": 3},
              [{"theta[1]": [1.0, 2.0, 2.5, 7, -3, 0.5, 1, 3], "theta[2]": [1, 2, 3, 4, 5, 6, 7, 9]}],
              {"job": "0000000000000000"}]
PATCH = {"name": "n", "note": "x", "tags": ["a"], "priority": 1, "visibility": "lab"}
TABLE = logistic_text(12).encode()
FILES = [TABLE, gzip.compress(TABLE), test_data.npy([[1.0, 0.0], [2.0, 1.0], [0.5, 0.0]])]


def setUpModule():
    global daemon, alice, job, rng
    daemon = Daemon()
    daemon.file("train.csv", logistic_text(30))
    daemon.file("ica.csv", ica_text(30))
    daemon.file("ratings.csv", ratings_text(5, 4, 30))
    alice = daemon.user("alice")
    job = alice.run({**JOBS[0], "save": {"params": None}})["id"]
    rng = random.Random(int(os.environ.get("SEED", "1")))


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


class Mutants(Case):
    def setUp(self):
        self.count = int(os.environ.get("MUTANTS", "1000")) // 6

    def answered(self, reply, what):
        self.assertIn(reply.status, (200, 201, 204, 400, 403, 404, 409, 413, 422), (what, reply))
        if reply.status >= 400:
            self.assertEqual(reply.json()["status"], reply.status)

    def check(self, body):
        return alice.post("/v1/jobs", body, headers=JSON, query={"validate_only": "true"})

    def test_jobs(self):
        for _ in range(2 * self.count):
            made = mutate.document(rng, rng.choice(JOBS), JOBS[0])
            self.answered(self.check(mutate.dumps(made)), made)

    def test_bytes_of_jobs(self):
        for _ in range(self.count):
            made = mutate.text(rng, mutate.dumps(rng.choice(JOBS)))
            self.answered(self.check(made), made)

    def test_references(self):
        for k in range(self.count):
            made = mutate.document(rng, rng.choice(REFERENCES), ["mean", "sd", "q50", "variance", "names"])
            path = "/v1/references/m%d" % (k % 3)
            query = {"names": rng.choice(("theta", "W", "[]"))} if rng.random() < 0.3 else {}
            self.answered(alice.put(path, mutate.dumps(made), headers=JSON, query=query), made)
            for query in ({}, {"target_error": rng.choice(("0.01", "3", "x"))}):
                reply = alice.get("/v1/jobs/%s/summary" % job, query={"reference": path[-2:], **query})
                self.answered(reply, made)

    def test_changes(self):
        for _ in range(self.count):
            made = mutate.document(rng, PATCH, JOBS[0])
            self.answered(alice.patch("/v1/jobs/" + job, mutate.dumps(made), headers=JSON), made)

    def test_queries(self):
        routes = [(name.split()[1], query) for name, (_, _, query) in test_routes.table_routes().items()
                  if name.startswith("GET") and query]
        for _ in range(self.count):
            path, names = rng.choice(routes)
            made = mutate.query(rng, names)
            made.update({"wait": "0"} if "wait" in made else {})
            path = path.replace("{id}", job).replace("{name}", "train.csv")
            self.answered(alice.get(path, query=made), (path, made))

    def test_data_files(self):
        spec = {**toy(), "model": {"name": "logistic"}, "sampler": {"name": "sgbd", "step_size": 0.1}}
        for _ in range(self.count // 2):
            made = mutate.text(rng, rng.choice(FILES)) or b" "
            self.answered(alice.put("/v1/datasets/m.csv", made), made)
            self.answered(alice.get("/v1/datasets/m.csv"), made)
            data = {"path": "m.csv", "response": rng.choice(("y", "V2", "x1"))}
            self.answered(self.check(mutate.dumps({**spec, "data": data})), made)
        self.assertTrue(daemon.alive(), harness.BARKERD)
