"""Jobs: validation, defaults, idempotency, lists, changes, the state machine, the trash, long polls."""

import json
import os
import threading
import time

import harness
from harness import Case, Daemon, endless, steady, toy

VALIDATE = {"validate_only": "true"}


def setUpModule():
    global daemon, admin, alice, bob, vera
    daemon = Daemon()
    daemon.file("train.csv", harness.logistic_text(60))
    admin = daemon.client()
    alice, bob = daemon.user("alice"), daemon.user("bob")
    vera = daemon.user("vera", "viewer")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def jobs():
    return daemon.catalogue("SELECT count(*) FROM job")[0][0]


def logistic(**fields):
    return {"model": {"name": "logistic"}, "data": {"path": "train.csv", "response": "y"},
            "sampler": {"name": "sgbd", "step_size": 0.1}, "iterations": 20, "warmup": 20,
            "chains": 1, "seed": 1, **fields}


# One mistake each: the job's fields that are changed, and where the answer must point.
MISTAKES = [
    ({"model": None}, "/model"),
    ({"model": {"name": "none"}}, "/model/name"),
    ({"model": {}}, "/model/name"),
    ({"model": 5}, "/model"),
    ({"model": {"name": "noisy_normal", "noise": "pink"}}, "/model/noise"),
    ({"model": {"name": "noisy_normal", "noise_scale": -1}}, "/model/noise_scale"),
    ({"model": {"name": "noisy_normal", "noise_scale": "1"}}, "/model/noise_scale"),
    ({"model": {"name": "noisy_normal", "prior_sd": 1}}, "/model/prior_sd"),
    ({"sampler": {"name": None}}, "/sampler/name"),
    ({"sampler": {"name": "hmc"}}, "/sampler/name"),
    ({"sampler": {"name": "sgbd", "variant": "modified"}}, "/sampler/variant"),
    ({"sampler": {"name": "sgbd", "beta": 0}}, "/sampler/beta"),
    ({"sampler": {"name": "sgbd", "beta": 1.5}}, "/sampler/beta"),
    ({"sampler": {"name": "sgbd", "noise": "cauchy"}}, "/sampler/noise"),
    ({"sampler": {"name": "sgbd", "step_size": 0}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step_size": -0.1}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step_size": 1e150}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step_size": []}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step_size": [0.1, 0.1]}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step_size": [-1]}}, "/sampler/step_size/0"),
    ({"sampler": {"name": "sgbd", "step_size": "fast"}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step_size": True}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step_size": {"value": 0.1, "gamma": 2}}},
     "/sampler/step_size/gamma"),
    ({"sampler": {"name": "sgbd", "step_size": {"t0": 5}}}, "/sampler/step_size/value"),
    ({"sampler": {"name": "mala", "step_size": {"value": 0.1}}}, "/sampler/step_size"),
    ({"sampler": {"name": "sgbd", "step": 1}}, "/sampler/step"),
    ({"batch_size": 0}, "/batch_size"),
    ({"batch_size": -1}, "/batch_size"),
    ({"batch_size": 10}, "/batch_size"),  # no data to take batches from
    ({"batch_size": "half"}, "/batch_size"),
    ({"iterations": 0}, "/iterations"),
    ({"iterations": -5}, "/iterations"),
    ({"iterations": 1.5}, "/iterations"),
    ({"iterations": "100"}, "/iterations"),
    ({"iterations": True}, "/iterations"),
    ({"iterations": 10 ** 15}, "/iterations"),
    ({"iterations": 10 ** 18}, "/iterations"),
    ({"iterations": 10 ** 12}, "/iterations"),  # beyond this server's limit
    ({"warmup": -1}, "/warmup"),
    ({"warmup": 10 ** 18}, "/warmup"),
    ({"warmup": 0.5}, "/warmup"),
    ({"warmup": 5, "sampler": {"name": "sgbd", "step_size": "auto"}}, "/warmup"),
    ({"thin": 0}, "/thin"),
    ({"thin": -2}, "/thin"),
    ({"thin": 101}, "/thin"),
    ({"thin": 10 ** 18}, "/thin"),
    ({"chains": 0}, "/chains"),
    ({"chains": -1}, "/chains"),
    ({"chains": 65}, "/chains"),
    ({"chains": 10 ** 12}, "/chains"),
    ({"seed": -1}, "/seed"),
    ({"seed": 2 ** 53}, "/seed"),
    ({"seed": 1.5}, "/seed"),
    ({"seed": "one"}, "/seed"),
    ({"init": {"kind": "middle"}}, "/init/kind"),
    ({"init": {"kind": "values"}}, "/init/values"),
    ({"init": {"kind": "values", "values": [1, 2]}}, "/init/values"),
    ({"init": {"kind": "values", "values": ["a"]}}, "/init/values/0"),
    ({"init": {"kind": "zero", "values": [1]}}, "/init/values"),
    ({"init": {"kind": "map", "steps": 0}}, "/init/steps"),
    ({"init": 7}, "/init"),
    ({"save": {"params": ["theta[2]"]}}, "/save/params/0"),
    ({"save": {"params": ["theta[1]", "theta[1]"]}}, "/save/params/1"),
    ({"save": {"params": "theta[1]"}}, "/save/params"),
    ({"save": {"chains": 1}}, "/save/chains"),
    ({"save": []}, "/save"),
    ({"metric_every": -1}, "/metric_every"),
    ({"reference": "nobody-has-it"}, "/reference"),
    ({"reference": 5}, "/reference"),
    ({"priority": 101}, "/priority"),
    ({"priority": -101}, "/priority"),
    ({"priority": 0.5}, "/priority"),
    ({"visibility": "public"}, "/visibility"),
    ({"visibility": None, "name": ""}, "/name"),
    ({"name": "x" * 201}, "/name"),
    ({"name": 5}, "/name"),
    ({"name": "a\nb"}, "/name"),
    ({"tags": "paper"}, "/tags"),
    ({"tags": ["x" * 65]}, "/tags/0"),
    ({"tags": ["a"] * 21}, "/tags"),
    ({"tags": [1]}, "/tags/0"),
    ({"note": "x" * 2001}, "/note"),
    ({"data": {"path": "train.csv"}}, "/data"),
    ({"owner": "bob"}, "/owner"),
]


