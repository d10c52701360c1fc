"""kill -9 at random moments, again and again, and what must hold after each restart.

The campaign keeps its own book of what the daemon told it: which submissions were acknowledged with
which specification, which jobs were cancelled, which tokens revoked, and how far each chain was ever
seen to be. After every kill it starts the daemon anew and holds it to that book; at the end every
job must have finished with the draws of a daemon that nobody disturbed, byte for byte."""

import os
import random
import signal
import sqlite3
import threading
import time

import harness
from harness import ENDED, Daemon

# Errors that a client sees when the daemon dies under it.
GONE = (OSError, harness.http.client.HTTPException)


class Violation(AssertionError):
    pass


def must(condition, *words):
    if not condition:
        raise Violation(" ".join(str(w) for w in words))


def specifications(rng):
    """Jobs from a moment to several seconds, of every kind of state a chain can have."""
    sampler = rng.choice([{"name": "sgbd", "variant": "corrected", "step_size": "auto"},
                          {"name": "sgbd", "variant": "vanilla", "step_size": 0.3},
                          {"name": "sgld", "variant": "modified", "step_size": 0.1},
                          {"name": "sglrw", "step_size": {"value": 0.2}},
                          {"name": "barker_mh"}, {"name": "mala"}])
    exact = sampler["name"] in ("barker_mh", "mala")
    job = {"sampler": sampler, "seed": rng.randrange(1000), "chains": rng.choice((1, 2, 3)),
           "warmup": 500}
    kind = rng.choice(("toy", "toy", "logistic", "logistic", "wide"))
    if kind == "toy":
        job.update(model={"name": "noisy_normal"}, iterations=rng.choice((2000, 5000000, 20000000)))
    elif kind == "logistic":
        job.update(model={"name": "logistic"}, data={"path": "train.csv", "test": "test.csv"},
                   metric_every=1000, iterations=rng.choice((500, 200000, 600000)))
    else:  # more columns than fit into one tile
        job.update(model={"name": "matrix_factorization", "rank": 5}, data={"path": "ratings.csv"},
                   iterations=rng.choice((500, 20000)), chains=1,
                   sampler={"name": "sgbd", "step_size": 0.001})
        exact = False
    job["thin"] = max(1, job["iterations"] // rng.choice((100, 1000)))
    if kind != "toy" and not exact:
        job["batch_size"] = 20
    # The last part of a job's life is killed into as well. What stop_when asks for here is never met.
    job["check_draws"] = rng.choice((0, 50, 400, 10000))
    job["stop_when"] = rng.choice((None, {"rhat": 1.0000001, "ess": 100000}))
    return job


def files(daemon):
    daemon.file("train.csv", harness.logistic_text(120))
    daemon.file("test.csv", harness.logistic_text(40, seed=8))
    daemon.file("ratings.csv", harness.ratings_text(100, 120, 1000))


class Book:
    """What the daemon has acknowledged. Shared by the threads of the load."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}       # id -> specification
        self.keys = {}       # idempotency key -> [specification, id or None]
        self.cancelled, self.ended = set(), set()
        self.reached = {}    # id -> {chain: iteration} ever seen
        self.revoked = []    # tokens

    def acknowledge(self, key, job_id):
        with self.lock:
            known = self.keys[key][1]
            must(known in (None, job_id), "key", key, "gave", known, "and then", job_id)
            self.keys[key][1] = job_id
            self.jobs[job_id] = self.keys[key][0]

    def see(self, job):
        with self.lock:
            seen = self.reached.setdefault(job["id"], {})
            for chain in (job["progress"] or {"chains": []})["chains"]:
                k, i = chain["chain"], chain["iteration"]
                seen[k] = max(seen.get(k, 0), i)
            if job["state"] in ENDED:
                self.ended.add(job["id"])


class Load:
    """Clients that go on until the daemon is gone: they submit, watch, cancel and revoke."""

    def __init__(self, campaign, seed):
        self.campaign, self.book, self.rng = campaign, campaign.book, random.Random(seed)
        self.over = threading.Event()
        self.violations = []
        self.threads = [threading.Thread(target=self.guard, args=(work,), daemon=True) for work in
                        (self.submit, self.submit, self.poll, self.poll, self.watch, self.cancel,
                         self.tokens)]

    def start(self):
        for t in self.threads:
            t.start()

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(harness.PATIENCE)
        if self.violations:
            raise self.violations[0]

    def guard(self, work):
        rng = random.Random(self.rng.random())
        while not self.over.is_set():
            try:
                work(rng)
            except GONE:
                time.sleep(0.01)
            except Violation as violation:
                self.violations.append(violation)
                return

    def submit(self, rng):
        self.campaign.submit(rng)
        time.sleep(rng.uniform(0.02, 0.3))

    def poll(self, rng):
        with self.book.lock:
            ids = list(self.book.jobs)
        if not ids:
            time.sleep(0.02)
            return
        with self.book.lock:
            unfinished = [i for i in ids if i not in self.book.ended]
        reply = self.campaign.alice.get("/v1/jobs/" + rng.choice(unfinished or ids))
        must(reply.status == 200, "an acknowledged job answers", reply)
        self.book.see(reply.json())
        time.sleep(0.005)

    def watch(self, rng):
        with self.campaign.alice.events() as stream:
            while not self.over.is_set():
                event = stream.next(0.2)
                if stream.ended:
                    raise OSError("gone")
                if event and event["event"] == "job.progress":
                    self.book.see(event["data"])

    def cancel(self, rng):
        time.sleep(rng.uniform(0.1, 0.5))
        with self.book.lock:
            ids = [i for i in self.book.jobs if i not in self.book.ended | self.book.cancelled]
        if not ids or rng.random() < 0.5:
            return
        job = rng.choice(ids)
        reply = self.campaign.alice.post("/v1/jobs/%s/cancel" % job)
        must(reply.status in (202, 409, 503), "cancel answers", reply)
        if reply.status == 202:
            with self.book.lock:
                self.book.cancelled.add(job)
            self.campaign.acknowledged["cancel"].set()

    def tokens(self, rng):
        time.sleep(rng.uniform(0.2, 0.8))
        admin = self.campaign.daemon.client()
        reply = admin.post("/v1/tokens", {"user": "alice", "role": "user"})
        if reply.status != 201:
            return
        made = reply.json()
        if admin.delete("/v1/tokens/" + made["id"]).status == 204:
            with self.book.lock:
                self.book.revoked.append(made["token"])
            self.campaign.acknowledged["revoke"].set()


class Campaign:
    """One daemon, many deaths."""

    def __init__(self, seed, max_jobs, say, **settings):
        self.rng, self.say, self.max_jobs = random.Random(seed), say, max_jobs
        self.settings = {"slice_ms": 30, "workers": 2, **settings}
        self.daemon = Daemon(**self.settings)
        files(self.daemon)
        self.alice = self.daemon.user("alice")
        self.book = Book()
        self.acknowledged = {k: threading.Event() for k in ("submit", "cancel", "revoke")}
        self.kills = self.recoveries = self.terms = self.interrupted = 0

    def submit(self, rng):
        """One submission with a key; what is not acknowledged is tried again with the same key."""
        with self.book.lock:
            waiting = [k for k, (_, job) in self.book.keys.items() if job is None]
            busy = len(self.book.jobs) - len(self.book.ended)
            if not waiting and (len(self.book.keys) >= self.max_jobs or busy >= 4):
                return
            key = waiting[0] if waiting else "key-%d-%d" % (len(self.book.keys), rng.randrange(10 ** 9))
            if not waiting:
                self.book.keys[key] = [specifications(rng), None]
            spec = self.book.keys[key][0]
        reply = self.alice.post("/v1/jobs", spec, headers={"Idempotency-Key": key})
        must(reply.status in (201, 503), "a submission answers", reply)
        if reply.status == 201:
            self.book.acknowledge(key, reply.json()["id"])
            self.acknowledged["submit"].set()

    # ---- one cycle ----

    def cycle(self):
        """Load, a kill at a random moment, a restart (which may be killed too), the checks."""
        load = Load(self, self.rng.random())
        load.start()
        time.sleep(self.rng.uniform(0.005, 1.2))
        if self.rng.random() < 0.4:  # right after something was promised
            promise = self.acknowledged[self.rng.choice(("submit", "cancel", "cancel", "revoke"))]
            promise.clear()
            promise.wait(1.0)
        elif self.rng.random() < 0.25:
            self.daemon.process.send_signal(signal.SIGTERM)
            time.sleep(self.rng.uniform(0, 0.3))
            self.terms += 1
        self.kill()
        load.stop()
        self.daemon.launch()
        if self.rng.random() < 0.25:
            time.sleep(self.rng.uniform(0, 0.06))
            self.kill()
            self.recoveries += 1
            self.daemon.launch()
        self.daemon.wait_ready()
        self.check()

    def kill(self):
        """It must not have died by itself before; after SIGTERM it may have ended."""
        self.daemon.kill()
        self.kills += 1
        code = self.daemon.process.returncode
        must(code in (0, -signal.SIGKILL), "the daemon ended with", code, "\n" + self.daemon.last_words())
        self.daemon.check_log()

    def check(self):
        """The book against the daemon."""
        whole = self.kills % 20 == 0
        catalogue = os.path.join(self.daemon.state, "barkerd.db")
        for job_id, spec in self.book.jobs.items():
            reply = self.alice.get("/v1/jobs/" + job_id)
            must(reply.status == 200, job_id, "was acknowledged and is gone:", reply)
            job = reply.json()
            if job["state"] in ENDED:
                self.book.ended.add(job_id)
            else:
                self.interrupted += 1
            must(job["request"]["seed"] == spec["seed"]
                 and job["request"]["iterations"] == spec["iterations"]
                 and job["request"]["sampler"]["name"] == spec["sampler"]["name"],
                 job_id, "is another job than was submitted")
            must(job["state"] != "failed", job_id, "failed:", job["reason"])
            for chain in (job["progress"] or {"chains": []})["chains"]:
                seen = self.book.reached.get(job_id, {}).get(chain["chain"], 0)
                must(chain["iteration"] >= seen, job_id, "chain", chain["chain"], "was seen at", seen,
                     "and is at", chain["iteration"])
            if job_id in self.book.cancelled:
                must(job["state"] in ("cancelling", "cancelled"), job_id,
                     "was cancelled and is", job["state"])
            path = os.path.join(self.daemon.state, "draws", job_id + ".db")
            if os.path.exists(path):
                self.check_file(path, whole)
        must(not whole or check_integrity(catalogue) == "ok", "the catalogue is damaged")
        for token in self.book.revoked[-3:]:
            # An address of its own each time: wrong tokens are limited by address.
            source = "127.3.%d.%d" % (self.rng.randrange(250), self.rng.randrange(1, 250))
            reply = harness.Client(self.daemon, token, source=source).get("/v1/me")
            must(reply.status in (401, 429), "a revoked token answers", reply)

    def check_file(self, path, whole):
        """Draws without a gap or a repeat, as many as the chain's state has."""
        db = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=30)
        try:
            db.execute("BEGIN")
            if whole:
                must(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], path, "is damaged")
            try:
                thin, = db.execute("SELECT value FROM meta WHERE key = 'thin'").fetchone()
            except (sqlite3.OperationalError, TypeError):
                return  # killed while it was being made
            for chain, iteration, draws in db.execute("SELECT chain, iteration, draws FROM chain"):
                must(draws == iteration // thin, path, "chain", chain, "has", draws, "draws at iteration",
                     iteration, "thinned by", thin)
                blocks = {}
                for block, first, count in db.execute(
                        "SELECT block, first, draws FROM tile WHERE chain = ? ORDER BY block, first",
                        (chain,)):
                    must(first == blocks.get(block, 0), path, "chain", chain, "block", block,
                         "has a tile at", first, "after", blocks.get(block, 0))
                    blocks[block] = first + count
                must(all(end == draws for end in blocks.values()), path, "chain", chain, "has tiles up to",
                     blocks, "and", draws, "draws")
        finally:
            db.close()

    # ---- the end ----

    def finish(self):
        """Every job ends; every draw is that of a daemon that was left in peace."""
        for _ in range(3):
            self.submit(self.rng)
        for key, (spec, job_id) in list(self.book.keys.items()):
            reply = self.alice.post("/v1/jobs", spec, headers={"Idempotency-Key": key})
            must(reply.status == 201, "a retry answers", reply)
            self.book.acknowledge(key, reply.json()["id"])
        count = len(self.alice.read("/v1/jobs", query={"limit": 500})["items"])
        must(count == len(self.book.keys), len(self.book.keys), "submissions made", count, "jobs")
        quiet = Daemon(**{**self.settings, "slice_ms": 500})
        files(quiet)
        other = quiet.client()
        pairs = [(job_id, other.submit(spec)) for job_id, spec in self.book.jobs.items()]
        for job_id, same in pairs:
            job = self.alice.until(job_id, lambda j: j["state"] in ENDED, "an end")
            must(job["state"] in ("succeeded", "cancelled"), job_id, job["state"], job["reason"])
            if job_id in self.book.cancelled:
                must(job["state"] == "cancelled", job_id, "was cancelled and", job["state"])
            other.wait(same)
            self.compare(job, job_id, other, same)
        must(quiet.stop() == 0, "the undisturbed daemon ended badly")
        must(self.daemon.restart() and self.daemon.stop() == 0, "no orderly end")
        result = harness.command("check", state=self.daemon.state)
        must(result.returncode == 0, "barkerd check:", result.stdout, result.stderr)

    def compare(self, job, job_id, other, same):
        """A cancelled job has the beginning of each chain."""
        mine, theirs = self.lines(self.alice, job_id), self.lines(other, same)
        must(set(mine) <= set(theirs), job_id, "has other chains")
        for chain, rows in theirs.items():
            got = mine.get(chain, [])
            if job["state"] == "succeeded":
                must(len(got) == len(rows), job_id, "has", len(got), "of", len(rows), "draws")
            must(got == rows[:len(got)], job_id, "chain", chain, "differs from an undisturbed run")
        if job["state"] == "succeeded":
            path = "/v1/jobs/%s/metrics"
            must(self.alice.read(path % job_id)["chains"] == other.read(path % same)["chains"],
                 job_id, "has other metrics")
            must(parameters(self.alice, job_id) == parameters(other, same), job_id, "has another summary")

    @staticmethod
    def lines(client, job_id):
        """The rows of the CSV without the number over all chains, by chain."""
        reply = client.get("/v1/jobs/%s/draws" % job_id, query={"format": "csv", "warmup": "true"})
        if reply.status == 409:
            return {}  # cancelled before its first slice
        must(reply.status == 200, "draws answer", reply)
        made = {}
        for line in reply.text.splitlines()[1:]:
            chain, iteration, _, values = line.split(",", 3)
            made.setdefault(chain, []).append((iteration, values))
        return made


