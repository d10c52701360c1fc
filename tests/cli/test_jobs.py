"""Submitting, listing, looking at and steering jobs."""

import json
import random

from fake import parameter
from harness import JOB, OK, REFUSED, SERVER, UNREACHABLE, USAGE, Case

JOB_TEXT = '{ "model": {"name": "logistic"},\n  "sampler": {"name":"sgbd"} , "x": 1.50 }'


class Submit(Case):
    def test_the_file_is_sent_as_it_is_and_the_id_printed(self):
        result = self.barker("submit", self.path("job.json", JOB_TEXT))
        request = self.fake.asked("POST", "/v1/jobs")[0]
        self.assertEqual(request["body"].decode(), JOB_TEXT)
        self.assertEqual(request["headers"]["Content-Type"], "application/json")
        self.assertEqual(result.out, "01job00000000001\n")
        self.assertEqual(result.err, "")

    def test_stdin_and_an_own_idempotency_key(self):
        for _ in range(2):
            result = self.barker("submit", "-", "--idempotency-key", "k1", data=JOB_TEXT.encode())
            self.assertEqual(result.out, "01job00000000001\n")
        self.assertEqual([r["headers"]["Idempotency-Key"] for r in self.fake.requests], ["k1", "k1"])

    def test_a_lost_answer_is_asked_for_again_with_the_same_key(self):
        def accept_and_cut(handler):
            handler.fake.keys[handler.headers["Idempotency-Key"]] = handler.fake.add("01first")
            handler.cut()
        self.fake.prepare("POST", "/v1/jobs", accept_and_cut)
        self.assertEqual(self.barker("submit", "-", data=JOB_TEXT.encode()).out, "01first\n")
        keys = [r["headers"]["Idempotency-Key"] for r in self.fake.asked("POST")]
        self.assertEqual(len(keys), 2)
        self.assertEqual(keys[0], keys[1])
        self.barker("submit", "-", data=JOB_TEXT.encode())
        self.assertNotEqual(self.fake.asked("POST")[-1]["headers"]["Idempotency-Key"], keys[0])

    def test_a_refusal_is_not_tried_again(self):
        self.fake.prepare("POST", "/v1/jobs", (503, {"title": "The server is shutting down"}))
        self.barker("submit", "-", data=JOB_TEXT.encode(), code=SERVER)
        self.assertEqual(len(self.fake.asked("POST")), 1)

    def test_what_is_no_job_is_refused_here_with_its_place(self):
        cases = [('{"a": 1,\n "b": }', "job.json:2:7: not JSON"), ('{"a": 1, "a": 2}', "duplicate"),
                 ("[1]", "a job must be a JSON object"), ("", "not JSON"), ("\x00", "not JSON")]
        for text, message in cases:
            with self.subTest(text=text):
                self.path("job.json", text)
                self.assertIn(message, self.barker("submit", "job.json", code=USAGE).err)
        self.assertIn("is a folder", self.barker("submit", self.folder, code=USAGE).err)
        self.assertEqual(self.fake.requests, [])

    def test_validate_asks_only(self):
        result = self.barker("submit", "-", "--validate", data=JOB_TEXT.encode())
        self.assertEqual(self.fake.requests[0]["query"], "validate_only=true")
        self.assertNotIn("Idempotency-Key", self.fake.requests[0]["headers"])
        self.assertIn("The job is valid.", result.out)
        self.assertRegex(result.out, r"thin +1\n(.|\n)*time +1m 13s\nmemory +5.00 MB\n")
        self.assertEqual(self.fake.jobs, {})
        raw = self.barker("submit", "-", "--validate", "--json", data=JOB_TEXT.encode()).out
        self.assertEqual(json.loads(raw)["estimate"]["seconds"], 72.5)

    def test_wait_ends_with_the_job(self):
        for state, code in (("succeeded", OK), ("failed", JOB), ("cancelled", JOB)):
            with self.subTest(state=state):
                self.fake.new_job = {"state": state, "reason": "because", "iteration": 2000}
                result = self.barker("submit", "-", "--wait", data=JOB_TEXT.encode(), code=code)
                self.assertRegex(result.out, r"\A01job\d+\n\Z")
                self.assertIn(state, result.err)
                if code:
                    self.assertIn(state + ": because", result.err)

    def test_wait_with_json_prints_the_finished_job(self):
        self.fake.new_job = {"state": "succeeded"}
        result = self.barker("submit", "-", "--wait", "--json", data=JOB_TEXT.encode())
        self.assertEqual(json.loads(result.out)["state"], "succeeded")
        self.assertEqual(result.err, "")


