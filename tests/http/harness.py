"""A real daemon on a real database file, and clients that speak to it through real sockets."""

import atexit
import collections
import csv
import http.client
import io
import json
import math
import os
import random
import re
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("B", os.path.join(ROOT, "build/release")))
BARKERD = os.path.join(BUILD, "barkerd")

# Nothing is asserted about how long things take. This is when a wait is given up, and it is
# generous because sanitizers, valgrind and a busy machine may all be slow.
PATIENCE = float(os.environ.get("PATIENCE", "300"))

def sanitized():
    """Whether the daemon carries a sanitizer, whose memory is not the daemon's."""
    with open(BARKERD, "rb") as file:
        text = file.read()
    return b"__tsan_init" in text or b"__asan_init" in text


MEMORY_SLACK = 4 if sanitized() else 1  # by which a bound on memory is multiplied

ENDED = ("succeeded", "failed", "cancelled")


# ---- the daemon ----

def scratch():
    """A folder that goes away with the process, unless KEEP is set."""
    path = tempfile.mkdtemp(prefix="barkerd-test-")
    if not os.environ.get("KEEP"):
        atexit.register(shutil.rmtree, path, True)
    return path


def clean_environment():
    keep = ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "BARKER_ISA")
    return {k: os.environ[k] for k in keep if k in os.environ}


def command(*args, state=None, seconds=PATIENCE):
    """Runs barkerd as a command to its end."""
    argv = [BARKERD, *args] + (["--state", state] if state else [])
    return subprocess.run(argv, env=clean_environment(), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)


