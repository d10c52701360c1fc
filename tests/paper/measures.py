"""Numbers out of the records of an experiment: one row per setting, each measure as a mean over seeds with its error."""

import math
import statistics

import predictions
import sweep

PREFIX = {"vanilla": "v-", "corrected": "c-", "extreme": "e-", "modified": "m-", None: ""}
FAMILY = {"sgbd": "SGBD", "sgld": "SGLD", "sglrw": "SGLRW"}


EXPLODED = 1e150  # in place of a moment that no double holds


class Value:
    """A mean and its Monte-Carlo standard error."""

    def __init__(self, mean, error):
        self.mean, self.error = mean, error

    def __sub__(self, other):
        return Value(self.mean - other.mean, math.hypot(self.error, other.error))

    def __truediv__(self, other):
        ratio = self.mean / other.mean
        return Value(ratio, abs(ratio) * math.hypot(self.error / self.mean if self.mean else 0, other.error / other.mean))

    def known(self):
        return math.isfinite(self.mean)


NOTHING = Value(math.nan, math.nan)


def value(samples):
    samples = [s for s in samples if s is not None and math.isfinite(s)]
    if len(samples) < 2:
        return NOTHING
    return Value(statistics.fmean(samples), statistics.stdev(samples) / math.sqrt(len(samples)))


def proportion(hits, count):
    """With the error of a binomial count, which is never taken as zero."""
    share = hits / count
    return Value(share, math.sqrt(max(share * (1 - share), 1 / (count + 4)) / count))


def sampler(setting, job):
    base = job.get("sampler") or {}
    name = setting.get("/sampler/name", base.get("name") if isinstance(base, dict) else base)
    variant = setting.get("/sampler/variant", base.get("variant") if isinstance(base, dict) else None)
    return PREFIX[variant] + FAMILY[name]


class Row:
    """A setting with its records, one per seed. `keys` is what a claim or a figure selects by."""

    def __init__(self, keys, records):
        self.keys, self.records = keys, records
        for r in records:
            for column in ("mean", "sd", "q95") if r["summary"] else ():
                r["summary"][column] = [EXPLODED if x is None else x for x in r["summary"][column]]
        self.good = [r for r in records if r["state"] == "succeeded" and r["summary"]]

    def __getitem__(self, key):
        return self.keys[key]

    def matches(self, where):
        for key, wanted in where.items():
            have = self.keys.get(key)
            if not any(sweep.is_close(have, w) for w in (wanted if isinstance(wanted, list) else [wanted])):
                return False
        return True


def mamba_row(study, result):
    """The runs of one mamba study, one per seed."""
    row = Row({"sampler": sampler({}, study["job"])}, [])
    row.runs = [run["result"] for run in result["runs"] if run["result"]]
    return row


def skew_sd(alpha):
    return math.sqrt(1 - 2 * alpha ** 2 / (math.pi * (1 + alpha ** 2)))


def skew_mean(alpha):
    return math.sqrt(2 / math.pi) * alpha / math.sqrt(1 + alpha ** 2)


def keys_of(setting, job, reference):
    """Names without slashes; for toys also in units of the target's sd."""
    keys = {pointer.rsplit("/", 1)[1]: v for pointer, v in setting.items()}
    keys["sampler"] = sampler(setting, job)
    step = keys.pop("step_size", None)
    if isinstance(step, list):
        step = round(step[0] / reference["sd"][0], 6)
    keys["sigma"] = step
    model = {**(job["model"] if isinstance(job["model"], dict) else {}),
             **{k: keys[k] for k in ("alpha", "noise_sd") if k in keys}}
    if model.get("name") == "skew_normal":
        sd = skew_sd(model["alpha"])
        keys.update(alpha=model["alpha"], sigma=round(step / sd, 4), tau=round(model["noise_sd"] / sd, 4))
    return keys


def rows(study, result, reference):
    grouped = {}
    for record in result["records"]:
        grouped.setdefault(sweep.fingerprint(record["setting"]), []).append(record)
    return [Row(keys_of(records[0]["setting"], study["job"], reference), records) for records in grouped.values()]


# ---- measures: of one record, of a row ----

def squared(x):
    return min(x * x, EXPLODED)


def first(record, column):
    return record["summary"][column][0]


def last_metric(record, name, kind="ergodic"):
    series = [c[kind].get(name) or [None] for c in record["metrics"]["chains"]]
    ends = [s[-1] for s in series]
    return statistics.fmean(ends) if all(e is not None for e in ends) else None


