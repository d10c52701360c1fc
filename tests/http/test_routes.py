"""Every route: who may use it, what others get, wrong methods, unknown parameters, wrong bodies.

The routes are those of the table in server/api/routes.h and of the daemon's own /openapi.json. What each
caller gets follows from the table, or from a row in SPECIAL."""

import json
import os
import re
import socket
import sqlite3
import time

import harness
from harness import NO_TOKEN, Case, Daemon, raw, statuses

THREADS = 64  # for requests: more than there are routes that change something
METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH")
JSON = {"Content-Type": "application/json"}


def setUpModule():
    global world
    world = World()


def tearDownModule():
    code = world.daemon.stop()
    assert code == 0, code


class World:
    """A daemon with people and things in it."""

    def __init__(self):
        self.daemon = Daemon(request_threads=THREADS)
        self.daemon.file("shared.csv", harness.logistic_text(40))
        self.admin = self.daemon.client()
        self.alice = self.daemon.user("alice")
        self.bob = self.daemon.user("bob")
        self.vera = self.daemon.user("vera", "viewer")
        self.count = 0
        self.expired = self.make_expired()
        self.revoked = self.make_revoked()
        self.done = self.alice.run(harness.toy(name="done"))["id"]
        self.second = self.alice.run(harness.toy(name="second"))["id"]

    def next(self):
        self.count += 1
        return self.count

    def make_expired(self):
        """Its time is over because the database says so: the shortest life over HTTP is a day."""
        client = self.daemon.user("alice", expires_in_days=1)
        self.daemon.stop()
        db = sqlite3.connect(os.path.join(self.daemon.state, "barkerd.db"))
        db.execute("UPDATE token SET expires_ms = 1000 WHERE id = ?", (client.token_id,))
        db.commit()
        db.close()
        self.daemon.start()
        return client

    def make_revoked(self):
        client = self.daemon.user("alice")
        assert self.alice.delete("/v1/tokens/" + client.token_id).status == 204
        return client

    def snapshot(self):
        """Everything that a refused request could have changed, once nobody else is about to."""
        for job, in self.daemon.catalogue("SELECT id FROM job WHERE deleted_ms = 0 AND (state = 'cancelling' OR (state IN "
                                          "('queued', 'running') AND json_extract(request, '$.iterations') < 1000000))"):
            self.admin.wait(job, *harness.ENDED)
        rows = [self.daemon.catalogue(sql) for sql in (
            "SELECT id, state, revision, deleted_ms, name, lab FROM job ORDER BY id",
            "SELECT id, user, revoked_ms FROM token ORDER BY id",
            "SELECT name, role FROM user ORDER BY name",
            "SELECT owner, name, lab FROM reference ORDER BY owner, name",
            "SELECT id, owner, state IN ('paused', 'cancelling', 'cancelled', 'deleting') FROM study ORDER BY id")]
        files = sorted(os.path.join(d, f) for d, _, fs in os.walk(self.daemon.data) for f in fs
                       if not f.startswith("."))  # not what is on its way
        return rows, files

    def parked(self):
        """Requests that wait for something to happen."""
        return int(re.search(r"^barkerd_http_parked (\d+)", self.admin.get("/metrics").text, re.M).group(1))

    # things of alice, made when they are needed

    def job(self, spec=None):
        return "/v1/jobs/" + self.alice.submit(spec or harness.toy())

    def ended(self):
        path = self.job()
        self.alice.wait(path.split("/")[-1])
        return path

    def endless(self):
        path = self.job(harness.endless())
        self.alice.wait(path.split("/")[-1], "running")
        return path

    def paused(self):
        path = self.endless()
        assert self.alice.post(path + "/pause").status == 202
        return path

    def trashed(self):
        path = self.ended()
        assert self.alice.delete(path).status == 204
        return path

    def upload(self):
        path = "/v1/datasets/mine%d.csv" % self.next()
        assert self.alice.put(path, "a,b\n1,2\n").status == 201
        return path

    def reference(self):
        path = "/v1/references/mine%d" % self.next()
        reply = self.alice.put(path, REFERENCE, headers=JSON)
        assert reply.status in (200, 201, 204), reply
        return path

    def study(self):
        reply = self.alice.post("/v1/studies", LADDER)
        assert reply.status == 201, reply
        for job in reply.json()["jobs"]:
            self.alice.wait(job["id"])
        return "/v1/studies/" + reply.json()["id"]

    def study_over(self, path):
        end = time.monotonic() + harness.PATIENCE
        while self.alice.read(path)["state"] not in harness.ENDED:
            assert time.monotonic() < end, "a sweep does not end"
            time.sleep(0.02)
        return path

    def sweep(self, job=None):
        reply = self.alice.post("/v1/studies", {**SWEEP, "job": job or harness.endless()})
        assert reply.status == 201, reply
        return "/v1/studies/" + reply.json()["id"]

    def ended_sweep(self):
        return self.study_over(self.sweep(harness.toy()))

    def paused_sweep(self):
        path = self.sweep()
        assert self.alice.post(path + "/pause").status == 202
        return path

    def token(self):
        return "/v1/tokens/" + self.daemon.user("alice").token_id

    def ticket(self):
        reply = self.alice.post("/v1/tickets")
        assert reply.status == 201, reply
        return {"ticket": reply.json()["ticket"]}

    def spare_user(self):
        name = "spare%d" % self.next()
        self.daemon.user(name)
        return "/v1/users/" + name


REFERENCE = '{"parameters": [{"name": "theta[1]", "mean": 0.0, "sd": 1.0}]}'


SWEEP = {"kind": "sweep", "grid": [{"/sampler/step_size": [0.5]}]}
LADDER = {"kind": "ladder", "job": harness.toy()}


class Row:
    """What each kind of caller gets; 0: not known. `make` returns (path, body) of a thing of alice."""

    def __init__(self, make, owner=200, admin=None, other=None, viewer=None, headers=None,
                 stream=False, ends=False):
        self.make, self.owner, self.headers, self.stream = make, owner or 0, headers, stream
        self.admin = owner if admin is None else admin
        self.other = owner if other is None else other
        self.viewer = self.other if viewer is None else viewer
        self.ends = ends  # leaves a job running that must be cancelled


