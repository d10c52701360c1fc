"""The protocol of tests/bench/worker.h for Python programs: main(make), where make(workload) gives a function that does one
iteration (of all chains) and returns their state, or None when there is nothing to compare."""
import math, sys, time


def workload(words):
    """model=logistic N=88163 ... as an object."""
    w = type("Workload", (), dict(variant="vanilla", precision="single", users=0, items=0, chains=1, sigma=0.1, N=0, d=1, n=0))
    for word in words:
        key, value = word.split("=")
        setattr(w, key, value if key in ("model", "variant", "precision") else float(value) if key == "sigma" else int(value))
    w.corrected, w.batch = w.variant == "corrected", w.n or w.N
    return w


def main(make):
    iterate = make(workload(sys.argv[1:]))
    print("ready" if iterate else "absent", flush=True)
    for line in sys.stdin if iterate else []:
        iterations = int(line.split()[2])
        for _ in range(iterations // 16 + 1):
            iterate()
        cpu, wall = time.process_time(), time.monotonic()
        for _ in range(iterations):
            iterate()
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        if not math.isfinite(float(abs(iterate()).sum())):
            sys.exit(f"{sys.argv[0]}: a chain has diverged")
        print(f"{cpu:.9f} {wall:.9f}", flush=True)
