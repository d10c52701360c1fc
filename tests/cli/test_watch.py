"""Following jobs: lines in a pipe, bars on a terminal, daemons that come and go."""

import json
import time

from harness import INTERRUPTED, JOB, OK, REFUSED, SERVER, UNREACHABLE, Case, Screen


class Pipe(Case):
    def setUp(self):
        super().setUp()
        self.fake.add("01aa", state="queued", reason="all workers are busy")

    def test_a_line_per_change_of_state(self):
        begun = time.monotonic()
        process = self.start("watch", "01aa")
        self.fake.wait_known("01aa")
        for i in range(5):
            self.fake.update("01aa", state="running", iteration=100 * i)
            self.fake.wait_known("01aa")
        self.fake.update("01aa", state="succeeded", iteration=2000, phase="done",
                         summary={"max_rhat": 1.0134, "min_ess_bulk": 1234.5, "worst": "theta[1]"})
        result = self.end(process)
        self.assertEqual(result.code, OK)
        lines = result.out.splitlines()
        self.assertEqual(lines[0], "job 01aa  01aa  queued  0%  12.3k it/s  ETA 1m 20s"
                                   "  all workers are busy")
        for line in lines[1:-1]:
            self.assertRegex(line, "running  [0-9]+%")
        # One, and another one whenever nothing else was printed for 5 s.
        self.assertIn(len(lines[1:-1]), range(1, 2 + int((time.monotonic() - begun) / 5)), result)
        self.assertEqual(lines[-1], "job 01aa  01aa  succeeded  100%  12.3k it/s  in 12s"
                                   "  R-hat 1.013 (theta[1])  ESS 1.23k")

    def test_a_job_that_stopped_early_says_why(self):
        for cause, shown in (("completed", False), ("stop_when", True), ("time_limit", True)):
            with self.subTest(cause=cause):
                self.fake.update("01aa", state="succeeded", stop_cause=cause, reason="a reason")
                out = self.barker("watch", "01aa").out
                self.assertEqual("a reason" in out, shown, out)

    def test_it_polls_with_the_tag_of_what_it_knows(self):
        process = self.start("watch", "01aa")
        self.fake.wait_asked(4, "GET", "/v1/jobs/01aa")
        self.fake.update("01aa", state="succeeded")
        self.end(process)
        polls = self.fake.asked("GET", "/v1/jobs/01aa")[1:]  # the first one looks up the id
        self.assertEqual((polls[0]["query"], polls[0]["headers"].get("If-None-Match")), ("", None))
        for poll in polls[1:]:
            self.assertEqual(poll["query"], "wait=25")
            self.assertEqual(poll["headers"]["If-None-Match"], '"1"')

    def test_a_daemon_that_never_waits_is_not_flooded(self):
        self.fake.longest_wait = 0
        begun = time.monotonic()
        process = self.start("watch", "01aa")
        self.fake.wait_asked(5, "GET", "/v1/jobs/01aa")
        asked = len(self.fake.asked("GET", "/v1/jobs/01aa"))
        # Which job, its state, the first poll; then one a second.
        self.assertLessEqual(asked, 3 + (time.monotonic() - begun))
        self.fake.update("01aa", state="succeeded")
        self.end(process)

    def test_the_exit_code_tells_how_it_ended(self):
        for state, code in (("succeeded", OK), ("failed", JOB), ("cancelled", JOB)):
            with self.subTest(state=state):
                self.fake.update("01aa", state=state, reason="a reason")
                result = self.barker("watch", "01aa", code=code)
                if code:
                    self.assertIn("job 01aa %s: a reason" % state, result.err)

    def test_several_jobs_at_once(self):
        self.fake.add("01bb", state="running")
        process = self.start("watch", "01aa", "01bb")
        self.fake.wait_known("01bb")
        self.fake.update("01bb", state="failed", reason="no luck")
        self.fake.update("01aa", state="succeeded")
        result = self.end(process)
        self.assertEqual(result.code, JOB)
        self.assertIn("job 01bb failed: no luck", result.err)

    def test_json_gives_one_document_per_change(self):
        process = self.start("watch", "01aa", "--json")
        self.fake.wait_known("01aa")
        self.fake.update("01aa", state="succeeded")
        result = self.end(process)
        states = [json.loads(line)["state"] for line in result.out.splitlines()]
        self.assertEqual(states, ["queued", "succeeded"])
        self.assertEqual(result.err, "")

    def test_quiet_says_nothing(self):
        self.fake.update("01aa", state="succeeded")
        result = self.barker("watch", "01aa", "--quiet")
        self.assertEqual((result.out, result.err), ("", ""))

    def test_a_restarting_daemon_is_waited_for(self):
        process = self.start("watch", "01aa")
        self.fake.wait_known("01aa")
        self.fake.stop()
        self.until_said(process, "lost the connection")
        self.fake.update("01aa", state="succeeded")
        self.fake.start()
        result = self.end(process)
        self.assertEqual(result.code, OK, result)
        self.assertEqual(result.err.count("lost the connection"), 1)
        self.assertEqual(result.err.count("reconnected"), 1)
        self.assertIn("succeeded", result.out)

    def test_a_daemon_that_fails_for_a_moment_is_forgiven(self):
        process = self.start("watch", "01aa")
        self.fake.wait_known("01aa")
        asked = len(self.fake.asked("GET", "/v1/jobs/01aa"))
        self.fake.prepare("GET", "/v1/jobs/01aa", (503, {"title": "shutting down"}), "cut",
                          (429, {"title": "slowly"}, [("Retry-After", "1")]))
        self.fake.wait_asked(asked + 4, "GET", "/v1/jobs/01aa")
        self.fake.update("01aa", state="succeeded")
        self.assertEqual(self.end(process).code, OK)

    def test_patience_ends(self):
        process = self.start("watch", "01aa", "--patience", "1")
        self.fake.wait_known("01aa")
        self.fake.stop()
        result = self.end(process)
        self.assertEqual(result.code, UNREACHABLE)
        self.assertIn("no daemon at", result.err)

    def test_patience_ends_with_a_daemon_that_only_fails(self):
        process = self.start("watch", "01aa", "--patience", "1")
        self.fake.wait_known("01aa")
        self.fake.prepare("GET", "/v1/jobs/01aa", *[(500, {"title": "A defect"})] * 50)
        result = self.end(process)
        self.assertEqual(result.code, SERVER)
        self.assertEqual(result.err.count("A defect"), 1)

    def test_a_daemon_that_was_never_there_is_not_waited_for(self):
        self.fake.stop()
        result = self.barker("watch", "01aa", code=UNREACHABLE)
        self.assertNotIn("trying again", result.err)

    def test_a_job_that_is_deleted_ends_the_watch(self):
        process = self.start("watch", "01aa")
        self.fake.wait_known("01aa")
        with self.fake.changed:
            del self.fake.jobs["01aa"]
            self.fake.changed.notify_all()
        result = self.end(process)
        self.assertEqual(result.code, REFUSED)
        self.assertIn("no job 01aa", result.err)


