"""barker study: asking, waiting, showing, listing, removing."""

import json
import os

from harness import JOB, OK, REFUSED, ROOT, SERVER, USAGE, Case

STUDY = "06czn3c5k8w2m7xa"
JOB_TEXT = '{"model": "skew_normal", "sampler": {"name": "sgld", "step_size": 0.25}}'


def numbers(value, error, difference, z):
    return {"extrapolated": value, "error": error, "difference": difference,
            "difference_error": 0.05, "z": z}


def study(**fields):
    """A study as the daemon answers it."""
    side = {"mean": 2.385, "mcse_mean": 0.01, "sd": 1.2, "mcse_sd": 0.01, "rhat": 1.001,
            "ess_bulk": 4000.0}
    made = {
        "id": STUDY, "kind": "ladder", "name": "toy: step sizes", "owner": "ada",
        "state": "succeeded", "reason": "all 2 jobs have succeeded",
        "created_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z",
        "request": {"kind": "ladder"},
        "progress": {"fraction": 1.0, "jobs": 2, "ended": 2, "eta_seconds": 0.0},
        "jobs": [{"id": "01job%d" % i, "setting": {"factor": f, "seed": 7 + i}, "name": "toy",
                  "state": "succeeded", "reason": "all chains are complete", "verdict": None,
                  "progress": {"fraction": 1.0, "iteration": 10, "total": 10, "chains": []},
                  "started_at": None, "ended_at": None,
                  "summary": {"max_rhat": 1.0021, "min_ess_bulk": 812.4, "worst": "theta[1]"}}
                 for i, f in enumerate((1.0, 0.5))],
        "result": {
            "complete": True, "sentence": "theta[1]: its sd is 20 % too large",
            "cautions": ["take it with a grain of salt"], "factors": [],
            "parameters": [{"name": "theta[1]",
                            "factors": [{**side, "factor": 1.0}, {**side, "factor": 0.5}],
                            "mean": numbers(2.3712, 0.0123, 0.011, 0.4),
                            "sd": numbers(1.0034, 0.0212, 0.196, 9.8), "biased": True},
                           {"name": "theta[2]", "factors": [],
                            "mean": numbers(None, None, None, None),
                            "sd": numbers(None, None, None, None), "biased": False,
                            "reason": "nothing is known"}],
            "biased": 1, "measured": 2, "saved": 2, "parameters_total": 2}}
    made.update(fields)
    return made


