"""What can go wrong between here and the daemon, and which exit code tells."""

import json
import os
import shutil
import socket
import subprocess

import fake
from harness import OK, REFUSED, SERVER, UNREACHABLE, Case


class Errors(Case):
    def test_a_problem_is_shown_with_all_its_fields(self):
        result = self.barker("submit", "-", data=b'{"sampler": {"step_size": -1}}', code=REFUSED)
        self.assertEqual(result.err, "barker: A value is not allowed: 2 mistakes in the job\n"
                                     "  /model: is required\n"
                                     "  /sampler/step_size: is -1; must be above 0\n")
        self.assertEqual(result.out, "")

    def test_with_json_the_problem_goes_to_stdout_too(self):
        result = self.barker("submit", "-", "--json", data=b"{}", code=REFUSED)
        self.assertEqual(json.loads(result.out)["errors"][0]["pointer"], "/model")

    def test_exit_code_and_words_follow_the_status(self):
        cases = [
            (400, {"title": "Bad", "detail": "no"}, [], REFUSED, "barker: Bad: no"),
            (403, {"title": "The role does not allow it"}, [], REFUSED, "The role does not allow it\n"),
            (429, {"title": "Too many", "detail": "x"}, [("Retry-After", "7")], REFUSED,
             "try again in 7 s"),
            (500, {"title": "A defect", "detail": "y"}, [], SERVER, "barker: A defect: y"),
            (503, {"detail": "shutting down"}, [], SERVER, "barker: shutting down"),
            (502, b"<html>Bad gateway</html>", [], SERVER, "HTTP 502 without a problem document"),
            (404, b"", [], REFUSED, "is the server at " + self.fake.url + " a barkerd?"),
            (302, b"", [("Location", "https://elsewhere/")], REFUSED, "redirects to another address"),
            (200, b"<html>hello</html>", [], SERVER, "is not JSON: is it a barkerd?"),
            (200, b"", [], SERVER, "is not JSON: is it a barkerd?"),
        ]
        for status, body, headers, code, message in cases:
            with self.subTest(status=status, body=body):
                self.fake.prepare("GET", "/v1/info", (status, body, headers))
                self.assertIn(message, self.barker("info", code=code).err)

    def test_no_daemon_says_where_and_what_to_do(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = "http://127.0.0.1:%d" % unused.getsockname()[1]
            result = self.barker("ls", "--url", address, code=UNREACHABLE)
        for words in ("no daemon at " + address, "`barkerd`", "--url", "barker run"):
            self.assertIn(words, result.err)

    def test_a_connection_that_breaks_is_an_error(self):
        self.fake.prepare("GET", "/v1/info", "cut")
        self.assertIn("was lost", self.barker("info", code=UNREACHABLE).err)
        self.fake.prepare("GET", "/v1/info", "cut half")
        self.assertIn("was lost", self.barker("info", code=UNREACHABLE).err)

    def test_a_missing_or_wrong_token_is_explained(self):
        self.env["BARKER_TOKEN"] = "bk_wrong_token"
        self.assertIn("was not accepted", self.barker("ls", code=REFUSED).err)
        del self.env["BARKER_TOKEN"]
        self.assertIn("no token was found", self.barker("ls", code=REFUSED).err)

    def test_texts_of_others_cannot_steer_the_terminal(self):
        evil = "\x1b]0;title\x07 \x1b[2J\u202egnp.exe\x9b31m\ntwo\tlines"
        self.fake.add("01evil", name=evil, owner=evil, state="failed", reason=evil, verdict=evil)
        self.fake.log = [{"at": "2026-01-01T00:00:00Z", "message": evil}]
        for args in (["ls"], ["show", "01evil"], ["log", "01evil"]):
            with self.subTest(args=args):
                out = self.barker(*args).out
                self.assertTrue(all(c == "\n" or (c >= " " and c != "\u202e" and not
                                                  "\x7f" <= c < "\xa0") for c in out), repr(out))
                self.assertIn("?]0;title? ?[2J?gnp.exe?31m two lines", out)
        self.fake.prepare("GET", "/v1/info", (400, {"title": evil, "detail": evil}))
        self.assertNotIn("\x1b", self.barker("info", code=REFUSED).err)
        self.assertEqual(json.loads(self.barker("show", "01evil", "--json").out)["name"], evil)

    def test_whatever_is_typed_is_encoded(self):
        weird = "../a b?c#d%&é"
        encoded = "..%2Fa%20b%3Fc%23d%25%26%C3%A9"
        self.barker("show", weird, code=REFUSED)
        self.assertEqual(self.fake.requests[0]["path"], "/v1/jobs/" + encoded)
        self.barker("ls", "--tag", weird, "--owner", "a&b=c", "--search", "x y")
        self.assertEqual(self.fake.requests[-1]["query"],
                         "tag=%s&q=x%%20y&owner=a%%26b%%3Dc&limit=30" % encoded)

    def test_dots_reach_the_daemon_as_they_are(self):
        self.fake.prepare("DELETE", "/v1/datasets/..", (400, {"title": "Bad path"}))
        self.barker("data", "rm", "..", code=REFUSED)
        self.assertEqual(self.fake.requests[-1]["path"], "/v1/datasets/..")

    def test_a_proxy_of_the_environment_is_not_used_for_loopback(self):
        self.env["http_proxy"] = self.env["ALL_PROXY"] = "http://127.0.0.1:1"
        self.barker("info", code=OK)

    def test_tls_needs_a_certificate_that_is_trusted(self):
        if not shutil.which("openssl"):
            self.skipTest("no openssl to make a certificate with")
        names = self.path("cert.pem"), self.path("key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=fake",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-out", names[0], "-keyout",
                        names[1]], check=True, capture_output=True)
        with fake.Fake(certificate=names) as secure:
            result = self.barker("info", "--url", secure.url, code=UNREACHABLE)
            self.assertIn("certificate", result.err)
            self.assertIn("--cacert", result.err)
            self.assertEqual(secure.requests, [])
            self.assertIn("9.9.9", self.barker("info", "--url", secure.url, "--cacert", names[0]).out)