class Bars(Case):
    def setUp(self):
        super().setUp()
        self.fake.add("01aa", state="running", iteration=0, chains=3)

    def test_bars_are_redrawn_in_place(self):
        terminal = self.terminal("watch", "01aa")
        terminal.until("warm-up")
        for i in range(1, 6):
            self.fake.update("01aa", state="running", iteration=300 * i,
                             phase="warmup" if i < 4 else "sampling")
            terminal.until("%d/2000" % (300 * i))
        self.fake.update("01aa", state="succeeded", iteration=2000, phase="done",
                         summary={"max_rhat": 1.0134, "min_ess_bulk": 1234.5, "worst": "theta[1]"})
        result = terminal.finish()
        lines = result.out.splitlines()
        self.assertEqual(result.code, OK)
        self.assertEqual(len(lines), 4, result.out)
        self.assertIn("succeeded  100%", lines[0])
        self.assertIn("R-hat 1.013", lines[0])
        for chain, line in enumerate(lines[1:], 1):
            self.assertRegex(line, "^  chain %d +━+ 100%%  done +2000/2000$" % chain)
        self.assertTrue(terminal.screen.cursor)
        self.assertTrue(terminal.screen.colours)
        self.assertNotIn("\x1b[2J", terminal.raw)

    def test_a_frame_is_never_blank(self):
        terminal = self.terminal("watch", "01aa")
        terminal.until("chain 3")
        start = len(terminal.raw)  # the end of the first frame may be yet to come
        self.fake.update("01aa", state="running", iteration=500)
        terminal.until("500/2000")
        self.fake.update("01aa", state="succeeded")
        terminal.finish()
        rest, frame = terminal.raw[start:].split("\x1b[4A", 1)
        self.assertNotIn("job 01aa", rest)
        self.assertNotIn("\x1b[J", frame[:frame.index("chain 3")])

    def test_interrupting_detaches_and_gives_the_cursor_back(self):
        terminal = self.terminal("watch", "01aa")
        terminal.until("chain 3")
        self.assertFalse(terminal.screen.cursor)
        terminal.type("\x03")
        result = terminal.finish()
        self.assertEqual(result.code, INTERRUPTED)
        said = result.out.replace("^C", "").splitlines()  # the terminal's echo may come at any moment
        self.assertIn("barker: stopped watching; the job continues", said)
        self.assertIn("chain 3", result.out)
        self.assertTrue(terminal.screen.cursor)
        self.assertEqual(self.fake.asked("POST"), [])

    def test_submit_and_wait_shows_bars_and_detaches(self):
        self.fake.new_job = {"state": "running", "iteration": 100}
        self.path("job.json", '{"model": {"name": "logistic"}}')
        terminal = self.terminal("submit", "job.json", "--wait")
        terminal.until("chain 2")
        terminal.type("\x03")
        result = terminal.finish()
        self.assertEqual(result.code, INTERRUPTED)
        self.assertIn("continues (barker watch 01job", " ".join(result.out.split()))
        self.assertTrue(terminal.screen.cursor)

    def test_a_narrow_window_never_wraps(self):
        self.fake.update("01aa", name="sepsis – корректный 測試 " * 4, state="running")
        for columns in (20, 33, 47, 60, 100):
            with self.subTest(columns=columns):
                terminal = self.terminal("watch", "01aa", columns=columns)
                terminal.until("chain 3")
                terminal.type("\x03")
                terminal.finish()
                for line in terminal.screen.text.splitlines():
                    if "barker:" not in line and "goes on" not in line and "^C" not in line:
                        wide = sum(1 for c in line if "\u2e80" < c < "\uffff" and c != "\u2026")
                        self.assertLessEqual(len(line) + wide, columns, line)

    def test_a_low_window_shows_one_line_per_job(self):
        for i in range(6):
            self.fake.add("01b%d" % i, state="running", chains=4)
        ids = ["01b%d" % i for i in range(6)]
        terminal = self.terminal("watch", *ids, rows=10)
        terminal.until("01b5")
        self.assertNotIn("chain", terminal.screen.text)
        terminal.type("\x03")
        terminal.finish()
        terminal = self.terminal("watch", *ids, rows=5)
        terminal.until("01b3")
        self.assertLess(len(terminal.screen.text.splitlines()), 5)
        terminal.type("\x03")
        terminal.finish()

    def test_the_daemon_leaving_and_returning_keeps_the_screen_tidy(self):
        terminal = self.terminal("watch", "01aa")
        terminal.until("chain 3")
        self.fake.stop()
        terminal.until("lost the connection")
        self.fake.update("01aa", state="succeeded", iteration=2000)
        self.fake.start()
        result = terminal.finish()
        self.assertEqual(result.code, OK)
        self.assertEqual(result.out.count("chain 3"), 1, result.out)

    def test_without_utf8_the_bars_are_plain(self):
        self.env["LC_ALL"] = "C"
        terminal = self.terminal("watch", "01aa")
        self.fake.update("01aa", state="running", iteration=1000)
        terminal.until("1000/2000")
        self.assertRegex(terminal.screen.text, r"chain 1 +#+\.+  50%")
        self.assertTrue(terminal.raw.isascii())
        terminal.type("\x03")
        terminal.finish()