def fixed(path, body=None):
    return lambda w: (path, body)


def of_done(suffix="", body=None):
    return lambda w: ("/v1/jobs/" + w.done + suffix, body)


def fresh(name, suffix="", body=None):
    return lambda w: (getattr(w, name)() + suffix, body)


def script(w):
    """The dashboard's script, under the name that the page gives it."""
    page = w.daemon.client(NO_TOKEN).get("/").body.decode()
    return re.search(r'src="(/assets/app-[0-9a-f]+\.js)"', page).group(1), None


OPEN = {"GET /", "GET /assets/{name}", "GET /healthz", "GET /readyz", "GET /metrics", "GET /openapi.json",
        "POST /v1/tickets/redeem"}

def table_routes():
    """METHOD PATTERN -> (flags, role, query) of server/api/routes.h."""
    with open(os.path.join(harness.ROOT, "server/api/routes.h")) as file:
        text = file.read()
    lines = re.findall(r"X\((\w+),\s*\"([^\"]*)\",\s*([^,]*),\s*(\w+),\s*(?:\\\s*)?\"([^\"]*)\"",
                       text.replace("\\\n", " "))
    return {"%s %s" % (m, p): (f, r, q.split()) for m, p, f, r, q in lines}


# Routes of which the table does not say how they are called, or by whom.
SPECIAL = {
    "GET /assets/{name}": Row(script),
    "GET /v1/samplers/{name}": Row(fixed("/v1/samplers/sgbd")),
    "GET /v1/models/{name}": Row(fixed("/v1/models/ica")),
    # An upload is its owner's: an admin has no more business in it than anybody else.
    "GET /v1/datasets/{name}": Row(fresh("upload"), admin=404, other=404),
    "PUT /v1/datasets/{name}": Row(fixed("/v1/datasets/put.csv", "a,b\n1,2\n"), 201, viewer=403),
    "DELETE /v1/datasets/{name}": Row(fresh("upload"), 204, admin=404, other=404, viewer=403),
    "POST /v1/jobs": Row(fixed("/v1/jobs", harness.toy()), 201, viewer=403),
    "PATCH /v1/jobs/{id}": Row(fresh("ended", "", {"note": "seen"}), other=404, viewer=403),
    "DELETE /v1/jobs/{id}": Row(fresh("ended"), 204, other=404, viewer=403),
    "POST /v1/jobs/{id}/cancel": Row(fresh("endless", "/cancel"), 202, other=404, viewer=403,
                                     ends=True),
    "POST /v1/jobs/{id}/pause": Row(fresh("endless", "/pause"), 202, other=404, viewer=403,
                                    ends=True),
    "POST /v1/jobs/{id}/resume": Row(fresh("paused", "/resume"), 202, other=404, viewer=403,
                                     ends=True),
    "POST /v1/jobs/{id}/extend": Row(fresh("ended", "/extend", {"iterations": 10}), 202, other=404,
                                     viewer=403),
    # Only a failure of the machine can be retried; test_daemon.py makes one.
    "POST /v1/jobs/{id}/retry": Row(fresh("ended", "/retry"), 409, other=404, viewer=403),
    "POST /v1/jobs/{id}/restore": Row(fresh("trashed", "/restore"), 200, other=404, viewer=403),
    "GET /v1/jobs/{id}/density": Row(of_done("/density?params=theta%5B1%5D"), other=404),
    "GET /v1/compare": Row(lambda w: ("/v1/compare?jobs=%s,%s" % (w.done, w.second), None),
                           other=404),
    "GET /v1/references/{name}": Row(fresh("reference"), admin=404, other=404),
    "PUT /v1/references/{name}": Row(fixed("/v1/references/put", REFERENCE), 204, viewer=403,
                                     headers=JSON),
    "DELETE /v1/references/{name}": Row(fresh("reference"), 204, admin=404, other=404, viewer=403),
    "POST /v1/studies": Row(fixed("/v1/studies", LADDER), 201, viewer=403),
    "GET /v1/studies/{id}": Row(fresh("study"), other=404),
    "GET /v1/studies/{id}/table": Row(fresh("ended_sweep", "/table"), other=404),
    "POST /v1/studies/{id}/pause": Row(fresh("sweep", "/pause"), 202, other=404, viewer=403, ends=True),
    "POST /v1/studies/{id}/resume": Row(fresh("paused_sweep", "/resume"), 202, other=404, viewer=403,
                                        ends=True),
    "POST /v1/studies/{id}/cancel": Row(fresh("sweep", "/cancel"), 202, other=404, viewer=403, ends=True),
    "POST /v1/studies/{id}/extend": Row(fresh("ended_sweep", "/extend", {"seeds": 1}), 202, other=404, viewer=403),
    "DELETE /v1/studies/{id}": Row(fresh("study"), 204, other=404, viewer=403),
    "GET /v1/events": Row(fixed("/v1/events"), stream=True),
    "POST /v1/tokens": Row(fixed("/v1/tokens", {"label": "for myself"}), 201),
    "DELETE /v1/tokens/{id}": Row(fresh("token"), 204, other=404),
    "POST /v1/tickets": Row(fixed("/v1/tickets"), 201),
    "POST /v1/tickets/redeem": Row(lambda w: ("/v1/tickets/redeem", w.ticket()), 201),
    "POST /v1/users": Row(fixed("/v1/users", {"name": "newcomer"}), 403, admin=201),
    "DELETE /v1/users/{name}": Row(fresh("spare_user"), 403, admin=204),
}


def row_of(name, role):
    """What follows from the table: reading is for all who have the role, a job for those who may see it. Of a route that changes
    something, or that names another thing, only the refusals are known; a row in SPECIAL says how it is called."""
    method, path = name.split()
    if method != "GET" or ("{" in path and not path.startswith("/v1/jobs/{id}")):
        owner = 403 if role == "ADMIN" else None
        body = {} if method in ("POST", "PATCH") else None
        return Row(lambda w: (path.replace("{id}", w.done).replace("{name}", "none"), body), owner, admin=0, other=owner or 0,
                   viewer=403 if role != "VIEWER" else 0)
    if path.startswith("/v1/jobs/{id}"):
        return Row(of_done(path[len("/v1/jobs/{id}"):]), other=404)
    return Row(fixed(path), 403 if role == "ADMIN" else 200, admin=200, viewer=200 if role == "VIEWER" else 403)