class Names(Case):
    def setUp(self):
        super().setUp()
        for job_id in ("01abcdef0001aaaa", "01abcdef0002bbbb", "01zzzzzz0003cccc"):
            self.fake.add(job_id)
        self.fake.jobs["01abcdef0002bbbb"]["name"] = "sepsis, corrected"

    def test_last_parts_and_names_find_the_job(self):
        for typed, found in (("last", "01zzzzzz0003cccc"), ("@last", "01zzzzzz0003cccc"),
                             ("01zz", "01zzzzzz0003cccc"), ("bbbb", "01abcdef0002bbbb"),
                             ("01abcdef0001", "01abcdef0001aaaa"),
                             ("sepsis, corrected", "01abcdef0002bbbb")):
            with self.subTest(typed=typed):
                self.assertEqual(json.loads(self.barker("show", typed, "--json").out)["id"], found)

    def test_a_name_is_found_behind_pages_of_longer_ones(self):
        self.fake.add("01aaaaaa0004dddd", name="run 1")
        for i in range(10, 20):
            self.fake.add("01abcdef01%ddddd" % i, name="run %d" % i)
        self.fake.page_size = 3
        for args in (["show", "run 1"], ["show", "run 1", "--json"]):
            with self.subTest(args=args):
                self.assertIn("01aaaaaa0004dddd", self.barker(*args).out)

    def test_what_fits_several_or_none_is_refused(self):
        result = self.barker("cancel", "01abcdef", code=REFUSED)
        self.assertIn("matches 2 jobs", result.err)
        self.assertIn("01abcdef0002bbbb  sepsis, corrected", result.err)
        self.assertIn('there is no job "01z"', self.barker("cancel", "01z", code=REFUSED).err)
        self.assertIn("there is no job", self.barker("cancel", "sepsis", code=REFUSED).err)
        self.assertEqual(self.fake.asked("POST"), [])
        self.fake.jobs.clear()
        self.assertIn("no jobs yet", self.barker("show", "last", code=REFUSED).err)


