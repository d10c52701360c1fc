"""Jobs with a formula: files as people have them, names, priors, what is said about mistakes."""

import json
import math
import os
import random
import unittest

from harness import Case, Daemon, Table, mean, sd

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")
# The reference is made from a factor whose first level is white; of text, the first level is the first in order of bytes.
LOWBIRTH = 'low ~ age * smoke + lwt + relevel(race, "white") + ht'


def patients(rows=200):
    """Age, sex, group as text, a response that depends on all of them; two ages are missing."""
    chance, out = random.Random(8), []
    for i in range(rows):
        age, sex, group = chance.randint(20, 80), chance.choice(["m", "f"]), chance.choice(["a", "b", "c"])
        eta = -1.0 + 0.03 * (age - 50) + (0.8 if sex == "m" else 0.0) + {"a": 0.0, "b": 0.7, "c": -0.5}[group]
        sick = "yes" if chance.random() < 1.0 / (1.0 + math.exp(-eta)) else "no"
        out.append((i + 1, "NA" if i in (5, 17) else str(age), sex, group, sick))
    return out


def as_written_by_r(rows):
    """write.csv(frame)"""
    return '"","age","sex","group","sick"\n' + "".join('"%d",%s,"%s","%s","%s"\n' % row for row in rows)


def setUpModule():
    global daemon, alice
    daemon = Daemon()
    alice = daemon.client()
    daemon.file("patients.csv", as_written_by_r(patients()))


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def job(formula="sick ~ age + sex + group", path="patients.csv", **fields):
    data = {"path": path, **fields.pop("data", {})}
    return {"formula": formula, "model": "logistic", "data": data, "seed": 4, "target": {"ess": 2000, "seconds": 20}, **fields}


def summary(done):
    return alice.read("/v1/jobs/%s/summary" % done["id"])


class Names(Case):
    def test_coefficients_are_called_as_in_r_everywhere(self):
        names = ["Intercept", "age", "sexm", "groupb", "groupc"]
        done = alice.run(job())
        self.assertEqual([p["name"] for p in summary(done)["parameters"]], names)
        self.assertEqual(Table(alice.draws(done["id"])).names[-5:], names)
        picked = alice.read("/v1/jobs/%s/summary?params=age,theta[5]" % done["id"])["parameters"]
        self.assertEqual([p["name"] for p in picked], ["age", "groupc"])
        self.assertEqual(done["request"]["formula"], "sick ~ age + sex + group")

    def test_what_was_made_of_the_file_is_said(self):
        design = summary(alice.run(job()))["design"]
        self.assertEqual((design["rows"], design["complete"], design["missing"]), (200, 198, {"age": 2}))
        self.assertEqual(design["response"], {"label": "sick", "levels": ["no", "yes"]})

    def test_a_job_may_save_some_of_them(self):
        done = alice.run(job(save={"params": ["sexm", "age"]}))
        self.assertEqual([p["name"] for p in summary(done)["parameters"]], ["age", "sexm"])

    def test_names_survive_a_restart(self):
        global alice
        done = alice.run(job(iterations=2000, warmup=500, sampler="mala"))
        daemon.restart()
        alice = daemon.client()
        alice.act(done["id"], "extend", {"iterations": 4000})
        longer = alice.wait(done["id"], "succeeded", "failed")
        self.assertEqual(longer["state"], "succeeded", longer["reason"])
        self.assertEqual(summary(longer)["parameters"][1]["name"], "age")


