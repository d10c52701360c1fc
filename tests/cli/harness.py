"""Runs `barker` in a pipe or on a pseudo-terminal."""

import collections
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import fake

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("B", os.path.join(ROOT, "build/release")))
BARKER = os.path.join(BUILD, "barker")
BARKERD = os.path.join(BUILD, "barkerd")

# Seconds until a wait is given up. Nothing is asserted about how long things take.
PATIENCE = fake.PATIENCE

OK, JOB, USAGE, REFUSED, UNREACHABLE, SERVER, LOCAL, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


class Result:
    def __init__(self, code, out, err=""):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return "exit %s\n--- stdout\n%s\n--- stderr\n%s" % (self.code, self.out, self.err)


def check_clean(text):
    """No test passes over a sanitizer's report or a token in the output."""
    assert "Sanitizer" not in text and "runtime error:" not in text, text
    assert fake.TOKEN not in text, "a token was printed"


class Screen:
    """As much of a terminal as the live display uses."""

    def __init__(self, columns):
        self.columns, self.lines, self.row, self.column = columns, [""], 0, 0
        self.cursor, self.wrapped, self.colours = True, False, False

    def put(self, c):
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[:self.column] + c + line[self.column + 1:]
        self.column += 1
        self.wrapped = self.wrapped or self.column > self.columns

    def newline(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def feed(self, text):
        pattern = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])|.", re.S)
        for found in pattern.finditer(text):
            private, number, final = found.groups()
            if final is None:
                c = found.group(0)
                assert c != "\x1b", "an escape sequence that is not ours: %r" % text
                if c == "\r":
                    self.column = 0
                elif c == "\n":
                    self.newline()
                elif c >= " ":
                    self.put(c)
            elif private:
                assert number == "25"
                self.cursor = final == "h"
            elif final == "A":
                self.row = max(0, self.row - int(number or 1))
            elif final == "K":
                self.lines[self.row] = self.lines[self.row][:self.column]
            elif final == "J":
                self.lines[self.row] = self.lines[self.row][:self.column]
                del self.lines[self.row + 1:]
            elif final == "m":
                self.colours = True
            else:
                raise AssertionError("unexpected sequence %r" % found.group(0))

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")


class Terminal:
    """A running command whose stdin, stdout and stderr are a pseudo-terminal."""

    def __init__(self, argv, env, cwd, columns=80, rows=24):
        self.raw, self.screen = "", Screen(columns)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # the window has its size before anybody can ask
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            os.execve(argv[0], argv, env)
        self.pending = b""

    def read(self, seconds):
        """What comes within the time; False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.pending += data
        text = self.pending.decode(errors="ignore")
        self.pending = b"" if self.pending == text.encode() else self.pending
        if not self.pending:
            self.raw += text
            self.screen.feed(text)
        return bool(data)

    def until(self, what, seconds=PATIENCE):
        """Reads until a text is on the screen."""
        end = time.monotonic() + seconds
        while what not in self.screen.text:
            if time.monotonic() > end or not self.read(0.1):
                raise AssertionError("%r did not appear in\n%s" % (what, self.screen.text))

    def type(self, text):
        os.write(self.fd, text.encode())

    def finish(self, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while self.read(0.1):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError("did not end:\n" + self.screen.text)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        check_clean(self.raw)
        return Result(os.waitstatus_to_exitcode(status), self.screen.text)


class Case(unittest.TestCase):
    """A test with a scratch folder, a fake daemon and a clean environment."""

    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="barker-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.fake = fake.Fake().start()
        self.addCleanup(self.stop_fake)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.folder, "LC_ALL": "C.UTF-8",
                    "TERM": "xterm-256color", "TMPDIR": self.folder,
                    "BARKER_URL": self.fake.url, "BARKER_TOKEN": fake.TOKEN}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]

    def stop_fake(self):
        if not self.fake.closing:
            self.fake.stop()

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "w" if isinstance(content, str) else "wb") as file:
                file.write(content)
        return path

    def start(self, *args, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen([options.pop("program", BARKER), *args], env=self.env,
                                   cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **options)
        process.early = {"stdout": b"", "stderr": b""}
        return process

    def until_said(self, process, what, stream="stderr"):
        """Reads the output of a running command until a text is in it; `end` gives all of it."""
        source, early = getattr(process, stream), process.early
        end = time.monotonic() + PATIENCE
        while what not in early[stream].decode(errors="replace"):
            self.assertLess(time.monotonic(), end, (what, early))
            if select.select([source], [], [], 0.1)[0]:
                data = os.read(source.fileno(), 65536)
                self.assertTrue(data, (what, early))
                early[stream] += data

    def eventually(self, what, ask):
        """Asks until the answer is true, and gives it."""
        end = time.monotonic() + PATIENCE
        while True:
            answer = ask()
            if answer:
                return answer
            self.assertLess(time.monotonic(), end, "waited in vain for " + what)
            time.sleep(0.02)

    def end(self, process, data=None, seconds=PATIENCE):
        try:
            out, err = process.communicate(data, seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        out = (process.early["stdout"] + out).decode(errors="surrogateescape")
        err = (process.early["stderr"] + err).decode(errors="surrogateescape")
        check_clean(err)
        check_clean(out)
        return Result(process.returncode, out, err)

    def barker(self, *args, data=None, code=OK, **options):
        """Runs a command to its end and checks its exit code."""
        if data is not None:
            options["stdin"] = subprocess.PIPE
        result = self.end(self.start(*args, **options), data)
        self.assertEqual(result.code, code, result)
        return result

    def terminal(self, *args, columns=80, rows=24, program=None):
        return Terminal([program or BARKER, *args], self.env, self.folder, columns, rows)


def main(modules):
    """Runs test modules and prints the line that tests/run counts."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # started in the background, they are ignored
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(m) for m in modules)
    result = unittest.TextTestRunner(sys.stdout, verbosity=2).run(suite)
    for reason, count in collections.Counter(reason for _, reason in result.skipped).items():
        print("skipped: %d tests of the command line: %s" % (count, reason))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print("%d passed, %d failed" % (result.testsRun - failed - len(result.skipped), failed))
    return failed > 0