class Ladder(Case):
    def ask(self, *args, code=OK, reply=None, **options):
        self.fake.prepare("POST", "/v1/studies", reply or (201, study()))
        return self.barker("study", "ladder", *args, code=code, **options)

    def body(self):
        return json.loads(self.fake.asked("POST", "/v1/studies")[-1]["body"])

    def test_a_job_file_is_sent_and_the_id_printed(self):
        result = self.ask(self.path("job.json", JOB_TEXT))
        self.assertEqual(result.out, STUDY + "\n")
        self.assertEqual(self.body(), {"kind": "ladder", "job": json.loads(JOB_TEXT)})
        self.assertTrue(self.fake.asked("POST", "/v1/studies")[0]["headers"]["Idempotency-Key"])

    def test_stdin_and_all_options(self):
        self.ask("-", "--factors", "1,0.5,0.25", "--lengthen", "--name", "mine",
                 "--idempotency-key", "k1", data=JOB_TEXT.encode())
        self.assertEqual(self.body(), {"kind": "ladder", "job": json.loads(JOB_TEXT),
                                       "factors": [1, 0.5, 0.25], "lengthen": True,
                                       "name": "mine"})
        self.assertEqual(self.fake.asked("POST")[0]["headers"]["Idempotency-Key"], "k1")

    def test_a_finished_job_is_named_as_everywhere(self):
        self.fake.add("01abcdefgh", name="a fine job", state="succeeded")
        for typed in ("01abcdefgh", "last", "efgh", "a fine job"):
            with self.subTest(typed):
                self.ask(typed)
                self.assertEqual(self.body()["job"], "01abcdefgh")
        self.assertIn("no job", self.ask("nothing like it", code=REFUSED).err)

    def test_factors_that_are_no_numbers_are_refused_here(self):
        self.path("job.json", JOB_TEXT)
        for factors in ("", "1,", ",1", "1;2", "a", "1,,2", "nan", "1,inf", "1 2"):
            with self.subTest(factors):
                result = self.barker("study", "ladder", "job.json", "--factors", factors,
                                     code=USAGE)
                self.assertIn("--factors", result.err)
        self.assertEqual(self.fake.asked("POST"), [])

    def test_a_file_that_is_no_job_is_refused_here(self):
        self.assertIn("cannot read", self.barker("study", "ladder", "none.json", code=USAGE).err)
        self.path("bad.json", "[1]")
        self.assertIn("JSON object", self.barker("study", "ladder", "bad.json", code=USAGE).err)

    def test_a_refusal_names_the_mistakes(self):
        reply = (422, {"title": "a value is not allowed", "status": 422, "detail": "1 mistake",
                       "errors": [{"pointer": "/job/sampler", "detail": "barker_mh is exact"}]})
        result = self.ask(self.path("job.json", JOB_TEXT), code=REFUSED, reply=reply)
        self.assertIn("/job/sampler", result.err)
        self.assertIn("barker_mh is exact", result.err)

    def test_a_lost_answer_is_asked_for_again_with_the_same_key(self):
        self.fake.prepare("POST", "/v1/studies", "cut")
        self.ask(self.path("job.json", JOB_TEXT))
        keys = [r["headers"]["Idempotency-Key"] for r in self.fake.asked("POST")]
        self.assertEqual(len(keys), 2)
        self.assertEqual(keys[0], keys[1])

    def test_json_prints_what_the_daemon_sent(self):
        text = json.dumps(study(), indent=3).encode()
        result = self.ask(self.path("job.json", JOB_TEXT), "--json", reply=(201, text))
        self.assertEqual(result.out, text.decode() + "\n")

    def wait(self, *args, code=OK, state="succeeded"):
        half = {"fraction": 0.5, "jobs": 2, "ended": 1, "failed": 0, "under_way": 1, "eta_seconds": 12.0}
        path = "/v1/studies/" + STUDY
        self.fake.prepare("GET", path, (200, study(state="running", progress=half)))
        self.fake.prepare("GET", path, "cut")
        self.fake.prepare("GET", path, (200, study(state=state)))
        return self.ask(self.path("job.json", JOB_TEXT), "--wait", *args, code=code, reply=(201, study(state="running")))

    def test_wait_ends_with_the_study_and_shows_the_result(self):
        result = self.wait()
        self.assertIn("theta[1]: its sd is 20 % too large", result.out)
        self.assertRegex(result.err, r"running +50% +1 of 2 jobs +12s left")
        result = self.wait(code=JOB, state="failed")
        self.assertIn("failed", result.err)
        self.assertIn("theta[1]", result.out)

    def test_a_study_that_is_deleted_meanwhile_is_waited_for_no_longer(self):
        self.fake.prepare("GET", "/v1/studies/" + STUDY, (404, {"title": "gone", "status": 404, "detail": "there is no such study"}))
        result = self.ask(self.path("job.json", JOB_TEXT), "--wait", code=REFUSED)
        self.assertIn("no such study", result.err)

    def test_wait_with_json_prints_the_finished_study(self):
        result = self.wait("--json")
        self.assertEqual(json.loads(result.out), study())
        self.assertEqual(result.err, "")

    def test_an_answer_without_an_id_is_the_daemons_failure(self):
        self.ask(self.path("job.json", JOB_TEXT), code=SERVER, reply=(201, {"kind": "ladder"}))