def parameters(client, job_id):
    """What follows from the draws alone."""
    rows = client.read("/v1/jobs/%s/summary" % job_id)["parameters"]
    return [{k: v for k, v in row.items() if not k.endswith("per_second")} for row in rows]


def check_integrity(path):
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=30)
    try:
        bad = db.execute("PRAGMA foreign_key_check").fetchall()
        result = db.execute("PRAGMA integrity_check").fetchone()[0]
        return result if not bad else "foreign keys: %s" % bad
    finally:
        db.close()


def run(kills, seed=1, max_jobs=None, least=0, say=print, **settings):
    """A whole campaign, with more kills where there are fewer jobs than `least`; raises Violation."""
    campaign = Campaign(seed, max_jobs or max(8, kills // 2), say, **settings)
    while campaign.kills < kills or len(campaign.book.jobs) < least:
        campaign.cycle()
        if campaign.kills % 25 == 0:
            say("%d kills, %d jobs" % (campaign.kills, len(campaign.book.jobs)))
    campaign.finish()
    say("%d kills (%d during recovery, %d after SIGTERM), %d jobs, interrupted %d times, %d cancelled: "
        "all as it must be" % (campaign.kills, campaign.recoveries, campaign.terms,
                               len(campaign.book.jobs), campaign.interrupted,
                               len(campaign.book.cancelled)))
    return campaign
