"""What one hostile user does to a daemon, all at once: attacks on memory, disk, threads and connections.

    attacks.py HOST PORT SECONDS        the token is the first line of its standard input

A process of its own, so that it and the honest client do not share an interpreter. It prepares its files and jobs,
prints "ready", attacks until its standard input ends or SECONDS are over, and prints a JSON object: for each attack
how often each status was the answer ("cut": the connection ended without one).

An attack is a function with the decorator `attack`: it yields the tricks that it needs. A trick keeps a number of
connections busy with one kind of request. All of them come from 127.0.0.1."""

import collections
import gzip
import itertools
import json
import math
import os
import random
import selectors
import socket
import subprocess
import sys
import threading
import time

MB = 1 << 20
SOURCE = "127.0.0.1"

BOMB = 100 * MB        # of text, in a gzip of some 100 kB
REFERENCE = 2 * MB     # of empty objects
HALF = 15 * MB         # of a body that never ends
FACTORS = {"users": 3000, "items": 3000, "rank": 20}  # 120 000 parameters
CHAINS = 32
TICKETS = 80

ATTACKS = []


def attack(function):
    ATTACKS.append(function)
    return function


def request(method, path, token, body=None, length=None, kind="application/json"):
    """The bytes of a request. `length` is what is announced, where it is not what is sent."""
    head = ["%s %s HTTP/1.1" % (method, path), "Host: 127.0.0.1", "Connection: close", "Authorization: Bearer " + token]
    if body is not None or length is not None:
        head += ["Content-Type: " + kind, "Content-Length: %d" % (len(body) if length is None else length)]
    return "\r\n".join(head + ["", ""]).encode() + (body or b"")


class Trick:
    """One kind of request on so many connections: each sends what `make(n)` returns as fast as it is taken, then
    `drip` (a byte a second) for ever or nothing, and reads all or, when `slow`, a byte a second. A connection that has
    ended is opened again after `pause` seconds; `most` bounds how often."""

    def __init__(self, make, connections=1, drip=b"", slow=False, pause=0.05, most=100000, seen=None):
        self.make, self.connections, self.drip, self.slow = make, connections, drip, slow
        self.pause, self.most, self.seen = pause, most, seen


class Wire:
    """A connection of a trick."""

    def __init__(self, trick):
        self.trick, self.socket, self.next = trick, None, 0.0
        self.left, self.got, self.due = memoryview(b""), bytearray(), 0.0

    def open(self, address, n):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if self.trick.slow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.settimeout(2)
        self.socket.bind((SOURCE, 0))
        self.socket.connect(address)
        self.socket.setblocking(False)
        self.left, self.got, self.due = memoryview(self.trick.make(n)), bytearray(), 0.0

    def close(self, now):
        self.socket.close()
        self.socket, self.next = None, now + self.trick.pause

    def status(self):
        line = bytes(self.got[:12]).split()
        return line[1].decode() if len(line) > 1 and line[0].startswith(b"HTTP/") else "cut"


