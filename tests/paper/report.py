"""The report: claims with their verdicts, the figures, where we differ from the paper, what was left out."""

import html
import json
import os
import platform
import statistics

import claims
import figures
import measures
import predictions
import svg

HERE = os.path.dirname(os.path.abspath(__file__))


class Curves:
    """Figure 1 as a row of measures."""

    def __init__(self, curves):
        self.curves = curves
        self.keys = {}

    def matches(self, where):
        return not where

    def __getitem__(self, key):
        return self.keys[key]


class CurveMeasures:
    def __call__(self, name, row):
        return getattr(self, name)(row)

    def inside(self, row):
        return [(c, r) for c in row.curves for r in c["rows"] if 0 < r["ratio"] <= 1]

    def overshoot(self, row):
        """By how much E phat is farther from 1/2 than p, at most, up to the noise tolerance."""
        found = [(abs(r["plain"] - 0.5) - abs(r["p"] - 0.5), r["plain_error"]) for c, r in self.inside(row)]
        return measures.Value(*max(found))

    def corrected_error(self, row):
        return measures.Value(max(abs(r["corrected_normal"] - r["p"]) for c, r in self.inside(row)), 0.0)

    def corrected_minibatch(self, row):
        """The same with minibatches in place of normal noise."""
        found = [(abs(r["corrected"] - r["p"]), r["corrected_error"]) for c, r in self.inside(row) if r["ratio"] < 1]
        return measures.Value(*max(found))


class Section:
    """One experiment: rows by study, and its measures."""

    def __init__(self, outcome):
        self.outcome = outcome
        exact = [statistics.fmean(p) for p in zip(*(g["prediction"] for g in outcome.gibbs))] if outcome.gibbs else None
        rmse = statistics.fmean(g["rmse"] for g in outcome.gibbs) if outcome.gibbs else None
        self.m = measures.Measures(outcome.reference, exact, rmse)
        self.rows = {name: measures.rows(outcome.document["studies"][name], result, outcome.reference)
                     for name, result in outcome.results.items() if "records" in result}
        mamba = [measures.mamba_row(outcome.document["studies"][name], result) for name, result in outcome.results.items() if "runs" in result]
        if mamba:
            self.rows["mamba"] = mamba