class Validation(Case):
    def test_each_mistake_is_pointed_at_and_leaves_no_job(self):
        before = jobs()
        for fields, pointer in MISTAKES:
            with self.subTest(fields):
                reply = alice.post("/v1/jobs", toy(**fields))
                self.assertProblem(reply, 422, pointer=pointer)
                for error in reply.json()["errors"]:
                    self.assertTrue(error["detail"])
        self.assertEqual(jobs(), before)

    def test_mistakes_with_data(self):
        for fields, pointer in (({"batch_size": 61}, "/batch_size"),
                                ({"batch_size": 60, "replacement": True}, "/replacement"),
                                ({"batch_size": "full", "replacement": True}, "/replacement"),
                                ({"replacement": "yes"}, "/replacement"),
                                ({"sampler": {"name": "mala"}, "batch_size": 10, "warmup": 200},
                                 "/batch_size"),
                                ({"data": {"response": "y"}}, "/data/path"),
                                ({"data": {"path": "none.csv"}}, "/data/path"),
                                ({"data": {"path": 5}}, "/data/path"),
                                ({"data": []}, "/data"),
                                ({"data": None}, "/data"),
                                ({"data": {"path": "train.csv", "test": "none.csv"}}, "/data/test"),
                                ({"data": {"path": "train.csv", "header": True}}, "/data/header"),
                                ({"save": {"params": ["theta[4]"]}}, "/save/params/0"),
                                ({"save": {"params": ["theta[0]"]}}, "/save/params/0"),
                                ({"save": {"params": ["theta[1,1]"]}}, "/save/params/0"),
                                ({"save": {"params": ["theta"]}}, "/save/params/0")):
            with self.subTest(fields):
                self.assertProblem(alice.post("/v1/jobs", logistic(**fields)), 422, pointer=pointer)

    def test_several_mistakes_come_at_once(self):
        reply = alice.post("/v1/jobs", {
            "model": {"name": "logistic", "prior_sd": -1}, "data": {"path": 7, "colums": []},
            "sampler": {"name": "sgbd", "variant": "best", "step_size": -1}, "iterations": 0,
            "chains": "four", "thin": 0, "tags": [1, 2], "bogus": 1})
        self.assertProblem(reply, 422)
        self.assertLessEqual({"/model/prior_sd", "/data/path", "/data/colums", "/sampler/variant",
                              "/sampler/step_size", "/iterations", "/chains", "/thin", "/tags/0",
                              "/tags/1", "/bogus"}, set(reply.pointers()), reply)

    def test_missing_files_come_with_the_other_mistakes(self):
        reply = alice.post("/v1/jobs", logistic(data={"path": "none.csv", "test": "nor.csv"}, chains=0))
        self.assertProblem(reply, 422, "none.csv", "nor.csv")
        self.assertEqual(sorted(reply.pointers()), ["/chains", "/data/path", "/data/test"])
        self.assertEqual({e["pointer"]: e["kind"] for e in reply.json()["errors"]},
                         {"/chains": "range", "/data/path": "missing", "/data/test": "missing"})
        reply = alice.post("/v1/jobs", logistic(data={"path": "none.csv", "test": "nor.csv"}))
        self.assertEqual(sorted(reply.pointers()), ["/data/path", "/data/test"])
        reply = alice.post("/v1/jobs", logistic(data={"path": "../none.csv", "test": "train.csv"}, chains=0))
        self.assertEqual(sorted(reply.pointers()), ["/chains", "/data/path"])
        reply = alice.post("/v1/jobs", toy(data={"path": "none.csv"}, chains=0))
        self.assertEqual(sorted(reply.pointers()), ["/chains", "/data"])

    def test_messages_say_what_is_allowed(self):
        for fields, words in (({"model": {"name": "none"}}, ["logistic", "ica"]),
                              ({"sampler": {"name": "none"}}, ["sgbd", "barker_mh"]),
                              ({"sampler": {"name": "sgbd", "variant": "best"}}, ["best", "corrected"]),
                              ({"chains": 1000}, ["1000", "64"]),
                              ({"seed": -1}, ["-1", "9007199254740991"])):
            with self.subTest(fields):
                self.assertProblem(alice.post("/v1/jobs", toy(**fields)), 422, *words)

    def test_huge_but_valid_jobs_are_refused_by_quota_before_anything_is_allocated(self):
        rss = daemon.status("VmRSS")
        reply = alice.post("/v1/jobs", toy(iterations=999999000, warmup=0, chains=64))
        self.assertProblem(reply, 422, "thin")
        self.assertLess(daemon.status("VmRSS") - rss, 100000)


