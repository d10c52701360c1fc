"""The figures of the paper, in its order and form, from the rows of each experiment."""

import math
import statistics

import measures
import svg
from svg import Chart, legend

SIX = ("v-SGBD", "c-SGBD", "e-SGBD", "v-SGLD", "c-SGLD", "e-SGLD", "SGLRW")


def figure(panels, names, caption):
    shape = "two" if len(panels) in (2, 4) else "four" if len(panels) % 4 == 0 else ""
    return '<figure>%s<div class="panels %s">%s</div><figcaption>%s</figcaption></figure>' % (
        legend(names), shape, "".join(map(str, panels)), caption)


def present(rows, names=SIX):
    have = {r["sampler"] for r in rows}
    return [n for n in names if n in have]


def finite(xs):
    return [x for x in xs if x is not None and math.isfinite(x)]


def span(xs, fallback=(0.0, 1.0)):
    xs = finite(xs)
    return (min(xs), max(xs)) if xs else fallback


# ---- Figure 1 ----

def shrinkage(curves):
    names = ("p", "plain", "corrected")
    panels = []
    for k, c in enumerate(curves):
        title = "%s%s: δ/τ = %s" % ("Figure 1, " if k == 0 else "", c["name"], svg.number(round(c["delta"] / c["tau"], 2)))
        rows = c["rows"]
        low, high = span([r[n] for r in rows for n in names])
        chart = Chart(title, (0, max(r["z"] for r in rows)), (min(low, 0.5), max(high, 0.5)), "z", "probability of a positive move")
        chart.level(0.5)
        for n in names[1:]:
            chart.line(n + ", normal noise", [(r["z"], r[n + "_normal"]) for r in rows])
            chart.points(n, [(r["z"], r[n], r[n + "_error"]) for r in rows[1:]])
        chart.line("p", [(r["z"], r["p"]) for r in rows])
        panels.append(chart)
    caption = ("Probability of a positive move against the size z of the move, at one θ. Black: p(δ, z) with the exact gradient δ. Dots with bars of two "
               "Monte-Carlo errors: its expectation over 20 000 random minibatches, plain and corrected. Dashed: the same expectations under normal noise "
               "of the same sd τ, by quadrature. z runs to three times the noise tolerance 1.702/τ; the first panel is the coordinate of median noise, the "
               "other four (the supplement's panels) go from quiet to noisy.")
    return figure(panels, ("p", "plain", "plain, normal noise", "corrected", "corrected, normal noise"), caption)


# ---- toys ----

def skew_bias(rows, m):
    panels, names = [], present(rows)
    for tau in (1, 10):
        for sigma in (0.1, 0.5):
            some = [r for r in rows if r.matches({"tau": tau, "sigma": sigma})]
            if not some:
                continue
            chart = Chart("τ = %g sd, σ = %g sd" % (tau, sigma), span([r["alpha"] for r in some]), (0.001, 30), "a (skewness)",
                          "|bias of the mean|, sds", xlog=True, ylog=True)
            chart.level(0.2, "0.2 sd")
            for n in names:
                found = sorted((r["alpha"], m.bias_size(r)) for r in some if r["sampler"] == n)
                chart.curve(n, [(a, v.mean, v.error) for a, v in found])
            panels.append(chart)
    return figure(panels, names, "Bias of the mean of a skew normal target against its skewness. Bars: two Monte-Carlo errors. Where a bar reaches the bottom, the bias "
                  "is not distinguishable from zero.")


def skew_law(alpha):
    def density(x):
        return 2 * math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * 0.5 * math.erfc(-alpha * x / math.sqrt(2))
    return [(-1.5 + 0.02 * k, density(-1.5 + 0.02 * k)) for k in range(276)]


def of_first(row, kind):
    return next((r[kind] for r in row.records if r.get(kind)), None)


def density_of(row, name):
    found = of_first(row, "density")
    for p in (found or {}).get("parameters", []):
        if p["name"] == name and p["density"]:
            return list(zip(p["density"]["x"], p["density"]["y"]))
    return []


def skew_densities(rows):
    panels, names = [], present(rows, ("v-SGBD", "c-SGBD", "v-SGLD", "c-SGLD"))
    for sigma in sorted({r["sigma"] for r in rows}):
        chart = Chart("σ = %g sd" % sigma, (-1.5, 4), (0, 1), "θ", "density")
        chart.area(skew_law(rows[0]["alpha"]))
        for r in rows:
            if r["sigma"] == sigma and r["sampler"] in names:
                chart.line(r["sampler"], density_of(r, "theta[1]"))
        panels.append(chart)
    return figure(panels, names, "Densities of the draws for a = %g and gradient noise of one sd; grey: the target." % rows[0]["alpha"])