class Look(Case):
    def show(self, *args, answer=None, **options):
        self.fake.prepare("GET", "/v1/studies/" + STUDY, (200, answer or study()))
        return self.barker("study", "show", STUDY, *args, **options)

    def test_show_has_jobs_sentence_cautions_and_numbers(self):
        out = self.show().out
        self.assertIn("toy: step sizes", out)
        self.assertRegex(out, r"state +succeeded: all 2 jobs have succeeded")
        self.assertRegex(out, r"01job1 +factor=0.5 seed=8 +succeeded +100% +1.002 +812")
        self.assertRegex(out, r"result +theta\[1\]: its sd is 20 % too large")
        self.assertRegex(out, r"caution +take it with a grain of salt")
        self.assertRegex(out, r"theta\[1\] +2.38 +1.20 +2.371 +0.012 +1.003 +0.021 +0.011 +0.050 "
                              r"+0.4 +0.196 +0.050 +9.8")
        self.assertIn("theta[2]", out)
        self.assertIn("10 % too large", out)

    def test_show_says_why_there_is_no_result(self):
        bare = study(state="running", result=None, result_reason="draws are needed")
        self.assertRegex(self.show(answer=bare).out, r"result +draws are needed")

    def test_a_kind_that_is_not_known_is_shown_all_the_same(self):
        out = self.show(answer=study(kind="forest", result={"best": 0.25})).out
        self.assertRegex(out, r"best +0.25")

    def test_json_prints_what_the_daemon_sent(self):
        self.fake.prepare("GET", "/v1/studies/" + STUDY, (200, b'{ "id": "x",\n "a":1.50 }'))
        out = self.barker("study", "show", STUDY, "--json").out
        self.assertEqual(out, '{ "id": "x",\n "a":1.50 }\n')

    def test_limit_is_passed_on(self):
        self.show("--limit", "3")
        self.assertEqual(self.fake.asked("GET")[-1]["query"], "limit=3")

    def test_part_of_an_id_a_name_and_last_will_do(self):
        for typed in ("last", STUDY[:6], STUDY[-4:], "toy: step sizes"):
            with self.subTest(typed):
                self.fake.prepare("GET", "/v1/studies", (200, {"items": [study()], "next": None}))
                self.fake.prepare("GET", "/v1/studies/" + STUDY, (200, study()))
                self.assertIn(STUDY, self.barker("study", "show", typed).out)
        two = [study(), study(id=STUDY[:-1] + "b")]
        self.fake.prepare("GET", "/v1/studies", (200, {"items": two, "next": None}))
        self.assertIn("several", self.barker("study", "show", STUDY[:6], code=REFUSED).err)
        self.fake.prepare("GET", "/v1/studies", (200, {"items": [], "next": None}))
        self.assertIn("no study", self.barker("study", "show", "last", code=REFUSED).err)

    def test_an_unknown_study_is_refused(self):
        self.barker("study", "show", "0" * 16, code=REFUSED)

    def test_ls(self):
        page = {"items": [study(), study(id="06czn3c5k8w2m7xb", state="running", progress={
            "fraction": 0.42, "jobs": 2, "ended": 0, "eta_seconds": None})], "next": None}
        self.fake.prepare("GET", "/v1/studies", (200, page))
        out = self.barker("study", "ls", "--all", "--kind", "ladder").out
        self.assertRegex(out, STUDY + r" +ladder +succeeded +toy: step sizes +ada +100%")
        self.assertRegex(out, r"xb +ladder +running .* +42%")
        self.assertIn("owner=all", self.fake.asked("GET")[-1]["query"])
        self.assertIn("kind=ladder", self.fake.asked("GET")[-1]["query"])
        text = json.dumps(page, indent=1).encode()
        self.fake.prepare("GET", "/v1/studies", (200, text))
        self.assertEqual(self.barker("study", "ls", "--json").out, text.decode() + "\n")
        self.fake.prepare("GET", "/v1/studies", (200, {"items": [], "next": None}))
        self.assertIn("no studies", self.barker("study", "ls").err)

    def test_rm(self):
        self.fake.prepare("DELETE", "/v1/studies/" + STUDY, (204,))
        self.assertIn(STUDY + "  removed", self.barker("study", "rm", STUDY).out)
        self.fake.prepare("DELETE", "/v1/studies/" + STUDY, (204,))
        self.barker("study", "rm", "0" * 16, STUDY, code=REFUSED)
        self.assertEqual(len(self.fake.asked("DELETE", "/v1/studies/" + STUDY)), 2)

    def test_nothing_in_a_study_steers_the_terminal(self):
        evil = study(name="a\x1b[31mb", result=None, result_reason="c\x1b]0;d\x07")
        out = self.show(answer=evil).out
        self.assertNotIn("\x1b", out)
        self.assertNotIn("\x07", out)

    def test_completion(self):
        complete = lambda *words: self.barker("__complete", *words).out.split()  # noqa: E731
        self.assertEqual(complete("st"), ["study"])
        self.assertEqual(complete("study", ""), [":file", "ladder", "show", "table", "ls", "pause", "resume", "cancel", "extend", "rm"])
        self.assertEqual(complete("study", "x.json", "--wa"), ["--wait"])
        self.assertEqual(complete("study", "ladder", "--fa"), ["--factors"])
        self.fake.add("01aaaa")
        self.assertEqual(complete("study", "ladder", ""), [":file", "01aaaa", "last"])
        self.fake.prepare("GET", "/v1/studies", (200, {"items": [study()], "next": None}))
        self.assertEqual(complete("study", "show", ""), [STUDY, "last"])


