"""The honest user of test_hostile and tests/bench/hostile: cheap requests at an even pace, and small jobs."""

import itertools
import time

from harness import ENDED, NO_TOKEN, logistic_text

SOURCE = "127.0.0.2"  # not the address of the attack
PACE = 0.05


def small_job(**fields):
    return {"model": "logistic", "data": {"path": "honest.csv"}, "sampler": {"name": "sgbd", "step_size": 0.1}, "batch_size": 40,
            "iterations": 2000, "warmup": 100, "chains": 2, "seed": 3, **fields}


class Honest:
    """Every request is kept in `seen` as (what, status or the name of an exception, seconds)."""

    def __init__(self, daemon, name="honest"):
        daemon.file("honest.csv", logistic_text(200, seed=9))
        self.user = daemon.user(name)
        self.user.source = SOURCE
        self.guest = daemon.client(NO_TOKEN, source=SOURCE)
        self.done = self.user.run(small_job())["id"]
        self.seen, self.jobs, self.ends = [], [], {}
        self.daemon, self.most_kb = daemon, 0

    def watch(self):
        """The daemon's own memory. Data that it maps from the disk cache are the kernel's to drop."""
        try:
            self.most_kb = max(self.most_kb, self.daemon.status("RssAnon"))
        except (OSError, AttributeError):
            pass  # it has ended

    def ask(self, what, method, path, body=None, client=None):
        start, reply = time.monotonic(), None
        try:
            reply = (client or self.user).request(method, path, body, timeout=60)
            result = reply.status
        except OSError as problem:
            result = type(problem).__name__
        self.seen.append((what, result, time.monotonic() - start))
        return reply.json() if reply is not None and reply.status < 300 else None

    def submit(self, **fields):
        made = self.ask("submit", "POST", "/v1/jobs", small_job(**fields))
        self.jobs += [made["id"]] if made else []

    def sign_in(self):
        made = self.ask("ticket", "POST", "/v1/tickets")
        if made:
            self.ask("redeem", "POST", "/v1/tickets/redeem", {"ticket": made["ticket"]}, self.guest)

    def look(self):
        """At the oldest job that has not ended; at the finished one when there is none."""
        job = next((j for j in self.jobs if j not in self.ends), self.done)
        about = self.ask("job", "GET", "/v1/jobs/" + job)
        if about and job in self.jobs and about["state"] in ENDED:
            self.ends[job] = about["state"]

    def live(self, requests, goes_on):
        """So many requests, then until its jobs have ended; no longer than `goes_on()` says."""
        turn = itertools.cycle([lambda: self.ask("me", "GET", "/v1/me"), self.look,
                                lambda: self.ask("summary", "GET", "/v1/jobs/%s/summary" % self.done), self.look])
        for n in itertools.count():
            begun = time.monotonic()
            self.watch()
            enough = len(self.seen) >= requests
            if not goes_on() or (enough and all(j in self.ends for j in self.jobs)):
                break
            if n % 25 == 0 and not enough:
                self.submit(seed=n + 1)
            elif n % 25 == 12:
                self.sign_in()
            else:
                next(turn)()
            time.sleep(max(0, PACE - (time.monotonic() - begun)))

    def refused(self):
        return [(what, result) for what, result, _ in self.seen if not (isinstance(result, int) and result < 300)]


def quantile(sorted_values, p):
    return sorted_values[min(len(sorted_values) - 1, int(p * len(sorted_values)))]


def latencies(seen):
    """{"n", "p50", "p99", "max"} of requests, in milliseconds; by kind, and of all."""
    kinds = {}
    for what, _, seconds in seen:
        kinds.setdefault(what, []).append(1000 * seconds)
        kinds.setdefault("all", []).append(1000 * seconds)
    return {what: {"n": len(v), "p50": quantile(sorted(v), 0.5), "p99": quantile(sorted(v), 0.99), "max": max(v)}
            for what, v in kinds.items()}


def latency_line(figures):
    return "%4d requests, p50 %.1f ms, p99 %.1f ms, largest %.1f ms" % (figures["n"], figures["p50"], figures["p99"], figures["max"])