class ValidateOnly(Case):
    def test_it_answers_with_defaults_and_an_estimate_and_leaves_no_job(self):
        before = jobs()
        reply = alice.post("/v1/jobs", {"model": {"name": "logistic"}, "data": {"path": "train.csv"},
                                        "sampler": {"name": "sgbd", "step_size": 0.1}},
                           query=VALIDATE)
        self.assertEqual(reply.status, 200, reply)
        answer = reply.json()
        self.assertTrue(answer["valid"])
        job = answer["job"]
        self.assertEqual(job["sampler"], {"name": "sgbd", "variant": "corrected", "step_size": 0.1,
                                          "beta": 0.1, "noise": "bimodal"})
        self.assertEqual(job["model"], {"name": "logistic", "prior_sd": 1})
        self.assertEqual((job["chains"], job["thin"], job["priority"], job["visibility"]),
                         (4, 1, 0, "private"))
        self.assertEqual(job["data"]["response"], "y")
        self.assertEqual(job["batch_size"], "full")  # 60 rows are fewer than the default batch
        self.assertIsInstance(job["seed"], int)
        self.assertEqual(job["warmup"], job["iterations"] // 2)
        estimate = answer["estimate"]
        self.assertEqual((estimate["dimension"], estimate["rows"]), (3, 60))
        self.assertEqual(estimate["draws"], 4 * (job["iterations"] + job["warmup"]))
        for name in ("seconds", "seconds_per_iteration", "memory_bytes", "disk_bytes"):
            self.assertGreater(estimate[name], 0, name)
        self.assertGreaterEqual(estimate["disk_bytes"], estimate["draws"] * 3 * 8)
        self.assertEqual(jobs(), before)
        files = {name.split(".")[0] for name in os.listdir(os.path.join(daemon.state, "draws"))}
        known = {row[0] for row in daemon.catalogue("SELECT id FROM job")}
        self.assertLessEqual(files, known, "a file without a job")

    def test_the_resolved_job_resolves_to_itself(self):
        for spec in (toy(), logistic(), toy(sampler={"name": "sgld", "variant": "modified",
                                                     "step_size": {"value": 0.1}}),
                     toy(init={"kind": "values", "values": [0.25]}, save={"params": []}),
                     logistic(data={"path": "train.csv", "columns": ["x2", "x1"], "intercept": True},
                              init={"kind": "map"}, batch_size=7, replacement=True,
                              tags=["a", "ü"], note="n\nm", visibility="lab", priority=-3)):
            with self.subTest(spec):
                first = alice.post("/v1/jobs", spec, query=VALIDATE).json()["job"]
                second = alice.post("/v1/jobs", first, query=VALIDATE).json()["job"]
                self.assertEqual(first, second)

    def test_it_takes_no_other_word(self):
        for value in ("yes", "1", "", "TRUE"):
            reply = alice.post("/v1/jobs", toy(), query={"validate_only": value})
            self.assertProblem(reply, 422, pointer="?validate_only")

    def test_false_submits(self):
        self.assertEqual(alice.post("/v1/jobs", toy(), query={"validate_only": "false"}).status, 201)

    def test_mistakes_are_the_same(self):
        spec = toy(chains=0, bogus=1)
        self.assertEqual(alice.post("/v1/jobs", spec, query=VALIDATE).json(),
                         alice.post("/v1/jobs", spec).json())


class Submission(Case):
    def test_the_answer_is_the_job_and_where_it_is(self):
        spec = toy(name="näme", tags=["a", "b"], note="first\nsecond", priority=3, visibility="lab")
        reply = alice.post("/v1/jobs", spec)
        self.assertEqual(reply.status, 201)
        job = reply.json()
        self.assertEqual(reply.headers["Location"], "/v1/jobs/" + job["id"])
        self.assertRegex(job["id"], r"^[0-9a-z]{16}$")
        self.assertEqual((job["name"], job["owner"], job["tags"], job["note"], job["priority"],
                          job["visibility"]), ("näme", "alice", ["a", "b"], "first\nsecond", 3, "lab"))
        for field in ("state", "reason", "verdict", "created_at", "started_at", "ended_at",
                      "revision", "request", "progress", "summary", "isa", "precision"):
            self.assertIn(field, job)
        self.assertEqual(job["progress"]["total"], 400)  # two chains of 100 + 100
        done = alice.wait(job["id"])
        self.assertEqual(done["progress"]["iteration"], 400)
        self.assertEqual(done["progress"]["fraction"], 1)
        self.assertEqual([(c["chain"], c["iteration"], c["phase"], c["state"])
                          for c in done["progress"]["chains"]],
                         [(1, 200, "done", "done"), (2, 200, "done", "done")])
        for field in ("created_at", "started_at", "ended_at"):
            self.assertRegex(done[field], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
        self.assertLessEqual(done["created_at"], done["started_at"])
        self.assertLessEqual(done["started_at"], done["ended_at"])
        self.assertIsNotNone(done["summary"]["max_rhat"])
        self.assertEqual(done["summary"]["worst"], "theta[1]")
        self.assertTrue(done["verdict"])
        self.assertEqual(done["request"]["seed"], 7)

    def test_the_stored_request_equals_the_validated_one(self):
        spec = logistic(chains=2)
        valid = alice.post("/v1/jobs", spec, query=VALIDATE).json()["job"]
        self.assertEqual(alice.job(alice.submit(spec))["request"], valid)

    def test_without_a_seed_each_job_has_its_own(self):
        spec = toy()
        del spec["seed"]
        seeds = {alice.run(spec)["request"]["seed"] for _ in range(3)}
        self.assertEqual(len(seeds), 3)

    def test_saving_no_parameters_keeps_the_summary_machinery_alive(self):
        job = alice.run(toy(save={"params": []}))
        self.assertEqual(job["state"], "succeeded")
        self.assertEqual(alice.get("/v1/jobs/%s/summary" % job["id"]).status, 200)

    def test_many_submissions_at_once_are_all_there(self):
        ids, errors = [], []

        def submit(k):
            try:
                ids.append(alice.submit(toy(name="crowd %d" % k)))
            except Exception as e:  # noqa: BLE001
                errors.append(e)
        threads = [threading.Thread(target=submit, args=(k,)) for k in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual(len(set(ids)), 24)
        for job_id in ids:
            alice.wait(job_id)


class Idempotency(Case):
    def post(self, client, key, spec):
        return client.post("/v1/jobs", spec, headers={"Idempotency-Key": key})

    def test_the_same_key_and_body_give_the_same_job(self):
        first = self.post(alice, "key-1", toy(name="once"))
        self.assertEqual(first.status, 201)
        self.assertIsNone(first.headers["Idempotency-Replayed"])
        before = jobs()
        for _ in range(3):
            again = self.post(alice, "key-1", toy(name="once"))
            self.assertEqual((again.status, again.json()["id"]), (201, first.json()["id"]))
            self.assertEqual(again.headers["Idempotency-Replayed"], "true")
            self.assertEqual(again.headers["Location"], "/v1/jobs/" + first.json()["id"])
        self.assertEqual(jobs(), before)

    def test_the_same_key_with_another_body_is_refused(self):
        self.post(alice, "key-2", toy(name="one"))
        before = jobs()
        self.assertProblem(self.post(alice, "key-2", toy(name="two")), 422)
        self.assertEqual(jobs(), before)

    def test_keys_are_each_users_own(self):
        mine, theirs = self.post(alice, "key-3", toy()), self.post(bob, "key-3", toy(name="other"))
        self.assertEqual((mine.status, theirs.status), (201, 201))
        self.assertNotEqual(mine.json()["id"], theirs.json()["id"])

    def test_a_refused_submission_does_not_use_up_its_key(self):
        self.assertProblem(self.post(alice, "key-4", toy(chains=0)), 422)
        self.assertEqual(self.post(alice, "key-4", toy()).status, 201)

    def test_concurrent_retries_make_one_job(self):
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(
            self.post(alice, "key-5", toy(name="crowd"))), args=()) for _ in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual({a.status for a in answers}, {201})
        self.assertEqual(len({a.json()["id"] for a in answers}), 1)
        self.assertEqual(sum(a.headers["Idempotency-Replayed"] is None for a in answers), 1)

    def test_a_retry_is_answered_although_the_quota_is_used_up_by_the_first(self):
        small = Daemon(user_active_jobs=1)
        carol = small.user("carol")
        first = self.post(carol, "key", endless())
        self.assertEqual(first.status, 201)
        again = self.post(carol, "key", endless())
        self.assertEqual((again.status, again.json().get("id")), (201, first.json()["id"]), again)
        self.assertProblem(self.post(carol, "other", endless()), 422)
        self.assertEqual(small.stop(), 0)

    def test_a_retry_is_answered_although_the_data_are_gone_meanwhile(self):
        daemon.file("gone.csv", harness.logistic_text(30))
        spec = logistic(data={"path": "gone.csv"})
        first = self.post(alice, "key-6", spec)
        alice.wait(first.json()["id"])
        os.unlink(os.path.join(daemon.data, "gone.csv"))
        again = self.post(alice, "key-6", spec)
        self.assertEqual((again.status, again.json().get("id")), (201, first.json()["id"]), again)

    def test_a_retry_for_a_job_in_the_trash_is_told_so(self):
        first = self.post(alice, "key-7", toy())
        alice.wait(first.json()["id"])
        alice.delete("/v1/jobs/" + first.json()["id"])
        again = self.post(alice, "key-7", toy())
        self.assertIn(again.status, (201, 409), again)
        if again.status == 201:
            self.assertEqual(again.json()["id"], first.json()["id"])

    def test_odd_keys_are_refused(self):
        for key in ("", "x" * 201):
            with self.subTest(key):
                self.assertProblem(self.post(alice, key, toy()), 422)


class Lists(Case):
    @classmethod
    def setUpClass(cls):
        cls.carol = daemon.user("carol")
        cls.ids = []
        for k in range(7):
            cls.ids.append(cls.carol.submit(toy(name="Listed %d" % k, tags=["t%d" % (k % 2)],
                                                visibility="lab" if k == 3 else "private")))
        cls.other = cls.carol.submit(logistic(name="a logistic one", sampler={"name": "sglrw",
                                                                            "step_size": 0.1}))
        for job_id in cls.ids + [cls.other]:
            cls.carol.wait(job_id)
        cls.ids.append(cls.other)

    def listed(self, client=None, **query):
        return [j["id"] for j in (client or self.carol).read("/v1/jobs", query=query)["items"]]

    def test_newest_first_and_only_ones_own(self):
        self.assertEqual(self.listed(), self.ids[::-1])
        self.assertNotIn(self.ids[0], self.listed(bob))

    def test_pages_make_up_the_whole(self):
        for limit in (1, 3, 8, 100):
            with self.subTest(limit):
                seen, cursor, pages = [], None, 0
                while True:
                    query = {"limit": limit, **({"cursor": cursor} if cursor else {})}
                    page = self.carol.read("/v1/jobs", query=query)
                    self.assertLessEqual(len(page["items"]), limit)
                    seen += [j["id"] for j in page["items"]]
                    cursor, pages = page["next"], pages + 1
                    if cursor is None:
                        break
                self.assertEqual(seen, self.ids[::-1])
                self.assertEqual(pages, -(-8 // limit))

    def test_a_page_does_not_shift_when_jobs_are_added(self):
        page = self.carol.read("/v1/jobs", query={"limit": 4})
        extra = self.carol.run(toy())["id"]
        rest = self.listed(cursor=page["next"])
        self.assertEqual([j["id"] for j in page["items"]] + rest, self.ids[::-1])
        self.assertEqual(self.carol.delete("/v1/jobs/%s?purge=true" % extra).status, 204)

    def test_filters(self):
        self.assertEqual(self.listed(tag="t1"), [self.ids[k] for k in (5, 3, 1)])
        self.assertEqual(self.listed(model="logistic"), [self.other])
        self.assertEqual(self.listed(sampler="sglrw"), [self.other])
        self.assertEqual(self.listed(model="ica"), [])
        self.assertEqual(self.listed(q="LISTED 4"), [self.ids[4]])
        self.assertEqual(self.listed(q=self.ids[2]), [self.ids[2]])
        self.assertEqual(self.listed(q="100%"), [])
        self.assertEqual(self.listed(q="_"), [])
        self.assertEqual(self.listed(state="succeeded"), self.ids[::-1])
        self.assertEqual(self.listed(state="active"), [])
        self.assertEqual(self.listed(state="failed"), [])
        self.assertEqual(self.listed(tag="t1", q="listed 5"), [self.ids[5]])
        self.assertEqual(self.listed(tag="t"), [])

    def test_owners(self):
        self.assertEqual(self.listed(bob, owner="carol"), [self.ids[3]])
        self.assertIn(self.ids[3], self.listed(bob, owner="all"))
        self.assertNotIn(self.ids[2], self.listed(bob, owner="all"))
        self.assertEqual(self.listed(admin, owner="carol"), self.ids[::-1])
        self.assertEqual(self.listed(owner="nobody"), [])

    def test_bad_filters_are_mistakes(self):
        for name, value in (("state", "done"), ("state", ""), ("cursor", "x"), ("limit", "0"),
                            ("limit", "501"), ("trash", "maybe")):
            with self.subTest(name, value=value):
                self.assertProblem(self.carol.get("/v1/jobs", query={name: value}), 422,
                                   pointer="?" + name)


class Changes(Case):
    def test_texts_change_and_the_revision_grows(self):
        job = alice.run(toy())
        reply = alice.patch("/v1/jobs/" + job["id"], {
            "name": "new", "note": "n", "tags": ["x"], "priority": -7, "visibility": "lab"})
        self.assertEqual(reply.status, 200, reply)
        after = alice.job(job["id"])
        self.assertEqual(after, reply.json())
        self.assertEqual((after["name"], after["note"], after["tags"], after["priority"],
                          after["visibility"]), ("new", "n", ["x"], -7, "lab"))
        self.assertGreater(after["revision"], job["revision"])
        self.assertEqual(bob.get("/v1/jobs/" + job["id"]).status, 200)
        alice.patch("/v1/jobs/" + job["id"], {"visibility": "private"})
        self.assertEqual(bob.get("/v1/jobs/" + job["id"]).status, 404)

    def test_what_is_not_named_stays(self):
        job = alice.run(toy(name="kept", tags=["a"], note="kept"))
        after = alice.patch("/v1/jobs/" + job["id"], {"priority": 5}).json()
        self.assertEqual((after["name"], after["tags"], after["note"]), ("kept", ["a"], "kept"))

    def test_two_changes_at_once_are_both_kept(self):
        job = alice.run(toy())["id"]
        for k in range(12):
            name, tags = "name %d" % k, ["tag %d" % k]
            threads = [threading.Thread(target=alice.patch, args=("/v1/jobs/" + job, body))
                       for body in ({"name": name}, {"tags": tags})]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            after = alice.job(job)
            self.assertEqual((after["name"], after["tags"]), (name, tags))

    def test_mistakes_change_nothing(self):
        job = alice.run(toy())
        reply = alice.patch("/v1/jobs/" + job["id"], {"name": "changed", "priority": 1000,
                                                      "state": "failed", "tags": [5]})
        self.assertProblem(reply, 422)
        self.assertEqual(set(reply.pointers()), {"/priority", "/state", "/tags/0"})
        self.assertEqual(alice.job(job["id"]), job)
        for body in (b"[]", b'"x"', b"null"):
            reply = alice.patch("/v1/jobs/" + job["id"], body,
                                headers={"Content-Type": "application/json"})
            self.assertIn(reply.status, (400, 422))

    def test_a_running_job_can_be_renamed(self):
        job = alice.submit(endless())
        alice.wait(job, "running")
        alice.patch("/v1/jobs/" + job, {"name": "renamed", "priority": 9})
        self.assertEqual(alice.job(job)["name"], "renamed")
        alice.act(job, "cancel")
        self.assertEqual(alice.wait(job, "cancelled")["name"], "renamed")


class Control(Case):
    """pause, resume, cancel, extend, retry and the states in which they are possible."""

    def refused(self, job, *events):
        for event in events:
            body = {"iterations": 10} if event == "extend" else None
            before = alice.job(job)["state"]
            reply = alice.post("/v1/jobs/%s/%s" % (job, event), body)
            self.assertProblem(reply, 409, before)
            self.assertEqual(alice.job(job)["state"], before)

    def test_pause_stops_and_resume_goes_on_with_the_same_draws(self):
        job, spec = alice.catch(steady(seed=5), "pause")
        self.assertEqual(alice.job(job)["state"], "paused")
        whole = alice.everything(alice.run(spec)["id"])
        self.refused(job, "pause", "retry")
        at = self.settled(job)
        self.assertEqual(alice.job(job)["progress"]["iteration"], at)
        self.assertProblem(alice.delete("/v1/jobs/" + job), 409)
        alice.act(job, "resume")
        self.assertEqual(alice.wait(job)["progress"]["fraction"], 1)
        self.assertEqual(alice.everything(job), whole)

    def settled(self, job):
        """The iteration at which a job that gets no more slices stays."""
        while any(c["state"] == "running" for c in alice.job(job)["progress"]["chains"]):
            time.sleep(0.02)
        return alice.job(job)["progress"]["iteration"]

    def test_a_succeeded_job_allows_only_extend(self):
        job = alice.run(toy())["id"]
        self.refused(job, "pause", "resume", "cancel", "retry")

    def test_a_running_job_allows_no_resume_or_retry_and_no_deletion(self):
        job = alice.submit(endless())
        alice.wait(job, "running")
        self.refused(job, "resume", "retry")
        for query in ({}, {"purge": "true"}):
            self.assertProblem(alice.delete("/v1/jobs/" + job, query=query), 409, "running")
        alice.act(job, "cancel")
        alice.wait(job, "cancelled")

    def test_cancel_keeps_the_draws(self):
        job = alice.submit(steady(iterations=100000000, thin=10000))
        alice.wait_progress(job, 200000)
        self.assertIn(alice.act(job, "cancel")["state"], ("cancelling", "cancelled"))
        done = alice.wait(job, "cancelled")
        self.assertIn("cancel", done["reason"])
        self.assertIsNotNone(done["ended_at"])
        draws = harness.Table(alice.everything(job))
        self.assertGreater(len(draws.rows), 0)
        self.refused(job, "pause", "resume", "cancel", "retry")
        self.assertEqual(alice.get("/v1/jobs/%s/summary" % job).status, 200)

    def test_a_queued_job_can_be_cancelled_and_paused(self):
        hog = Daemon(workers=1, user_running_chains=1)
        carol = hog.user("carol")
        first = carol.submit(endless(priority=50))
        carol.wait(first, "running")
        second, third = carol.submit(toy()), carol.submit(toy())
        self.assertEqual(carol.act(third, "pause")["state"], "paused")
        self.assertEqual(carol.job(third)["progress"]["iteration"], 0)
        carol.act(second, "cancel")
        self.assertEqual(carol.wait(second, "cancelled")["progress"]["iteration"], 0)
        for path in ("draws", "summary", "trace", "diagnostics", "metrics", "log", "density"):
            reply = carol.get("/v1/jobs/%s/%s" % (second, path))
            self.assertIn(reply.status, (200, 409), reply)  # no draws yet, but nothing breaks
        carol.act(first, "cancel")
        carol.act(third, "resume")
        carol.wait(third)
        self.assertEqual(hog.stop(), 0)

    def test_cancel_while_paused(self):
        job = alice.submit(endless())
        alice.wait(job, "running")
        alice.act(job, "pause")
        alice.act(job, "cancel")
        alice.wait(job, "cancelled")

    def test_extending_gives_what_a_longer_job_would_have_given(self):
        short = toy(iterations=300, warmup=150, thin=7, chains=3, seed=11)
        long = alice.everything(alice.run({**short, "iterations": 1000})["id"])
        job = alice.run(short)["id"]
        answer = alice.act(job, "extend", {"iterations": 450})
        self.assertIn(answer["state"], ("queued", "running", "succeeded"))
        self.assertEqual(answer["progress"]["total"], 3 * 900)
        done = alice.wait(job)
        self.assertEqual(done["request"]["iterations"], 750)
        alice.act(job, "extend", {"iterations": 250})
        alice.wait(job)
        self.assertEqual(alice.everything(job), long)

    def test_extending_a_logistic_job_with_adaptation_too(self):
        short = logistic(sampler={"name": "sgbd", "variant": "corrected",
                                  "step_size": {"kind": "auto", "fraction": 0.2}},
                         warmup=200, iterations=100, batch_size=13, chains=2,
                         data={"path": "train.csv", "test": "train.csv"}, metric_every=10)
        long = alice.run({**short, "iterations": 333})["id"]
        job = alice.run(short)["id"]
        alice.act(job, "extend", {"iterations": 233})
        alice.wait(job)
        self.assertEqual(alice.everything(job), alice.everything(long))
        self.assertEqual(alice.read("/v1/jobs/%s/metrics" % job)["chains"],
                         alice.read("/v1/jobs/%s/metrics" % long)["chains"])

    def test_extending_a_running_and_a_paused_job(self):
        size, paused = 1000000, None
        while paused is None or paused.status == 409:  # it is over before one can pause it
            size *= 2
            job = alice.submit(steady(iterations=size))
            alice.wait_progress(job, 1)
            self.assertIn(alice.act(job, "extend", {"iterations": 1000})["state"], ("running", "queued"))
            paused = alice.post("/v1/jobs/%s/pause" % job)
        answer = alice.act(job, "extend", {"iterations": 1000})
        self.assertEqual((answer["state"], answer["progress"]["total"]), ("paused", 2 * (size + 3000)))
        alice.act(job, "resume")
        alice.wait(job)
        self.assertEqual(alice.everything(job),
                         alice.everything(alice.run(steady(iterations=size + 2000))["id"]))

    def test_a_cancelled_job_is_extended_from_where_it_is(self):
        job, spec = alice.catch(steady(), "cancel")
        ended = alice.wait(job, "cancelled")
        so_far = max(c["iteration"] for c in ended["progress"]["chains"]) - spec["warmup"]
        alice.act(job, "extend", {"iterations": 1000})
        done = alice.wait(job)
        self.assertEqual(done["request"]["iterations"], max(0, so_far) + 1000)
        longer = alice.run({**spec, "iterations": max(0, so_far) + 1000})["id"]
        self.assertEqual(alice.everything(job), alice.everything(longer))

    def test_without_its_data_a_job_is_not_extended_and_stays_what_it_was(self):
        spec = logistic(data={"path": daemon.file("leaves.csv", harness.logistic_text(30))})
        job = alice.run(spec)["id"]
        for text, words in ((harness.logistic_text(30, seed=2), "leaves.csv"), (None, "can no longer be read")):
            if text:
                daemon.file("leaves.csv", text)
            else:
                os.unlink(os.path.join(daemon.data, "leaves.csv"))
            reply = alice.post("/v1/jobs/%s/extend" % job, {"iterations": 10})
            self.assertProblem(reply, 422, words)
            self.assertEqual(alice.job(job)["state"], "succeeded")
        daemon.file("leaves.csv", harness.logistic_text(30))
        alice.act(job, "extend", {"iterations": 10})
        alice.wait(job)

    def test_extend_needs_a_sensible_number(self):
        job = alice.run(toy())["id"]
        before = alice.job(job)
        for body, status in (({}, 422), ({"iterations": 0}, 422), ({"iterations": -5}, 422),
                             ({"iterations": 1.5}, 422), ({"iterations": "9"}, 422),
                             ({"iterations": 10 ** 12}, 422), ({"iterations": 2 ** 63 - 1}, 422),
                             ({"iterations": 5, "chains": 2}, 422), ([], 422), (None, 415)):
            with self.subTest(body):
                self.assertProblem(alice.post("/v1/jobs/%s/extend" % job, body), status)
        self.assertEqual(alice.job(job), before)

    def test_a_diverged_job_fails_with_the_place_and_keeps_its_draws(self):
        spec = logistic(sampler={"name": "sgld", "step_size": 1e99}, iterations=50, warmup=0)
        job = alice.submit(spec)
        done = alice.wait(job, "failed")
        self.assertIn("diverged", done["reason"])
        self.assertIn("theta[", done["reason"])
        self.refused(job, "pause", "resume", "cancel", "extend")
        self.assertProblem(alice.post("/v1/jobs/%s/retry" % job), 409, "diverged")
        self.assertEqual(alice.get("/v1/jobs/%s/draws" % job).status, 200)

    def test_unknown_jobs_are_404(self):
        for event in ("cancel", "pause", "resume", "retry", "restore"):
            self.assertProblem(alice.post("/v1/jobs/0000000000000000/" + event), 404)
        self.assertProblem(alice.post("/v1/jobs/0000000000000000/extend", {"iterations": 1}), 404)

    def test_extending_a_job_that_is_just_ending(self):
        for _ in range(15):
            job, answers = alice.run(toy(iterations=10))["id"], []
            threads = [threading.Thread(target=lambda: answers.append(
                alice.post("/v1/jobs/%s/extend" % job, {"iterations": 7}).status)) for _ in range(10)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertLessEqual(set(answers), {202, 409})
            done = alice.wait(job)
            self.assertEqual(done["request"]["iterations"], 10 + 7 * answers.count(202))
            self.assertEqual(done["progress"]["fraction"], 1)

    def test_a_storm_of_all_controls_leaves_nothing_stuck(self):
        job = alice.submit(steady(iterations=20000))
        statuses, stop = set(), threading.Event()

        def storm(event):
            while not stop.is_set():
                body = {"iterations": 500} if event == "extend" else None
                statuses.add(alice.post("/v1/jobs/%s/%s" % (job, event), body).status)
        threads = [threading.Thread(target=storm, args=(e,))
                   for e in ("cancel", "extend", "pause", "resume", "retry")]
        for t in threads:
            t.start()
        time.sleep(2.0)
        stop.set()
        for t in threads:
            t.join()
        self.assertLessEqual(statuses, {202, 409})
        if alice.job(job)["state"] == "paused":
            alice.act(job, "resume")
        state = alice.wait(job, "succeeded", "cancelled")["state"]
        if state == "cancelled":
            alice.act(job, "extend", {"iterations": 500})
        spec = alice.wait(job)["request"]
        self.assertEqual(alice.everything(job), alice.everything(alice.run(spec)["id"]))

    def test_a_storm_of_controls_ends_in_an_orderly_state(self):
        job = alice.submit(steady(iterations=3000000, thin=1000, seed=3))
        answers, stop = [], threading.Event()

        def storm(events):
            while not stop.is_set():
                for event in events:
                    answers.append(alice.post("/v1/jobs/%s/%s" % (job, event)))
        threads = [threading.Thread(target=storm, args=(e,))
                   for e in (("pause", "resume"), ("resume", "pause"))]
        for t in threads:
            t.start()
        time.sleep(1.0)
        stop.set()
        for t in threads:
            t.join()
        self.assertLessEqual({a.status for a in answers}, {202, 409})
        if alice.job(job)["state"] == "paused":
            alice.act(job, "resume")
        alice.wait(job)
        self.assertEqual(alice.everything(job), alice.everything(
            alice.run(steady(iterations=3000000, thin=1000, seed=3))["id"]))


class Trash(Case):
    def test_a_deleted_job_can_be_restored_whole(self):
        job = alice.run(toy())["id"]
        draws = alice.everything(job)
        self.assertEqual(alice.delete("/v1/jobs/" + job).status, 204)
        for path in ("", "/draws", "/summary"):
            self.assertProblem(alice.get("/v1/jobs/" + job + path), 404)
        self.assertProblem(alice.delete("/v1/jobs/" + job), 404)
        self.assertProblem(alice.post("/v1/jobs/%s/extend" % job, {"iterations": 5}), 404)
        self.assertNotIn(job, [j["id"] for j in alice.read("/v1/jobs")["items"]])
        trash = [j["id"] for j in alice.read("/v1/jobs", query={"trash": "true"})["items"]]
        self.assertIn(job, trash)
        self.assertEqual(alice.post("/v1/jobs/%s/restore" % job).status, 200)
        self.assertEqual(alice.everything(job), draws)
        self.assertProblem(alice.post("/v1/jobs/%s/restore" % job), 404)

    def test_purging_gives_the_space_back_at_once(self):
        job = alice.run(toy())["id"]
        self.assertTrue(os.path.exists(self.path(job)))
        self.assertEqual(alice.delete("/v1/jobs/" + job, query={"purge": "true"}).status, 204)
        self.assertFalse(os.path.exists(self.path(job)))
        self.assertFalse(os.path.exists(self.path(job) + "-wal"))
        self.assertProblem(alice.get("/v1/jobs/" + job), 404)
        self.assertProblem(alice.post("/v1/jobs/%s/restore" % job), 404)
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM job WHERE id = ?", job), [(0,)])
        self.assertEqual(daemon.catalogue("SELECT count(*) FROM log WHERE job = ?", job), [(0,)])

    def test_what_is_in_the_trash_can_be_purged_too(self):
        job = alice.run(toy())["id"]
        self.assertEqual(alice.delete("/v1/jobs/" + job).status, 204)
        self.assertEqual(alice.delete("/v1/jobs/" + job, query={"purge": "true"}).status, 204)
        self.assertFalse(os.path.exists(self.path(job)))

    def test_what_is_in_the_trash_is_found_whatever_the_names_of_other_jobs_are(self):
        job = alice.run(toy())["id"]
        self.assertEqual(alice.delete("/v1/jobs/" + job).status, 204)
        for decoy in [bob.submit(toy(name=job, iterations=1, warmup=0, chains=1)) for _ in range(101)]:
            bob.wait(decoy)
            self.assertEqual(bob.delete("/v1/jobs/" + decoy).status, 204)
        self.assertEqual(admin.post("/v1/jobs/%s/restore" % job).status, 200)

    def test_extending_and_deleting_at_once_end_in_one_of_the_two(self):
        carol = daemon.user("carol2")
        for turn in range(24):
            job = carol.run(toy(iterations=10))["id"]
            answers = {}

            def extend():
                answers["extend"] = carol.post("/v1/jobs/%s/extend" % job, {"iterations": 10000000})

            def delete():
                answers["delete"] = carol.delete("/v1/jobs/" + job,
                                                 query={"purge": "true"} if turn % 2 else None)
            threads = [threading.Thread(target=f)
                       for f in ((extend, delete) if turn % 4 < 2 else (delete, extend))]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            deleted, extended = answers["delete"].status, answers["extend"].status
            self.assertIn((deleted, extended), ((204, 404), (204, 409), (409, 202), (404, 202)))
            queue = carol.read("/v1/queue")
            active = [j["id"] for j in queue["running"] + queue["waiting"]]
            if deleted == 204:
                self.assertNotIn(job, active)
            else:
                carol.end(job)

    def test_other_peoples_trash_is_not_there(self):
        job = alice.run(toy(visibility="lab"))["id"]
        alice.delete("/v1/jobs/" + job)
        self.assertProblem(bob.post("/v1/jobs/%s/restore" % job), 404)
        listed = bob.read("/v1/jobs", query={"trash": "true", "owner": "all"})["items"]
        self.assertNotIn(job, [j["id"] for j in listed])

    def test_failed_and_cancelled_jobs_can_be_deleted(self):
        job = alice.submit(endless())
        alice.act(job, "cancel")
        alice.wait(job, "cancelled")
        self.assertEqual(alice.delete("/v1/jobs/" + job).status, 204)

    def path(self, job):
        return os.path.join(daemon.state, "draws", job + ".db")


class Polling(Case):
    def test_an_entity_tag_saves_the_answer_until_something_changes(self):
        job = alice.run(toy())["id"]
        first = alice.get("/v1/jobs/" + job)
        tag = first.headers["ETag"]
        self.assertRegex(tag, r'^(W/)?"[^"]+"$')
        again = alice.get("/v1/jobs/" + job, headers={"If-None-Match": tag})
        self.assertEqual((again.status, again.body, again.headers["ETag"]), (304, b"", tag))
        alice.patch("/v1/jobs/" + job, {"note": "changed"})
        after = alice.get("/v1/jobs/" + job, headers={"If-None-Match": tag})
        self.assertEqual(after.status, 200)
        self.assertNotEqual(after.headers["ETag"], tag)

    def test_tags_may_be_listed_and_weak(self):
        job = alice.run(toy())["id"]
        tag = alice.get("/v1/jobs/" + job).headers["ETag"]
        for value in ('"x", ' + tag, "W/" + tag, "*", tag + ', "y"'):
            with self.subTest(value):
                reply = alice.get("/v1/jobs/" + job, headers={"If-None-Match": value})
                self.assertEqual(reply.status, 304)

    def test_an_old_tag_does_not_match_after_a_restart(self):
        other = Daemon()
        carol = other.user("carol")
        job = carol.submit(endless())
        carol.wait(job, "running")
        carol.act(job, "pause")
        first = carol.get("/v1/jobs/" + job)
        other.restart()
        carol.act(job, "resume")
        carol.wait(job, "running")
        carol.act(job, "pause")
        again = carol.get("/v1/jobs/" + job, headers={"If-None-Match": first.headers["ETag"]})
        self.assertEqual(again.status, 200)
        self.assertEqual(other.stop(), 0)

    def test_a_long_poll_is_woken_by_a_change(self):
        job = alice.run(toy())["id"]
        tag = alice.get("/v1/jobs/" + job).headers["ETag"]
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(alice.get(
            "/v1/jobs/" + job, headers={"If-None-Match": tag}, query={"wait": 60})))
        waiting.start()
        time.sleep(0.3)
        self.assertEqual(answers, [])
        alice.patch("/v1/jobs/" + job, {"note": "wake up"})
        waiting.join(40)  # well before the minute is over
        self.assertEqual(len(answers), 1, "the long poll was not woken")
        self.assertEqual((answers[0].status, answers[0].json()["note"]), (200, "wake up"))

    def test_a_long_poll_of_a_running_job_sees_progress(self):
        job = alice.submit(endless())
        alice.wait(job, "running")
        seen = []
        tag = None
        for _ in range(5):
            reply = alice.get("/v1/jobs/" + job, headers={"If-None-Match": tag} if tag else None,
                              query={"wait": 30})
            self.assertEqual(reply.status, 200)
            tag = reply.headers["ETag"]
            seen.append(reply.json()["progress"]["iteration"])
        self.assertEqual(seen, sorted(set(seen)))
        alice.act(job, "cancel")

    def test_a_long_poll_ends_by_itself(self):
        job = alice.run(toy())["id"]
        tag = alice.get("/v1/jobs/" + job).headers["ETag"]
        reply = alice.get("/v1/jobs/" + job, headers={"If-None-Match": tag}, query={"wait": 1})
        self.assertEqual(reply.status, 304)
        reply = alice.get("/v1/jobs/" + job, query={"wait": 1})
        self.assertEqual((reply.status, reply.json()["id"]), (200, job))
        self.assertProblem(alice.get("/v1/jobs/" + job, query={"wait": 61}), 422, pointer="?wait")

    def test_a_long_poll_ends_when_the_job_is_deleted(self):
        job = alice.run(toy())["id"]
        tag = alice.get("/v1/jobs/" + job).headers["ETag"]
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(alice.get(
            "/v1/jobs/" + job, headers={"If-None-Match": tag}, query={"wait": 20})))
        waiting.start()
        time.sleep(0.3)
        alice.delete("/v1/jobs/" + job)
        waiting.join(60)
        self.assertEqual(answers[0].status, 404)

    def test_a_hundred_long_polls_and_quick_requests_do_not_hinder_each_other(self):
        job = alice.run(toy())["id"]
        tag = alice.get("/v1/jobs/" + job).headers["ETag"]
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(alice.get(
            "/v1/jobs/" + job, headers={"If-None-Match": tag}, query={"wait": 60})))
            for _ in range(100)]
        for t in threads:
            t.start()
        for _ in range(50):
            self.assertEqual(alice.get("/v1/me").status, 200)
            self.assertEqual(alice.get("/v1/jobs", query={"limit": 1}).status, 200)
        alice.patch("/v1/jobs/" + job, {"note": "all of you"})
        for t in threads:
            t.join(harness.PATIENCE)
        self.assertEqual([a.status for a in answers], [200] * 100)


class Queue(Case):
    def test_the_queue_tells_who_runs_and_why_others_wait(self):
        hog = Daemon(workers=1)
        carol, dave = hog.user("carol"), hog.user("dave")
        first = carol.submit(endless(name="hog"))
        carol.wait(first, "running")
        held = carol.submit(endless(name="held"))
        carol.act(held, "pause")
        entries, end = {}, time.monotonic() + harness.PATIENCE
        while held not in entries or entries[held]["running_chains"] > 0:  # its last slice is not over
            self.assertLess(time.monotonic(), end, entries)
            queue = carol.read("/v1/queue")
            entries = {j["id"]: j for j in queue["running"] + queue["waiting"]}
        self.assertEqual(queue["workers"], 1)
        self.assertLessEqual({first, held}, set(entries))
        self.assertIn("paused", entries[held]["reason"])
        self.assertEqual(entries[first]["name"], "hog")
        for j in entries.values():
            self.assertTrue(j["reason"], j)
        theirs = dave.read("/v1/queue")
        self.assertNotIn(first, json.dumps(theirs))
        self.assertNotIn("hog", json.dumps(theirs))
        self.assertEqual({j["owner"] for j in theirs["running"] + theirs["waiting"]}, {"carol"})
        self.assertIn("carol", [u["name"] for u in queue["users"]])
        for job in (first, held):
            carol.act(job, "cancel")
        self.assertEqual(hog.stop(), 0)

    def test_a_job_whose_draws_are_checked_does_not_wait(self):
        alone = Daemon(workers=1)
        carol, draws, seen = alone.user("carol"), 2000, set()
        data = {"path": alone.file("rows.csv", harness.logistic_text(3000))}
        while not any("check" in reason for _, reason in seen):  # it was over too soon
            job = carol.submit(logistic(data=data, iterations=draws, check_draws=draws))
            while carol.job(job)["state"] not in harness.ENDED:
                queue = carol.read("/v1/queue")
                seen |= {(k, j["reason"]) for k in ("running", "waiting") for j in queue[k]}
            draws *= 2
        self.assertIn(("running", "the draws are being checked"), seen)
        self.assertNotIn(("waiting", "running"), seen)
        self.assertFalse([reason for k, reason in seen if k == "waiting" and "check" in reason])
        self.assertEqual(alone.stop(), 0)