class Files(Case):
    """The same rows, however they are written."""

    def posterior(self, text, **data):
        path = daemon.file("written.csv", text)
        done = alice.run(job(path=os.path.basename(path), data=data))
        return [(p["name"], p["mean"], p["sd"]) for p in summary(done)["parameters"]]

    def test_every_way_to_write_a_table_gives_the_same_numbers(self):
        rows = patients()
        want = self.posterior(as_written_by_r(rows))
        self.assertEqual(want, self.posterior(  # write.csv2
            '"";"age";"sex";"group";"sick"\n' + "".join(
                '"%d";%s;"%s";"%s";"%s"\n' % (i, a if a == "NA" else a + ",0", s, g, y) for i, a, s, g, y in rows)))
        self.assertEqual(want, self.posterior(  # write.table
            '"age" "sex" "group" "sick"\n' + "".join('"%d" %s "%s" "%s" "%s"\n' % row for row in rows)))
        self.assertEqual(want, self.posterior(  # pandas
            ",age,sex,group,sick\n" + "".join(
                "%d,%s,%s,%s,%s\n" % (i - 1, "" if a == "NA" else a + ".0", s, g, y) for i, a, s, g, y in rows)))
        self.assertEqual(want, self.posterior(  # a spreadsheet
            "\ufeffage;sex;note;group;sick\r\n" + "".join(
                "%s;%s;\"said; \"\"so\"\"\nand more\";%s;%s\r\n" % ("" if a == "NA" else a, s, g, y) for i, a, s, g, y in rows)))
        self.assertEqual(want, self.posterior(  # own words for missing values
            "age\tsex\tgroup\tsick\n" + "".join(
                "%s\t%s\t%s\t%s\n" % ("unknown" if a == "NA" else a, s, g, y) for i, a, s, g, y in rows),
            missing_values=["unknown"]))

    def test_large_files_go_through_the_disk_cache(self):
        rows = patients(3000)
        small = Daemon(cache_from_mb=0)
        try:
            client = small.client()
            small.file("patients.csv", as_written_by_r(rows))
            first = client.run(job())
            names = [p["name"] for p in client.read("/v1/jobs/%s/summary" % first["id"])["parameters"]]
            small.restart()
            client = small.client()
            second = client.run(job())
            again = client.read("/v1/jobs/%s/summary" % second["id"])
            self.assertEqual([p["name"] for p in again["parameters"]], names)
            self.assertEqual(again["design"]["missing"], {"age": 2})
        finally:
            self.assertEqual(small.stop(), 0)


class Models(Case):
    def test_cbind_is_the_rows_one_by_one(self):
        counts = [("a", 3, 7), ("b", 8, 2), ("c", 0, 6), ("d", 5, 5)]
        daemon.file("counts.csv", "group,good,bad\n" + "".join("%s,%d,%d\n" % row for row in counts))
        daemon.file("rows.csv", "group,y\n" + "".join(
            ("%s,1\n" % g) * good + ("%s,0\n" % g) * bad for g, good, bad in counts))
        prior = {"default": {"sd": 2}, "autoscale": False}
        one = summary(alice.run(job("cbind(good, bad) ~ 0 + group", "counts.csv", prior=prior)))
        two = summary(alice.run(job("y ~ 0 + group", "rows.csv", prior=prior)))
        for a, b in zip(one["parameters"], two["parameters"]):
            self.assertEqual(a["name"], b["name"])
            self.assertLess(abs(a["mean"] - b["mean"]), 0.15 * b["sd"])
            self.assertLess(abs(a["sd"] / b["sd"] - 1), 0.15)

    def test_gaussian_is_least_squares_where_the_data_speak(self):
        chance, x = random.Random(2), [i / 10 for i in range(400)]
        y = [3.0 + 0.5 * v + chance.gauss(0, 2) for v in x]
        daemon.file("line.csv", "x,y\n" + "".join("%.6g,%.6g\n" % pair for pair in zip(x, y)))
        done = alice.run(job("y ~ x", "line.csv", model="gaussian"))
        found = {p["name"]: p for p in summary(done)["parameters"]}
        mx, my = mean(x), mean(y)
        slope = sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)
        self.assertLess(abs(found["x"]["mean"] - slope), 0.1 * found["x"]["sd"])
        self.assertLess(abs(found["Intercept"]["mean"] - (my - slope * mx)), 0.1 * found["Intercept"]["sd"])
        self.assertAlmostEqual(found["Intercept"]["prior"]["mean"], my, places=3)
        self.assertAlmostEqual(found["x"]["prior"]["sd"] / (2.5 * sd(y) / sd(x)), 1.0, places=2)
        self.assertLess(found["x"]["prior"]["narrowed_to"], 0.1)

    def test_offset_and_weights(self):
        daemon.file("events.csv", "n,exposure,w\n" + "".join("%d,%d,%d\n" % row for row in [(3, 1, 1), (7, 2, 2), (1, 1, 0), (12, 4, 1)]))
        done = alice.run(job("n ~ 1 + offset(log(exposure))", "events.csv", model="poisson", data={"weights": "w"},
                             prior={"Intercept": {"mean": 0, "sd": 100}}))
        level = summary(done)["parameters"][0]["mean"]
        self.assertLess(abs(level - math.log((3 + 2 * 7 + 12) / (1 + 2 * 2 + 4))), 0.06)

    @unittest.skipUnless(os.path.exists(SHARED), "skipped: ../shared is not there")
    def test_low_birth_weight_is_that_of_stan(self):
        with open(os.path.join(SHARED, "references/lowbirth_posterior.json")) as file:
            reference = json.load(file)
        with open(os.path.join(SHARED, "data/lowbirth.csv")) as file:
            daemon.file("lowbirth.csv", file.read())
        for sampler in ("auto", "sgbd"):
            done = alice.run({"formula": LOWBIRTH, "model": "logistic", "data": {"path": "lowbirth.csv"}, "sampler": sampler, "seed": 3})
            found = summary(done)["parameters"]
            self.assertEqual([p["name"].replace('relevel(race, "white")', "race") for p in found], reference["parameters"])
            for p, m, s in zip(found, reference["mean"], reference["sd"]):
                self.assertLess(abs(p["mean"] - m), 0.05 * s, p["name"])
                self.assertLess(abs(p["sd"] / s - 1), 0.04, p["name"])


