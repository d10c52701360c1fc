"""Runs test modules in processes of their own, several at a time, because most of them wait for a daemon."""

import concurrent.futures
import re
import subprocess
import sys
import time

def run_each(script, names, at_once=3):
    """Runs `script NAME` for every name. Prints each output as a whole, and the sum of their last lines. Returns the
    exit code."""
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for output in pool.map(lambda name: _output(script, name), names):
            passed, failed = _add(output, passed, failed)
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0 or passed == 0


def _output(script, name):
    start = time.monotonic()
    done = subprocess.run([sys.executable, script, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return name, done.returncode, done.stdout.decode(errors="replace"), time.monotonic() - start


def _add(result, passed, failed):
    name, code, text, seconds = result
    lines = text.rstrip("\n").split("\n")
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed", lines[-1])
    if counts is None:
        print(text + "\nFAILED %s: ended with exit code %d and no count" % (name, code), flush=True)
        return passed, failed + 1
    print("\n".join(lines[:-1]), flush=True)
    print("%s: %s, %.0f s" % (name, lines[-1], seconds), flush=True)
    return passed + int(counts[1]), failed + max(int(counts[2]), int(code != 0))