class Report:
    def __init__(self, outcomes, curves, small, seconds, asked):
        self.outcomes, self.curves, self.small, self.seconds, self.asked = outcomes, curves, small, seconds, asked
        self.sections = {name: Section(o) for name, o in outcomes.items() if o.results}
        self.judged = self.judge()

    def judge(self):
        which, out = "small" if self.small else "full", []
        for claim in claims.load():
            if which not in claim:
                continue
            name = claim["experiment"]
            if name == "shrinkage" and self.curves is not None:
                out.append(claims.judge(claim, [Curves(self.curves)], CurveMeasures()))
            elif name in self.sections and claim["study"] in self.sections[name].rows:
                section = self.sections[name]
                out.append(claims.judge(claim, section.rows[claim["study"]], section.m))
        return out

    def which(self):
        return "small" if self.small else "full"

    def as_expected(self):
        return all(j.as_expected(self.which()) for j in self.judged)

    def lines(self):
        for j in self.judged:
            who = j.row.keys.get("sampler", "")
            yield "%-7s %-22s %-14s %s %s" % ("ok" if j.as_expected(self.which()) else "FAILED", j.claim["id"], j.verdict,
                                              figures.show(j.value), who)
        for name, o in self.outcomes.items():
            for study, why in o.left_out.items():
                yield "left out: %s%s: %s" % (name, "" if study == "all" else " " + study, why)
        yield "%d jobs, %.0f s of processor time, %.0f s" % (sum(o.jobs() for o in self.outcomes.values()),
                                                             sum(o.cpu() for o in self.outcomes.values()), self.seconds)

    # ---- the page ----

    def claim_row(self, j):
        c = j.claim
        who = j.row.keys.get("sampler")
        value = figures.show(j.value) + (" (%s)" % who if who and isinstance(c["where"].get("sampler"), list) else "")
        mark = "" if j.as_expected(self.which()) else " unexpected"
        return ('<tr><td>%s<br><span class="soft">%s</span></td><td data-label="measured" class="n">%s<br><span class="soft">%s; bound %s %s</span></td>'
                '<td class="verdict"><span class="%s%s">%s</span></td><td data-label="why">%s</td></tr>') % (
            c["claim"], c["paper"], value, c["unit"], html.escape(c["operator"]), svg.number(c["bound"]),
            j.verdict.replace(" ", "-"), mark, j.verdict, c.get("why", ""))

    def claims_table(self, judged):
        return ('<table class="claims"><thead><tr><th>claim</th><th class="n">measured, ± one standard error</th><th>verdict</th><th>why</th></tr></thead>'
                '<tbody>%s</tbody></table>' % "".join(self.claim_row(j) for j in judged))

    def claims(self):
        held = [j for j in self.judged if j.verdict == "holds"]
        rest = [j for j in self.judged if j.verdict != "holds"]
        out = ['<h2 id="claims">The claims</h2><p>A claim <b>holds</b> or <b>does not hold</b> if the measured value is beyond the bound by four Monte-Carlo standard errors; '
               "otherwise the difference is <b>within noise</b>. Errors come from independent seeds. Where a claim speaks of several samplers, the one that is "
               "worst for the claim is shown.</p>", self.claims_table(held)]
        if rest:
            out.append("<h3>Does not hold, or cannot be told from noise</h3>" + self.claims_table(rest))
        return "".join(out)

    def skew_normal(self, s):
        yield figures.skew_bias(s.rows["bias"], s.m)
        yield figures.skew_densities(s.rows["densities"])

    def heavy_tails(self, s):
        yield figures.heavy_tails(s.rows["tails"], s.m)

    def sepsis(self, s):
        ref = s.m.reference
        yield self.stan_note(s)
        if "steps" in s.rows:
            yield figures.sepsis_traces(s.rows["steps"], ref)
            yield figures.sepsis_densities(s.rows["steps"], ref, False, "Densities at the four step sizes (thin lines: the doubled ones); grey: the exact posterior.")
            yield figures.sd_table(s.rows["steps"], s.m, "One step size for all coordinates")
        if "preconditioned" in s.rows:
            yield figures.sepsis_densities(s.rows["preconditioned"], ref, True, "The same with step sizes of 0.1 and 0.2 posterior sds of each coordinate.")
            yield figures.sd_table(s.rows["preconditioned"], s.m, "A step size for each coordinate")
        if "whitened" in s.rows:
            yield figures.sd_table(s.rows["whitened"], s.m, "The same control variates and whitening for every sampler")
        yield self.mamba(s)

    def mamba(self, s):
        """The step sizes that were chosen, and all arms of the first seed."""
        out = []
        for row in s.rows.get("mamba", []):
            arms = "".join("<tr><td class=n>%s</td>%s</tr>" % (svg.number(a["step_size"]), "".join(
                "<td class=n>%s</td><td class=n>%s</td>" % tuple("–" if x[k] is None else svg.number(x[k]) for k in ("fssd", "variance_check")) for x in a["scores"]))
                for a in row.runs[0]["arms"])
            steps = ", ".join(svg.number(run["chosen"]["step_size"]) if run["chosen"] else "none" for run in row.runs)
            out.append('<h3>MAMBA, %s</h3><p>Chosen, seed by seed: %s. The first seed: %s.</p><div class="wide"><table><tr><th class=n>step size</th><th class=n>FSSD</th>'
                       "<th class=n>variance check</th><th colspan=8>and in later rounds</th></tr>%s</table></div>" % (
                           row["sampler"], steps, html.escape(row.runs[0]["sentence"]), arms))
        return "".join(out)

    def arrhythmia(self, s):
        yield self.stan_note(s)
        exact = self.exact_metric(s, "log_loss")
        specs = [("ESS against bias of means", "mean_bias", "mean |bias| / sd", True, None, ""),
                 ("ESS against bias of variances", "variance_error", "median |variance ratio − 1|", True, None, ""),
                 ("ESS against log-loss", "log_loss", "held-out log-loss", False, exact, "exact posterior")]
        for study, caption in (("steps", "Every point is a step size; from left to right steps grow. Bars: two Monte-Carlo errors over seeds, in both directions. The bias of one run "
                                "contains its Monte-Carlo error, about √(2/(π ESS)), as in the paper."),
                               ("whitened", "The same samplers with the same control variates and whitening.")):
            if study in s.rows:
                yield figures.against_ess(s.rows[study], s.m, specs, caption)
        if "published" in s.rows:
            yield self.published(s)

    PUBLISHED = {"v-SGBD": (0.55, 2.86, 0.480), "c-SGBD": (0.44, 1.77, 0.470), "e-SGBD": (0.43, 0.31, 0.452), "v-SGLD": (0.53, 2.07, 0.488), "c-SGLD": (0.16, 0.95, 0.487)}

    def published(self, s):
        body = []
        for r in s.rows["published"]:
            theirs = self.PUBLISHED.get(r["sampler"], (None,) * 3)
            cells = "".join("<td class=n>%s</td><td class=n>%s</td>" % (figures.show(s.m(name, r), 3), "–" if t is None else t)
                            for name, t in zip(("mean_bias", "variance_ratio", "log_loss"), theirs))
            body.append("<tr><td>%s</td><td class=n>%s</td>%s<td class=n>%s</td></tr>" % (r["sampler"], svg.number(r["sigma"]), cells, figures.show(s.m.ess(r), 0)))
        return ('<h3>At the paper’s step sizes</h3><div class="wide"><table><tr><th>sampler</th><th class=n>σ</th><th class=n>mean |bias| / sd</th><th class=n>theirs</th>'
                "<th class=n>median variance ratio</th><th class=n>theirs</th><th class=n>log-loss</th><th class=n>theirs</th><th class=n>median ESS</th></tr>%s</table></div>"
                '<p class="soft">Theirs: one run of the authors’ code.</p>' % "".join(body))

    def exact_metric(self, s, name):
        record = {"metrics": s.m.reference.get("metrics")} if s.m.reference else {}
        try:
            return measures.last_metric(record, name)
        except (KeyError, TypeError):
            return None

    def movielens(self, s):
        rows, gibbs = s.rows.get("paper", []) + s.rows.get("more", []), s.outcome.gibbs or []
        level = [statistics.fmean(g[k] for g in gibbs) for k in ("rmse_draw", "rmse")] if gibbs else None
        yield figures.figure(figures.metric_panels(rows, "rmse", "held-out rMSE", {"draw": (1.0, 1.6), "ergodic": (0.94, 1.12)}, level), figures.present(rows),
                             "Mean over the seeds whose chains did not diverge; bars: two Monte-Carlo errors. Dashed: the exact posterior, by a Gibbs sampler.")
        yield figures.metric_table(rows, s.m, "rmse_draw", "rmse", 4)
        if "starts" in s.rows:
            yield "<p>Chains that ended in numbers that are not finite within 200 iterations from the paper’s start: %s.</p>" % ", ".join(
                "%s %d of %d" % (r["sampler"], len(r.records) - len(r.good), len(r.records)) for r in s.rows["starts"])
        if gibbs:
            yield self.against_gibbs(s, gibbs)

    def against_gibbs(self, s, gibbs):
        apart = statistics.fmean(predictions.distance(g["prediction"], s.m.exact) for g in gibbs)
        body = []
        for study, length in (("predictions", 5000), ("long", 30000)):
            for r in s.rows.get(study, []):
                rmse = figures.show(s.m.rmse(r), 4) if study == "long" else self.rmse_of(s, r["sampler"])
                body.append("<tr><td>%s</td><td class=n>%d</td><td class=n>%s</td><td class=n>%s</td></tr>" % (
                    r["sampler"], length, figures.show(s.m.from_exact(r), 3), rmse))
        return ("<h3>Lower rMSE is not less bias</h3><p>A Gibbs sampler knows all conditionals of this model, so its predictions are those of the exact posterior: held-out rMSE %.4f "
                "(%d chains from far starts; the averaged predictions of one are %.3f from those of all). Distance is the root mean square difference between a chain’s averaged "
                "predictions and the exact posterior’s, over the 20 000 held-out ratings. After 5000 iterations chains are on their way. After 30 000 an rMSE below the exact posterior’s "
                "is bias, not accuracy: the model trusts ratings too much (α = 3), and a law wider than the posterior compensates.</p>"
                '<div class="wide"><table><tr><th>sampler</th><th class=n>iterations</th><th class=n>distance from the exact predictions</th><th class=n>held-out rMSE</th></tr>%s'
                "<tr><td>exact posterior</td><td></td><td class=n>0</td><td class=n>%.4f</td></tr></table></div>") % (
                    s.m.exact_rmse, len(gibbs), apart, "".join(body), s.m.exact_rmse)

    def rmse_of(self, s, sampler):
        rows = s.rows.get("paper", []) + s.rows.get("more", [])
        return next((figures.show(s.m.rmse(r), 4) for r in rows if r["sampler"] == sampler), "–")

    def ica(self, s):
        rows = s.rows["paper"]
        yield figures.figure(figures.metric_panels(rows, "log_likelihood", "held-out log likelihood per row", figures.metric_limits(rows, "log_likelihood")),
                             figures.present(rows), "Mean over seeds; bars: two Monte-Carlo errors.")
        yield figures.metric_table(rows, s.m, "log_likelihood_draw", "log_likelihood", 5)

    def stan_note(self, s):
        ref, stan = s.m.reference, s.outcome.stan
        text = "Reference: an exact sampler of barkerd on all rows."
        if stan:
            worst = max(abs(a - b) / t for a, b, t in zip(ref["mean"], stan["mean"], stan["sd"]))
            ratio = max(abs(a / b - 1) for a, b in zip(ref["sd"], stan["sd"]))
            text += " Against Stan’s posterior its means differ by at most %.3f sd and its sds by at most %.1f %%, which is Monte-Carlo error of both." % (worst, 100 * ratio)
        return "<p>%s</p>" % text

    TITLES = {"shrinkage": "Shrinkage of the probability of a move"}

    def section(self, name):
        outcome = self.outcomes.get(name)
        title = self.TITLES.get(name) or outcome.document["title"]
        head = '<h2 id="%s">%s</h2>' % (name, html.escape(title))
        if name == "shrinkage":
            return head + figures.shrinkage(self.curves)
        out = [head]
        for study, why in outcome.left_out.items():
            out.append('<p class="box">Left out%s: %s</p>' % ("" if study == "all" else " (%s)" % study, html.escape(why)))
        if name in self.sections:
            out.extend(getattr(self, name)(self.sections[name]))
        return "".join(out)

    def names(self):
        return (["shrinkage"] if self.curves is not None else []) + list(self.outcomes)

    def errata(self):
        with open(os.path.join(HERE, "errata.json")) as file:
            found = json.load(file)
        items = "".join("<li><b>%s</b> %s</li>" % (e["what"], e["ours"]) for e in found)
        return '<h2 id="errata">Where we differ from the paper or its code</h2><ol>%s</ol>' % items

    def contents(self):
        entries = [("claims", "The claims")] + [(n, self.TITLES.get(n) or self.outcomes[n].document["title"]) for n in self.names()]
        entries += [("errata", "Where we differ")]
        return "<nav><ol>%s</ol></nav>" % "".join('<li><a href="#%s">%s</a></li>' % e for e in ((i, html.escape(t)) for i, t in entries))

    def page(self):
        with open(os.path.join(HERE, "page.css")) as file:
            css = file.read()
        count = lambda v: sum(j.verdict == v for j in self.judged)
        jobs, cpu = sum(o.jobs() for o in self.outcomes.values()), sum(o.cpu() for o in self.outcomes.values())
        lead = ("%d jobs of a private barkerd, %.0f s of processor time (%s). Of %d claims %d hold, %d do not, %d cannot be told from noise." % (
            jobs, cpu, platform.machine(), len(self.judged), count("holds"), count("does not hold"), count("within noise")))
        note = '<p class="box">The reduced version: short runs on toys and made-up data.</p>' if self.small else ""
        return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
                '<link rel="icon" href="data:,"><title>Stochastic gradient Barker dynamics, measured again</title><style>%s</style></head><body><main>'
                "<h1>Stochastic gradient Barker dynamics, measured again</h1>"
                '<p class="soft">The experiments of <i>Robust Approximate Sampling via Stochastic Gradient Barker Dynamics</i> (Mauri &amp; Zanella, AISTATS 2024), '
                "with at least four seeds each. Made by <code>make paper</code>.</p><p>%s</p>%s%s%s%s%s</main></body></html>\n") % (
            css, lead, note, self.contents(), self.claims(), "".join(self.section(n) for n in self.names()), self.errata())