def mean_metric(record, name):
    """Of single draws, on average over those after warm-up."""
    found = [v for c in record["metrics"]["chains"] for v, kept in zip(c["draw"].get(name) or [], c["ergodic"][name]) if kept is not None]
    return statistics.fmean(found) if found and None not in found else None


class Measures:
    """The measures that claims and figures name, for the rows of one experiment."""

    def __init__(self, reference, exact=None, exact_rmse=None):
        self.reference, self.exact, self.exact_rmse = reference, exact, exact_rmse

    def __call__(self, name, row):
        return getattr(self, name)(row)

    # toys
    def bias(self, row):
        """Of the mean, in sds of the target."""
        return value([(first(r, "mean") - skew_mean(row["alpha"])) / skew_sd(row["alpha"]) for r in row.good])

    def bias_size(self, row):
        found = self.bias(row)
        return Value(abs(found.mean), found.error)

    def q95(self, row):
        return value([first(r, "q95") for r in row.good])

    def q95_error(self, row):
        found = self.q95(row)
        return Value(abs(found.mean - 1.6448536), found.error)

    # one parameter against the reference
    def sd_ratio(self, row, j=0):
        return value([r["summary"]["sd"][j] / self.reference["sd"][j] for r in row.good])

    def sd_ratio_2(self, row):
        return self.sd_ratio(row, 1)

    def sd_ratio_3(self, row):
        return self.sd_ratio(row, 2)

    def sd_ratio_4(self, row):
        return self.sd_ratio(row, 3)

    def sd_error(self, row):
        """|sd / reference - 1|, on average over the parameters."""
        return value([statistics.fmean(abs(s / t - 1) for s, t in zip(r["summary"]["sd"], self.reference["sd"])) for r in row.good])

    def chosen_doublings(self, row):
        """Logarithm to base 2 of the step size that mamba chooses, whose arms are spaced by equal factors."""
        return value([math.log2(run["chosen"]["step_size"]) for run in row.runs if run["chosen"]])

    # all parameters against the reference
    def mean_bias(self, row):
        """Mean over the parameters of |bias| / sd, as the paper has it: it contains each run's Monte-Carlo error."""
        ref = self.reference
        return value([statistics.fmean(min(abs(m - a) / s, EXPLODED) for m, a, s in zip(r["summary"]["mean"], ref["mean"], ref["sd"])) for r in row.good])

    def variance_ratio(self, row):
        """Median over the parameters."""
        return value([statistics.median(squared(s / t) for s, t in zip(r["summary"]["sd"], self.reference["sd"])) for r in row.good])

    def variance_error(self, row):
        """Median over the parameters of |variance ratio - 1|."""
        return value([statistics.median(abs(squared(s / t) - 1) for s, t in zip(r["summary"]["sd"], self.reference["sd"])) for r in row.good])

    def ess(self, row):
        """Median over the parameters."""
        return value([statistics.median(e or 0.0 for e in r["summary"]["ess_bulk"]) for r in row.good])

    def min_ess(self, row):
        return value([min(e or 0.0 for e in r["summary"]["ess_bulk"]) for r in row.good])

    # held out
    def log_loss(self, row):
        return value([last_metric(r, "log_loss") for r in row.good])

    def rmse(self, row):
        return value([last_metric(r, "rmse") for r in row.good])

    def rmse_draw(self, row):
        return value([mean_metric(r, "rmse") for r in row.good])

    def log_likelihood(self, row):
        return value([last_metric(r, "log_likelihood") for r in row.good])

    def log_likelihood_draw(self, row):
        return value([mean_metric(r, "log_likelihood") for r in row.good])

    def rmse_excess(self, row):
        """Over that of the exact posterior; the error of that one is far smaller."""
        return value([last_metric(r, "rmse") - self.exact_rmse for r in row.good])

    def from_exact(self, row):
        """rMS distance of averaged predictions from those of the exact posterior."""
        return value([predictions.distance(r["prediction"], self.exact) for r in row.good])

    def diverged(self, row):
        """The share of starts from which the chain ended in numbers that are not finite."""
        return proportion(sum(r["state"] == "failed" for r in row.records), len(row.records))

    def rmse_early(self, row):
        """Of a draw after a tenth of the run."""
        found = []
        for r in row.good:
            chain = r["metrics"]["chains"][0]
            at = max(0, len(chain["iteration"]) // 10 - 1)
            found.append(chain["draw"]["rmse"][at])
        return value(found)
