"""What a study file means: numbers that come from a reference, and the smaller version of a file."""

import copy
import hashlib
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


def is_close(a, b):
    return a == b or (isinstance(a, (int, float)) and isinstance(b, (int, float)) and math.isclose(a, b, rel_tol=1e-3))
