"""Claims are data (claims.json): a measure of some rows, a bound, and what is expected of it. A verdict needs four
Monte-Carlo standard errors either way."""

import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
ERRORS = 4


def load():
    with open(os.path.join(HERE, "claims.json")) as file:
        return json.load(file)


class Judged:
    def __init__(self, claim, verdict, value, row):
        self.claim, self.verdict, self.value, self.row = claim, verdict, value, row

    def as_expected(self, which):
        return self.verdict == self.claim[which]


def one(rows, where):
    found = [r for r in rows if r.matches(where)]
    if len(found) != 1:
        raise KeyError("%d rows match %s" % (len(found), where))
    return found[0]


def verdict_of(value, operator, bound):
    """holds, does not hold, within noise."""
    margin = (value.mean - bound) * (1 if operator == ">" else -1)
    if not value.known():
        return "not measured", margin
    if margin > ERRORS * value.error:
        return "holds", margin
    return ("does not hold" if margin < -ERRORS * value.error else "within noise"), margin


ORDER = ("not measured", "does not hold", "within noise", "holds")


def judge(claim, rows, measures):
    """The worst verdict over all rows that the claim speaks of, with the row that has it."""
    worst = None
    for row in rows:
        if not row.matches(claim["where"]):
            continue
        value = measures(claim["measure"], row)
        if "minus" in claim:
            value = value - measures(claim["measure"], one(rows, claim["minus"]))
        if "over" in claim:
            value = value / measures(claim["measure"], one(rows, claim["over"]))
        verdict, margin = verdict_of(value, claim["operator"], claim["bound"])
        rank = (ORDER.index(verdict), margin / (value.error or 1e-300))
        if worst is None or rank < worst[0]:
            worst = (rank, Judged(claim, verdict, value, row))
    if worst is None:
        raise KeyError("no row matches claim " + claim["id"])
    return worst[1]
