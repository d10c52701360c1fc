"""`barker run`: a daemon that starts, serves one job and is gone, whatever happens."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys

from harness import BARKER, INTERRUPTED, JOB, LOCAL, OK, REFUSED, SERVER, USAGE, Case

HERE = os.path.dirname(os.path.abspath(__file__))

# A stand-in for barkerd: the fake daemon as a program, steered by a file of JSON beside it.
STAND_IN = """#!%s
import json, os, signal, sys, threading
sys.path.insert(0, %r)
sys.dont_write_bytecode = True
import fake
here = os.path.dirname(os.path.abspath(__file__))
plan = json.load(open(os.path.join(here, "plan.json")))
state = sys.argv[sys.argv.index("--state") + 1]
end = threading.Event()
def stop(*args):
    open(os.path.join(here, "stopped"), "w").close()
    end.set()
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, lambda *a: open(os.path.join(here, "interrupted"), "w").close())
json.dump({"argv": sys.argv[1:], "pid": os.getpid(), "state": state,
           "mode": os.stat(state).st_mode & 0o777, "cwd": os.getcwd(),
           "descriptors": sorted(os.listdir("/proc/self/fd"))},
          open(os.path.join(here, "seen.json"), "w"))
if "die" in plan:
    sys.exit(plan["die"])
served = fake.Fake(token="bk_private_token").start()
served.new_job = plan.get("job", {})
for name, content in (("admin.token", "bk_private_token"), ("url", served.url)):
    path = os.path.join(state, name)
    with open(path + ".new", "w") as file:
        file.write(content + "\\n")
    os.rename(path + ".new", path)
if "die_after" in plan:
    served.wait_asked(plan["die_after"], "GET")
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(3)
def watched():
    served.wait_asked(2, "GET")
    open(os.path.join(here, "watched"), "w").close()
threading.Thread(target=watched, daemon=True).start()
end.wait()
if plan.get("stubborn"):
    threading.Event().wait()