class Runner(threading.Thread):
    """The tricks of one attack, with its own connections."""

    def __init__(self, name, tricks, enemy):
        super().__init__(name=name, daemon=True)
        self.enemy, self.select, self.counts = enemy, selectors.DefaultSelector(), collections.Counter()
        self.wires = [Wire(t) for t in tricks for _ in range(t.connections)]
        self.numbers = itertools.count()

    def run(self):
        while not self.enemy.stop.is_set():
            now = time.monotonic()
            for wire in self.wires:
                if wire.socket is None:
                    self.open(wire, now)
                elif now >= wire.due:
                    self.turn(wire, now)
            for key, events in self.select.select(0.05):
                self.move(key.data, events)
        for wire in self.wires:
            if wire.socket is not None:
                wire.socket.close()

    def open(self, wire, now):
        if now < wire.next or wire.trick.most <= 0:
            return
        wire.trick.most -= 1
        try:
            wire.open(self.enemy.address, next(self.numbers))
        except OSError:
            self.counts["cut"] += 1
            wire.close(now)
            return
        self.watch(wire)

    def watch(self, wire):
        """What to wait for. A slow reader does not wait for bytes: it takes one when it is due."""
        events = (selectors.EVENT_WRITE if wire.left else 0) | (0 if wire.trick.slow else selectors.EVENT_READ)
        known = wire.socket in self.select.get_map()
        if known and events:
            self.select.modify(wire.socket, events, wire)
        elif known:
            self.select.unregister(wire.socket)
        elif events:
            self.select.register(wire.socket, events, wire)

    def turn(self, wire, now):
        """What a connection does once a second: a byte."""
        wire.due = now + 1
        if wire.trick.slow and not wire.left:
            self.receive(wire, 1 if len(wire.got) >= 12 else 12)
        elif wire.trick.drip and not wire.left:
            wire.left = memoryview(wire.trick.drip)
            self.watch(wire)

    def move(self, wire, events):
        if events & selectors.EVENT_WRITE and wire.left:
            try:
                wire.left = wire.left[wire.socket.send(wire.left[:256 * 1024]):]
            except BlockingIOError:
                pass
            except OSError:
                wire.left = memoryview(b"")  # refused in the middle: the answer may be there all the same
            if not wire.left:
                self.watch(wire)
        if events & selectors.EVENT_READ:
            self.receive(wire, 65536)

    def receive(self, wire, size):
        try:
            data = wire.socket.recv(size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data and len(wire.got) < MB:
            wire.got += data
        if not data:
            self.ended(wire)

    def ended(self, wire):
        self.counts[wire.status()] += 1
        if wire.trick.seen:
            wire.trick.seen(wire.status(), bytes(wire.got).partition(b"\r\n\r\n")[2])
        if wire.socket in self.select.get_map():
            self.select.unregister(wire.socket)
        wire.close(time.monotonic())

    def outcome(self):
        """Also of connections that are still open and have their answer."""
        counts = collections.Counter(self.counts)
        for wire in self.wires:
            if wire.socket is not None:
                counts[wire.status() if wire.got else "open"] += 1
        return dict(counts)


class Enemy:
    """The hostile user: its token, and the files and jobs that the attacks need."""

    def __init__(self, host, port, token):
        self.address, self.token, self.stop = (host, port), token, threading.Event()
        self.jobs = []

    def ask(self, method, path, body=None, kind="application/json"):
        """One request with its answer, as (status, bytes)."""
        with socket.create_connection(self.address, 300, (SOURCE, 0)) as connection:
            connection.sendall(request(method, path, self.token, body, kind=kind))
            got = b"".join(iter(lambda: connection.recv(65536), b""))
        return int(got[9:12]), got.partition(b"\r\n\r\n")[2]

    def need(self, method, path, body=None):
        status, answer = self.ask(method, path, body)
        if status >= 300:
            raise RuntimeError("%s %s: %d %s" % (method, path, status, answer[:300]))
        return answer

    def prepare(self):
        for name, text in (("bomb.csv.gz", gzip.compress(b"x,y\n" + b"1,0\n" * (BOMB // 4), 6)),
                           ("load.csv.gz", gzip.compress(rows_text(100000), 1)), ("ratings.csv", ratings_text())):
            self.need("PUT", "/v1/datasets/" + name, text)
        names = ["parameter[%d]" % i for i in range(30000)]
        big = {"names": names, "mean": [0.125] * len(names), "sd": [1.0] * len(names)}
        self.need("PUT", "/v1/references/big", json.dumps(big).encode())
        small = {"model": {"name": "noisy_normal"}, "sampler": {"name": "sgbd", "step_size": 0.5}, "iterations": 100,
                 "warmup": 0, "chains": 1, "seed": 1}
        specs = [small] * 4 + [{**small, "iterations": 300000, "chains": 2}]
        self.jobs = [json.loads(self.need("POST", "/v1/jobs", json.dumps(s).encode()))["id"] for s in specs]
        for job in self.jobs:
            while json.loads(self.need("GET", "/v1/jobs/" + job))["state"] not in ("succeeded", "failed", "cancelled"):
                time.sleep(0.02)
        for _ in range(TICKETS):
            self.ask("POST", "/v1/tickets")
        # Chains that fit, with megabytes to save after every slice. Later there is no memory left for submissions.
        self.need("POST", "/v1/jobs", large_model_body(chains=2)(0))

    def asks(self, method, path, body=None, **options):
        """A maker of requests; `path` and `body` may be functions of the number of the request."""
        def make(n):
            where, what = (x(n) if callable(x) else x for x in (path, body))
            return request(method, where, self.token, what, **options)
        return make


def rows_text(count, seed=1):
    rng = random.Random(seed)
    return b"x,y\n" + b"".join(b"%d,%d\n" % (rng.randint(-99, 99), rng.randint(0, 1)) for _ in range(count))


def ratings_text(seed=1):
    rng, users, items = random.Random(seed), FACTORS["users"], FACTORS["items"]
    pairs = [(users, items)] + [(rng.randint(1, users), rng.randint(1, items)) for _ in range(2000)]
    return b"user,item,rating\n" + b"".join(b"%d,%d,%d\n" % (u, i, 1 + (u + i) % 5) for u, i in sorted(set(pairs)))


def job_body(path, **fields):
    return lambda n: json.dumps({"model": "logistic", "data": {"path": path}, "batch_size": 100, "warmup": 0, "chains": CHAINS,
                                 "iterations": 100000000, "thin": 1000000, "seed": n + 1,
                                 "sampler": {"name": "sgbd", "step_size": 0.001}, **fields}).encode()


def large_model_body(**fields):
    return job_body("ratings.csv", model={"name": "matrix_factorization", "rank": FACTORS["rank"]},
                    sampler={"name": "sgld", "step_size": 1e-6}, save={"params": ["mu_U[1]"]}, **fields)


# ---- memory ----

@attack
def previews(enemy):
    """A small gzip that unpacks to 100 MiB, looked into."""
    yield Trick(enemy.asks("GET", "/v1/datasets/bomb.csv.gz?rows=1000"), 12)


@attack
def references_of_empty_objects(enemy):
    """2 MB of text that take many times as much as a document."""
    body = b"[" + b",".join([b"{}"] * (REFERENCE // 3)) + b"]"
    yield Trick(enemy.asks("PUT", lambda n: "/v1/references/empty-%d" % n, body), 8)


@attack
def half_sent_bodies(enemy):
    """Bodies that nearly end, and stay."""
    text = b"[" + b"1," * (HALF // 2)
    yield Trick(enemy.asks("PUT", lambda n: "/v1/references/half-%d" % n, text, length=len(text) + 100), 16, pause=0.5)
    yield Trick(enemy.asks("POST", "/v1/jobs", b" " * 60000, length=65000), 64, pause=0.5)


@attack
def large_chains(enemy):
    """Chains of 120 000 parameters."""
    yield Trick(enemy.asks("POST", "/v1/jobs", large_model_body()), 2, pause=0.3, most=12)


@attack
def slow_readers(enemy):
    """Large replies, taken a byte a second."""
    job = enemy.jobs[-1]
    for form in ("csv", "json", "sqlite"):
        yield Trick(enemy.asks("GET", "/v1/jobs/%s/draws?format=%s" % (job, form)), 16, slow=True, pause=0.2)
    yield Trick(enemy.asks("GET", "/v1/references/big"), 16, slow=True, pause=0.2)
    yield Trick(enemy.asks("GET", "/v1/jobs/%s/trace?max_points=10000" % job), 8, slow=True, pause=0.2)


@attack
def plots_and_summaries(enemy):
    """Large documents that are computed."""
    for what in ("trace?max_points=20000", "density?bins=500", "summary?order=worst", "summary?reference=big"):
        yield Trick(enemy.asks("GET", "/v1/jobs/%s/%s" % (enemy.jobs[-1], what)), 4)


@attack
def estimates_of_large_models(enemy):
    """Models of 120 000 parameters, made and timed."""
    yield Trick(enemy.asks("POST", "/v1/jobs?validate_only=true", large_model_body(chains=1)), 16, pause=0.1)


@attack
def lists(enemy):
    """Cheap reads, as fast as they are answered."""
    for path in ("/v1/jobs?limit=500", "/v1/queue", "/v1/me", "/metrics"):
        yield Trick(enemy.asks("GET", path), 4, pause=0.02)


# ---- threads, workers and the disk ----

@attack
def plans_and_checks(enemy):
    """Jobs that keep a worker with their plan, and short ones with the checks at their end."""
    auto = {name: "auto" for name in ("iterations", "warmup", "batch_size", "thin", "precondition")}
    yield Trick(enemy.asks("POST", "/v1/jobs", job_body("load.csv.gz", sampler={"name": "sgbd"}, chains=4, **auto)), 1,
                pause=0.2, most=8)
    yield Trick(enemy.asks("POST", "/v1/jobs", job_body("load.csv.gz", chains=4, iterations=2000, thin=1)), 1, pause=0.2,
                most=30)


@attack
def data_loads(enemy):
    """Jobs whose data take long to read, each of its own preparation, with as many chains as there may be."""
    yield Trick(enemy.asks("POST", "/v1/jobs", job_body("bomb.csv.gz")), 4, pause=0.1, most=60)
    yield Trick(enemy.asks("POST", "/v1/jobs", job_body("load.csv.gz")), 4, pause=0.1, most=300)


@attack
def slow_uploads(enemy):
    """Files that come a byte a second."""
    yield Trick(enemy.asks("PUT", lambda n: "/v1/datasets/slow-%d.csv" % n, b"x,y\n", length=MB), 64, drip=b"1", pause=0.5)


@attack
def deletes_and_restores(enemy):
    """Jobs into the trash and back."""
    jobs, what = enemy.jobs[:4], (("DELETE", "/v1/jobs/%s"), ("POST", "/v1/jobs/%s/restore"))

    def make(n):
        method, path = what[n // len(jobs) % 2]
        return request(method, path % jobs[n % len(jobs)], enemy.token)

    yield Trick(make, 4)


@attack
def many_references(enemy):
    """Documents of 300 kB, until they are refused."""
    body = json.dumps({"names": ["p%d" % i for i in range(20000)], "mean": [0] * 20000, "sd": [1] * 20000}).encode()
    yield Trick(enemy.asks("PUT", lambda n: "/v1/references/many-%d" % n, body), 2, most=1000)


@attack
def tickets(enemy):
    """More sign-in tickets than there are; TICKETS of them were asked for before the others begin."""
    yield Trick(enemy.asks("POST", "/v1/tickets"), 2, pause=0.02, most=2000)


@attack
def studies(enemy):
    """Sweeps of ten thousand jobs, and grids of a megabyte full of mistakes."""
    steps = {"from": 1e-6, "to": 1e-3, "count": 100}
    job = json.loads(job_body("load.csv.gz")(0))
    grid = [{"/sampler/step_size": steps, "/seed": list(range(1, 101))}]
    body = json.dumps({"kind": "sweep", "job": job, "grid": grid}).encode()
    yield Trick(enemy.asks("POST", "/v1/studies", body), 4, pause=0.05, most=300)
    toy = {"model": "noisy_normal", "sampler": {"name": "sgbd", "step_size": 0.1}, "iterations": 200}
    quick = json.dumps({"kind": "sweep", "job": toy, "grid": grid}).encode()
    yield Trick(enemy.asks("POST", "/v1/studies", quick), 2, pause=0.05, most=300)
    bad = json.dumps({"kind": "sweep", "job": toy, "grid": [{"/nothing/%d" % n: ["x"]} for n in range(MB // 24)]}).encode()
    yield Trick(enemy.asks("POST", "/v1/studies", bad), 2, pause=0.1)
    near = json.dumps({"kind": "sweep", "job": toy, "grid": [{"/nothing/%d" % n: ["x"]} for n in range(2000)]}).encode()
    yield Trick(enemy.asks("POST", "/v1/studies?validate_only=true", near), 2, pause=0.05)
    yield Trick(enemy.asks("GET", "/v1/studies?limit=100"), 2, pause=0.05)


# ---- connections ----

@attack
def polls_and_streams(enemy):
    """Long polls of a job that does not change, and event streams."""
    tag = enemy.tag
    poll = ("GET /v1/jobs/%s?wait=60 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nIf-None-Match: %s\r\n\r\n"
            % (enemy.jobs[-1], enemy.token, tag)).encode()
    yield Trick(lambda n: poll, 100, pause=0.5)
    yield Trick(enemy.asks("GET", "/v1/events"), 100, slow=True, pause=0.5)


@attack
def idle_connections(enemy):
    """Connections that say nothing, or half of a head."""
    yield Trick(lambda n: b"", 150, pause=0.5)
    yield Trick(lambda n: b"GET /v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", 150, drip=b"a", pause=0.5)


# ---- running all of it ----

def job_tag(enemy):
    with socket.create_connection(enemy.address, 300, (SOURCE, 0)) as connection:
        connection.sendall(request("GET", "/v1/jobs/" + enemy.jobs[-1], enemy.token))
        head = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")[0].decode()
    return next(line.split(":", 1)[1].strip() for line in head.split("\r\n") if line.lower().startswith("etag:"))


def main(host, port, seconds):
    enemy = Enemy(host, int(port), sys.stdin.readline().strip())
    enemy.prepare()
    enemy.tag = job_tag(enemy)
    runners = [Runner(a.__name__, list(a(enemy)), enemy) for a in ATTACKS]
    print("ready", flush=True)
    for runner in runners:
        runner.start()
    threading.Thread(target=lambda: (sys.stdin.read(), enemy.stop.set()), daemon=True).start()
    enemy.stop.wait(float(seconds))
    outcome = {r.name: r.outcome() for r in runners}
    enemy.stop.set()
    for runner in runners:
        runner.join(10)
    print(json.dumps(outcome), flush=True)
    os._exit(0)  # the thread that waits for the input must not keep it


class Attack:
    """The hostile process, from outside: `with Attack(daemon, token, seconds) as a:`; a.outcome afterwards."""

    def __init__(self, daemon, token, seconds):
        self.process = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), daemon.host, str(daemon.port),
                                         str(math.ceil(seconds))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.outcome = None
        self.process.stdin.write(token + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("the attack did not begin")

    def __enter__(self):
        return self

    def running(self):
        return self.process.poll() is None

    def __exit__(self, *args):
        out, _ = self.process.communicate()  # its input ends
        self.outcome = json.loads(out) if out else {}


if __name__ == "__main__":
    main(*sys.argv[1:])