ROWS = {name: SPECIAL.get(name) or row_of(name, role) for name, (_, role, _) in table_routes().items()}


def openapi_routes(document):
    return {"%s %s" % (m.upper(), p) for p, verbs in document["paths"].items() for m in verbs
            if m.upper() in METHODS}


class Completeness(Case):
    def test_the_table_is_read_and_every_special_row_is_a_route(self):
        self.assertGreater(len(ROWS), 40)
        self.assertEqual(set(SPECIAL) - set(ROWS), set())

    def test_every_route_is_described_in_openapi_and_nothing_else_is(self):
        document = world.admin.read("/openapi.json")
        self.assertTrue(document.get("openapi", "").startswith("3.1"), "openapi.json is not 3.1")
        self.assertEqual(openapi_routes(document), set(ROWS))

    def test_openapi_names_the_query_parameters_that_a_route_takes(self):
        document = world.admin.read("/openapi.json")
        for name, (_, _, query) in table_routes().items():
            method, path = name.split()
            with self.subTest(name):
                entry = document["paths"][path]
                listed = entry.get("parameters", []) + entry[method.lower()].get("parameters", [])
                listed = [resolve(document, p) for p in listed]
                self.assertEqual({p["name"] for p in listed if p["in"] == "query"}, set(query))

    def test_no_route_is_open_but_those_meant_to_be(self):
        self.assertEqual({n for n, (f, _, _) in table_routes().items() if "ROUTE_OPEN" in f}, OPEN)

    def test_every_route_that_changes_something_says_so(self):
        """Without ROUTE_WRITE its user could be deleted under its handler, and it would begin while the daemon ends."""
        for name, (flags, _, _) in table_routes().items():
            with self.subTest(name):
                self.assertEqual("ROUTE_WRITE" in flags, name.split()[0] != "GET")


def resolve(document, thing):
    while "$ref" in thing:
        target = document
        for part in thing["$ref"].split("/")[1:]:
            target = target[part]
        thing = target
    return thing


class Access(Case):
    """Each caller × each route: the status, and that a refusal changed nothing."""

    def ask(self, client, name, path, body):
        method = name.split()[0]
        row = ROWS[name]
        if row.stream:
            with harness.Events(client) as stream:
                return stream.status
        reply = client.request(method, path, body, headers=row.headers)
        self.assertNotEqual(reply.status, 500, reply)
        if reply.status >= 400:
            self.assertProblem(reply, reply.status)
        return reply.status

    def end(self, row, path):
        if row.ends:
            path = re.sub(r"/\w+$", "", path)
            world.alice.post(path + "/cancel")
            if "/studies/" in path:
                world.study_over(path)
            else:
                world.alice.wait(path.split("/")[-1], "cancelled")

    def refused(self, client, expected):
        for name, row in ROWS.items():
            status = expected(name, row)
            if status < 400:
                continue
            with self.subTest(name):
                path, body = row.make(world)
                before = world.snapshot()
                self.assertEqual(self.ask(client, name, path, body), status, name)
                if not row.ends:
                    self.assertEqual(world.snapshot(), before, "a refused request changed something")
                self.end(row, path)

    def allowed(self, client, expected):
        for name, row in ROWS.items():
            status = expected(row)
            if status >= 400 or status == 0:  # 0: not known
                continue
            with self.subTest(name):
                path, body = row.make(world)
                self.assertEqual(self.ask(client, name, path, body), status, name)
                self.end(row, path)

    def test_without_a_token_only_open_routes_answer(self):
        nobody = world.daemon.client(NO_TOKEN)
        self.refused(nobody, lambda name, row: 200 if name in OPEN else 401)
        for name in sorted(OPEN):
            path, body = ROWS[name].make(world)
            self.assertEqual(self.ask(nobody, name, path, body), ROWS[name].owner, name)

    def test_bad_tokens_are_refused_everywhere(self):
        good = world.alice.token
        bad = {"garbage": "garbage", "expired": world.expired.token, "revoked": world.revoked.token,
               "one letter changed": good[:-1] + ("A" if good[-1] != "A" else "B"),
               "other id": "bk_00000000" + good[11:]}
        source = 0
        for kind, token in bad.items():
            for name in sorted(set(ROWS) - OPEN):
                source += 1  # an address of its own: ten failures a minute are the limit
                client = world.daemon.client(token, source="127.1.%d.%d" % (source // 200,
                                                                           source % 200 + 1))
                with self.subTest(kind, route=name):
                    method, path = name.split()
                    path = path.replace("{id}", world.done).replace("{name}", "shared.csv")
                    reply = client.request(method, path, b"" if method != "GET" else None)
                    self.assertProblem(reply, 401)
                    self.assertEqual(reply.headers["WWW-Authenticate"], "Bearer")
                    self.assertNotIn(token, reply.text)

    def test_other_schemes_are_refused(self):
        for header in ("Basic YTpi", world.alice.token, "Bearer", "Token " + world.alice.token,
                       "Bearer " + world.alice.token + " ", "Bearer  " + world.alice.token):
            with self.subTest(header):
                client = world.daemon.client(NO_TOKEN, source="127.2.0.%d" % (world.next() % 250 + 1))
                self.assertProblem(client.get("/v1/me", headers={"Authorization": header}), 401)

    def test_a_token_in_the_query_is_no_token(self):
        client = world.daemon.client(NO_TOKEN)
        reply = client.get("/v1/me", query={"token": world.alice.token})
        self.assertIn(reply.status, (401, 422))

    def test_other_people_get_404_for_what_is_not_theirs(self):
        self.refused(world.bob, lambda name, row: row.other)

    def test_other_people_use_what_is_for_all(self):
        self.allowed(world.bob, lambda row: row.other)

    def test_viewers_read_and_change_nothing(self):
        self.refused(world.vera, lambda name, row: row.viewer)

    def test_viewers_use_what_they_may(self):
        self.allowed(world.vera, lambda row: row.viewer)

    def test_owners_use_what_is_theirs(self):
        self.allowed(world.alice, lambda row: row.owner)

    def test_owners_are_no_admins(self):
        self.refused(world.alice, lambda name, row: row.owner)

    def test_admins_use_everything_but_private_files(self):
        self.allowed(world.admin, lambda row: row.admin)

    def test_admins_find_no_private_files(self):
        self.refused(world.admin, lambda name, row: row.admin)

    def test_an_unknown_id_and_somebody_elses_look_the_same(self):
        for path in ("", "/draws", "/summary", "/log"):
            with self.subTest(path):
                theirs = world.bob.get("/v1/jobs/" + world.done + path)
                unknown = world.bob.get("/v1/jobs/0000000000000000" + path)
                self.assertEqual((theirs.status, theirs.json()), (unknown.status, unknown.json()))

    def test_lab_jobs_are_readable_by_all_and_changed_by_none(self):
        job = world.alice.run(harness.toy(visibility="lab"))["id"]
        for client in (world.bob, world.vera):
            for name, row in ROWS.items():
                if not name.startswith("GET /v1/jobs/{id}"):
                    continue
                path, _ = row.make(world)
                with self.subTest(name):
                    self.assertEqual(client.get(path.replace(world.done, job)).status, 200)
            self.assertProblem(client.get("/v1/compare", query={"jobs": job + "," + world.done}), 404)
        before = world.snapshot()
        for name in ROWS:
            method, path = name.split()
            if method == "GET" or "{id}" not in path or "jobs" not in path or "restore" in path:
                continue
            body = {"iterations": 5} if path.endswith("extend") else \
                {"note": "x"} if method == "PATCH" else None
            for client in (world.bob, world.vera):
                with self.subTest(name, client=client.name):
                    reply = client.request(method, path.replace("{id}", job), body)
                    self.assertProblem(reply, 403)
        self.assertEqual(world.snapshot(), before)
        self.assertEqual(world.bob.get("/v1/jobs", query={"owner": "all", "q": job})
                         .json()["items"][0]["id"], job)


