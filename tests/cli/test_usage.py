"""The command line itself: what is typed wrongly is named, help and completion know everything."""

import json
import subprocess

from harness import BARKER, LOCAL, OK, USAGE, Case


class Usage(Case):
    def test_mistakes_are_named_and_nothing_is_sent(self):
        mistakes = [
            ([], "Usage: barker"),
            (["sumary", "x"], "did you mean `summary`?"),
            (["wtach"], "did you mean `watch`?"),
            (["data"], "`data put`, `data ls`, `data show`, `data rm`"),
            (["data", "lss"], "did you mean `data ls`?"),
            (["data", "frobnicate"], "needs a second word"),
            (["frobnicate"], "unknown command `frobnicate`"),
            (["show"], "show: missing ID"),
            (["show", ""], "show: ID is empty"),
            (["show", "a", "b"], 'unexpected argument "b"'),
            (["compare", "a"], "compare: missing B"),
            (["watch"], "watch: missing ID"),
            (["ls", "--limt", "3"], "unknown option --limt; did you mean --limit?"),
            (["ls", "-z"], "unknown option -z"),
            (["--frobnicate", "ls"], "unknown option --frobnicate"),
            (["ls", "--limit"], "--limit needs a value (N)"),
            (["ls", "--limit", "many"], '--limit takes a whole number of at least 0, not "many"'),
            (["ls", "--limit", "-3"], "--limit takes a whole number of at least 0"),
            (["ls", "-n", "0"], "--limit must be at least 1"),
            (["foo"], "unknown command `foo`; `barker help` lists the commands"),
            (["submit", "x.json", "--idempotency-key", ""], "--idempotency-key is empty"),
            (["ls", "--limit", "99999999999999999999"], "--limit takes a whole number"),
            (["ls", "--state", "rnning"], "--state must be one of active|queued|"),
            (["ls", "--json=yes"], "--json takes no value"),
            (["extend", "x"], "missing --iterations"),
            (["completion", "fish"], "only bash"),
            (["help", "frobnicate"], "unknown command `frobnicate`"),
            (["ls", "--url", "ftp://x"], "only http:// and https://"),
            (["ls", "--url", "http://me:pw@x/"], "a user name in the address"),
            (["ls", "--url", "http://x/?a=b"], "an address with ?"),
            (["ls", "--url", ""], "cannot be used"),
            (["ls", "--token-file", "/nonexistent"], "cannot read the token file"),
            (["submit", "/nonexistent.json"], "cannot read /nonexistent.json"),
            (["rm", "x"], "--yes"),
            (["data", "put", "/nonexistent"], "cannot read /nonexistent"),
            (["data", "put", "-"], "a NAME is needed"),
            (["data", "put", "/"], "a NAME is needed"),
            (["data", "put", "/tmp"], "is a folder"),
        ]
        for args, message in mistakes:
            with self.subTest(args=args):
                result = self.barker(*args, code=USAGE)
                self.assertIn(message, result.out + result.err)
        self.assertEqual(self.fake.requests, [])

    def test_help_of_a_family_is_that_of_its_commands(self):
        for family in ("data", "study", "token", "reference"):
            with self.subTest(family):
                self.assertEqual(self.barker(family, "--help").out, self.barker("help", family).out)

    def test_options_may_stand_anywhere_and_take_both_forms(self):
        for args in (["--json", "ls", "--limit", "7"], ["ls", "--limit=7", "--json"],
                     ["ls", "-n", "7", "--json"], ["ls", "-n7", "--json"]):
            with self.subTest(args=args):
                self.barker(*args)
                self.assertEqual(self.fake.requests[-1]["query"], "limit=7")

    def test_after_two_dashes_everything_is_an_argument(self):
        self.fake.add("--json")
        self.assertIn("job --json", self.barker("show", "--", "--json").out)

    def test_help_lists_every_command_and_every_command_has_help(self):
        text = self.barker("help").out
        for word in ("submit", "data put", "130", "BARKER_STATE"):
            self.assertIn(word, text)
        self.assertNotIn("__complete", text)
        lines = text[text.index("Commands"):text.index("Options of every")].splitlines()[1:-1]
        self.assertGreater(len(lines), 25)
        for line in lines:
            name = " ".join(w for w in line[2:26].split() if w.islower())
            with self.subTest(command=name):
                one = self.barker("help", *name.split()).out
                self.assertIn("Usage: barker " + name, one)
                if name != "help":
                    self.assertEqual(self.barker(*name.split(), "--help").out, one)
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()))

    def test_version_as_text_and_json(self):
        self.assertRegex(self.barker("--version").out, r"^barker \d+\.\d+\.\d+ ")
        self.assertIn("version", json.loads(self.barker("version", "--json").out))

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BARKER, "help"], env=self.env, stdout=full,
                                  stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, LOCAL)
        self.assertIn(b"cannot write the output", done.stderr)