class Priors(Case):
    def test_priors_by_name_replace_the_usual_ones(self):
        prior = {"age": {"mean": 0.5, "sd": 0.0001}, "Intercept": {"mean": -1, "sd": 0.001}, "default": {"sd": 1}}
        done = alice.run(job(prior=prior))
        found = {p["name"]: p for p in summary(done)["parameters"]}
        self.assertAlmostEqual(found["age"]["mean"], 0.5, places=3)
        self.assertEqual(found["age"]["prior"]["sd"], 0.0001)
        self.assertLess(found["sexm"]["prior"]["sd"], 2.5)
        rows = [r for r in patients() if r[1] != "NA"]
        means = [mean([float(r[1]) for r in rows]), mean([r[2] == "m" for r in rows]),
                 mean([r[3] == "b" for r in rows]), mean([r[3] == "c" for r in rows])]
        middle = found["Intercept"]["mean"] + sum(m * found[n]["mean"] for m, n in zip(means, ("age", "sexm", "groupb", "groupc")))
        self.assertAlmostEqual(middle, -1, places=2, msg="the intercept's prior is at the means of the columns")
        self.assertEqual(done["request"]["prior"], prior)

    def test_sds_are_taken_as_they_are_without_autoscale(self):
        found = summary(alice.run(job(prior={"autoscale": False})))["parameters"]
        self.assertEqual([p["prior"]["sd"] for p in found], 5 * [2.5])


class Weights(Case):
    ROWS = [(1, 0.5, 2), (0, 1.5, 1), (1, 2.5, 3), (0, 3.5, 2), (1, 0.25, 1), (0, 2.0, 2)]

    def design(self, name, text, formula="y ~ x", **fields):
        daemon.file(name, text)
        return summary(alice.run(job(formula, name, **fields)))["design"]

    def test_priors_see_a_row_of_weight_two_twice(self):
        heavy = self.design("heavy.csv", "y,x,w\n0,100,0\n" + "".join("%d,%g,%d\n" % r for r in self.ROWS), data={"weights": "w"})
        twice = self.design("twice.csv", "y,x\n" + "".join(("%d,%g\n" % r[:2]) * r[2] for r in self.ROWS))
        for a, b in zip(heavy["priors"], twice["priors"]):
            self.assertAlmostEqual(a["mean"], b["mean"], places=9)
            self.assertAlmostEqual(a["sd"] / b["sd"], 1, places=9)

    def test_rows_without_a_weight_are_left_out_and_counted(self):
        text = "y,x,w\n0,100,NA\nNA,1,NA\n" + "".join("%d,%g,%d\n" % r for r in self.ROWS)
        design = self.design("holes.csv", text, data={"weights": "w"})
        self.assertEqual((design["rows"], design["complete"], design["missing"]), (8, 6, {"y": 1, "w": 2}))
        refused = alice.post("/v1/jobs", job("y ~ x", "holes.csv", data={"weights": "w", "missing": "error"}))
        self.assertEqual(refused.status, 422, refused)

    def test_the_prior_of_the_intercept_knows_the_offset(self):
        design = self.design("exposed.csv", "n,e\n4,2\n6,2\n20,16\n", "n ~ 1 + offset(log(e))", model="poisson")
        self.assertAlmostEqual(design["priors"][0]["mean"], math.log(30 / 20), places=9)


