"""The worst first: pages of a list make up one order, also while draws come."""

from harness import Case, Daemon, ica_text


def setUpModule():
    global daemon, alice
    daemon = Daemon()
    daemon.file("ica.csv", ica_text(100, 4))
    alice = daemon.user("alice")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def ica(**fields):
    return {"model": {"name": "ica"}, "data": {"path": "ica.csv"}, "chains": 2, "seed": 3,
            "sampler": {"name": "sgbd", "step_size": 0.05}, "iterations": 100, "warmup": 20, **fields}


def page(job, **query):
    return alice.read("/v1/jobs/%s/summary" % job, query={"order": "worst", **query})


def names(answer):
    return [row["name"] for row in answer["parameters"]]


def by_rhat(job):
    rows = alice.read("/v1/jobs/%s/summary" % job)["parameters"]
    return [row["name"] for row in sorted(rows, key=lambda row: -row["rhat"])]


class Worst(Case):
    def test_pages_follow_the_order_of_the_first_one_when_draws_have_come(self):
        job = alice.run(ica())["id"]
        before = by_rhat(job)
        seen = page(job, limit=5)
        self.assertEqual(names(seen), before[:5])
        alice.act(job, "extend", {"iterations": 400})
        alice.wait(job)
        self.assertNotEqual(by_rhat(job), before)
        rest = page(job, limit=100, cursor=seen["next"])
        self.assertEqual(names(seen) + names(rest), before)
        self.assertIsNone(rest["next"])

    def test_the_first_page_is_ranked_anew_when_draws_have_come(self):
        job = alice.run(ica(seed=4))["id"]
        page(job)
        alice.act(job, "extend", {"iterations": 400})
        alice.wait(job)
        self.assertEqual(names(page(job)), by_rhat(job))

    def test_the_numbers_of_a_page_are_those_of_now(self):
        job = alice.run(ica(seed=5))["id"]
        first = page(job, limit=5)
        alice.act(job, "extend", {"iterations": 400})
        alice.wait(job)
        now = {row["name"]: row for row in alice.read("/v1/jobs/%s/summary" % job)["parameters"]}
        for row in page(job, limit=5, cursor=first["next"])["parameters"]:
            self.assertEqual(row, now[row["name"]])

    def test_a_page_in_the_middle_needs_no_first_one(self):
        job = alice.run(ica(seed=6))["id"]
        self.assertEqual(names(page(job, limit=3, cursor=6)), by_rhat(job)[6:9])

    def test_chosen_parameters_are_ranked_among_themselves(self):
        job = alice.run(ica(seed=7))["id"]
        page(job)
        for chosen in (["W[2,1]", "W[1,3]", "W[4,4]"], ["W[1,1]", "W[2,2]", "W[3,3]"]):
            want = [name for name in by_rhat(job) if name in chosen]
            self.assertEqual(names(page(job, params=",".join(chosen))), want)
            self.assertEqual(names(page(job, limit=2, cursor=1, params=",".join(chosen))), want[1:])
        self.assertEqual(names(page(job)), by_rhat(job))

    def test_jobs_have_orders_of_their_own(self):
        jobs = [alice.run(ica(seed=seed))["id"] for seed in range(20, 31)]
        for _ in range(2):
            for job in jobs:
                self.assertEqual(names(page(job)), by_rhat(job))