class Strictness(Case):
    def test_wrong_methods_say_which_are_right(self):
        patterns = {}
        for name in ROWS:
            method, path = name.split()
            patterns.setdefault(path, set()).add(method)
        for path, methods in patterns.items():
            target = path.replace("{id}", world.done).replace("{name}", "sgbd")
            for method in METHODS:
                if method in methods:
                    continue
                with self.subTest(path, method=method):
                    reply = world.admin.request(method, target, b"{}" if method != "GET" else None,
                                                headers=JSON)
                    self.assertProblem(reply, 405)
                    allow = {m.strip() for m in reply.headers["Allow"].split(",")}
                    self.assertEqual(allow - {"HEAD", "OPTIONS"}, methods)

    def test_methods_that_nobody_knows_are_refused(self):
        for method in ("TRACE", "CONNECT", "get", "FOO", "PROPFIND"):
            with self.subTest(method):
                answer = raw(world.daemon, b"%s /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n"
                             % method.encode())
                self.assertEqual(statuses(answer), [405], answer)

    def test_head_answers_like_get_without_a_body(self):
        for path in ("/healthz", "/v1/info", "/v1/jobs", "/v1/jobs/" + world.done,
                     "/v1/jobs/%s/draws" % world.done):
            with self.subTest(path):
                reply = world.alice.request("HEAD", path)
                self.assertEqual((reply.status, reply.body), (200, b""))

    def test_unknown_paths_are_404(self):
        for path in ("/v2/jobs", "/v1", "/v1/", "/v1/job", "/v1/jobs/", "/v1/jobs/%s/" % world.done,
                     "/v1/jobs/%s/nothing" % world.done, "/favicon.ico.x", "/v1/jobs/short",
                     "/v1/jobs/" + "0" * 400, "/v1/samplers/none", "/v1/models/none"):
            with self.subTest(path):
                self.assertProblem(world.alice.get(path), 404)

    def test_unknown_query_parameters_are_mistakes(self):
        for name, row in ROWS.items():
            if row.stream or name == "GET /openapi.json":
                continue
            method, path = name.split()
            path = path.replace("{id}", world.done).replace("{name}", "sgbd")
            with self.subTest(name):
                before = world.snapshot()
                reply = world.admin.request(method, path, b"{}" if method != "GET" else None,
                                            headers=JSON, query={"colour": "red", "size": "2"})
                self.assertProblem(reply, 422, "colour")
                self.assertEqual(set(reply.pointers()), {"?colour", "?size"})
                self.assertEqual(world.snapshot(), before)

    def test_a_query_parameter_given_twice_is_refused(self):
        self.assertProblem(world.alice.get("/v1/jobs?limit=1&limit=2"), 400, "limit")

    def test_counts_in_queries_are_whole_numbers_in_range(self):
        job = "/v1/jobs/" + world.done
        for path, name in (("/v1/jobs", "limit"), (job, "wait"), (job + "/draws", "thin"),
                           (job + "/draws", "from"), (job + "/trace", "max_points"),
                           (job + "/log", "limit"), (job + "/summary", "limit"),
                           ("/v1/datasets/shared.csv", "rows")):
            for value in ("-1", "1.5", "1e2", "x", "", " 1", "99999999999999999999", "0x10", "NaN"):
                with self.subTest(path + "?" + name, value=value):
                    reply = world.alice.get(path, query={name: value})
                    self.assertProblem(reply, 422, pointer="?" + name)

    def test_json_routes_take_json_only(self):
        for name in ROWS:
            flags, _, _ = table_routes()[name]
            method, path = name.split()
            if "ROUTE_JSON" not in flags:
                continue
            path = path.replace("{id}", world.done)
            for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx",
                         "multipart/form-data; boundary=x", None):
                with self.subTest(name, kind=kind):
                    headers = {"Content-Type": kind} if kind else {}
                    reply = world.admin.request(method, path, b'{"iterations": 1}', headers=headers)
                    self.assertProblem(reply, 415, "application/json")
            for kind in ("application/json; charset=utf-8", "Application/JSON"):
                with self.subTest(name, kind=kind):
                    reply = world.admin.request(method, path, b"[]", headers={"Content-Type": kind})
                    self.assertNotEqual(reply.status, 415)

    def test_oversized_bodies_are_413_before_they_are_read(self):
        for name in ROWS:
            flags, _, _ = table_routes()[name]
            method, path = name.split()
            if "ROUTE_JSON" not in flags:
                continue
            path = path.replace("{id}", world.done)
            with self.subTest(name):
                head = ("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                        "Content-Type: application/json\r\n" % (method, path, world.admin.token))
                for length in (65537, 1 << 30, 10 ** 17):
                    answer = raw(world.daemon, (head + "Content-Length: %d\r\n\r\n" % length)
                                 .encode(), shut=False)
                    self.assertEqual(statuses(answer), [413], answer[:300])
                    self.assertIn(b"application/problem+json", answer)

    def test_bodies_grow_to_the_limit_and_no_further(self):
        pad = 65536 - len('{"note": ""}')
        ok = world.alice.patch("/v1/jobs/" + world.done, '{"note": "%s"}' % ("x" * pad), headers=JSON)
        self.assertProblem(ok, 422, pointer="/note")  # read, parsed, and then too long a note
        over = world.alice.patch("/v1/jobs/" + world.done, '{"note": "%s"}' % ("x" * (pad + 1)),
                                 headers=JSON)
        self.assertProblem(over, 413)

    def test_chunked_bodies_without_a_length_are_counted(self):
        head = ("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                % world.alice.token).encode()
        answer = raw(world.daemon, head + b"2000\r\n" + b" " * 0x2000 + b"\r\n"
                     + (b"2000\r\n" + b" " * 0x2000 + b"\r\n") * 9 + b"0\r\n\r\n")
        self.assertEqual(statuses(answer), [413], answer[:300])
        answer = raw(world.daemon, head + b"5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n")
        self.assertEqual(statuses(answer), [422], answer[:300])

    def test_routes_without_a_body_tolerate_a_small_one_at_most(self):
        job = world.job(harness.endless())
        reply = world.alice.post(job + "/pause", b"x" * 100000)
        self.assertProblem(reply, 413)
        self.assertEqual(world.alice.post(job + "/cancel", {}).status, 202)

    def test_get_takes_no_body(self):
        reply = world.alice.request("GET", "/v1/info", b"hello")
        self.assertIn(reply.status, (200, 413))
        reply = world.alice.request("GET", "/v1/info", b"x" * 200000)
        self.assertProblem(reply, 413)


class Pages(Case):
    def test_every_reply_has_a_request_id_and_is_not_sniffed_or_cached(self):
        seen = set()
        for client, path in ((world.alice, "/v1/info"), (world.alice, "/v1/jobs/none"),
                             (world.daemon.client(NO_TOKEN), "/v1/me"), (world.alice, "/healthz")):
            reply = client.get(path)
            with self.subTest(path):
                self.assertTrue(reply.headers["X-Request-Id"])
                seen.add(reply.headers["X-Request-Id"])
                self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(reply.headers["Cache-Control"], "no-store")
                self.assertIsNone(reply.headers["Access-Control-Allow-Origin"])
        self.assertEqual(len(seen), 4)

    def test_the_page_may_load_nothing_from_elsewhere(self):
        reply = world.alice.get("/")
        self.assertTrue(reply.headers["Content-Type"].startswith("text/html"))
        self.assertIn("default-src 'none'", reply.headers["Content-Security-Policy"])
        self.assertIn("frame-ancestors 'none'", reply.headers["Content-Security-Policy"])

    def test_info_tells_version_workers_and_limits(self):
        info = world.vera.read("/v1/info")
        self.assertRegex(info["version"], r"^\d+\.\d+")
        self.assertEqual(info["workers"], 2)
        self.assertIn(info["isa"], ("portable", "avx2", "avx512", "emulated"))
        self.assertEqual(info["limits"]["body_bytes"], 65536)

    def test_samplers_and_models_describe_their_parameters(self):
        for kind in ("samplers", "models"):
            page = world.vera.read("/v1/" + kind)
            self.assertIsNone(page["next"])
            for item in page["items"]:
                with self.subTest(item["name"]):
                    self.assertEqual(world.vera.read("/v1/%s/%s" % (kind, item["name"])), item)
                    self.assertTrue(item["help"])
                    for parameter in item["parameters"]:
                        self.assertTrue(parameter["help"], parameter)
                        self.assertIn("default", parameter)
                        if parameter["kind"] == "choice":
                            self.assertIn(parameter["default"], parameter["choices"])
        names = {i["name"] for i in world.vera.read("/v1/samplers")["items"]}
        self.assertLessEqual({"sgbd", "sgld", "sglrw", "barker_mh", "mala"}, names)
        names = {i["name"] for i in world.vera.read("/v1/models")["items"]}
        self.assertLessEqual({"logistic", "matrix_factorization", "ica", "skew_normal",
                              "noisy_normal"}, names)

    def test_metrics_are_prometheus_text_without_ids(self):
        reply = world.daemon.client(NO_TOKEN).get("/metrics")
        self.assertTrue(reply.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        types, values = {}, {}
        for line in reply.text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, types, "declared twice")
                types[name] = kind
            elif not line.startswith("#"):
                found = re.fullmatch(r"([a-z_:]+)(\{.*\})? (\S+)", line)
                self.assertTrue(found, line)
                values[found.group(1) + (found.group(2) or "")] = float(found.group(3))
                base = re.sub(r"_(bucket|sum|count)$", "", found.group(1))
                self.assertTrue(base in types or found.group(1) in types, line)
        for name, kind in types.items():
            if kind == "counter":
                self.assertTrue(name.endswith("_total"), name)
        self.assertNotIn(world.done, reply.text)
        self.assertNotIn("alice", reply.text)
        self.assertGreater(values["barkerd_iterations_total"], 0)

    def test_me_tells_who_one_is(self):
        self.assertEqual(world.vera.read("/v1/me")["role"], "viewer")
        self.assertEqual(world.vera.read("/v1/me")["user"], "vera")
        self.assertEqual(world.admin.read("/v1/me")["role"], "admin")


class Half:
    """A request of which the daemon has admitted the header and has the first half of the body."""

    def __init__(self, client, name, path, body, headers):
        method = name.split()[0]
        headers = client.headers({"Host": "127.0.0.1", "Expect": "100-continue", **(headers or {})})
        body = body if body is not None else {}  # routes without a body tolerate a small one
        if not isinstance(body, str):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        self.body, self.bytes = body.encode(), b""
        headers["Content-Length"] = len(self.body)
        head = "".join("%s: %s\r\n" % h for h in headers.items())
        self.socket = socket.create_connection((world.daemon.host, world.daemon.port), harness.PATIENCE)
        self.socket.sendall(("%s %s HTTP/1.1\r\n%s\r\n" % (method, path, head)).encode())
        while b"\r\n\r\n" not in self.bytes:
            self.receive()
        self.admitted = statuses(self.bytes) == [100]
        self.sent = len(self.body) // 2
        if self.admitted:
            self.socket.sendall(self.body[:self.sent])

    def receive(self):
        try:
            part = self.socket.recv(65536)
        except ConnectionResetError:
            part = b""
        self.bytes += part
        if not part:
            raise AssertionError("no whole reply: %r" % self.bytes)

    def finish(self):
        """Sends the rest; returns the status and the text of the reply."""
        try:
            self.socket.sendall(self.body[self.sent:])
        except OSError:
            pass  # it was answered early
        while len(statuses(self.bytes)) < 2:
            self.receive()
        try:
            while True:
                self.receive()
        except AssertionError:
            pass  # the end
        self.socket.close()
        return statuses(self.bytes)[-1], self.bytes.split(b"\r\n\r\n", 2)[-1].decode()


class LateIdentity(Case):
    """Who the caller is counts when something is done or sent, not when the header came. The callers are admins, who may
    use everything, and lose it in one way or another. Routes with a body are taken from the table."""

    def caller(self, **fields):
        return world.daemon.user("late%d" % world.next(), "admin", **fields)

    def lose_token(self, client):
        self.assertEqual(world.admin.delete("/v1/tokens/" + client.token_id).status, 204)

    def lose_role(self, client):
        reply = world.admin.post("/v1/users", {"name": client.name, "role": "viewer"})
        self.assertEqual(reply.status, 201, reply)

    def lose_user(self, client):
        self.assertEqual(world.admin.delete("/v1/users/" + client.name).status, 204)

    def lose_user_to_another(self, client):
        """The same name again, even the same role: another user."""
        self.lose_user(client)
        world.daemon.user(client.name, "admin")

    LOSSES = {"revoked": (lose_token, 401), "demoted": (lose_role, 403), "deleted": (lose_user, 401),
              "made again": (lose_user_to_another, 401)}

    @staticmethod
    def with_body():
        return [n for n, (flags, _, _) in table_routes().items()
                if n.split()[0] in ("POST", "PUT", "PATCH") and "ROUTE_OPEN" not in flags]

    def expire(self, clients, seconds):
        """Tokens that end in so many seconds, as the database says: over HTTP a life is at least a day."""
        world.daemon.stop()
        db = sqlite3.connect(os.path.join(world.daemon.state, "barkerd.db"))
        for client in clients:
            db.execute("UPDATE token SET expires_ms = ? WHERE id = ?",
                       (int((time.time() + seconds) * 1000), client.token_id))
        db.commit()
        db.close()
        world.daemon.start()

    def await_expiry(self, client):
        """Asked from an address of its own, because wrong tokens are counted by address."""
        client = world.daemon.client(client.token, source="127.4.0.%d" % (world.next() % 250 + 1))
        while client.get("/v1/me").status == 200:
            time.sleep(0.05)

    def settle(self, name, path):
        if ROWS[name].ends:
            Access.end(self, ROWS[name], path)

    def finish(self, half, name, path, status):
        before = world.snapshot()
        got, text = half.finish()
        self.assertEqual(got, status, text)
        self.assertIn("application/problem+json", half.bytes.decode())
        if not ROWS[name].ends:
            self.assertEqual(world.snapshot(), before, "a refused request changed something")
        self.settle(name, path)

    def test_half_a_body_is_not_enough_to_outrun_a_loss(self):
        self.assertGreater(len(self.with_body()), 10)
        for name in self.with_body():
            for kind, (lose, status) in self.LOSSES.items():
                if kind == "demoted" and table_routes()[name][1] == "VIEWER":
                    continue  # a viewer may
                with self.subTest(name, kind=kind):
                    caller, (path, body) = self.caller(), ROWS[name].make(world)
                    half = Half(caller, name, path, body, ROWS[name].headers)
                    self.assertTrue(half.admitted, half.bytes)
                    lose(self, caller)
                    self.finish(half, name, path, status)

    def test_half_a_body_is_not_enough_to_outrun_expiry(self):
        names, seconds, admitted = self.with_body(), 4, False
        made = {n: ROWS[n].make(world) for n in names}
        while not admitted and seconds < 30:
            callers = {n: self.caller() for n in names}
            self.expire(callers.values(), seconds)
            halves = {n: Half(callers[n], n, *made[n], ROWS[n].headers) for n in names}
            admitted = all(h.admitted for h in halves.values())
            seconds *= 2
        for name in names:
            with self.subTest(name):
                self.assertTrue(halves[name].admitted, halves[name].bytes)
                self.await_expiry(callers[name])
                self.finish(halves[name], name, made[name][0], 401)

    @staticmethod
    def lock():
        """As another process that has the catalogue for itself; until it is closed."""
        lock = sqlite3.connect(os.path.join(world.daemon.state, "barkerd.db"), isolation_level=None, timeout=30)
        lock.execute("BEGIN IMMEDIATE")
        return lock

    @staticmethod
    def ask_only(client, name, path, body):
        body = json.dumps(body) if isinstance(body, dict) else body or ""
        return harness.send_only(client, name.split()[0], path, body, ROWS[name].headers)

    def test_what_waits_for_the_disk_does_not_outrun_expiry(self):
        """Every route that changes something. Its handler runs, and what it wants waits for the catalogue, which another process has
        locked, until the token is over. Data files do not wait for the catalogue."""
        names = [n for n, (flags, _, _) in table_routes().items() if "ROUTE_WRITE" in flags and "ROUTE_OPEN" not in flags
                 and 200 <= ROWS[n].admin < 300 and "datasets" not in n and n != "POST /v1/tickets"]
        self.assertGreater(len(names), 12)
        seconds, late = 2, []
        while late != names and seconds < 30:  # again when a token was over too soon
            callers, made = {n: self.caller() for n in names}, {n: ROWS[n].make(world) for n in names}
            self.expire(callers.values(), seconds)
            until, before = time.time() + seconds, world.snapshot()
            lock = self.lock()
            asked = {n: self.ask_only(callers[n], n, *made[n]) for n in names}
            while time.time() < until:
                time.sleep(0.02)
            late = [n for n in names if not harness.answered(asked[n])]
            lock.close()
            replies = {n: connection.recv(4096) for n, connection in asked.items()}
            seconds *= 2
        for name in names:
            with self.subTest(name):
                self.assertIn(name, late, replies[name])
                self.assertIn(statuses(replies[name]), ([401], [503]), replies[name])
            asked[name].close()
        self.assertEqual(world.snapshot(), before, "a refused request changed something")
        for name in names:
            self.settle(name, made[name][0])

    def test_what_waits_for_a_thread_does_not_outrun_expiry(self):
        """Every route that reads and may wait: the only thread for requests is busy until the token is over."""
        names = [n for n, (flags, _, _) in table_routes().items()
                 if n.startswith("GET ") and "ROUTE_POOL" in flags and ROWS[n].admin == 200]
        self.assertGreater(len(names), 15)
        made, seconds, late = {n: ROWS[n].make(world) for n in names}, 2, []
        world.daemon.settings["request_threads"] = 1
        while late != names and seconds < 30:  # again when a token was over too soon
            callers = {n: self.caller() for n in names}
            self.expire(callers.values(), seconds)
            until = time.time() + seconds
            lock = self.lock()
            busy = harness.send_only(world.admin, "POST", "/v1/tokens", "{}")
            asked = {n: self.ask_only(callers[n], n, *made[n]) for n in names}
            while time.time() < until:
                time.sleep(0.02)
            late = [n for n in names if not harness.answered(asked[n])]
            lock.close()
            replies = {n: connection.recv(4096) for n, connection in asked.items()}
            busy.close()
            seconds *= 2
        world.daemon.settings["request_threads"] = THREADS
        world.daemon.restart()
        for name in names:
            with self.subTest(name):
                self.assertIn(name, late, replies[name])
                self.assertEqual(statuses(replies[name]), [401], replies[name])
            asked[name].close()

    def test_a_token_that_is_revoked_makes_no_other_and_brings_no_user_back(self):
        caller = self.caller()
        half = Half(caller, "POST /v1/tokens", "/v1/tokens", {"label": "after the end"}, None)
        self.lose_user(caller)
        self.assertEqual(half.finish()[0], 401)
        self.assertNotIn(caller.name, [u for u, in world.daemon.catalogue("SELECT name FROM user")])

    def test_an_upload_is_refused_while_its_body_comes(self):
        for kind, (lose, status) in self.LOSSES.items():
            with self.subTest(kind):
                caller = self.caller()
                half = Half(caller, "PUT /v1/datasets/{name}", "/v1/datasets/late.csv", "1,2\n" * 400000, None)
                lose(self, caller)
                got, text = half.finish()
                self.assertEqual(got, status, text)
                folder = os.path.join(world.daemon.data, ".users", caller.name)
                self.assertEqual([f for _, _, fs in os.walk(folder) for f in fs], [])

    @staticmethod
    def slow_text():
        """Data that take a moment to load."""
        return "x1,x2,x3,y\n" + "".join("%d.5,%d.25,0.125,%d\n" % (k % 97, k % 89, k % 2) for k in range(1500000))

    @staticmethod
    def slow_spec():
        return {"model": {"name": "logistic"}, "data": {"path": "slow.csv"}, "chains": 1, "iterations": 10, "warmup": 0,
                "sampler": {"name": "sgbd", "step_size": 0.1}}

    def test_a_submission_that_loads_data_does_not_outrun_a_revocation(self):
        """Whatever comes first: no job was made after its owner's token was revoked."""
        world.daemon.file("slow.csv", self.slow_text())
        caller = self.caller()
        half = Half(caller, "POST /v1/jobs", "/v1/jobs", self.slow_spec(), None)
        half.socket.sendall(half.body[half.sent:])
        half.sent = len(half.body)
        time.sleep(0.05)  # loading has begun, most likely
        self.lose_token(caller)
        status, text = half.finish()
        (revoked, ), = world.daemon.catalogue("SELECT revoked_ms FROM token WHERE id = ?", caller.token_id)
        late = world.daemon.catalogue("SELECT id FROM job WHERE owner = ? AND created_ms > ?", caller.name, revoked)
        self.assertEqual(late, [])
        self.assertIn(status, (201, 401), text)

    def test_an_extension_that_loads_data_does_not_outrun_a_revocation(self):
        """As for a submission. The data are not in memory after a restart."""
        caller = self.caller()
        world.daemon.file("slow.csv", self.slow_text())
        job = caller.run(self.slow_spec())["id"]
        world.daemon.restart()
        half = Half(caller, "POST /v1/jobs/{id}/extend", "/v1/jobs/%s/extend" % job, {"iterations": 10}, None)
        half.socket.sendall(half.body[half.sent:])
        half.sent = len(half.body)
        time.sleep(0.05)  # loading has begun, most likely
        self.lose_token(caller)
        status, text = half.finish()
        (revoked, ), = world.daemon.catalogue("SELECT revoked_ms FROM token WHERE id = ?", caller.token_id)
        late = world.daemon.catalogue("SELECT text FROM log WHERE job = ? AND at_ms > ? AND text LIKE 'extended%'", job, revoked)
        self.assertEqual(late, [])
        self.assertIn(status, (202, 401), text)

    def test_a_reference_that_is_measured_does_not_outrun_a_revocation(self):
        """Whatever comes first: none was stored after its owner's token was revoked. One user has three measured at a time:
        more of them wait."""
        job = world.admin.run(harness.toy(iterations=600000, warmup=0, thin=1))["id"]
        caller = self.caller()
        halves = [Half(caller, "PUT /v1/references/{name}", "/v1/references/late%d" % i, {"job": job}, None) for i in range(7)]
        for half in halves:
            half.socket.sendall(half.body[half.sent:])
            half.sent = len(half.body)
        time.sleep(0.05)  # measuring has begun, most likely
        self.lose_token(caller)
        for half in halves:
            status, text = half.finish()
            self.assertIn(status, (204, 401, 503), text)
        (revoked, ), = world.daemon.catalogue("SELECT revoked_ms FROM token WHERE id = ?", caller.token_id)
        late = world.daemon.catalogue("SELECT name FROM reference WHERE owner = ? AND created_ms > ?", caller.name, revoked)
        self.assertEqual(late, [])

    def test_an_event_stream_ends_with_its_reader(self):
        for kind, (lose, _) in self.LOSSES.items():
            with self.subTest(kind):
                caller = self.caller()
                with harness.Events(caller) as stream:
                    lose(self, caller)
                    while stream.next() is not None:
                        pass
                    self.assertTrue(stream.ended)

    def test_an_event_stream_ends_at_expiry(self):
        caller = self.caller()
        self.expire([caller], 3)
        with harness.Events(caller) as stream:
            while stream.next() is not None:
                pass
            self.assertTrue(stream.ended)

    @staticmethod
    def formats():
        with open(os.path.join(harness.ROOT, "server/results/export.h")) as file:
            names = re.search(r"#define EXPORT_FORMATS\(X\)((?:.*\\\n)*.*\n)", file.read()).group(1)
        return re.findall(r"X\((\w+)\)", names)

    def test_a_download_is_cut_with_its_reader(self):
        self.assertGreater(len(self.formats()), 4)
        job = world.admin.run(harness.toy(iterations=1200000, warmup=0, thin=1, chains=1))["id"]
        for form in self.formats():
            for kind, (lose, _) in self.LOSSES.items():
                with self.subTest(form, kind=kind):
                    caller = self.caller()
                    download = self.begin_download(caller, job, form)
                    lose(self, caller)
                    self.assertCut(download)

    def test_a_download_is_cut_at_expiry(self):
        job = world.admin.run(harness.toy(iterations=600000, warmup=0, thin=1))["id"]
        seconds, status = 2, 401
        while status == 401:
            caller = self.caller()
            self.expire([caller], seconds)
            download = self.begin_download(caller, job, "csv")
            status, seconds = statuses(download.bytes)[0], 2 * seconds
        self.await_expiry(caller)
        self.assertCut(download)

    def begin_download(self, caller, job, form):
        """Reads the head only: the rest does not fit into the buffers of the two sockets."""
        download = Half.__new__(Half)
        download.socket, download.bytes = socket.socket(), b""
        download.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        download.socket.connect((world.daemon.host, world.daemon.port))
        download.socket.sendall(("GET /v1/jobs/%s/draws?format=%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n\r\n"
                                 % (job, form, caller.token)).encode())
        while b"\r\n\r\n" not in download.bytes:
            download.receive()
        return download

    def assertCut(self, download):
        """The connection ends before the length that was announced, or without the last chunk."""
        try:
            while True:
                download.receive()
        except AssertionError:
            download.socket.close()
        head, body = download.bytes.split(b"\r\n\r\n", 1)
        self.assertEqual(statuses(head), [200], head)
        length = re.search(rb"Content-Length: (\d+)", head, re.I)
        self.assertTrue(len(body) < int(length.group(1)) if length else not body.endswith(b"\r\n0\r\n\r\n"),
                        "the download is complete")

    def test_a_parked_long_poll_is_refused_when_it_goes_on(self):
        job = world.admin.run(harness.toy(visibility="lab"))["id"]
        for kind, (lose, _) in self.LOSSES.items():
            if kind == "demoted":
                continue  # a viewer may
            with self.subTest(kind):
                caller = self.caller()
                tag = caller.get("/v1/jobs/" + job).headers["ETag"]
                parked = world.parked()
                poll = Half.__new__(Half)
                poll.bytes = b""
                poll.socket = socket.create_connection((world.daemon.host, world.daemon.port), harness.PATIENCE)
                poll.socket.sendall(("GET /v1/jobs/%s?wait=30 HTTP/1.1\r\nHost: 127.0.0.1\r\nIf-None-Match: %s\r\n"
                                     "Authorization: Bearer %s\r\n\r\n" % (job, tag, caller.token)).encode())
                while world.parked() <= parked:
                    time.sleep(0.02)
                lose(self, caller)
                reply = world.admin.patch("/v1/jobs/" + job, {"note": "changed %d" % world.next()})
                self.assertEqual(reply.status, 200, reply)
                while b"\r\n\r\n" not in poll.bytes:
                    poll.receive()
                self.assertEqual(statuses(poll.bytes), [401], poll.bytes)
                poll.socket.close()

    def test_a_user_with_jobs_is_not_deleted_whatever_the_jobs_do(self):
        owner = world.daemon.user("owner%d" % world.next())
        for state in ("queued or running", "paused", "cancelled", "in the trash"):
            with self.subTest(state):
                if state == "queued or running":
                    job = owner.submit(harness.endless())
                elif state == "paused":
                    owner.act(job, "pause")
                elif state == "cancelled":
                    owner.end(job)
                else:
                    self.assertEqual(owner.delete("/v1/jobs/" + job).status, 204)
                self.assertProblem(world.admin.delete("/v1/users/" + owner.name), 409, "1 job")
                self.assertEqual(owner.get("/v1/me").status, 200)
        self.assertEqual(world.admin.delete("/v1/jobs/" + job, query={"purge": "true"}).status, 204)
        self.assertEqual(world.admin.delete("/v1/users/" + owner.name).status, 204)
