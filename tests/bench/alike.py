"""The approximate samplers alike: the same centre, whitening, estimator and rows per iteration, each at its best step, which is
found by one rule: the largest of a ladder of steps at which every mean is within 0.02 sd and every sd within 2 % of the posterior by
quadrature. What is shown is a longer run at that step with another seed, so that the choice does not flatter it.

The data are made up: 1000 rows without repeats, four coefficients, one covariate with long tails."""
import math, os, random

SAMPLERS = [("v-SGBD", "sgbd", "vanilla"), ("c-SGBD", "sgbd", "corrected"), ("e-SGBD", "sgbd", "extreme"), ("v-SGLD", "sgld", "vanilla"),
            ("c-SGLD", "sgld", "corrected"), ("e-SGLD", "sgld", "extreme"), ("lattice walk", "sglrw", None)]
BUDGETS = [("control variates, 2 rows in every iteration", "control_variate", 2, 1),
           ("control variates, 2 rows in one of 8 iterations", "control_variate", 2, 8),
           ("no control variates, 100 rows in every iteration", "plain", 100, 1)]
STEPS = [0.1 * 2 ** (k / 4) for k in range(15)]  # to 1.13, from the largest down
MEAN, SD = 0.02, 0.02
CHAINS, ROWS = 16, 1000


def write_data(folder):
    """alike.csv; returns its path."""
    rng, path = random.Random(3), os.path.join(folder, "alike.csv")
    with open(path, "w") as file:
        file.write("y,a,b,c,one\n")
        for _ in range(ROWS):
            a, c = rng.gauss(0, 1), rng.gauss(0, 1) / math.sqrt(rng.gammavariate(2, 0.5))
            b = 0.6 * a + 0.8 * rng.gauss(0, 1)
            eta = 0.8 * a - 0.5 * b + 0.4 * c - 1
            file.write("%d,%.6f,%.6f,%.6f,1\n" % (rng.random() < 1 / (1 + math.exp(-eta)), a, b, c))
    return path


def job(sampler, variant, sigma, budget, draws, seed):
    """About `draws` effective draws if the chain mixes as a normal target lets it: 4/sigma^2 iterations each."""
    estimator, n, one_in = budget
    settings = {"name": sampler, "step_size": sigma}
    if variant:
        settings["variant"] = variant
    return {"model": "logistic", "data": {"path": "alike.csv", "response": "y"}, "sampler": settings,
            "gradient": {"estimator": estimator, "one_in": one_in}, "precondition": "dense", "batch_size": n, "chains": CHAINS,
            "iterations": math.ceil(draws * max(8, 4 / sigma ** 2) / CHAINS), "warmup": math.ceil(40 / sigma ** 2),
            "thin": max(1, math.floor(0.7 / sigma ** 2) | 1), "check_draws": 0, "seed": seed}  # an odd thin, for the lattice


def measure(client, spec, exact):
    """Biases with their errors, and what the draws cost; None where chains diverge."""
    done = client.wait(client.submit(spec), "succeeded", "failed")
    if done["state"] == "failed":
        return None
    summary = client.read("/v1/jobs/%s/summary" % done["id"], query={"limit": 50})["parameters"]
    cpu = client.read("/v1/jobs/%s/diagnostics" % done["id"])["efficiency"]["cpu_seconds"]
    if any(p["mcse_sd"] is None for p in summary):
        return None
    rows = CHAINS * (spec["iterations"] + spec["warmup"]) * spec["batch_size"] / spec["gradient"]["one_in"]
    ess = min(p["ess_bulk"] for p in summary)
    pairs = list(zip(summary, exact["mean"], exact["sd"]))
    return {"sigma": spec["sampler"]["step_size"], "ess": ess, "ess_per_row": ess / rows, "ess_per_second": ess / cpu, "seconds": cpu,
            "means": [((p["mean"] - m) / s, p["mcse_mean"] / s) for p, m, s in pairs],
            "sds": [(p["sd"] / s - 1, p["mcse_sd"] / s) for p, _, s in pairs]}


def worst(pairs):
    return max(pairs, key=lambda pair: abs(pair[0]))


def good(line):
    return line is not None and abs(worst(line["means"])[0]) <= MEAN and abs(worst(line["sds"])[0]) <= SD


def best(client, exact, budget, sampler, draws):
    """The largest good step and the run there; without one the least bad of the sds."""
    tried = []
    for sigma in reversed(STEPS):
        line = measure(client, job(*sampler, sigma, budget, draws, 1), exact)
        tried += [line] if line else []
        if good(line):
            break
    if not tried:
        return None
    chosen = tried[-1] if good(tried[-1]) else min(tried, key=lambda line: abs(worst(line["sds"])[0]))
    line = measure(client, job(*sampler, chosen["sigma"], budget, 4 * draws, 2), exact)
    return {**line, "meets": good(chosen)} if line else None


def table(client, exact, quick):
    """Prints the table and returns its lines."""
    lines = []
    for about, *budget in BUDGETS:
        print("\n| %s | step | ESS per 1000 rows | ESS per second | worst mean, sds | worst sd, %% |\n|---|---:|---:|---:|---:|---:|" % about)
        for name, *sampler in SAMPLERS:
            line = best(client, exact, budget, sampler, 2000 if quick else 10000)
            if line is None:
                print("| %s | diverges at every step | | | | |" % name)
                continue
            lines.append({"what": name, "budget": about, **line})
            (mean, mean_error), (sd, sd_error) = worst(line["means"]), worst(line["sds"])
            print("| %s | %.3f%s | %.3g | %.3g | %+.4f ± %.4f | %+.2f ± %.2f |" % (
                name, line["sigma"], "" if line["meets"] else " (none is good)", 1000 * line["ess_per_row"], line["ess_per_second"],
                mean, mean_error, 100 * sd, 100 * sd_error), flush=True)
    return lines
