"""What no client should send: malformed HTTP, malformed JSON, odd paths. Each gets a clear error,
nothing crashes or hangs, and no job is left behind."""

import concurrent.futures
import gzip
import json
import re
import socket
import time

import harness
from harness import NO_TOKEN, Case, Daemon, raw, statuses

JSON = {"Content-Type": "application/json"}


def setUpModule():
    global daemon, alice
    daemon = Daemon()
    alice = daemon.user("alice")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def jobs():
    return daemon.catalogue("SELECT count(*) FROM job")[0][0]


GOOD = '{"model": {"name": "noisy_normal"}, "sampler": {"name": "sgbd"}%s}'

# JSON that is none: 400, with the place where it stops being it.
MALFORMED = {
    "empty": b"",
    "blank": b"  \n ",
    "open": b"{",
    "closed": b"}",
    "a word": b"nul",
    "single quotes": b"{'model': 1}",
    "trailing comma": b'{"model": 1,}',
    "no colon": b'{"model" 1}',
    "unquoted key": b"{model: 1}",
    "comment": b'{"model": 1 /* one */}',
    "two documents": b'{"model": 1} {"model": 1}',
    "trailing bytes": b'{"model": 1} x',
    "trailing NUL": b'{"model": 1}\0',
    "byte order mark": b'\xef\xbb\xbf{"model": 1}',
    "utf-16": '{"model": 1}'.encode("utf-16"),
    "bad utf-8": b'{"name": "\xff\xfe"}',
    "overlong utf-8": b'{"name": "\xc0\xaf"}',
    "lone surrogate": b'{"name": "\\ud800"}',
    "NUL in a text": b'{"name": "a\\u0000b"}',
    "NUL in a key": b'{"a\\u0000b": 1}',
    "control character": b'{"name": "a\nb"}',
    "bad escape": b'{"name": "\\x41"}',
    "NaN": b'{"iterations": NaN}',
    "Infinity": b'{"iterations": Infinity}',
    "-Infinity": b'{"iterations": -Infinity}',
    "1e999": b'{"sampler": {"name": "sgbd", "step_size": 1e999}}',
    "-1e999": b'{"priority": -1e999}',
    "hexadecimal": b'{"seed": 0x10}',
    "leading zero": b'{"seed": 010}',
    "leading plus": b'{"seed": +1}',
    "leading point": b'{"seed": .5}',
    "trailing point": b'{"seed": 1.}',
    "integer beyond 64 bits": b'{"seed": 99999999999999999999999}',
    "duplicate keys": b'{"seed": 1, "seed": 2}',
    "duplicate keys inside": b'{"model": {"name": "ica", "name": "logistic"}}',
    "depth 17": b"[" * 17 + b"]" * 17,
    "depth 2049": b"[" * 2049 + b"]" * 2049,
    "depth 60000, open": b"[" * 60000,
    "depth in objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
}

# JSON that is no job: 422, or 400 for what is not even an object.
NOT_A_JOB = {"array": b"[]", "text": b'"job"', "number": b"17", "null": b"null", "true": b"true",
             "nothing in it": b"{}"}


class Json(Case):
    def test_malformed_json_is_400_with_a_place_and_leaves_no_job(self):
        before = jobs()
        for name, body in MALFORMED.items():
            with self.subTest(name):
                reply = alice.post("/v1/jobs", body, headers=JSON)
                problem = self.assertProblem(reply, 400)
                if body.strip():
                    self.assertRegex(problem["detail"], r"line \d+, column \d+")
        self.assertEqual(jobs(), before)

    def test_other_json_routes_refuse_it_too(self):
        job = alice.run(harness.toy())["id"]
        for method, path in (("PATCH", "/v1/jobs/" + job), ("POST", "/v1/jobs/%s/extend" % job),
                             ("POST", "/v1/tokens"), ("POST", "/v1/tickets/redeem"),
                             ("PUT", "/v1/references/bad")):
            for name in ("open", "NaN", "1e999", "duplicate keys", "depth 17", "bad utf-8", "empty"):
                with self.subTest(path, body=name):
                    reply = alice.request(method, path, MALFORMED[name], headers=JSON)
                    self.assertProblem(reply, 400)
        self.assertEqual(alice.job(job)["progress"]["total"], 400)

    def test_packed_json_is_refused_for_what_it_is(self):
        body = json.dumps(harness.toy()).encode()
        packed = {**JSON, "Content-Encoding": "gzip"}
        self.assertProblem(alice.post("/v1/jobs", gzip.compress(body), headers=packed), 415, "Content-Encoding")
        plain = {**JSON, "Content-Encoding": "identity"}
        self.assertEqual(alice.post("/v1/jobs", body, headers=plain).status, 201)

    def test_json_that_is_no_job_is_refused(self):
        before = jobs()
        for name, body in NOT_A_JOB.items():
            with self.subTest(name):
                self.assertIn(alice.post("/v1/jobs", body, headers=JSON).status, (400, 422))
        self.assertEqual(jobs(), before)

    def test_fields_that_are_not_a_clients_to_set_are_mistakes(self):
        for field in ("id", "owner", "state", "revision", "created_at", "isa", "progress", "__proto__",
                      "Model", "iteration"):
            with self.subTest(field):
                reply = alice.post("/v1/jobs", GOOD % (', "%s": "x"' % field), headers=JSON)
                self.assertProblem(reply, 422, pointer="/" + field)

    def test_pointers_escape_odd_keys(self):
        reply = alice.post("/v1/jobs", GOOD % ', "a/b~c": 1', headers=JSON)
        self.assertProblem(reply, 422, pointer="/a~1b~0c")

    def test_a_hundred_mistakes_do_not_make_a_huge_answer(self):
        fields = "".join(', "f%d": 1' % i for i in range(3000))
        reply = alice.post("/v1/jobs", GOOD % fields, headers=JSON)
        self.assertProblem(reply, 422)
        self.assertLess(len(reply.body), 65536)
        self.assertGreater(len(reply.pointers()), 5)

    def test_null_means_the_default(self):
        reply = alice.post("/v1/jobs", {"model": {"name": "noisy_normal"}, "data": None,
                                        "sampler": {"name": "sgbd"}, "reference": None,
                                        "save": {"params": None}},
                           query={"validate_only": "true"})
        self.assertEqual(reply.status, 200, reply)


