"""A daemon that speaks barkerd's HTTP contract from memory, for testing the command line.

Everything it was asked is kept in `requests`; jobs are changed with `update`, which wakes long
polls; `answers` holds replies prepared for one method and path, used up one by one.
"""

import http.server
import json
import socket
import socketserver
import ssl
import threading
import time
import urllib.parse

# Seconds until a wait is given up.
PATIENCE = 300

TOKEN = "bk_testtest_" + "s3cr3t" * 7


def job(job_id, **fields):
    """A job as the daemon answers it."""
    chains = fields.pop("chains", 2)
    iteration = fields.pop("iteration", 0)
    total = fields.pop("iterations", 2000)
    phase = fields.pop("phase", "warmup")
    made = {
        "id": job_id, "name": "job " + job_id, "owner": "ada", "state": "queued", "reason": "",
        "stop_cause": None,
        "verdict": None, "created_at": "2026-01-01T00:00:00Z", "started_at": None,
        "ended_at": None, "revision": 1, "isa": "avx2", "precision": "single",
        "request": {
            "name": "job " + job_id, "tags": ["paper"],
            "model": {"name": "logistic", "prior_sd": 1.0},
            "data": {"path": "sepsis_train.csv"},
            "sampler": {"name": "sgbd", "variant": "corrected", "step_size": 0.00075},
            "iterations": total, "warmup": total // 2, "chains": chains, "seed": 123},
        "progress": {
            "iteration": iteration * chains, "total": total * chains,
            "fraction": iteration / total, "iterations_per_second": 12345.6,
            "elapsed_seconds": 12.0, "eta_seconds": 80.0,
            "chains": [{"chain": c + 1, "iteration": iteration, "phase": phase, "state": "running",
                        "total": total}
                       for c in range(chains)]},
        "summary": {"max_rhat": None, "min_ess_bulk": None, "worst": None},
    }
    made.update(fields)
    return made


def parameter(name, **fields):
    row = {"name": name, "mean": 2.385, "sd": 0.1234, "mcse_mean": 0.00123, "mcse_sd": 0.0009,
           "q5": 2.18, "q25": 2.3, "q50": 2.384, "q75": 2.47, "q95": 2.59,
           "rhat": 1.0021, "ess_bulk": 3210.7, "ess_tail": 2900.2}
    row.update(fields)
    return row


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake = None

    def setup(self):
        super().setup()
        self.fake.connections.add(self.connection)

    def finish(self):
        self.fake.connections.discard(self.connection)
        super().finish()

    def log_message(self, *args):
        pass

    def send(self, status, body=b"", headers=(), kind="application/json"):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(body)

    def problem(self, status, title, detail, errors=None, headers=()):
        body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        if errors:
            body["errors"] = errors
        self.send(status, body, headers, "application/problem+json")

    def read_body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                body += self.rfile.read(size)
                self.rfile.readline()
                if not size:
                    return body
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def cut(self):
        """Ends the connection without (the rest of) an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def handle_any(self):
        fake = self.fake
        body = self.read_body()
        if fake.closing or self.server is not fake.server:
            return self.cut()
        path, _, query = self.path.partition("?")
        with fake.changed:
            fake.requests.append({"method": self.command, "path": path, "query": query,
                                  "headers": dict(self.headers), "body": body})
            prepared = fake.answers.get((self.command, path))
            answer = prepared.pop(0) if prepared else None
        if answer == "cut":
            return self.cut()
        if answer == "cut half":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            self.wfile.write(b"x" * 1000)
            self.wfile.flush()
            return self.cut()
        if callable(answer):
            return answer(self)
        if answer:
            return self.send(*answer)
        if path != "/healthz" and self.headers.get("Authorization") != "Bearer " + fake.token:
            return self.problem(401, "A valid token is needed", "no Authorization header")
        arguments = dict(urllib.parse.parse_qsl(query))
        parts = [urllib.parse.unquote(p) for p in path.split("/")[2:]]
        handler = getattr(self, self.command.lower() + "_" + parts[0], None)
        if not path.startswith("/v1/") or not handler:
            return self.problem(404, "There is no such thing", "no route " + path)
        handler(parts[1:], arguments, body)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any

    def page(self, items, arguments, key="items", cursor="cursor", **more):
        start = int(arguments.get(cursor, 0))
        limit = min(int(arguments.get("limit", 50)), self.fake.page_size)
        end = start + limit
        self.send(200, {**more, key: items[start:end],
                        "next": str(end) if end < len(items) else None})

    def find(self, job_id):
        found = self.fake.jobs.get(job_id)
        if found is None:
            self.problem(404, "There is no such thing", "no job " + job_id)
        return found

    def get_jobs(self, parts, arguments, body):
        fake = self.fake
        if not parts:
            text = arguments.get("q", "").lower()
            found = [j for j in reversed(list(fake.jobs.values()))
                     if text in j["name"].lower() or text in j["id"]]
            return self.page(found, arguments)
        if len(parts) == 1:
            return self.get_job(parts[0], arguments)
        found = self.find(parts[0])
        if found is None:
            return None
        if parts[1] == "summary":
            return self.page(fake.parameters, arguments, "parameters", chains=2,
                             **{"draws": 4000, **fake.summary})
        if parts[1] == "draws":
            return self.send_draws(arguments)
        if parts[1] == "log":
            return self.page(fake.log, arguments, cursor="after")
        return self.problem(404, "There is no such thing", "no route")

    def get_job(self, job_id, arguments):
        fake = self.fake
        if self.find(job_id) is None:
            return
        asked = self.headers.get("If-None-Match")
        end = time.monotonic() + min(float(arguments.get("wait", 0)), fake.longest_wait)
        with fake.changed:
            while True:
                found = fake.jobs.get(job_id)
                if found is None:
                    return self.problem(404, "There is no such thing", "no job " + job_id)
                tag = '"%d"' % found["revision"]
                left = end - time.monotonic()
                if asked != tag or left <= 0 or fake.closing:
                    break
                fake.changed.wait(min(left, 0.1))
            copy = json.dumps(found).encode()
        if asked == tag:
            return self.send(304, b"", [("ETag", tag)])
        return self.send(200, copy, [("ETag", tag)])

    def send_draws(self, arguments):
        kinds = {"csv": "text/csv", "json": "application/json"}
        self.send_response(200)
        self.send_header("Content-Type", kinds.get(arguments["format"], "application/octet-stream"))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in self.fake.draws:
            if callable(piece):
                piece()
            elif piece == "cut":
                return self.cut()
            else:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
        return self.wfile.write(b"0\r\n\r\n")

    def post_jobs(self, parts, arguments, body):
        fake = self.fake
        if parts:
            return self.post_verb(parts, body)
        request = json.loads(body)
        if "model" not in request:
            return self.problem(422, "A value is not allowed", "2 mistakes in the job", [
                {"pointer": "/model", "detail": "is required"},
                {"pointer": "/sampler/step_size", "detail": "is -1; must be above 0"}])
        if arguments.get("validate_only") == "true":
            return self.send(200, {"valid": True, "job": {**request, "thin": 1},
                                   "estimate": {"seconds": 72.5, "memory_bytes": 5000000}})
        key = self.headers.get("Idempotency-Key")
        with fake.changed:
            job_id = fake.keys.setdefault(key, "01job%011d" % (len(fake.jobs) + 1))
            if job_id not in fake.jobs:
                fake.jobs[job_id] = job(job_id, **fake.new_job)
        return self.send(201, fake.jobs[job_id], [("Location", "/v1/jobs/" + job_id)])

    def post_verb(self, parts, body):
        states = {"cancel": "cancelling", "pause": "paused", "resume": "running",
                  "retry": "queued", "extend": "queued", "restore": "succeeded"}
        found = self.find(parts[0])
        if found is None:
            return None
        if found["state"] == "succeeded" and parts[1] != "extend":
            return self.problem(409, "The present state does not allow it",
                                "the job has succeeded; it can be extended")
        self.fake.update(parts[0], state=states[parts[1]])
        return self.send(202, found)

    def delete_jobs(self, parts, arguments, body):
        found = self.find(parts[0])
        if found is None:
            return None
        if found["state"] == "running":
            return self.problem(409, "The present state does not allow it", "the job is running")
        with self.fake.changed:
            del self.fake.jobs[parts[0]]
            self.fake.changed.notify_all()
        return self.send(204)

    def get_datasets(self, parts, arguments, body):
        if not parts:
            return self.page([{"name": n, "shared": False, "bytes": len(b)}
                              for n, b in sorted(self.fake.datasets.items())], arguments)
        if parts[0] not in self.fake.datasets:
            return self.problem(404, "There is no such thing", "no dataset " + parts[0])
        return self.send(200, {"name": parts[0], "bytes": 1234567, "rows": 3,
                               "columns": ["x1", "y"], "sha256": "ab" * 32,
                               "preview": [[0.25, 1], [-1.5, 0]]})

    def put_datasets(self, parts, arguments, body):
        self.fake.datasets[parts[0]] = body
        self.send(201, {"name": parts[0], "bytes": len(body)})

    def delete_datasets(self, parts, arguments, body):
        del self.fake.datasets[parts[0]]
        self.send(204)

    def get_references(self, parts, arguments, body):
        if not parts:
            return self.page([{"name": name, "owner": "ada", "visibility": "private",
                               "created_at": "2026-01-01T00:00:00Z"}
                              for name in self.fake.references], arguments)
        if parts[0] not in self.fake.references:
            return self.problem(404, "There is no such thing", "no reference")
        return self.send(200, self.fake.references[parts[0]])

    def put_references(self, parts, arguments, body):
        document = json.loads(body)
        if "job" in document:
            document = {"names": ["theta[1]"], "mean": [1.25], "sd": [0.5], "mcse_mean": [0.004],
                        "made_by": {"job": document["job"]}, "warning": "its largest R-hat is 1.100"}
        self.fake.references[parts[0]] = document
        self.send(204)

    def delete_references(self, parts, arguments, body):
        del self.fake.references[parts[0]]
        self.send(204)

    def catalog(self, parts, items):
        if not parts:
            return self.send(200, {"items": items, "next": None})
        for item in items:
            if item["name"] == parts[0]:
                return self.send(200, item)
        return self.problem(404, "There is no such thing", "no " + parts[0])

    def get_samplers(self, parts, arguments, body):
        self.catalog(parts, [
            {"name": "sgbd", "help": "stochastic gradient Barker dynamics",
             "parameters": [{"name": "step_size", "kind": "step_size", "default": "auto",
                             "exclusive_minimum": 0, "help": "size of a proposal"},
                            {"name": "beta", "kind": "number", "default": 0.1, "minimum": 0,
                             "maximum": 1, "help": "memory"},
                            {"name": "noise", "kind": "choice", "default": "bimodal",
                             "choices": ["bimodal", "normal"], "help": "of the proposal"}]},
            {"name": "sgld", "help": "stochastic gradient Langevin dynamics", "parameters": []}])

    def get_models(self, parts, arguments, body):
        self.catalog(parts, [{"name": "logistic", "help": "logistic regression", "parameters": []}])

    def get_queue(self, parts, arguments, body):
        self.send(200, {"workers": 2, "running": [{"id": "01run", "name": "long", "owner": "bob"}],
                        "waiting": [{"id": "01wait", "name": "short", "owner": "ada",
                                     "reason": "all workers are busy"}],
                        "users": [{"name": "bob", "share": 0.75, "usage_seconds": 3723.0}]})

    def get_info(self, parts, arguments, body):
        self.send(200, {"version": "9.9.9", "isa": "avx2", "limits": {"body_bytes": 65536}, "draws_formats": [
            {"name": name, "ending": ending, "content_type": kind, "one_chain": name == "stan", "help": "draws"}
            for name, ending, kind in (("json", "json", "application/json"), ("csv", "csv", "text/csv"),
                                       ("npy", "npy", "application/octet-stream"), ("stan", "csv", "text/csv"),
                                       ("sqlite", "sqlite", "application/vnd.sqlite3"), ("odd", "odd", "text/odd"))]})

    def get_me(self, parts, arguments, body):
        self.send(200, {"name": "ada", "role": "admin", "token_id": "abcd1234"})

    def get_compare(self, parts, arguments, body):
        ids = arguments["jobs"].split(",")
        rows = [{**parameter("x", mean=n / 8), "reference": {"bias_mean": n / 100}}
                for n in range(len(ids))]
        self.send(200, {"jobs": [{"id": i, "name": "job " + i, "cpu_seconds": 61.0 * n,
                                  "reference": {"bias_mean": {"max": 0.5 * n}},
                                  **self.fake.compared}
                                 for n, i in enumerate(ids, 1)],
                        "reference": arguments.get("reference"),
                        "parameters": [{"name": "theta[1]", "jobs": rows}], "more": self.fake.more})

    def get_tokens(self, parts, arguments, body):
        self.page([{"id": "abcd1234", "user": "ada", "role": "admin", "label": "laptop",
                    "created_at": "2026-01-01T00:00:00Z", "expires_at": None}], arguments)

    def post_tokens(self, parts, arguments, body):
        self.send(201, {"id": "wxyz9876", "token": "bk_wxyz9876_new", **json.loads(body)})

    def delete_tokens(self, parts, arguments, body):
        self.send(204)

    def post_tickets(self, parts, arguments, body):
        if body:
            return self.problem(413, "Larger than the limit", "no body is expected here")
        if not self.fake.tickets:
            return self.problem(404, "There is no such thing", "no route /v1/tickets")
        return self.send(201, {"ticket": "once-only"})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self):  # without asking anybody for the name of the machine
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request, client_address):
        pass  # clients that leave early are part of the tests


class Fake:
    """Use as a context manager; `url` is its address."""

    def __init__(self, host="127.0.0.1", port=0, token=TOKEN, certificate=None):
        self.host, self.port, self.token, self.certificate = host, port, token, certificate
        self.changed = threading.Condition()
        self.requests, self.answers, self.jobs, self.keys = [], {}, {}, {}
        self.datasets, self.log, self.draws = {}, [], [b"a,b\n", b"1,2\n"]
        self.parameters = [parameter("theta[1]"), parameter("theta[2]")]
        self.summary, self.references, self.compared = {}, {}, {}
        self.new_job, self.page_size, self.longest_wait, self.tickets = {}, 50, 0.5, False
        self.more = False
        self.closing, self.server, self.connections = False, None, set()

    def start(self):
        self.closing = False
        handler = type("Bound", (Handler,), {"fake": self})
        self.server = Server((self.host, self.port), handler)
        self.port = self.server.server_address[1]
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self.server.shutdown()
        self.server.server_close()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self.start()

    def __exit__(self, *args):
        self.stop()

    @property
    def url(self):
        return "http%s://127.0.0.1:%d" % ("s" if self.certificate else "", self.port)

    def add(self, job_id, **fields):
        with self.changed:
            self.jobs[job_id] = job(job_id, **fields)
        return job_id

    def update(self, job_id, **fields):
        """Changes a job (fields as for `job`) and wakes whoever waits for it."""
        with self.changed:
            old = self.jobs[job_id]
            keep = {"name": old["name"], "state": old["state"], "chains": old["request"]["chains"]}
            new = job(job_id, **{**keep, **fields})
            new["revision"] = old["revision"] + 1
            self.jobs[job_id].update(new)
            self.changed.notify_all()

    def prepare(self, method, path, *answers):
        self.answers.setdefault((method, path), []).extend(answers)

    def asked(self, method=None, path=None):
        """The requests so far that fit."""
        with self.changed:
            return [r for r in self.requests
                    if method in (None, r["method"]) and path in (None, r["path"])]

    def wait_known(self, job_id):
        """Waits until somebody who follows the job has seen it as it is now."""
        end = time.monotonic() + PATIENCE
        while True:
            with self.changed:
                tag = '"%d"' % self.jobs[job_id]["revision"]
                if any(r["path"] == "/v1/jobs/" + job_id and
                       r["headers"].get("If-None-Match") == tag for r in self.requests):
                    return
            if time.monotonic() > end:
                raise AssertionError("nobody asked for more than revision %s of %s" % (tag, job_id))
            time.sleep(0.01)

    def wait_asked(self, count, method=None, path=None, seconds=PATIENCE):
        """Waits until so many requests have come."""
        end = time.monotonic() + seconds
        while len(self.asked(method, path)) < count:
            if time.monotonic() > end:
                raise AssertionError("waited in vain for %d x %s %s" % (count, method, path))
            time.sleep(0.01)