class Tables(Case):
    def setUp(self):
        super().setUp()
        self.fake.add("01aa", state="running", iteration=840, name="a rather long name " * 5)
        self.fake.add("01bb", state="failed", name="b",
                      summary={"max_rhat": 1.2, "min_ess_bulk": 3, "worst": "x"})

    def test_tables_fit_any_width(self):
        for args in (["ls"], ["summary", "01aa"], ["samplers", "sgbd"], ["queue"], ["token", "ls"]):
            for columns in (30, 45, 60, 80, 120, 200):
                with self.subTest(args=args, columns=columns):
                    terminal = self.terminal(*args, columns=columns)
                    result = terminal.finish()
                    self.assertEqual(result.code, OK)
                    self.assertFalse(terminal.screen.wrapped, result.out)

    def test_names_are_cut_with_an_ellipsis_before_columns_go(self):
        out = self.terminal("ls", columns=100).finish().out
        self.assertRegex(out, "a rather long name .*…  ada")
        self.assertIn("R-HAT", out)
        self.assertIn("ETA", out)
        self.assertNotIn("SUBMITTED", out)

    def test_colours_only_where_they_are_wanted(self):
        def coloured(*args, **env):
            self.env.update(env)
            terminal = self.terminal(*args)
            terminal.finish()
            for name in env:
                del self.env[name]
            return terminal.screen.colours
        self.assertTrue(coloured("ls"))
        self.assertFalse(coloured("ls", "--no-color"))
        self.assertFalse(coloured("ls", NO_COLOR="1"))
        self.env["TERM"] = "dumb"
        self.assertFalse(coloured("ls"))

    def test_long_fields_are_wrapped_under_themselves(self):
        self.fake.update("01aa", name="a", verdict="mixing: theta[1] R-hat 1.08, about 40 s more; bias: step "
                                         "size 3.1 x the noise tolerance of theta[1]")
        terminal = self.terminal("show", "01aa", columns=60)
        out = terminal.finish().out
        self.assertFalse(terminal.screen.wrapped)
        self.assertRegex(out, r"verdict +mixing: .*\n {14}[a-z0-9]")


class Emulator(Case):
    def test_the_test_terminal_itself_notices_mistakes(self):
        screen = Screen(4)
        screen.feed("abcde")
        self.assertTrue(screen.wrapped)
        with self.assertRaises(AssertionError):
            screen.feed("\x1b]0;x\x07")
