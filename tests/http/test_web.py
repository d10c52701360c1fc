"""The dashboard as it is served: whole, packed or not, cached as long as it may be, and allowed to
load nothing from elsewhere."""

import gzip
import re

import harness
from harness import NO_TOKEN, Case, Daemon


def setUpModule():
    global daemon, anyone
    daemon = Daemon()
    anyone = daemon.client(NO_TOKEN)


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


GZIP = {"Accept-Encoding": "gzip, deflate, br"}


def assets():
    return re.findall(r'"(/assets/[^"]+)"', anyone.get("/").body.decode())


class Served(Case):
    def test_packed_and_plain_are_the_same(self):
        for path in ["/"] + assets():
            with self.subTest(path):
                plain, packed = anyone.get(path), anyone.get(path, headers=GZIP)
                self.assertEqual((plain.status, packed.status), (200, 200))
                self.assertIsNone(plain.headers["Content-Encoding"])
                self.assertEqual(packed.headers["Content-Encoding"], "gzip")
                self.assertEqual(gzip.decompress(packed.body), plain.body)
                self.assertEqual(plain.headers["Vary"], "Accept-Encoding")

    def test_the_page_names_script_style_and_icon(self):
        kinds = {path.rsplit(".", 1)[1]: anyone.get(path).headers["Content-Type"] for path in assets()}
        self.assertEqual(kinds, {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
                                 "png": "image/png"})

    def test_files_with_a_hash_are_kept_for_good_and_the_page_is_asked_for_again(self):
        self.assertEqual(anyone.get("/").headers["Cache-Control"], "no-cache")
        for path in assets():
            with self.subTest(path):
                self.assertEqual(anyone.get(path).headers["Cache-Control"], "public, max-age=31536000, immutable")

    def test_what_is_known_is_not_sent_again(self):
        for path in ["/"] + assets():
            with self.subTest(path):
                tag = anyone.get(path).headers["ETag"]
                again = anyone.get(path, headers={"If-None-Match": tag, **GZIP})
                self.assertEqual((again.status, again.body), (304, b""))
                self.assertEqual(again.headers["ETag"], tag)
                other = anyone.get(path, headers={"If-None-Match": '"something-else"'})
                self.assertEqual(other.status, 200)

    def test_head_has_the_headers_alone(self):
        for path in ["/"] + assets():
            with self.subTest(path):
                reply = anyone.request("HEAD", path, headers=GZIP)
                self.assertEqual((reply.status, reply.body), (200, b""))
                self.assertEqual(reply.headers["Content-Encoding"], "gzip")

    def test_other_names_are_not_found(self):
        for name in ("index.html", "app.js", "app-0000000000000000.js", "list.h", "a/b"):
            with self.subTest(name):
                self.assertProblem(anyone.get("/assets/" + name), 404)


class Closed(Case):
    def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(self):
        policy = dict(part.strip().split(" ", 1) if " " in part.strip() else (part.strip(), "")
                      for part in anyone.get("/").headers["Content-Security-Policy"].split(";"))
        self.assertEqual(policy["default-src"], "'none'")
        for kind in ("script-src", "style-src", "img-src", "connect-src"):
            self.assertEqual(policy[kind], "'self'", kind)
        for kind in ("base-uri", "form-action", "frame-ancestors"):
            self.assertEqual(policy[kind], "'none'", kind)
        self.assertEqual(policy["require-trusted-types-for"], "'script'")

    def test_nothing_is_sniffed_and_no_address_leaks(self):
        for path in ["/"] + assets():
            with self.subTest(path):
                headers = anyone.get(path).headers
                self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(headers["Referrer-Policy"], "no-referrer")
                self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")


if __name__ == "__main__":
    harness.unittest.main()