class Look(Case):
    def test_ls_is_a_table_without_colours_in_a_pipe(self):
        self.fake.add("01aa", state="running", iteration=840, name="a rather long name " * 5)
        self.fake.add("01bb", state="succeeded", iteration=2000,
                      summary={"max_rhat": 1.013, "min_ess_bulk": 100, "worst": "theta[1]"})
        lines = self.barker("ls").out.splitlines()
        self.assertEqual(lines[0].split(), ["ID", "STATE", "NAME", "OWNER", "MODEL", "SAMPLER",
                                            "DONE", "ETA", "R-HAT", "SUBMITTED"])
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[1], r"^01bb  succeeded  job 01bb .* ada .* 100% +– +1.013 .* ago$")
        self.assertRegex(lines[2], r"^01aa  running    a rather .* long name  +ada +logistic +"
                                   r"sgbd/corrected +42% +1m 20s +– ")
        self.assertNotIn("\x1b", "".join(lines))

    def test_ls_passes_its_filters(self):
        self.barker("ls", "--state", "running", "--model", "m", "--sampler", "s", "--tag", "t",
                    "--all", "--limit", "5")
        self.assertEqual(self.fake.requests[0]["query"],
                         "state=running&model=m&sampler=s&tag=t&owner=all&limit=5")

    def test_ls_shows_the_trash_when_asked(self):
        self.fake.add("01aa")
        self.assertIn("01aa", self.barker("ls", "--trash").out)
        self.assertEqual(self.fake.requests[-1]["query"], "trash=true&limit=30")
        self.fake.jobs.clear()
        self.assertIn("the trash is empty", self.barker("ls", "--trash").err)

    def test_ls_follows_pages_up_to_the_limit(self):
        for i in range(9):
            self.fake.add("01j%d" % i)
        self.fake.page_size = 2
        self.assertEqual(len(self.barker("ls", "--limit", "5").out.splitlines()), 6)
        self.assertEqual([r["query"] for r in self.fake.requests],
                         ["limit=5", "limit=3&cursor=2", "limit=1&cursor=4"])
        self.assertEqual(len(self.barker("ls").out.splitlines()), 10)

    def test_ls_without_jobs_says_so(self):
        result = self.barker("ls")
        self.assertEqual(result.out, "")
        self.assertIn("no jobs", result.err)
        self.assertEqual(self.barker("ls", "--quiet").err, "")

    def test_json_is_the_daemons_own_bytes(self):
        body = b'{ "items": [],   "next": null, "x": 0.1 }'
        self.fake.prepare("GET", "/v1/jobs", (200, body))
        self.assertEqual(self.barker("ls", "--json").out, body.decode() + "\n")

    def test_show_tells_everything(self):
        self.fake.add("01aa", state="failed", reason="the chain diverged", iteration=840,
                      verdict="mixing: theta[1] R-hat 1.08", phase="sampling")
        out = self.barker("show", "01aa").out
        for words in ("job 01aa", "failed: the chain diverged", "mixing: theta[1] R-hat 1.08",
                      "name=sgbd variant=corrected step_size=0.00075", "2026-01-01T00:00:00Z",
                      "chain 1", "sampling", "840/2000", "iterations    2000"):
            self.assertIn(words, out)

    def test_odd_documents_do_not_hurt(self):
        for document in ({}, {"id": "01aa", "progress": [], "summary": 3, "request": "x"},
                         {"id": 7, "progress": {"chains": [None, {}, {"chain": "x"}]}}, []):
            with self.subTest(document=document):
                body = json.dumps(document).encode()
                self.fake.prepare("GET", "/v1/jobs/01aa", (200, body), (200, body))
                self.barker("show", "01aa")
                self.fake.prepare("GET", "/v1/jobs", (200, json.dumps({"items": [document]}).encode()))
                self.barker("ls")

    def test_random_documents_do_not_hurt(self):
        words = ["id", "name", "state", "items", "progress", "chains", "fraction", "parameters",
                 "request", "sampler", "summary", "max_rhat", "next", "rhat", "sd", "columns",
                 "preview", "jobs", "waiting", "running", "default", "choices", "worst", "total"]
        generator = random.Random(4711)

        def value(depth):
            kind = generator.randrange(9 if depth else 6)
            if kind >= 6:
                size = generator.randrange(5)
                if kind == 6:
                    return [value(depth - 1) for _ in range(size)]
                return {generator.choice(words): value(depth - 1) for _ in range(size + 3)}
            return [None, True, -1.5e300, 10 ** 15, "\u00e9\u4e2d" * 9, ""][kind]

        commands = [("/v1/jobs", ["ls"]), ("/v1/queue", ["queue"]), ("/v1/info", ["info"]),
                    ("/v1/samplers/x", ["samplers", "x"]), ("/v1/datasets/x", ["data", "show", "x"]),
                    ("/v1/jobs/01aa/summary", ["summary", "01aa"]), ("/v1/models", ["models"]),
                    ("/v1/compare", ["compare", "01aa", "01aa"]), ("/v1/jobs/01aa/log", ["log", "01aa"])]
        self.fake.add("01aa")
        for i in range(180):
            path, args = commands[i % len(commands)]
            document = {generator.choice(words): value(4) for _ in range(6)}
            self.fake.answers.clear()
            self.fake.prepare("GET", path, (200, document), (200, {}))
            with self.subTest(args=args, document=document):
                self.barker(*args)

    def test_summary_prints_numbers_at_their_precision_and_dashes(self):
        self.fake.add("01aa")
        self.fake.parameters = [
            parameter("theta[1]"), parameter("U[3,7]", rhat=None, ess_bulk=None, ess_tail=None),
            parameter("big", mean=123456.7, sd=789.1, q50=1e12),
            parameter("none", **{k: None for k in ("mean", "sd", "mcse_mean", "q5", "q50", "q95")})]
        lines = self.barker("summary", "01aa").out.splitlines()
        self.assertEqual(lines[0].split(), ["PARAMETER", "MEAN", "SD", "MCSE", "MCSE", "SD", "5%",
                                            "25%", "50%", "75%", "95%", "R-HAT", "ESS", "BULK",
                                            "ESS", "TAIL"])
        self.assertEqual(lines[1].split(), ["theta[1]", "2.385", "0.123", "0.0012", "0.00090",
                                            "2.180", "2.300", "2.384", "2.470", "2.590", "1.002",
                                            "3211", "2900"])
        self.assertEqual(lines[2].split()[-3:], ["–", "–", "–"])
        self.assertIn("123457", lines[3])
        self.assertIn("1.000e+12", lines[3])
        self.assertEqual(lines[4].split()[1:4], ["–", "–", "–"])
        self.assertEqual(lines[5], "4000 draws from 2 chains")
        self.assertEqual(len({len(line) for line in lines[:5]}), 1)

    def test_summary_of_a_part_of_the_draws_says_so_and_large_numbers_are_plain(self):
        self.fake.add("01aa")
        self.fake.parameters = [parameter("theta[1]", ess_bulk=794871.2, ess_per_second=284531.4)]
        self.fake.summary = {"draws": 800000, "draws_stored": 1600000,
                             "efficiency": {"cpu_seconds": 2.0, "ess_per_second": 284531.4,
                                            "ess_per_gradient": 0.5}}
        lines = self.barker("summary", "01aa").out.splitlines()
        self.assertIn("284531", lines[1])
        self.assertEqual(lines[2], "800000 of 1600000 draws from 2 chains")
        self.assertIn("smallest bulk ESS: 284531 per second", lines[3])

    def test_summary_passes_its_options_and_shows_biases(self):
        self.fake.add("01aa")
        bias = {"mean": 2.4, "sd": 0.5, "bias_mean": 0.0123456, "mcse_bias_mean": 0.021,
                "bias_variance": 0.9, "mcse_bias_variance": 0.1, "bias_variance_ratio": 0.25,
                "mcse_bias_variance_ratio": 0.125, "quantile_differences": {"q5": 0.1},
                "wasserstein": None, "wasserstein_noise": None, "reason": "no draws"}
        self.fake.parameters = [
            parameter("theta[1]", reference=None, other=3.25, mcse_q5=0.1, ess_per_gradient=0.5),
            parameter("theta[2]", reference=bias, cost={"ess": 1600.4, "seconds": 61.0})]
        spread = {"mean": 0.1, "median": 0.2, "max": 0.30625, "worst": "theta[2]"}
        self.fake.summary = {
            "efficiency": {"cpu_seconds": 12.0, "ess_per_second": 33.25, "ess_per_gradient": 0.0125},
            "cost": {"target_error": 0.05, "seconds": 61.0, "gradients": 13000.0, "worst": "theta[2]"},
            "reference": {"name": "stan", "parameters": 1, "bias_mean": spread,
                          "quantile_differences": {"q5": spread}, "notes": ["take care"]}}
        out = self.barker("summary", "01aa", "--reference", "stan run", "--order", "worst", "-n", "7",
                          "--target-error", "0.05").out
        self.assertEqual(self.fake.requests[-1]["query"],
                         "reference=stan%20run&target_error=0.05&order=worst&limit=7")
        lines = [line.split() for line in out.splitlines()]
        self.assertEqual(" ".join(lines[0]).split(" ESS TAIL ")[1],
                         "other REF MEAN REF SD BIAS MCSE BIAS VAR BIAS MCSE VAR W1 W1 NOISE "
                         "ESS NEEDED CPU NEEDED")
        self.assertEqual(lines[1][-11:], ["3.25"] + ["–"] * 10)
        self.assertEqual(lines[2][-11:], ["2.400", "0.500", "0.012", "0.021", "0.250", "0.125", "–",
                                          "–", "1600", "1m", "01s"])
        self.assertEqual(lines[4:6], [
            "12s CPU time; smallest bulk ESS: 33.25 per second, 0.0125 per gradient".split(),
            "target error 0.05: 1m 01s CPU time, 13.0k gradients in total (theta[2])".split()])
        self.assertEqual(lines[6:], [
            [], "Difference from the reference stan, 1 parameters".split(), ["MEAN", "MEDIAN", "MAX", "WORST"],
            "bias of the mean / sd 0.1 0.2 0.30625 theta[2]".split(),
            "5% quantile / sd 0.1 0.2 0.30625 theta[2]".split(), ["take", "care"]])
        self.fake.summary = {"cost": {"target_error": 0.05, "seconds": None, "gradients": None,
                                      "reason": "the bias alone is 0.2"}}
        self.assertIn("target error 0.05 not reached: the bias alone is 0.2\n", self.barker("summary", "01aa").out)

    def test_log_follows_all_pages(self):
        self.fake.add("01aa")
        self.fake.page_size = 2
        self.fake.log = [{"at": "2026-01-01T00:00:%02dZ" % i, "message": "event %d" % i}
                         for i in range(5)]
        out = self.barker("log", "01aa").out
        self.assertEqual(out.splitlines()[4], "2026-01-01T00:00:04Z  event 4")

    def test_open_prints_an_address_and_a_ticket_where_there_is_one(self):
        self.fake.add("01aa")
        self.assertEqual(self.barker("open", "01aa").out, self.fake.url + "/#/jobs/01aa\n")
        self.fake.tickets = True
        self.assertEqual(self.barker("open", "01aa").out,
                         self.fake.url + "/#/jobs/01aa?ticket=once-only\n")
        self.assertTrue(json.loads(self.barker("open", "01aa", "--json").out)["url"])

    def test_compare_puts_jobs_side_by_side(self):
        self.fake.add("01aa")
        self.fake.add("01bb")
        out = self.barker("compare", "01aa", "01bb", "--reference", "r").out
        self.assertEqual(self.fake.requests[-1]["query"], "jobs=01aa%2C01bb&reference=r")
        self.assertEqual([line.split() for line in out.splitlines()], [
            ["A", "job", "01aa", "01aa"], ["B", "job", "01bb", "01bb"], [], ["A", "B"],
            ["cpu", "1m", "01s", "2m", "02s"],
            ["bias", "of", "the", "mean", "/", "sd,", "max", "0.5", "1"], [],
            ["PARAMETER", "MEAN", "A", "MEAN", "B", "SD", "A", "SD", "B", "BIAS", "A", "BIAS", "B",
             "R-HAT", "A", "R-HAT", "B", "ESS", "BULK", "A", "ESS", "BULK", "B"],
            ["theta[1]", "0.000", "0.125", "0.123", "0.123", "0.000", "0.010", "1.002", "1.002",
             "3211", "3211"]])

    def test_compare_says_first_that_posteriors_differ(self):
        self.fake.add("01aa")
        self.fake.add("01bb")
        differs = "jobs 01aa and 01bb have different posteriors: model.prior_sd is 1 and 10"
        self.fake.prepare("GET", "/v1/compare", (200, {"jobs": [{"id": "01aa"}, {"id": "01bb"}], "parameters": [], "differs": differs}))
        self.assertEqual(self.barker("compare", "01aa", "01bb").out.splitlines()[0], differs)

    def test_compare_says_when_there_are_more_parameters(self):
        self.fake.add("01aa")
        self.fake.add("01bb")
        self.assertNotIn("--limit", self.barker("compare", "01aa", "01bb").out)
        self.fake.more = True
        out = self.barker("compare", "01aa", "01bb", "-n", "7").out
        self.assertIn("more parameters with --limit N", out)
        self.assertEqual(self.fake.requests[-1]["query"], "jobs=01aa%2C01bb&limit=7")

    def test_compare_shows_costs_energies_and_notes(self):
        self.fake.add("01aa")
        self.fake.add("01bb")
        self.fake.compared = {
            "cost": {"target_error": 0.05, "seconds": None, "gradients": 250.0, "reason": "too biased"},
            "energy": {"z": -3.25, "variance_ratio": 1.5},
            "reference": {"wasserstein": {"max": 0.125}, "notes": ["half a reference"]}}
        out = self.barker("compare", "01aa", "01bb", "--reference", "r", "--target-error", "0.05").out
        self.assertEqual(self.fake.requests[-1]["query"],
                         "jobs=01aa%2C01bb&reference=r&target_error=0.05")
        lines = [" ".join(line.split()) for line in out.splitlines()]
        for line in ("CPU time to target error – –", "gradients to target error 250 250",
                     "energy, z score -3.25 -3.25", "energy, variance ratio 1.5 1.5",
                     "Wasserstein-1 / sd, max 0.125 0.125", "A: too biased", "B: half a reference"):
            self.assertIn(line, lines)
        self.assertNotIn("cost", out)