class Daemon:
    """barkerd with a state and a data folder of its own. Settings become --name value."""

    def __init__(self, folder=None, start=True, env=None, **settings):
        self.folder, self.env = folder or scratch(), {**clean_environment(), **(env or {})}
        self.state = settings.pop("state", os.path.join(self.folder, "state"))
        self.data = settings.pop("data", os.path.join(self.folder, "data"))
        self.log_path = os.path.join(self.folder, "log")
        self.settings = {"listen": "127.0.0.1:0", "workers": 2, "slice_ms": 50, "min_free_mb": 0,
                         "writes_per_minute": 1000000, "max_iterations": 100000000000, **settings}
        self.process = None
        os.makedirs(self.data, exist_ok=True)
        atexit.register(self.kill)
        if start:
            self.start()

    def argv(self, **settings):
        merged = {**self.settings, **settings}
        words = [BARKERD, "--state", self.state, "--data", self.data]
        for name, value in merged.items():
            words += ["--" + name, str(value)]
        return words

    def launch(self, **settings):
        """Starts the process without waiting for it to be ready."""
        try:
            os.unlink(os.path.join(self.state, "url"))  # an old one, after kill -9
        except FileNotFoundError:
            pass
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(self.argv(**settings), env=self.env, stderr=log, stdout=log,
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        log.close()
        return self

    def wait_ready(self):
        end = time.monotonic() + PATIENCE
        path = os.path.join(self.state, "url")
        while not os.path.exists(path):
            if self.process.poll() is not None:
                raise AssertionError("the daemon ended with %s:\n%s"
                                     % (self.process.returncode, self.last_words()))
            if time.monotonic() > end:
                raise AssertionError("the daemon does not get ready:\n" + self.last_words())
            time.sleep(0.005)
        with open(path) as file:
            self.url = file.read().strip()
        self.host, self.port = self.url.split("//")[1].rsplit(":", 1)
        self.port = int(self.port)
        with open(os.path.join(self.state, "admin.token")) as file:
            self.admin_token = file.read().strip()
        return self

    def start(self, **settings):
        return self.launch(**settings).wait_ready()

    def stop(self):
        """SIGTERM; returns the exit code."""
        if self.process is None or self.process.poll() is not None:
            return self.process.returncode if self.process else None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("the daemon does not end:\n" + self.last_words())
        self.check_log()
        return code

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self, **settings):
        self.stop()
        return self.start(**settings)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        try:
            with open(self.log_path, errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def last_words(self):
        lines = [l for l in self.log().splitlines() if "event=request" not in l]
        return "\n".join(lines[-12:])

    def check_log(self):
        """No test passes over a sanitizer's report, an assertion, or a large reply that took no memory from a budget."""
        text = self.log()
        for words in ("Sanitizer", "runtime error:", "Assertion", "Fatal error", "stack smashing", "request.unreserved"):
            at = text.find(words)
            if at >= 0:
                raise AssertionError("in the log:\n" + text[max(0, at - 500):at + 4000])

    def status(self, field):
        """A number in /proc/PID/status, such as VmRSS in kB."""
        with open("/proc/%d/status" % self.process.pid) as file:
            return int(re.search(r"^%s:\s+(\d+)" % field, file.read(), re.M).group(1))

    def catalogue(self, sql, *args):
        """Rows of the database file, as another process sees them."""
        path = os.path.join(self.state, "barkerd.db")
        db = sqlite3.connect("file:%s?mode=ro" % path, uri=True, timeout=30)
        try:
            return db.execute(sql, args).fetchall()
        finally:
            db.close()

    def file(self, name, text):
        """A shared data file."""
        path = os.path.join(self.data, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return name

    def client(self, token=None, **options):
        return Client(self, token or self.admin_token, **options)

    def user(self, name, role="user", **fields):
        """A client with a fresh token of this user."""
        reply = self.client().post("/v1/tokens", {"user": name, "role": role, **fields})
        assert reply.status == 201, reply
        client = self.client(reply.json()["token"])
        client.name, client.token_id = name, reply.json()["id"]
        return client


# ---- clients ----

class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body, parse_constant=not_json)

    def pointers(self):
        return [e["pointer"] for e in self.json().get("errors", [])]

    def __repr__(self):
        return "%d %s" % (self.status, self.body[:1500])


def not_json(word):
    raise ValueError(word + " is not JSON")


NO_TOKEN = "none"


class Client:
    """One token. Each request takes a connection of its own, so nothing depends on keep-alive."""

    def __init__(self, daemon, token, source=None):
        self.daemon, self.token, self.source = daemon, token, source
        self.name = None

    def headers(self, extra):
        made = {} if self.token == NO_TOKEN else {"Authorization": "Bearer " + self.token}
        made.update(extra or {})
        return made

    def open(self, timeout=PATIENCE):
        return http.client.HTTPConnection(
            self.daemon.host, self.daemon.port, timeout=timeout,
            source_address=(self.source, 0) if self.source else None)

    def request(self, method, path, body=None, headers=None, query=None, timeout=PATIENCE):
        headers = self.headers(headers)
        if query:
            path += "?" + urllib.parse.urlencode(query)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        connection = self.open(timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def put(self, path, body=None, **options):
        return self.request("PUT", path, body, **options)

    def patch(self, path, body=None, **options):
        return self.request("PATCH", path, body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    # the same with the answer that is expected

    def read(self, path, **options):
        reply = self.get(path, **options)
        assert reply.status == 200, "GET %s: %r" % (path, reply)
        return reply.json()

    def submit(self, spec, **options):
        reply = self.post("/v1/jobs", spec, **options)
        assert reply.status == 201, reply
        return reply.json()["id"]

    def job(self, job_id):
        return self.read("/v1/jobs/" + job_id)

    def act(self, job_id, what, body=None):
        reply = self.post("/v1/jobs/%s/%s" % (job_id, what), body)
        assert reply.status == 202, "%s: %r" % (what, reply)
        return reply.json()

    def until(self, job_id, condition, what="what was waited for"):
        """Long-polls until the job meets a condition."""
        end, tag = time.monotonic() + PATIENCE, None
        while True:
            headers = {"If-None-Match": tag} if tag else None
            reply = self.get("/v1/jobs/" + job_id, headers=headers,
                             query={"wait": 5} if tag else None)
            if reply.status == 200:
                job, tag = reply.json(), reply.headers["ETag"]
                if condition(job):
                    return job
            elif reply.status != 304:
                raise AssertionError("waiting for %s: %r" % (what, reply))
            if time.monotonic() > end:
                raise AssertionError("waited in vain for %s: %s"
                                     % (what, json.dumps(job, indent=1)))

    def wait(self, job_id, *states):
        """Waits until the job is in one of these states; any other end is a failure."""
        states = states or ("succeeded",)
        job = self.until(job_id, lambda j: j["state"] in states + ENDED, "/".join(states))
        assert job["state"] in states, "%s is %s: %s" % (job_id, job["state"], job["reason"])
        return job

    def wait_progress(self, job_id, iterations):
        """Waits until the job is so far, or has ended."""
        return self.until(job_id, lambda j: j["progress"]["iteration"] >= iterations
                          or j["state"] in ENDED, "%d iterations" % iterations)

    def catch(self, spec, what):
        """Submits a job and has something done to it on its way; where it is over before that, or
        by the slice that it is in, a longer one. Returns its id, and what was submitted in the end."""
        while True:
            job_id = self.submit(spec)
            self.wait_progress(job_id, 1)
            reply = self.post("/v1/jobs/%s/%s" % (job_id, what))
            assert reply.status in (202, 409), reply
            if reply.status == 202:
                rested = self.until(job_id, lambda j: j["state"] in ENDED or all(
                    c["state"] != "running" for c in j["progress"]["chains"]), "a rest")
                if rested["progress"]["iteration"] < rested["progress"]["total"]:
                    return job_id, spec
            spec = {**spec, "iterations": 2 * spec["iterations"]}

    def end(self, job_id):
        """Cancels a job, unless it has ended by itself, and waits for the end."""
        reply = self.post("/v1/jobs/%s/cancel" % job_id)
        assert reply.status in (202, 409), reply
        return self.until(job_id, lambda j: j["state"] in ENDED, "an end")

    def run(self, spec):
        """Submits and waits for success; returns the job."""
        return self.wait(self.submit(spec))

    def draws(self, job_id, **query):
        """The bytes of the draws, CSV unless said otherwise."""
        query.setdefault("format", "csv")
        reply = self.get("/v1/jobs/%s/draws" % job_id, query=query)
        assert reply.status == 200, reply
        return reply.body

    def everything(self, job_id):
        """All draws of a job, warm-up included: what must not change by an interruption."""
        return self.draws(job_id, warmup="true")

    def events(self, last_id=None):
        return Events(self, last_id)


class Events:
    """A reader of /v1/events, on a bare socket: what has come is seen at once."""

    def __init__(self, client, last_id=None):
        headers = client.headers({"Host": "127.0.0.1", "Accept": "text/event-stream"})
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        head = "".join("%s: %s\r\n" % h for h in headers.items())
        self.socket = socket.create_connection((client.daemon.host, client.daemon.port), PATIENCE)
        self.socket.sendall(("GET /v1/events HTTP/1.1\r\n%s\r\n" % head).encode())
        self.bytes, self.text, self.ended = b"", "", False
        self.comments, self.retry, self.waiting = [], None, collections.deque()
        while b"\r\n\r\n" not in self.bytes and not self.ended:
            self.receive()
        if self.ended and b"\r\n\r\n" not in self.bytes:
            raise OSError("the daemon is gone")
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])
        self.headers = http.client.parse_headers(io.BytesIO(head.split(b"\r\n", 1)[1] + b"\r\n\r\n"))

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def close(self):
        self.socket.close()

    def receive(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.ended = self.ended or not data
        self.bytes += data

    def unpack(self):
        """Takes whole chunks off the bytes, and whole events off the text."""
        while b"\r\n" in self.bytes:
            size, rest = self.bytes.split(b"\r\n", 1)
            size = int(size.split(b";")[0], 16)
            if len(rest) < size + 2:
                break
            self.ended = self.ended or size == 0
            self.text += rest[:size].decode()
            self.bytes = rest[size + 2:]
        *blocks, self.text = self.text.split("\n\n")
        for block in blocks:
            self.take(block)

    def take(self, block):
        event = {}
        for line in block.split("\n"):
            if line.startswith(":"):
                self.comments.append(line)
            elif line.startswith("retry:"):
                self.retry = int(line[6:])
            elif ":" in line:
                name, value = line.split(":", 1)
                event[name] = value[1:] if value.startswith(" ") else value
        if "event" in event:
            event["data"] = json.loads(event["data"], parse_constant=not_json)
            self.waiting.append(event)

    def next(self, seconds=PATIENCE):
        """The next event, or None when there is none within the time or at the end."""
        end = time.monotonic() + seconds
        while True:
            self.unpack()
            left = end - time.monotonic()
            if self.waiting or self.ended or left <= 0:
                return self.waiting.popleft() if self.waiting else None
            if select.select([self.socket], [], [], left)[0]:
                self.receive()

    def until(self, condition):
        """Reads up to the first event that meets the condition; returns all of them."""
        seen = []
        while True:
            event = self.next()
            if event is None:
                raise AssertionError("the event did not come; saw %s" % seen[-20:])
            seen.append(event)
            if condition(event):
                return seen


def raw(daemon, data, seconds=PATIENCE, shut=True, source=None):
    """Sends bytes as they are; returns what comes back until the server closes or goes quiet."""
    connection = socket.create_connection((daemon.host, daemon.port), timeout=seconds,
                                          source_address=(source, 0) if source else None)
    received = b""
    try:
        try:
            connection.sendall(data)
            if shut:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it answered early and closed
        while True:
            part = connection.recv(65536)
            if not part:
                break
            received += part
    except (socket.timeout, ConnectionResetError):
        pass
    finally:
        connection.close()
    return received


def send_only(client, method, path, body, headers=None):
    """A whole request whose answer is not waited for; the socket."""
    connection = socket.create_connection((client.daemon.host, client.daemon.port), timeout=PATIENCE)
    headers = client.headers({"Host": "localhost", "Content-Type": "application/json", "Content-Length": len(body), **(headers or {})})
    head = "".join("%s: %s\r\n" % h for h in headers.items())
    connection.sendall(("%s %s HTTP/1.1\r\n%s\r\n%s" % (method, path, head, body)).encode())
    return connection


def answered(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(PATIENCE)


def statuses(answer):
    """The status codes of the replies in raw bytes."""
    return [int(s) for s in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


# ---- what a client does with draws ----

class Table:
    """Draws as CSV: .chain, .iteration, .draw and the parameters."""

    def __init__(self, body):
        rows = list(csv.reader(io.StringIO(body.decode())))
        self.header, self.rows = rows[0], [[float(x) for x in row] for row in rows[1:]]
        self.names = [n for n in self.header if not n.startswith(".")]
        at = [self.header.index(n) for n in self.names]
        self.chain = [int(r[self.header.index(".chain")]) for r in self.rows]
        self.iteration = [int(r[self.header.index(".iteration")]) for r in self.rows]
        self.draw = [int(r[self.header.index(".draw")]) for r in self.rows]
        self.values = {n: [r[a] for r in self.rows] for n, a in zip(self.names, at)}

    def of_chain(self, name, chain):
        return [v for v, c in zip(self.values[name], self.chain) if c == chain]


class Npy:
    """An NPY file, read by hand."""

    def __init__(self, body):
        assert body[:8] == b"\x93NUMPY\x01\x00", body[:16]
        size, = struct.unpack("<H", body[8:10])
        assert (10 + size) % 64 == 0, "the header is not padded to 64 bytes"
        head = body[10:10 + size].decode("ascii")
        assert head.endswith("\n")
        about = re.fullmatch(r"\{'descr': '<f8', 'fortran_order': False, 'shape': \(([0-9, ]*)\), "
                             r"\} *\n", head)
        assert about, head
        self.shape = tuple(int(x) for x in about.group(1).split(",") if x.strip())
        data = body[10 + size:]
        count = math.prod(self.shape)
        assert len(data) == 8 * count, "%d bytes for %r" % (len(data), self.shape)
        self.values = struct.unpack("<%dd" % count, data)

    def at(self, *index):
        flat = 0
        for i, size in zip(index, self.shape):
            flat = flat * size + i
        return self.values[flat]


def mean(x):
    return math.fsum(x) / len(x)


def variance(x):
    centre = mean(x)
    return math.fsum((v - centre) ** 2 for v in x) / (len(x) - 1)


def sd(x):
    return math.sqrt(variance(x))


def quantile(x, p):
    """Type 7, the default of R and NumPy."""
    ordered = sorted(x)
    at = (len(ordered) - 1) * p
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


# ---- data and jobs ----

def table_text(header, rows):
    return "\n".join([",".join(header)] + [",".join(map(repr, r)) for r in rows]) + "\n"


def logistic_text(rows, columns=3, seed=1, single=False):
    rng = random.Random(seed)
    truth = [rng.gauss(0, 1) for _ in range(columns)]
    out = []
    for _ in range(rows):
        x = [rng.gauss(0, 1) for _ in range(columns)]
        if single:
            x = [struct.unpack("f", struct.pack("f", v))[0] for v in x]
        p = 1 / (1 + math.exp(-sum(a * b for a, b in zip(x, truth))))
        out.append(x + [int(rng.random() < p)])
    return table_text(["x%d" % (j + 1) for j in range(columns)] + ["y"], out)


def ica_text(rows, columns=2, seed=2):
    rng = random.Random(seed)
    mix = [[rng.gauss(0, 1) for _ in range(columns)] for _ in range(columns)]
    out = []
    for _ in range(rows):
        s = [math.log(u / (1 - u)) for u in (rng.uniform(1e-6, 1 - 1e-6) for _ in range(columns))]
        out.append([sum(a * b for a, b in zip(row, s)) for row in mix])
    return table_text(["c%d" % (j + 1) for j in range(columns)], out)


def ratings_text(users, items, rows, seed=3):
    rng = random.Random(seed)
    out = [[users, items, 3]]  # both ends of the index range are there
    for _ in range(rows - 1):
        out.append([rng.randint(1, users), rng.randint(1, items), rng.randint(1, 5)])
    return table_text(["user", "item", "rating"], out)


def toy(**fields):
    """A job without data that is over in no time."""
    return {"model": {"name": "noisy_normal"},
            "sampler": {"name": "sgbd", "variant": "vanilla", "step_size": 0.5},
            "iterations": 100, "warmup": 100, "chains": 2, "seed": 7, **fields}


def endless(**fields):
    """A job that no test lives to see the end of; it hardly stores anything."""
    return toy(**{"iterations": 90000000000, "warmup": 0, "thin": 1000000, "chains": 1, **fields})


def steady(iterations=2000000, **fields):
    """A job of several slices on any machine."""
    return toy(**{"iterations": iterations, "warmup": 1000, "thin": 500, **fields})


class Case(unittest.TestCase):
    maxDiff = None

    def assertProblem(self, reply, status, *words, pointer=None):
        """A problem document with this status that says these words."""
        self.assertEqual(reply.status, status, reply)
        self.assertTrue(reply.headers["Content-Type"].startswith("application/problem+json"),
                        reply.headers["Content-Type"])
        document = reply.json()
        self.assertEqual(document["status"], status)
        self.assertTrue(document["title"])
        self.assertTrue(document["detail"])
        text = reply.text.lower()
        for word in words:
            self.assertIn(word.lower(), text)
        if pointer is not None:
            self.assertIn(pointer, reply.pointers(), reply)
        for secret in ("sqlite", "SELECT ", "/tmp/", "server/"):
            self.assertNotIn(secret, document["detail"], "the problem shows its insides")
        return document

    def assertClose(self, a, b, relative=1e-9, absolute=1e-12, note=""):
        self.assertTrue(math.isclose(a, b, rel_tol=relative, abs_tol=absolute),
                        "%r is not %r %s" % (a, b, note))


class Result(unittest.TextTestResult):
    """Says which tests take long."""

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def stopTest(self, test):
        seconds = time.monotonic() - self.started
        if seconds > 2:
            self.stream.writeln("    (%.1f seconds)" % seconds)
        super().stopTest(test)


def run_modules(names):
    """Runs test modules and prints the line that tests/run counts."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # started in the background, they are ignored
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(n) for n in names)
    runner = unittest.TextTestRunner(sys.stdout, verbosity=2, resultclass=Result)
    result = runner.run(suite)
    for test, reason in result.skipped:
        print("skipped: %s: %s" % (test.id(), reason))
    # A test may fail in several of its cases, and is one test all the same.
    bad = {t.id().split(" ")[0] for t, _ in result.failures + result.errors}
    failed = len(bad) + len(result.unexpectedSuccesses)
    passed = max(0, result.testsRun - failed - len(result.skipped))
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0 or passed == 0