class WhereTheDaemonIs(Case):
    def setUp(self):
        super().setUp()
        del self.env["BARKER_URL"]
        del self.env["BARKER_TOKEN"]

    def state(self, *names, url=None, mode=0o700):
        folder = os.path.join(self.folder, *names)
        os.makedirs(folder)
        with open(os.path.join(folder, "admin.token"), "w") as file:
            file.write(fake.TOKEN + "\n")
        os.chmod(os.path.join(folder, "admin.token"), 0o600)
        if url:
            with open(os.path.join(folder, "url"), "w") as file:
                file.write(url + "\n")
        os.chmod(folder, mode)
        return folder

    def test_state_folders_are_found(self):
        places = [(["given"], "BARKER_STATE", "given"), (["barkerd-state"], None, None),
                  (["xdg", "barkerd"], "XDG_STATE_HOME", "xdg"),
                  ([".local", "state", "barkerd"], None, None)]
        for names, variable, value in places:
            with self.subTest(place=names):
                self.state(*names, url=self.fake.url)
                if variable:
                    self.env[variable] = os.path.join(self.folder, value)
                self.barker("info")
                self.env.pop(variable, None)
                shutil.rmtree(os.path.join(self.folder, names[0]))

    def test_an_address_given_by_hand_still_finds_the_local_token(self):
        self.state("barkerd-state", url="http://127.0.0.1:1")
        self.barker("info", "--url", self.fake.url)
        self.barker("info", "--url", self.fake.url[len("http://"):] + "/")

    def test_files_and_variables_come_before_state_folders(self):
        self.env["BARKER_TOKEN_FILE"] = self.path("token", "  " + fake.TOKEN + " \r\n")
        self.barker("info", "--url", self.fake.url)
        self.env["BARKER_TOKEN_FILE"] = "/nonexistent"
        self.barker("info", "--url", self.fake.url, "--token-file", self.path("token"))
        self.env["BARKER_TOKEN"] = fake.TOKEN
        self.env["BARKER_URL"] = self.fake.url
        self.barker("info")

    def test_a_folder_that_others_can_write_is_not_believed(self):
        self.state("barkerd-state", url=self.fake.url, mode=0o777)
        result = self.end(self.start("info"))
        self.assertIn(result.code, (UNREACHABLE, REFUSED),
                      "nobody at the usual address, or a daemon that we have no token for")
        self.assertEqual(self.fake.requests, [])

    def test_the_local_token_goes_to_no_other_machine(self):
        address = None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                address = probe.getsockname()[0]
            except OSError:
                pass
        if not address or address.startswith("127."):
            self.skipTest("this machine has no address but loopback")
        self.state("barkerd-state", url=self.fake.url)
        with fake.Fake(host="0.0.0.0") as other:
            result = self.barker("info", "--url", "http://%s:%d" % (address, other.port), code=REFUSED)
            self.assertNotIn("Authorization", other.requests[0]["headers"])
            self.assertIn("no token was found", result.err)

    def test_a_token_with_a_line_break_is_refused(self):
        self.env["BARKER_TOKEN"] = "a\r\nX-Evil: yes"
        result = self.barker("info", "--url", self.fake.url, code=2)
        self.assertIn("invalid character", result.err)
        self.assertEqual(self.fake.requests, [])