def head(lines, target=b"/v1/info", method=b"GET", version=b"HTTP/1.1"):
    return b"%s %s %s\r\n" % (method, target, version) + b"".join(l + b"\r\n" for l in lines) + b"\r\n"


class Http(Case):
    """Bytes on a socket. Never two replies to one request, never a crash."""

    CUT = (b"", b"GET", b"GET /v1/info", b"GET /v1/info HTTP/1.1\r\nHost: local", b"\r\n\r\n\r\n",
           b"\0" * 100)
    ENCODINGS = (b"gzip", b"gzip, chunked", b"identity", b"chunked, chunked", b"xchunked")

    LENGTHS = (b"+6", b"-1", b"6, 6", b"0x6", b"6 6", b"9" * 25, b"", b"6a")

    @classmethod
    def setUpClass(cls):
        """What the daemon answers only after its ten seconds for a head begins here, all at once."""
        cls.token = b"Authorization: Bearer " + alice.token.encode()
        cls.host = b"Host: localhost"
        cls.pool = concurrent.futures.ThreadPoolExecutor(20)
        cls.cut = [cls.pool.submit(raw, daemon, data) for data in cls.CUT]
        cls.encoded = [cls.pool.submit(raw, daemon, head([cls.host, cls.token, b"Transfer-Encoding: "
                                                          + value], b"/v1/jobs", b"POST")
                                       + b"0\r\n\r\n") for value in cls.ENCODINGS]
        cls.lengths = [cls.pool.submit(raw, daemon, head([cls.host, cls.token, b"Content-Length: "
                                                          + value], b"/v1/jobs", b"POST")
                                       + b"{}    ") for value in cls.LENGTHS]
        cls.slow = [socket.create_connection((daemon.host, daemon.port)) for _ in range(20)]
        for s in cls.slow:
            s.sendall(b"GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-A: ")

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()
        for s in cls.slow:
            s.close()

    def tearDown(self):
        self.assertTrue(daemon.alive(), daemon.log()[-2000:])
        self.assertEqual(alice.get("/v1/me").status, 200)

    def send(self, data, *expected, **options):
        answer = raw(daemon, data, **options)
        self.assertIn(statuses(answer), [[e] for e in expected], answer[:400])
        return answer

    def test_two_lengths_or_two_framings_are_refused(self):
        for lines in ([b"Content-Length: 6", b"Content-Length: 5"],
                      [b"Content-Length: 6", b"Content-Length: 6"],
                      [b"Content-Length: 6", b"Transfer-Encoding: chunked"],
                      [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"]):
            with self.subTest(lines):
                self.send(head([self.host, self.token] + lines, b"/v1/jobs", b"POST")
                          + b"0\r\n\r\nGET /v1/me HTTP/1.1\r\n", 400)

    def test_a_refused_request_smuggles_no_second_one(self):
        second = head([self.host, self.token], b"/v1/me")
        for lines in ([b"Content-Length: 0", b"Transfer-Encoding: chunked"],
                      [b"Content-Length: %d" % len(second), b"Content-Length: 0"]):
            with self.subTest(lines):
                answer = raw(daemon, head([self.host, self.token] + lines, b"/v1/jobs", b"POST")
                             + b"0\r\n\r\n" + second)
                self.assertEqual(statuses(answer), [400], answer[:400])

    def test_bad_lengths_are_refused(self):
        for value, answer in zip(self.LENGTHS, self.lengths):
            with self.subTest(value):
                answer = answer.result()
                self.assertLessEqual(set(statuses(answer)), {400, 413}, answer[:400])

    def test_unknown_transfer_encodings_are_refused(self):
        for value, answer in zip(self.ENCODINGS, self.encoded):
            with self.subTest(value):
                answer = answer.result()
                self.assertIn(statuses(answer), ([400], []), answer[:400])

    def test_folded_header_lines_forge_nothing(self):
        self.send(head([self.host, b"Auth: Bearer " + alice.token.encode(), b" orization"]), 400, 401)
        self.send(head([self.host, b"X: a", b"\tb", self.token]), 400)

    def test_host_is_needed_once_and_ours(self):
        self.send(head([self.token]), 400)
        self.send(head([self.host, self.host, self.token]), 400)
        for host in (b"evil.example", b"evil.example:80", b"localhost.evil.example", b"127.0.0.2"):
            with self.subTest(host):
                self.assertIn(b"the setting hosts", self.send(head([b"Host: " + host, self.token]), 421))
        for host in (b"", b":", b"local host", b"localhost:x", b"localhost:1:2"):
            with self.subTest(host):
                self.send(head([b"Host: " + host, self.token]), 400, 421)
        for host in (b"localhost", b"LOCALHOST:%d" % daemon.port, b"127.0.0.1", b"[::1]:1"):
            with self.subTest(host):
                self.send(head([b"Host: " + host, self.token, b"Connection: close"]), 200)

    def test_two_authorizations_are_refused(self):
        self.send(head([self.host, self.token, b"Authorization: Bearer x"]), 400)

    def test_a_blank_before_the_colon_is_refused(self):
        self.send(head([self.host, self.token.replace(b":", b" :", 1)]), 400, 401)

    def test_control_bytes_in_headers_are_refused(self):
        for line in (b"X-A: a\x01b", b"X\x01A: a", b"X-A: a\x7f", b"X-A: a\x00b"):
            with self.subTest(line):
                self.send(head([self.host, self.token, line]), 400)

    def test_long_heads_are_refused(self):
        self.send(head([self.host, self.token, b"X-A: " + b"a" * 40000]), 431, 400)
        self.send(head([self.host] + [b"X-%d: a" % i for i in range(4000)]), 431, 400)
        self.send(head([self.host, self.token], b"/v1/jobs?q=" + b"a" * 40000), 414, 431, 400)

    def test_other_versions_are_refused(self):
        self.send(head([self.host], version=b"HTTP/2.0"), 505)
        self.send(b"GET /v1/info\r\n\r\n", 400)
        self.assertLessEqual(set(statuses(raw(daemon, b"\x16\x03\x01\x02\x00\x01\x00" * 20))), {400})

    def test_http_1_0_is_answered_and_closed(self):
        answer = raw(daemon, head([self.host, self.token], version=b"HTTP/1.0"), shut=False)
        self.assertEqual(statuses(answer), [200])

    def test_keep_alive_serves_several_requests_on_one_connection(self):
        one = head([self.host, self.token], b"/v1/me")
        last = head([self.host, self.token, b"Connection: close"], b"/v1/me")
        answer = raw(daemon, one + one + last, shut=False)
        self.assertEqual(statuses(answer), [200, 200, 200], answer[:600])

    def test_errors_and_bodies_end_the_connection(self):
        answer = raw(daemon, head([self.host, self.token], b"/v1/none") + head([self.host, self.token]),
                     shut=False)
        self.assertEqual(statuses(answer), [404])
        answer = raw(daemon, head([self.host, self.token, b"Content-Type: application/json",
                                   b"Content-Length: 2"], b"/v1/jobs?validate_only=true", b"POST")
                     + b"{}" + head([self.host, self.token]), shut=False)
        self.assertEqual(statuses(answer), [422])

    def test_expect_continue_is_answered(self):
        body = (GOOD % "").encode()
        lines = [self.host, self.token, b"Content-Type: application/json", b"Connection: close",
                 b"Content-Length: %d" % len(body), b"Expect: 100-continue"]
        answer = raw(daemon, head(lines, b"/v1/jobs?validate_only=true", b"POST") + body, shut=False)
        self.assertEqual(statuses(answer)[-1], 200, answer[:400])

    def test_a_client_that_leaves_in_the_middle_of_a_body_leaves_nothing(self):
        before = jobs()
        data = head([self.host, self.token, b"Content-Type: application/json",
                     b"Content-Length: 5000"], b"/v1/jobs", b"POST") + (GOOD % "").encode()
        self.assertEqual(statuses(raw(daemon, data, shut=True, seconds=5)), [])
        self.assertEqual(jobs(), before)

    def test_odd_characters_in_the_path_are_refused(self):
        for target in (b"/v1/jobs%00", b"/v1/%6aobs", b"/v1/jobs/%2e%2e/me", b"/v1/jobs/../me",
                       b"/v1//me", b"//v1/me", b"/v1%2fme", b"/v1%5cme", b"/v1/jobs/%0d%0aX: y",
                       b"/v1/me%20", b"/v1/me;x", b"/v1/\xc0\xae\xc0\xae/me", b"/v1/me#x", b"*",
                       b"http://localhost/v1/me", b"v1/me", b"/..%c0%afv1/me", b"/v1/..", b"/."):
            with self.subTest(target):
                self.send(head([self.host, self.token], target), 400, 404, 501)

    def test_odd_characters_in_the_query_are_refused(self):
        for query in (b"q=%00", b"q=%zz", b"q=%", b"q=%0a", b"q=%ff", b"q=%c0%af", b"=1", b"q=a%1b[2J",
                      b"&".join(b"a%d=1" % i for i in range(100))):
            with self.subTest(query[:40]):
                self.send(head([self.host, self.token], b"/v1/jobs?" + query), 400)

    def test_a_cut_request_line_or_head_is_no_request(self):
        for data, answer in zip(self.CUT, self.cut):
            with self.subTest(data):
                self.assertLessEqual(set(statuses(answer.result())), {400})

    def test_a_slow_client_is_cut_and_others_are_served_meanwhile(self):
        end, left = time.monotonic() + harness.PATIENCE, list(self.slow)
        while left and time.monotonic() < end:
            self.assertEqual(alice.get("/v1/me").status, 200)
            for s in list(left):
                try:
                    s.sendall(b"a")  # a byte now and then keeps an idle timeout quiet
                    s.settimeout(0.01)
                    if s.recv(100) == b"":
                        left.remove(s)
                except socket.timeout:
                    pass
                except OSError:
                    left.remove(s)
            time.sleep(0.5)
        self.assertEqual(left, [], "slow clients were not cut")


class Log(Case):
    def test_every_log_line_is_one_event_whatever_clients_send(self):
        alice.post("/v1/jobs", harness.toy(name="two\nlines"))
        alice.post("/v1/jobs", harness.toy(name="escape \u001b[31m"))
        alice.post("/v1/jobs", harness.toy(name="quote \" = \\ back", note="line\ntwo"))
        alice.get("/v1/jobs?q=a%20b%22c")
        raw(daemon, b"GET /v1/\x1b[2J HTTP/1.1\r\nHost: localhost\r\nUser-Agent: \x1b[2J\r\n\r\n")
        raw(daemon, b"GET /%0d%0atime=now HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for line in daemon.log().splitlines():
            self.assertRegex(line, r"^time=\d{4}-\d\d-\d\dT[0-9:.]+Z level=\w+ event=")
            self.assertNotRegex(line, r"[\x00-\x1f\x7f]")

    def test_a_request_is_one_line_with_its_id(self):
        reply, lines = alice.get("/v1/info"), []
        end = time.monotonic() + harness.PATIENCE
        while not lines and time.monotonic() < end:  # it is written once the reply is out
            lines = [l for l in daemon.log().splitlines() if reply.headers["X-Request-Id"] in l]
        self.assertEqual(len(lines), 1)
        for words in ("method=GET", "path=/v1/info", "status=200", "user=alice"):
            self.assertIn(words, lines[0])

    def test_a_jobs_life_is_in_the_log_and_in_its_own(self):
        job = alice.run(harness.toy())["id"]
        end, told = time.monotonic() + harness.PATIENCE, None
        while not told and time.monotonic() < end:  # it is written once the end is stored
            told = re.search("event=job.changed .*%s.*state=succeeded" % job, daemon.log())
        self.assertTrue(told)
        entries = alice.read("/v1/jobs/%s/log" % job)["items"]
        text = " | ".join(str(e) for e in entries)
        for state in ("submitted", "running", "succeeded"):
            self.assertIn(state, text)


class Crossing(Case):
    def test_cross_site_forms_are_refused(self):
        for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
            reply = alice.post("/v1/jobs", (GOOD % "").encode(),
                               headers={"Content-Type": kind, "Origin": "http://evil.example"})
            self.assertProblem(reply, 415)

    def test_preflights_get_no_permission(self):
        reply = daemon.client(NO_TOKEN).request("OPTIONS", "/v1/jobs", headers={
            "Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
        self.assertIn(reply.status, (204, 400, 401, 405))
        self.assertIsNone(reply.headers["Access-Control-Allow-Origin"])
