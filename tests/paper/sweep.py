"""What a study file means: numbers that come from a reference, the smaller version of a file, and the jobs of a sweep."""

import copy
import hashlib
import itertools
import json
import math
import re


def fingerprint(document):
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:24]


def merged(document, patch):
    """RFC 7396: a null in the patch removes a member, an object is merged, anything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


def smaller(experiment):
    """The version of an experiment for `make test`. `only` keeps the listed values of a pointer."""
    patch = experiment.pop("small", None)
    out = merged(experiment, patch or {})
    for study in out["studies"].values():
        for pointer, values in study.pop("only", {}).items():
            for group in study["grid"]:
                if pointer in group:
                    group[pointer] = [v for v in group[pointer] if v in values]
            study["grid"] = [g for g in study["grid"] if all(g.values())]
    return out


def resolved(document, reference):
    """Replaces "@mean" and "@sd*0.1" by lists of numbers, one per parameter of the reference."""
    if isinstance(document, dict):
        return {k: resolved(v, reference) for k, v in document.items()}
    if isinstance(document, list):
        return [resolved(v, reference) for v in document]
    found = re.fullmatch(r"@(mean|sd)(?:\*([0-9.e-]+))?", document) if isinstance(document, str) else None
    if not found:
        return document
    factor = float(found.group(2) or 1)
    return [float("%.6g" % (factor * x)) for x in reference[found.group(1)]]


def values(axis):
    """Of a list, or of {"from", "to", "count"}: numbers at equal ratios."""
    if isinstance(axis, list):
        return axis
    low, high, count = axis["from"], axis["to"], axis["count"]
    return [low * (high / low) ** (k / (count - 1)) for k in range(count)]


def put(document, pointer, value):
    *path, last = pointer[1:].split("/")
    for name in path:
        document = document.setdefault(name, {})
    document[last] = value


def settings(study):
    """Every setting of a sweep: the product within each group, one group after the other."""
    for group in study["grid"]:
        for choice in itertools.product(*(values(axis) for axis in group.values())):
            yield dict(zip(group, choice))


def jobs(study):
    """(setting, job) of a sweep: all settings with the first seed, then with the next; job p has the base seed plus p."""
    grid, p = list(settings(study)), 0
    for _ in range(study.get("seeds", 1)):
        for setting in grid:
            job = copy.deepcopy(study["job"])
            for pointer, value in setting.items():
                put(job, pointer, value)
            job["seed"] = study["job"].get("seed", 1) + p
            p += 1
            job["name"] = "%s #%d" % (study["name"], p)
            yield setting, job


def is_close(a, b):
    return a == b or (isinstance(a, (int, float)) and isinstance(b, (int, float)) and math.isclose(a, b, rel_tol=1e-3))
