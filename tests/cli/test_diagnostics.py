"""The verdict on a job and the numbers behind it, in a pipe and on a terminal."""

import json

from harness import REFUSED, Case

SENTENCE = ("mixing: good (largest R-hat 1.004, smallest ESS 512 bulk, 498 tail); bias: mild (step "
            "size 3.8 x the noise tolerance of theta[4], 72 % of all proposals beyond)")


def answer(**fields):
    return {
        "verdict": {"sentence": SENTENCE, "mixing": {"level": "good"}, "unknown": [],
                    "bias": {"level": "mild", "evidence": [
                        {"check": "noise", "level": "mild", "text": "step size 3.8 x", "tau": 690.1},
                        {"check": "stein", "level": "none seen", "text": "p 0.21"}]}},
        "efficiency": {"min_ess_bulk": 512.3, "cpu_seconds": 1.8, "ess_per_second": 284.61,
                       "ess_per_gradient": 0.00085},
        "noise": {"text": "3 of 4 step sizes are beyond the noise tolerance"},
        "checks": {"ksd": {"value": 0, "squared": -0.125, "error": 0.5, "p_value": 0.21,
                           "draws": 400}, "fssd": None,
                   "energy": {"mean_log_density": -123.5, "mcse": 0.125, "ratio": 1.02,
                              "ratio_error": 0.03}},
        "history": {"draws": [100 * i for i in range(1, 26)], "seconds": [0.5 * i for i in range(25)],
                    "max_rhat": [1.5] * 24 + [1.004], "min_ess_bulk": [10.0] * 24 + [None],
                    "min_ess_tail": [498.9] * 25, "worst": ["theta[1]"] * 24 + [None]},
        "chains": [], "parameters": [
            {"name": "theta[4]", "step_size": 0.0076, "tolerance": 0.002, "step_ratio": 3.81,
             "beyond": 0.996, "variance_ratio": 3.6, "batch_size_needed": 11200, "tau": 690.1,
             "mean": 5.6, "variance": 0.006},
            {"name": "theta[2]", "step_size": 0.0026, "tolerance": None, "step_ratio": None,
             "beyond": None, "variance_ratio": None, "batch_size_needed": None, "tau": None,
             "mean": None, "variance": None}],
        "parameters_total": 4, "reasons": {}, "next": "2", **fields}