class References(Case):
    def test_a_file_or_stdin_is_put(self):
        path = self.path("reference.json", '{"names": ["a"], "mean": [1], "sd": [2]}')
        self.assertEqual(self.barker("reference", "put", "stan", path).out, "stan\n")
        self.assertEqual(self.fake.references["stan"]["mean"], [1])
        self.barker("reference", "put", "lab one", path, "--lab", "--names", "theta")
        self.assertEqual((self.fake.requests[-1]["path"], self.fake.requests[-1]["query"]),
                         ("/v1/references/lab%20one", "visibility=lab&names=theta"))
        for args in (("reference", "put", "x"), ("reference", "put", "x", path, "--job", "01aa"),
                     ("reference", "put", "x", "/tmp"), ("reference", "put", "x", path + "?")):
            with self.subTest(args):
                self.assertTrue(self.barker(*args, code=USAGE).err)

    def test_a_job_is_put_and_its_warning_is_said(self):
        self.fake.add("01aa")
        result = self.barker("reference", "put", "own", "--job", "01aa")
        self.assertEqual(result.out, "own\n")
        self.assertIn("warning: its largest R-hat is 1.100", result.err)
        self.assertEqual(self.fake.references["own"]["made_by"], {"job": "01aa"})

    def test_they_are_listed_shown_and_deleted(self):
        self.assertIn("no references", self.barker("reference", "ls").err)
        self.fake.references = {
            "cols": {"names": ["theta[1]"], "mean": [1.2345], "sd": [0.5], "mcse_mean": [0.0041],
                     "ess_bulk": [1234.5], "points": [[1, 2]], "made_by": {"job": "01aa"},
                     "warning": "beware"},
            "rows": {"parameters": [{"name": "U[1,2]", "mean": 3.5, "sd": 2, "points": [1, 2]}]}}
        self.assertEqual([l.split()[0] for l in self.barker("reference", "ls").out.splitlines()],
                         ["name", "cols", "rows"])
        out = [line.split() for line in self.barker("reference", "show", "cols").out.splitlines()]
        self.assertEqual(out[:2], [["PARAMETER", "MEAN", "SD", "MCSE", "ESS", "BULK"],
                                   ["theta[1]", "1.234", "0.500", "0.0041", "1234"]])
        self.assertIn(["warning", "beware"], out)
        self.assertIn("U[1,2]", self.barker("reference", "show", "rows").out)
        self.assertEqual(json.loads(self.barker("reference", "show", "cols", "--json").out),
                         self.fake.references["cols"])
        self.barker("reference", "rm", "rows")
        self.assertNotIn("rows", self.fake.references)
        self.barker("reference", "show", "rows", code=REFUSED)