class Sweep(Case):
    """Requests and answers as the daemon documents them (tests/fixtures/studies)."""

    def fixture(self, name):
        with open(os.path.join(ROOT, "tests/fixtures/studies", name)) as file:
            return json.load(file)

    def test_any_study_is_asked_for_with_one_command(self):
        for name in ("sweep.json", "mamba.json"):
            request = self.fixture(name)
            self.fake.prepare("POST", "/v1/studies", (201, study()))
            self.assertEqual(self.barker("study", self.path(name, json.dumps(request))).out, STUDY + "\n")
            self.assertEqual(json.loads(self.fake.asked("POST")[-1]["body"]), request)
            self.assertTrue(self.fake.asked("POST")[-1]["headers"]["Idempotency-Key"])
        self.fake.prepare("POST", "/v1/studies", (201, study()))
        self.barker("study", "-", "--name", "other", data=json.dumps(request).encode())
        self.assertEqual(json.loads(self.fake.asked("POST")[-1]["body"]), {**request, "name": "other"})

    def test_check_stores_nothing(self):
        self.fake.prepare("POST", "/v1/studies", (200, {"valid": True, "jobs": 61, "request": {}}))
        self.assertEqual(self.barker("study", self.path("a.json", "{}"), "--check").out, "valid: 61 jobs\n")
        self.assertEqual(self.fake.asked("POST")[-1]["query"], "validate_only=true")

    def test_all_mistakes_are_named(self):
        errors = [{"pointer": "/grid/0/~1chains/1", "detail": "must be at least 1"}, {"pointer": "/seeds", "detail": "is too large"}]
        self.fake.prepare("POST", "/v1/studies", (422, {"title": "no", "status": 422, "detail": "2 mistakes", "errors": errors}))
        result = self.barker("study", self.path("a.json", "{}"), code=REFUSED)
        for e in errors:
            self.assertIn(e["pointer"], result.err)
            self.assertIn(e["detail"], result.err)

    def shown(self, name):
        answer = self.fixture(name)
        self.fake.prepare("GET", "/v1/studies/" + answer["id"], (200, answer))
        result = self.barker("study", "show", answer["id"])
        self.barker_err = result.err
        return result.out

    def test_a_sweep_has_a_row_per_setting(self):
        out = self.shown("sweep_answer.json")
        self.assertRegex(out, r"progress +100%, 61 of 61 jobs")
        for row in self.fixture("sweep_answer.json")["result"]["rows"]:
            setting, at = row["setting"], row["measures"]
            self.assertRegex(out, r"variant=%s step_size=%.5g\S* +2 +%.3f +%.0f +%.0f +%.0f " % (
                setting["/sampler/variant"], setting["/sampler/step_size"], at["max_rhat"]["value"], at["ess_median"]["value"],
                at["ess_median"]["error"], at["ess_min"]["value"]))
        self.assertIn("28 settings more", self.barker_err)

    def test_mamba_has_a_row_per_arm(self):
        out = self.shown("mamba_answer.json")
        self.assertRegex(out, r"chosen +2 ")
        self.assertIn("VARIANCE CHECK", out)

    def test_the_table_is_written_as_it_came(self):
        self.fake.prepare("GET", "/v1/studies/%s/table" % STUDY, (200, b"index,group\n0,0\n"))
        self.assertEqual(self.barker("study", "table", STUDY).out, "index,group\n0,0\n")
        self.assertEqual(self.fake.asked("GET")[-1]["query"], "format=csv")
        self.fake.prepare("GET", "/v1/studies/%s/table" % STUDY, (200, b"index\n"))
        path = self.path("t.csv")
        self.barker("study", "table", STUDY, "-o", path)
        with open(path) as file:
            self.assertEqual(file.read(), "index\n")

    def test_actions_are_posted(self):
        for verb in ("pause", "resume", "cancel"):
            path = "/v1/studies/%s/%s" % (STUDY, verb)
            self.fake.prepare("POST", path, (202, study(state="paused", reason="so far")))
            self.assertIn("paused: so far", self.barker("study", verb, STUDY).out)
            self.assertEqual(len(self.fake.asked("POST", path)), 1)
        for args, body in ((["--seeds", "4"], {"seeds": 4}), (["--iterations", "100"], {"iterations": 100})):
            self.fake.prepare("POST", "/v1/studies/%s/extend" % STUDY, (202, study()))
            self.barker("study", "extend", STUDY, *args)
            self.assertEqual(json.loads(self.fake.asked("POST")[-1]["body"]), body)
        for args in ([], ["--seeds", "1", "--iterations", "1"]):
            self.assertIn("one of --seeds", self.barker("study", "extend", STUDY, *args, code=USAGE).err)