class Diagnostics(Case):
    def setUp(self):
        super().setUp()
        self.fake.add("01aa", state="running")

    def ask(self, document, *args, **options):
        self.fake.prepare("GET", "/v1/jobs/01aa/diagnostics", (200, document))
        return self.barker("diagnostics", "01aa", *args, **options)

    def test_what_is_certified_is_told(self):
        part = {"certified": 0.0125, "parameter": "theta[3]", "not_resolved": 0, "first_not_resolved": None, "worst": None}
        none = {**part, "certified": None, "parameter": None, "not_resolved": 4}
        for certificate, words in (
                ({"form": "dense", "draws": 400, "mean": part, "sd": {**part, "not_resolved": 2}},
                 "means within 0.0125 sd (theta[3]); sds within 1.25 % (theta[3]), 2 not; 400 gradients over all data"),
                ({"form": "diagonal", "draws": 64, "mean": part, "sd": none},
                 "means within 0.0125 sd (theta[3]); sds not; 64 gradients over all data, by variances alone, which is weaker"),
                ({"reason": "only 2 of 4 parameters are saved"}, "not: only 2 of 4 parameters are saved")):
            with self.subTest(words):
                lines = [line.split(None, 1) for line in self.ask(answer(checks={"certificate": certificate})).out.splitlines()]
                self.assertIn(["certified", words], lines)

    def test_whether_the_target_is_met_is_told(self):
        for target, words in (({"met": True, "text": "certified: means within 0.01 sd"}, "met, certified: means within 0.01 sd"),
                              ({"met": False, "text": "missed: the mean of x is off"}, "missed: the mean of x is off"),
                              ({"met": None, "text": "not certified before the job ends"}, "not certified before the job ends")):
            with self.subTest(words):
                verdict = {**answer()["verdict"], "target": target}
                lines = [line.split(None, 1) for line in self.ask(answer(verdict=verdict)).out.splitlines()]
                self.assertIn(["target", words], lines)

    def test_the_verdict_comes_first_then_the_numbers(self):
        out = self.ask(answer()).out
        lines = out.splitlines()
        self.assertEqual(lines[0].split(None, 1), ["verdict", SENTENCE])
        self.assertIn("3 of 4 step sizes are beyond", lines[1])
        self.assertRegex(out, r"efficiency +smallest bulk ESS 512 in 1\.8s CPU time: 284\.61 "
                              r"per second, 0\.00085 per gradient")
        self.assertRegex(out, r"Stein +0 \(squared -0\.125 ± 0\.5\) at 400 draws, p 0\.21\n")
        self.assertRegex(out, r"energy +mean log density -123\.5 ± 0\.125, energy ratio 1\.02 ± 0\.03")
        self.assertRegex(out, r"noise +mild +step size 3\.8 x\n *stein +none seen +p 0\.21")
        self.assertRegex(out, r"theta\[4\] +0\.0076 +0\.002 +3\.81 +99% +3\.6 +11200 +690\.1 +5\.6 "
                              r"+0\.006")
        self.assertRegex(out, r"theta\[2\] +0\.0026( +–){8}")
        self.assertIn("more parameters with --limit N", out)

    def test_whitened_coordinates_have_their_own_names(self):
        document = answer()
        for row, coordinate in zip(document["parameters"], ("whitened[4]", "whitened[2]")):
            row["coordinate"] = coordinate
        out = self.ask(document).out
        self.assertRegex(out, r"COORDINATE +STEP +TOLERANCE +RATIO +BEYOND +VAR X +BATCH +TAU\n")
        self.assertRegex(out, r"whitened\[4\] +0\.0076 +0\.002 +3\.81 +99% +3\.6 +11200 +690\.1\n")
        self.assertNotIn("theta[2]", out)
        for row in document["parameters"]:
            row["coordinate"] = row["name"]
        self.assertRegex(self.ask(document).out, r"PARAMETER .* MEAN +VARIANCE\n *theta\[4\] ")

    def test_the_history_is_thinned_and_ends_with_the_latest(self):
        lines = self.ask(answer()).out.split("History\n")[1].splitlines()
        self.assertLessEqual(len(lines), 14)
        self.assertEqual(lines[-1].split(), ["2500", "12s", "1.004", "–", "499"])

    def test_autocorrelation_of_chosen_parameters(self):
        details = [{"name": "theta[1]", "history": None, "autocorrelation": [
            {"chain": 1, "draws": 9, "lags": [1.0, 0.5, 0.25]},
            {"chain": 2, "draws": 0, "lags": None, "reason": "fewer than 2 draws"}]}]
        out = self.ask(answer(details=details), "--params", "theta[1]").out
        self.assertEqual(self.fake.requests[-1]["query"],
                         "params=theta%5B1%5D&order=worst&limit=20")
        self.assertRegex(out, r"theta\[1\] +1 +0\.500 +0\.250( +–){6}\n")
        self.assertRegex(out, r"theta\[1\] +2( +–){8}\n")

    def test_json_is_what_the_daemon_sent_to_just_that_question(self):
        document = answer()
        result = self.ask(document, "--json")
        self.assertEqual(json.loads(result.out), document)
        self.assertEqual(self.fake.requests[-1]["query"], "")
        self.ask(document, "--json", "--order", "declared", "-n", "7")
        self.assertEqual(self.fake.requests[-1]["query"], "order=declared&limit=7")

    def test_a_job_that_has_not_run_is_refused_with_the_daemons_words(self):
        self.fake.prepare("GET", "/v1/jobs/01aa/diagnostics",
                          (409, {"title": "not now", "detail": "the job has not run yet"}))
        self.assertIn("the job has not run yet", self.barker("diagnostics", "01aa", code=REFUSED).err)

    def test_whatever_is_missing_is_left_out(self):
        for document in ({}, {"verdict": None, "checks": 3, "history": [], "parameters": "x"},
                         {"checks": None, "checks_reason": "the checks run when the job ends"},
                         answer(checks={"ksd": None, "energy": {}, "reason": "no time"})):
            with self.subTest(document=document):
                self.ask(document)

    def test_it_fits_a_terminal(self):
        self.fake.prepare("GET", "/v1/jobs/01aa/diagnostics", (200, answer()))
        terminal = self.terminal("diagnostics", "01aa", columns=70)
        terminal.finish()
        self.assertFalse(terminal.screen.wrapped)


class Watch(Case):
    def test_the_verdict_is_the_last_word_in_a_pipe(self):
        self.fake.add("01aa", state="succeeded", verdict=SENTENCE)
        self.assertEqual(self.barker("watch", "01aa").out.splitlines()[-1], SENTENCE)
        self.assertEqual(self.barker("watch", "01aa", "--quiet").out, "")
        self.fake.add("01bb", state="succeeded", verdict="mixing: fair")
        lines = self.barker("watch", "01aa", "01bb").out.splitlines()
        self.assertEqual(lines[-2:], ["01aa  " + SENTENCE, "01bb  mixing: fair"])

    def test_a_terminal_shows_it_while_the_job_runs(self):
        self.fake.add("01aa", state="running", verdict="mixing: poor (largest R-hat 1.08)")
        terminal = self.terminal("watch", "01aa", columns=60)
        terminal.until("mixing: poor")
        self.fake.update("01aa", verdict=SENTENCE, state="succeeded")
        out = terminal.finish().out
        self.assertIn("mixing: good", out)

    def test_json_lines_stay_json(self):
        self.fake.add("01aa", state="succeeded", verdict=SENTENCE)
        lines = self.barker("watch", "01aa", "--json").out.splitlines()
        self.assertEqual([json.loads(line)["verdict"] for line in lines], [SENTENCE])