"""


class Run(Case):
    def setUp(self):
        super().setUp()
        del self.env["BARKER_URL"]
        del self.env["BARKER_TOKEN"]
        self.bin = self.path("bin")
        os.mkdir(self.bin)
        self.program = os.path.join(self.bin, "barker")
        shutil.copy(BARKER, self.program)
        self.stand_in = os.path.join(self.bin, "barkerd")
        with open(self.stand_in, "w") as file:
            file.write(STAND_IN % (sys.executable, HERE))
        os.chmod(self.stand_in, 0o755)
        self.plan(job={"state": "succeeded", "iteration": 2000, "verdict": "all is well"})
        os.mkdir(self.path("work"))
        self.path("work/job.json", '{"model": {"name": "logistic"}}')

    def plan(self, **plan):
        self.path("bin/plan.json", json.dumps(plan))

    def seen(self):
        def read():
            try:
                with open(self.path("bin/seen.json")) as file:
                    return json.load(file)
            except (FileNotFoundError, json.JSONDecodeError):
                return None
        return self.eventually("the private daemon", read)

    def until_watched(self):
        self.eventually("a job that is watched", lambda: os.path.exists(self.path("bin/watched")))

    def assert_gone(self):
        """The daemon has ended, and its folder with it."""
        def gone():
            try:
                with open("/proc/%d/stat" % self.seen()["pid"]) as file:
                    return file.read().rsplit(")", 1)[1].split()[0] == "Z"
            except (FileNotFoundError, ProcessLookupError):
                return True
        self.eventually("the end of the private daemon", gone)

    def run_it(self, *args, **options):
        result = self.barker("run", *args, program=self.program, **options)
        return result

    def test_it_prints_the_summary_and_leaves_nothing(self):
        result = self.run_it("work/job.json")
        self.assertIn("theta[1]", result.out)
        self.assertIn("4000 draws from 2 chains", result.out)
        self.assertIn("all is well", result.out)
        self.assertIn("succeeded", result.err)
        seen = self.seen()
        self.assertEqual(seen["argv"], ["--listen", "127.0.0.1:0", "--state", seen["state"],
                                        "--data", "work"])
        self.assertEqual(seen["mode"], 0o700)
        self.assertLessEqual(len(seen["descriptors"]), 5)
        self.assertFalse(os.path.exists(seen["state"]))
        self.assertTrue(os.path.exists(self.path("bin/stopped")))
        self.assert_gone()

    def test_options_reach_the_daemon_and_the_draws_a_file(self):
        result = self.run_it("work/job.json", "--data", "/tmp", "--workers", "3", "-o", "d.csv")
        self.assertEqual(self.seen()["argv"][-4:], ["--data", "/tmp", "--workers", "3"])
        with open(self.path("d.csv")) as file:
            self.assertEqual(file.read(), "a,b\n1,2\n")
        self.assertIn("theta[1]", result.out)
        self.assertEqual(self.run_it("work/job.json", "-q", "-o", "-").out, "a,b\n1,2\n")

    def test_a_place_that_cannot_be_written_is_told_before_anything_runs(self):
        os.mkdir(self.path("results"))
        before = sorted(os.listdir(self.folder))
        for args, code, words in (
                (("-o", "nosuch/x.csv"), LOCAL, "nosuch/x.csv: No such file"),
                (("-o", "results"), LOCAL, "results: Is a directory"),
                (("-f", "stan", "-o", "nosuch/x"), LOCAL, "nosuch/x: No such file"),
                (("-f", "stan"), USAGE, "--format stan needs -o")):
            with self.subTest(args=args):
                self.assertIn(words, self.run_it("work/job.json", *args, code=code).err)
                self.assertFalse(os.path.exists(self.path("bin/seen.json")), "a daemon was started")
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_draws_that_cannot_be_written_at_the_end_are_kept(self):
        self.path("taken", "a file, where a folder with a file per chain is to be")
        result = self.run_it("work/job.json", "-q", "-f", "stan", "-o", "taken", code=LOCAL)
        state = self.seen()["state"]
        self.assertIn("barkerd --state " + state, result.err)
        self.assertTrue(os.path.exists(os.path.join(state, "admin.token")))
        self.assert_gone()
        shutil.rmtree(state)

    def test_data_must_be_a_folder_and_none_is_made(self):
        for path, words in (("nosuch", "No such file"), ("work/job.json", "not a folder")):
            with self.subTest(path=path):
                self.assertIn(words, self.run_it("work/job.json", "--data", path, code=USAGE).err)
        self.assertFalse(os.path.exists(self.path("nosuch")))
        self.assertFalse(os.path.exists(self.path("bin/seen.json")), "a daemon was started")

    def test_a_reader_that_leaves_is_no_failure(self):
        script = "%s run work/job.json -q -o - | true; echo ${PIPESTATUS[0]}" % self.program
        done = subprocess.run(script, shell=True, executable="/bin/bash", env=self.env,
                              cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("0\n", ""))

    def test_json_gives_job_and_summary(self):
        both = json.loads(self.run_it("work/job.json", "--json").out)
        self.assertEqual(both["job"]["state"], "succeeded")
        self.assertEqual(both["summary"]["draws"], 4000)

    def test_stdin_takes_data_from_here(self):
        self.run_it("-", data=b'{"model": {"name": "logistic"}}')
        self.assertEqual(self.seen()["argv"][-2:], ["--data", "."])

    def test_a_job_that_fails_is_told(self):
        self.plan(job={"state": "failed", "reason": "the chain diverged"})
        self.assertIn("the chain diverged", self.run_it("work/job.json", code=JOB).err)
        self.assert_gone()

    def test_a_job_that_is_refused_is_told(self):
        self.path("work/bad.json", "{}")
        self.assertIn("/model: is required", self.run_it("work/bad.json", code=REFUSED).err)
        self.assert_gone()
        self.run_it("work/nosuch.json", code=USAGE)

    def test_a_daemon_that_does_not_start_is_quoted(self):
        self.plan(die="cannot listen: \x1b[31mno luck")
        result = self.run_it("work/job.json", code=SERVER)
        self.assertIn("ended at once; its log:\n  cannot listen: ?[31mno luck", result.err)
        self.assertFalse(os.path.exists(self.seen()["state"]))

    def test_a_daemon_that_dies_is_quoted(self):
        self.plan(job={"state": "running"}, die_after=2)
        result = self.run_it("work/job.json", code=SERVER)
        self.assertIn("the private daemon ended; its log:\n  out of luck", result.err)
        self.assertFalse(os.path.exists(self.seen()["state"]))

    def test_no_daemon_program_is_told(self):
        os.unlink(self.stand_in)
        self.env["PATH"] = self.path("work")
        result = self.run_it("work/job.json", code=LOCAL)
        self.assertIn("cannot find barkerd", result.err)

    def test_the_program_is_found_in_the_path_too(self):
        os.mkdir(self.path("elsewhere"))
        os.rename(self.program, self.path("elsewhere/barker"))
        self.env["PATH"] = self.bin + ":" + self.env["PATH"]
        self.barker("run", "work/job.json", program=self.path("elsewhere/barker"))

    def test_keep_keeps_and_is_used_again(self):
        self.run_it("work/job.json", "--keep", "kept")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("kept")).st_mode), 0o700)
        self.path("kept/url", "http://127.0.0.1:1\n")
        self.run_it("work/job.json", "--keep", "kept")  # it does not believe what is there
        self.assert_gone()

    def test_interrupted_it_ends_the_daemon(self):
        self.plan(job={"state": "running", "iteration": 10})
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                process = self.start("run", "work/job.json", program=self.program)
                self.until_watched()
                process.send_signal(number)
                result = self.end(process)
                self.assertEqual(result.code, INTERRUPTED)
                self.assert_gone()
                self.assertFalse(os.path.exists(self.seen()["state"]))
                for name in ("stopped", "watched", "seen.json"):
                    os.unlink(self.path("bin/" + name))

    def test_a_terminals_interrupt_reaches_the_daemon_in_order(self):
        self.plan(job={"state": "running", "iteration": 10})
        terminal = self.terminal("run", "work/job.json", program=self.program)
        terminal.until("chain 2")
        terminal.type("\x03")
        result = terminal.finish()
        self.assertEqual(result.code, INTERRUPTED)
        self.assertIn("the job and its private daemon were stopped", result.out)
        self.assertFalse(os.path.exists(self.path("bin/interrupted")))
        self.assertTrue(terminal.screen.cursor)
        self.assert_gone()
        self.assertTrue(os.path.exists(self.path("bin/stopped")))

    def test_killed_it_takes_the_daemon_with_it(self):
        self.plan(job={"state": "running", "iteration": 10})
        process = self.start("run", "work/job.json", program=self.program)
        self.until_watched()
        process.kill()
        process.communicate()
        self.assert_gone()
        self.assertTrue(os.path.exists(self.path("bin/stopped")))