class Completion(Case):
    def complete(self, *words):
        return self.barker("__complete", *words).out.split()

    def test_words_come_from_the_command_table(self):
        self.assertEqual(self.complete("su"), ["submit", "summary"])
        self.assertEqual(self.complete("data", ""), ["put", "ls", "show", "rm"])
        self.assertEqual(self.complete("token", "a"), ["add"])
        self.assertEqual(self.complete("draws", "--f"), ["--format", "--from"])
        self.assertEqual(self.complete("draws", "x", "--format", "n"), ["npy"])
        self.assertEqual(self.complete("draws", "x", "-f", "n"), ["npy"])
        self.assertEqual(self.complete("draws", "x", "--format", "=", "n"), ["npy"])
        self.assertEqual(self.complete("--tok"), ["--token-file"])
        self.assertEqual(self.complete("submit", ""), [":file"])
        self.assertEqual(self.complete("run", "--keep", ""), [":dir"])
        self.assertEqual(self.complete("completion", ""), ["bash"])
        self.assertEqual(self.complete("show", "x", ""), [])
        self.assertEqual(self.complete("nonsense", ""), [])

    def test_names_come_from_the_daemon(self):
        self.fake.add("01aaaa")
        self.fake.add("01bbbb")
        self.fake.datasets["train.csv"] = b""
        self.assertEqual(self.complete("show", ""), ["01bbbb", "01aaaa", "last"])
        self.assertEqual(self.complete("watch", "01aaaa", "01b"), ["01bbbb"])
        self.assertEqual(self.complete("data", "show", "t"), ["train.csv"])
        self.assertEqual(self.complete("samplers", "sgb"), ["sgbd"])
        self.assertEqual(self.complete("ls", "--model", ""), ["logistic"])
        del self.env["BARKER_URL"]
        self.assertEqual(self.complete("--url", self.fake.url, "show", "01a"), ["01aaaa"])

    def test_a_daemon_that_is_not_there_gives_no_names_and_no_noise(self):
        self.env["BARKER_URL"] = "http://127.0.0.1:1"
        result = self.barker("__complete", "show", "")
        self.assertEqual((result.out, result.err), ("last\n", ""))

    def test_the_script_works_in_bash(self):
        self.fake.add("01aaaa")
        self.path("job one.json", "{}")
        program = ("eval \"$(%s completion bash)\"; compopt() { :; }; cd %s; t() { COMP_WORDS=(%s \"$@\");"
                   " COMP_CWORD=$#; _barker; printf '<%%s>' \"${COMPREPLY[@]}\"; echo; };"
                   " t sub; t show 01; t submit 'job'; t data r"
                   % (BARKER, self.folder, BARKER))
        done = subprocess.run(["bash", "-c", program], env=self.env, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.stdout, "<submit>\n<01aaaa>\n<job one.json>\n<rm>\n")
        self.assertEqual(done.returncode, OK)