def heavy_tails(rows, m):
    panels, names = [], present(rows)
    for noise in ("laplace", "cauchy"):
        for sigma in (0.1, 0.5):
            some = [r for r in rows if r.matches({"noise": noise, "sigma": sigma})]
            if not some:
                continue
            chart = Chart("%s noise, σ = %g" % (noise.capitalize(), sigma), (0, max(math.log1p(r["noise_scale"]) for r in some)), (0.5, 60),
                          "log(1 + τ)", "95 % point of the draws", ylog=True)
            chart.level(1.6449, "the target's, 1.645")
            for n in names:
                found = sorted((math.log1p(r["noise_scale"]), m.q95(r)) for r in some if r["sampler"] == n)
                chart.curve(n, [(x, v.mean, v.error) for x, v in found])
            panels.append(chart)
    return figure(panels, names, "95 % point of the draws for a standard normal target whose gradient has Laplace or Cauchy noise of scale τ. The paper's range ends at 1.5. "
                  "Arrows at the edge: beyond the axis.")


# ---- sepsis ----

def trace_of(row, name):
    found = of_first(row, "trace")
    for p in (found or {}).get("parameters", []):
        if p["name"] == name:
            chain = p["chains"][0]
            return list(zip(chain["iteration"], chain["value"]))
    return []


def sepsis_rows(rows):
    wanted = (("v-SGBD", 0), ("v-SGBD", 1), ("v-SGLD", 0), ("v-SGLD", 1))
    for sampler, k in wanted:
        of_it = sorted((r["sigma"], i) for i, r in enumerate(rows) if r["sampler"] == sampler)
        if k < len(of_it):
            yield rows[of_it[k][1]]


NAMES = {1: "θ₁ (age)", 2: "θ₂ (sex)", 3: "θ₃ (episode)", 4: "θ₄ (intercept)"}


def sepsis_traces(rows, reference):
    panels = []
    for j in (1, 4):
        name = "theta[%d]" % j
        mean, sd = reference["mean"][j - 1], reference["sd"][j - 1]
        for r in sepsis_rows(rows):
            points = [(x, (v - mean) / sd) for x, v in trace_of(r, name) if v is not None]
            chart = Chart("%s: %s, σ = %s" % (NAMES[j], r["sampler"], svg.number(r["sigma"])), span([x for x, _ in points], (0, 2e5)), (-6, 6),
                          "iteration", "posterior sds from the mean")
            chart.level(2)
            chart.level(-2)
            chart.line(r["sampler"], points)
            panels.append(chart)
    return figure(panels, ("v-SGBD", "v-SGLD"), "Traces of the first seed at the paper's four step sizes, in posterior sds from the posterior mean; dashed: two sds.")


def exact_density(reference, j):
    for p in (reference.get("density") or {}).get("parameters", []):
        if p["name"] == "theta[%d]" % j and p["density"]:
            return list(zip(p["density"]["x"], p["density"]["y"]))
    return []


def sepsis_densities(rows, reference, by_sigma, caption):
    panels = []
    sigmas = sorted({r["sigma"] for r in rows}) if by_sigma else [None]
    for sigma in sigmas:
        for j in (1, 2, 3, 4):
            exact = exact_density(reference, j)
            mean, sd = reference["mean"][j - 1], reference["sd"][j - 1]
            lines = []
            for r in rows:
                if r["sampler"] in ("v-SGBD", "v-SGLD") and (sigma is None or r["sigma"] == sigma):
                    lines.append((r, [((x - mean) / sd, y * sd) for x, y in density_of(r, "theta[%d]" % j)]))
            title = NAMES[j] + (", σ = %g sd" % sigma if sigma is not None else "")
            chart = Chart(title, (-5, 5), (0, max([0.45] + [y for _, l in lines for _, y in l])), "posterior sds from the mean", "density")
            chart.area([((x - mean) / sd, y * sd) for x, y in exact])
            smallest = {}
            for r, line in lines:
                smallest.setdefault(r["sampler"], min(q["sigma"] for q, _ in lines if q["sampler"] == r["sampler"]))
                chart.line(r["sampler"], line, faint=not by_sigma and r["sigma"] > smallest[r["sampler"]])
            panels.append(chart)
    return figure(panels, ("v-SGBD", "v-SGLD"), caption)


