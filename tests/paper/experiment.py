"""Runs the experiments of tests/paper/experiments: every study of every file whose data are there."""

import json
import os
import subprocess

import laboratory
import shrinkage
import sweep

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "experiments")
ORDER = ("shrinkage", "skew_normal", "heavy_tails", "sepsis", "arrhythmia", "movielens", "ica")


def load(name, small):
    with open(os.path.join(FOLDER, name + ".json")) as file:
        document = json.load(file)
    if small:
        return sweep.smaller(document)
    document.pop("small", None)
    return document


class Outcome:
    """Of one experiment: its file, its reference, the results of its studies, what was left out and why."""

    def __init__(self, name, document):
        self.name, self.document = name, document
        self.gibbs = None
        self.reference, self.stan, self.results, self.left_out = None, None, {}, {}

    def cpu(self):
        return sum(r["cpu"] or 0.0 for s in self.results.values() for r in s.get("records", []))

    def jobs(self):
        return sum(len(s.get("records", [])) for s in self.results.values())


class Run:
    def __init__(self, folder, data, references, small, say):
        self.folder, self.data, self.references, self.small, self.say = folder, data, references, small, say
        self.lab = laboratory.Laboratory(folder, say)
        self.asked = 0  # questions that no earlier run had answered

    def path(self, *names):
        return os.path.join(self.folder, "results", *names) + ".json"

    def missing(self, document):
        return [f for f in document.get("needs", []) if not os.path.exists(os.path.join(self.data, f))]

    def add_data(self, document):
        for name in document.get("needs", []):
            self.lab.add_data(os.path.join(self.data, name))

    def kept(self, path, question, answer):
        """An answer, from an earlier run if there is one to the same question."""
        key = sweep.fingerprint(question)
        value = laboratory.stored(path, key)
        if value is None:
            self.asked += 1
            value = answer()
            laboratory.store(path, key, value)
        return value

    def stan(self, name):
        path = os.path.join(self.references, name or "-")
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return {k: v for k, v in json.load(file).items() if k in ("mean", "sd", "ess_mean", "ess_sd")}

    def experiment(self, name):
        document = load(name, self.small)
        outcome = Outcome(name, document)
        missing = self.missing(document)
        if missing:
            outcome.left_out["all"] = "no %s in %s" % (", ".join(missing), self.data)
            return outcome
        self.add_data(document)
        if "reference" in document:
            wanted = {"density": ["theta[%d]" % j for j in range(1, 5)]}
            record = self.kept(self.path(name, "reference"), [document["reference"], self.data],
                               lambda: self.lab.reference(name, document["reference"], wanted))
            outcome.reference = {**record["summary"], "density": record["density"], "metrics": record.get("metrics")}
            outcome.stan = self.stan(document.get("stan"))
        if "gibbs" in document:
            outcome.gibbs = self.gibbs(document)
        for study_name, study in document["studies"].items():
            self.one(outcome, study_name, sweep.resolved(study, outcome.reference))
        return outcome

    def gibbs(self, document):
        """The exact posterior of the factorisation: one entry per chain."""
        train, test = (os.path.join(self.data, f) for f in document["needs"])
        sweeps, chains = document["gibbs"]["sweeps"], document["gibbs"]["chains"]
        program = os.path.join(laboratory.harness.BUILD, "bench-gibbs")

        def answer():
            self.say("%s: Gibbs sampler, %d sweeps" % (document["title"], sweeps))
            running = [subprocess.Popen([program, train, test, str(sweeps), str(seed + 1)], stdout=subprocess.PIPE) for seed in range(chains)]
            return [json.loads(p.communicate()[0]) for p in running]

        return self.kept(self.path("movielens", "gibbs"), [train, test, sweeps, chains], answer)

    def one(self, outcome, name, study):
        document = outcome.document
        wanted = {kind: document.get(kind, {}).get(name) for kind in ("trace", "density")}
        if name in document.get("predict", []):
            wanted["predict"] = os.path.join(self.data, document["needs"][1])

        def progress(done, all_of_them):
            self.say("%s: %s, %d of %d" % (document["title"], name, done, all_of_them), done == all_of_them)

        try:
            outcome.results[name] = self.kept(self.path(outcome.name, name), [study, wanted, self.data],
                                              lambda: self.lab.study(study, wanted, progress))
        except laboratory.Refused as refusal:
            outcome.left_out[name] = str(refusal)
            self.say("%s: %s left out: %s" % (document["title"], name, refusal), True)

    def shrinkage(self, arrhythmia):
        """Figure 1 needs the data and a reference of the arrhythmia experiment; without, a made-up regression."""
        path = os.path.join(self.data, "arrhythmia_train.csv")
        if arrhythmia is not None and arrhythmia.reference and os.path.exists(path):
            names, X, y = shrinkage.read(path)
            theta, sd = arrhythmia.reference["mean"], arrhythmia.reference["sd"]
        else:
            names, X, y = shrinkage.made_up()
            theta, sd = shrinkage.mode(X, y)
        with open(shrinkage.__file__) as file:
            question = [path if os.path.exists(path) else None, theta, sd, self.small, file.read()]
        minibatches = shrinkage.MINIBATCHES // (10 if self.small else 1)
        return self.kept(self.path("shrinkage"), question,
                         lambda: shrinkage.figure(names, X, y, theta, sd, minibatches=minibatches))