class Mistakes(Case):
    def refused(self, spec, pointer, *words):
        answer = alice.post("/v1/jobs", spec)
        self.assertEqual(answer.status, 422, answer)
        found = [e for e in answer.json()["errors"] if e["pointer"] == pointer]
        self.assertTrue(found, answer)
        for word in words:
            self.assertIn(word, found[0]["detail"])

    def test_a_mistake_in_a_formula_has_its_place(self):
        self.refused(job("sick ~ agee + sex"), "/formula", "age", "sick ~ agee + sex\n       ^")
        self.refused(job("sick ~ age +"), "/formula")
        self.refused(job("sick ~ log(sex)"), "/formula", "sex")
        self.refused(job("sick ~ age + (1 | group)"), "/formula", "not yet")

    def test_what_does_not_go_together(self):
        self.refused(job(data={"response": "sick"}), "/data/response", "formula")
        self.refused(job(data={"columns": ["age"]}), "/data/columns", "formula")
        self.refused(job(model={"name": "logistic", "prior_sd": 2}), "/model/prior_sd", "prior")
        self.refused(job(prior={"agee": {"sd": 1}}), "/prior/agee", "age")
        self.refused(job(prior={"age": {"sd": -1}}), "/prior/age/sd")
        self.refused(job(prior={"age": {"scale": 1}}), "/prior/age")
        self.refused(job(data={"weights": "w"}), "/data/weights")
        self.refused(job(data={"missing": "error"}), "/data/missing", "2 of 200", "age")
        self.refused(job(model="ica"), "/formula")
        self.refused(job(model="binomal"), "/model", "binomial")
        spec = job(prior={"age": {"sd": 1}})
        del spec["formula"]
        self.refused(spec, "/prior", "formula")

    def test_a_response_must_suit_the_model(self):
        daemon.file("kinds.csv", "y,three,k,m,x\n" + "".join("%g,%s,%d,%d,%g\n" % (i * 0.5, "abc"[i % 3], i, 5, i % 4) for i in range(12)))
        self.refused(job("three ~ x", "kinds.csv"), "/formula", "three", "3 values")
        self.refused(job("three ~ x", "kinds.csv", model="gaussian"), "/formula", "three", "text")
        self.refused(job("cbind(k, m) ~ x", "kinds.csv", model="poisson"), "/formula", "cbind")
        self.refused(job("y ~ x", "kinds.csv", model="gaussian", data={"weights": "three"}), "/data/weights", "text")

    def test_names_that_mean_two_things(self):
        daemon.file("twice_named.csv", "y,g,gb,log_sigma,a,a\n" + "".join("%g,%s,%d,%g,1,2\n" % (i * 0.5, "ab"[i % 2], i % 5, i % 3) for i in range(12)))
        self.refused(job("y ~ g + gb", "twice_named.csv", model="gaussian"), "/formula", "two coefficients", "gb")
        self.refused(job("y ~ log_sigma", "twice_named.csv", model="gaussian"), "/formula", "log_sigma")
        self.refused(job("y ~ a", "twice_named.csv", model="gaussian"), "/data/path", "a")
        self.refused(job("y ~ .", "twice_named.csv", model="gaussian"), "/data/path", "a")

    def test_names_of_priors(self):
        self.refused(job(prior={"age": {"sd": None}}), "/prior/age", "empty")
        self.refused(job(prior={"a/b~": {"sd": 1}}), "/prior/a~1b~0", "default", "Intercept")
        self.assertTrue(alice.post("/v1/jobs", job(prior={"\u20ac" * 100: {"sd": 1}})).json()["errors"])
        self.refused(job(data={"weights": "\u20ac" * 80}), "/data/weights", "\u20ac")
        done = alice.run(job(prior={"theta[2]": {"sd": 0.001}}))
        self.assertEqual(summary(done)["parameters"][1]["prior"]["sd"], 0.001)

    def test_too_many_columns_are_a_mistake(self):
        daemon.file("many.csv", "y,g\n" + "".join("%d,l%d\n" % (i % 2, i) for i in range(60000)))
        self.refused(job("y ~ g", "many.csv"), "/formula", "60000 columns", "levels")

    def test_all_mistakes_of_a_file_come_at_once(self):
        daemon.file("bad.csv", "y,x\n1,2\n0,Inf\n1\n0,1e999\n")
        answer = alice.post("/v1/jobs", job("y ~ x", "bad.csv"))
        self.assertEqual(answer.status, 422, answer)
        details = [e["detail"] for e in answer.json()["errors"]]
        for line in ("line 3", "line 4", "line 5"):
            self.assertTrue(any(line in d for d in details), details)

    def test_columns_that_are_not_used_may_hold_anything(self):
        daemon.file("odd.csv", 'y,x,note\n1,2,"anything, at all"\n0,1,Inf\n1,3,\n0,2,1e999\n')
        self.assertEqual(alice.run(job("y ~ x", "odd.csv"))["state"], "succeeded")


if __name__ == "__main__":
    unittest.main()