class Control(Case):
    def test_verbs_are_posted_to_each_job(self):
        self.fake.add("01aa")
        self.fake.add("01bb")
        for verb, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelling"),
                            ("retry", "queued")):
            with self.subTest(verb=verb):
                out = self.barker(verb, "01aa", "01bb").out
                self.assertEqual(out, "01aa  %s\n01bb  %s\n" % (state, state))
                self.assertEqual([r["path"] for r in self.fake.asked("POST")[-2:]],
                                 ["/v1/jobs/01aa/" + verb, "/v1/jobs/01bb/" + verb])
                self.assertNotIn("Content-Type", self.fake.requests[-1]["headers"])

    def test_one_refusal_does_not_stop_the_others(self):
        self.fake.add("01aa", state="succeeded")
        self.fake.add("01bb")
        result = self.barker("cancel", "01aa", "01bb", code=REFUSED)
        self.assertIn("the job has succeeded; it can be extended", result.err)
        self.assertEqual(self.fake.jobs["01bb"]["state"], "cancelling")

    def test_an_unknown_job_among_several_changes_nothing(self):
        self.fake.add("01aa")
        self.barker("cancel", "01aa", "nosuch", code=REFUSED)
        self.assertEqual(self.fake.jobs["01aa"]["state"], "queued")

    def test_extend_sends_the_iterations(self):
        self.fake.add("01aa", state="succeeded")
        self.barker("extend", "01aa", "--iterations", "5000")
        self.assertEqual(json.loads(self.fake.requests[-1]["body"]), {"iterations": 5000})

    def test_rm_without_a_terminal_needs_yes(self):
        self.fake.add("01aa")
        self.fake.add("01bb", state="running")
        self.barker("rm", "01aa", code=USAGE)
        result = self.barker("rm", "--yes", "01bb", "01aa", code=REFUSED)
        self.assertIn("the job is running", result.err)
        self.assertIn("deleted 01aa", result.err)
        self.assertEqual(list(self.fake.jobs), ["01bb"])

    def test_rm_purges_and_restore_brings_back(self):
        self.fake.add("01aa")
        self.barker("rm", "--yes", "--purge", "01aa")
        self.assertEqual(self.fake.requests[-1]["query"], "purge=true")
        self.fake.add("01aa")
        self.assertEqual(self.barker("restore", "01aa").out, "01aa  succeeded\n")
        self.assertEqual([r["path"] for r in self.fake.requests[-1:]], ["/v1/jobs/01aa/restore"])

    def test_rm_asks_on_a_terminal(self):
        for answer, left in (("n", ["01aa"]), ("", ["01aa"]), ("y", [])):
            with self.subTest(answer=answer):
                self.fake.add("01aa")
                terminal = self.terminal("rm", "01aa")
                terminal.until("[y/N]")
                terminal.type(answer + "\n")
                self.assertEqual(terminal.finish().code, OK)
                self.assertEqual(list(self.fake.jobs), left)

    def test_rm_interrupted_at_the_question_deletes_nothing(self):
        self.fake.add("01aa")
        terminal = self.terminal("rm", "01aa")
        terminal.until("[y/N]")
        terminal.type("\x03")
        self.assertEqual(terminal.finish().code, 130)
        self.assertEqual(list(self.fake.jobs), ["01aa"])