def sd_table(rows, m, title):
    """sds against the exact ones, by coordinate."""
    d = len(m.reference["sd"])
    head = "<tr><th>sampler</th><th class=n>σ</th>%s<th class=n>smallest ESS</th></tr>" % "".join("<th class=n>sd ratio θ%s</th>" % "₁₂₃₄"[j] for j in range(d))
    body = []
    for r in sorted(rows, key=lambda r: (svg.SAMPLERS.index(r["sampler"]), r["sigma"])):
        if r.good:
            cells = "".join('<td class=n>%s</td>' % show(m.sd_ratio(r, j), 2) for j in range(d))
            body.append("<tr><td>%s</td><td class=n>%s</td>%s<td class=n>%s</td></tr>" % (r["sampler"], svg.number(r["sigma"]), cells, show(m.min_ess(r), 0)))
        else:
            body.append('<tr><td>%s</td><td class=n>%s</td><td colspan="%d">no run ended: %s</td></tr>' % (
                r["sampler"], svg.number(r["sigma"]), d + 1, r.records[0]["reason"]))
    return '<h3>%s</h3><div class="wide"><table>%s%s</table></div>' % (title, head, "".join(body))


def show(v, digits=None):
    """A value and its error, with the digits that the error allows."""
    if not v.known():
        return "–"
    if v.error >= 1e5:
        return "%s ± %s" % (svg.number(v.mean), svg.number(v.error))
    if digits is None:
        digits = max(0, min(6, 1 - math.floor(math.log10(v.error)))) if v.error and v.error > 0 else 3
    if abs(v.mean) >= 1e5:
        return svg.number(v.mean)
    return ("%.*f ± %.*f" % (digits, v.mean, digits, v.error)).replace("-", "−")


# ---- arrhythmia ----

def against_ess(rows, m, specs, caption, log_x=True):
    panels, names = [], present(rows, svg.SAMPLERS)
    for title, measure, ylabel, ylog, level, label in specs:
        found = {n: sorted(((r["sigma"], m.ess(r), m(measure, r)) for r in rows if r["sampler"] == n), key=lambda t: t[0]) for n in names}
        points = [(x.mean, y.mean) for rs in found.values() for _, x, y in rs if x.known() and y.known()]
        ys = sorted(finite([y for _, y in points] + ([level] if level else [])))
        top = min(ys[-1], 10) if ylog else ys[int(0.97 * (len(ys) - 1))]
        chart = Chart(title, span([x for x, _ in points if x > 0], (1, 10)), (ys[0], top), "ESS (median over coordinates)", ylabel, xlog=log_x, ylog=ylog)
        if level:
            chart.level(level, label)
        for n, rs in found.items():
            chart.curve(n, [(x.mean, y.mean, y.error, x.error) for _, x, y in rs if x.known() and y.known()], True)
        panels.append(chart)
    return figure(panels, names, caption)


# ---- held-out metrics along the run ----

def along(rows, metric, kind):
    """{sampler: [(iteration, mean, error)]} over the seeds that ended."""
    out = {}
    for r in rows:
        by_iteration = {}
        for record in r.good:
            for chain in record["metrics"]["chains"]:
                for i, v in zip(chain["iteration"], chain[kind].get(metric, [])):
                    if v is not None:
                        by_iteration.setdefault(i, []).append(v)
        full = max((len(v) for v in by_iteration.values()), default=0)
        out[r["sampler"]] = [(i, *pair(v)) for i, v in sorted(by_iteration.items()) if len(v) == full and full > 1]
    return out


def pair(samples):
    v = measures.value(samples)
    return v.mean, v.error


def metric_panels(rows, metric, ylabel, limits, level=None):
    panels = []
    for kind, title in (("draw", "Of single draws"), ("ergodic", "Of the average after warm-up")):
        found = along(rows, metric, kind)
        chart = Chart(title, span([i for s in found.values() for i, _, _ in s], (0, 1)), limits[kind], "iteration", ylabel)
        if level:
            chart.level(level[1 if kind == "ergodic" else 0], "exact posterior")
        for name, series in found.items():
            chart.line(name, [s[:2] for s in series])
            chart.points(name, series[:: max(1, len(series) // 8)])
        panels.append(chart)
    return panels


def metric_limits(rows, metric):
    out = {}
    for kind in ("draw", "ergodic"):
        values = sorted(y for s in along(rows, metric, kind).values() for _, y, _ in s[len(s) // 8:])
        out[kind] = (values[0], values[-1]) if values else (0, 1)
    return out


def metric_table(rows, m, draw, ergodic, digits):
    body = []
    for r in sorted(rows, key=lambda r: svg.SAMPLERS.index(r["sampler"])):
        ended = len(r.good)
        body.append("<tr><td>%s</td><td class=n>%s</td><td class=n>%d of %d</td><td class=n>%s</td><td class=n>%s</td></tr>" % (
            r["sampler"], svg.number(r["sigma"]), ended, len(r.records), show(m(draw, r), digits), show(m(ergodic, r), digits)))
    return ('<div class="wide"><table><tr><th>sampler</th><th class=n>σ</th><th class=n>runs that did not diverge</th><th class=n>a draw after warm-up</th>'
            '<th class=n>average of them</th></tr>%s</table></div>' % "".join(body))


def median(xs):
    xs = finite(xs)
    return statistics.median(xs) if xs else math.nan