class Rest(Case):
    def test_catalogue(self):
        self.assertIn("stochastic gradient Barker dynamics", self.barker("samplers").out)
        out = self.barker("samplers", "sgbd").out
        self.assertRegex(out, "step_size +step_size +auto +> 0 +size of a proposal")
        self.assertRegex(out, "beta +number +0.1 +>= 0, <= 1 +memory")
        self.assertRegex(out, "noise +choice +bimodal +bimodal | normal +of the proposal")
        self.assertIn("logistic regression", self.barker("models").out)
        self.assertIn("no nosuch", self.barker("models", "nosuch", code=REFUSED).err)

    def test_queue_explains_itself(self):
        out = self.barker("queue").out
        for words in ("1 running, 1 waiting", "all workers are busy", "1h 02m", "0.75"):
            self.assertIn(words, out)

    def test_info_and_me(self):
        self.assertIn("9.9.9", self.barker("info").out)
        self.assertIn(self.fake.url, self.barker("info").out)
        self.assertIn("abcd1234", self.barker("me").out)

    def test_tokens(self):
        self.assertIn("abcd1234", self.barker("token", "ls").out)
        result = self.barker("token", "add", "bob", "--role", "viewer", "--days", "30", "--label", "R")
        self.assertEqual(result.out, "bk_wxyz9876_new\n")
        self.assertIn("only once", result.err)
        self.assertEqual(json.loads(self.fake.requests[-1]["body"]),
                         {"user": "bob", "role": "viewer", "expires_in_days": 30, "label": "R"})
        asked = len(self.fake.requests)
        self.assertIn("not UTF-8", self.barker("token", "add", b"\xff", code=USAGE).err)
        self.assertEqual(len(self.fake.requests), asked)
        self.barker("token", "add")
        self.assertEqual(json.loads(self.fake.requests[-1]["body"]), {})
        self.barker("token", "add", "--days", "0")
        self.assertEqual(json.loads(self.fake.requests[-1]["body"]), {"expires_in_days": 0},
                         "no token for ever where an end was asked for: the daemon refuses 0")
        self.barker("token", "rm", "abcd1234")
        self.assertEqual(self.fake.requests[-1]["path"], "/v1/tokens/abcd1234")

    def test_every_reading_command_takes_json(self):
        self.fake.add("01aa")
        self.fake.datasets["d"] = b""
        for args in (["ls"], ["show", "01aa"], ["summary", "01aa"], ["log", "01aa"], ["queue"],
                     ["compare", "01aa", "01aa"], ["data", "ls"], ["data", "show", "d"],
                     ["samplers"], ["models"], ["info"], ["me"], ["token", "ls"],
                     ["pause", "01aa"], ["open", "01aa"], ["token", "add", "x"]):
            with self.subTest(args=args):
                json.loads(self.barker(*args, "--json").out)

    def test_nothing_answers_forever(self):
        self.assertIn("no daemon", self.barker("queue", "--url", "127.0.0.1:1", code=UNREACHABLE).err)
