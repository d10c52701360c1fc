"""A private daemon that goes on where it was stopped, and what is asked of it: references, studies, results."""

import json
import os
import shutil
import signal
import sys
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "http"))

import harness  # noqa: E402
import predictions  # noqa: E402
import sweep  # noqa: E402

ENDED = ("succeeded", "failed", "cancelled")


class Refused(Exception):
    """The daemon has no such study or setting."""


def end_orphan(state):
    """Stops a daemon on this state folder that outlived a driver which was killed."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0]) == b"barkerd" and state.encode() in words:
            os.kill(int(pid), signal.SIGTERM)
            while os.path.exists("/proc/" + pid):
                time.sleep(0.05)


class Laboratory:
    def __init__(self, folder, say):
        self.folder, self.say = folder, say
        os.makedirs(folder, exist_ok=True)
        daemon = os.path.join(folder, "daemon")
        end_orphan(os.path.join(daemon, "state"))
        self.daemon = harness.Daemon(daemon, slice_ms=500, workers=os.cpu_count(), user_active_jobs=100000,
                                     user_stored_mb=200000, reads_per_second=1000000)
        self.client = self.daemon.client()

    def stop(self):
        return self.daemon.stop()

    def add_data(self, path):
        to = os.path.join(self.daemon.data, os.path.basename(path))
        if not os.path.exists(to) or os.path.getsize(to) != os.path.getsize(path):
            shutil.copy(path, to)

    # ---- jobs ----

    def submit(self, job):
        """The id of this job, which is submitted once whatever happens to the driver."""
        reply = self.client.post("/v1/jobs", job, headers={"Idempotency-Key": "paper-" + sweep.fingerprint(job)})
        if reply.status == 422:
            raise Refused(mistakes(reply))
        assert reply.status in (200, 201), reply
        return reply.json()["id"]

    def wait(self, job_id):
        tag = None
        while True:
            reply = self.client.get("/v1/jobs/" + job_id, headers={"If-None-Match": tag} if tag else None,
                                    query={"wait": 5} if tag else None)
            assert reply.status in (200, 304), reply
            if reply.status == 200:
                job, tag = reply.json(), reply.headers["ETag"]
                if job["state"] in ENDED:
                    return job

    # ---- results ----

    def read(self, job_id, what, **query):
        reply = self.client.get("/v1/jobs/%s/%s" % (job_id, what), query=query)
        return reply.json() if reply.status == 200 else None

    def summary(self, job_id):
        """Columns by name: mean, sd, ..."""
        columns, cursor = {}, None
        while True:
            page = self.read(job_id, "summary", limit=10000, **({"cursor": cursor} if cursor else {}))
            if page is None:
                return None
            for p in page["parameters"]:
                for name in ("name", "mean", "sd", "mcse_mean", "mcse_sd", "q5", "q95", "rhat", "ess_bulk"):
                    columns.setdefault(name, []).append(p[name])
            cursor = page.get("next")
            if not cursor:
                return columns

    def record(self, job_id, wanted):
        """What the report needs of a job that has ended."""
        job = self.wait(job_id)
        out = {"id": job_id, "state": job["state"], "reason": job["reason"], "cpu": job["progress"].get("cpu_seconds")}
        out["summary"] = self.summary(job_id) if job["state"] == "succeeded" else None
        if (job["request"].get("data") or {}).get("test"):
            out["metrics"] = self.read(job_id, "metrics", max_points=100)
        for kind, name in (("trace", "trace"), ("density", "density")):
            if wanted.get(kind):
                extra = {"max_points": 400} if kind == "trace" else {"bins": 50}
                out[kind] = self.read(job_id, name, params=",".join(wanted[kind]), **extra)
        if wanted.get("predict") and job["state"] == "succeeded":
            out["prediction"] = predictions.of(self.client.draws(job_id, format="npy"), wanted["predict"], self.shape(job))
        return out

    def shape(self, job):
        """Users, items and rank of a factorisation, and the range and mean of its ratings."""
        with open(os.path.join(self.daemon.data, job["request"]["data"]["path"])) as file:
            return predictions.Shape(file)

    def reference(self, name, job, wanted):
        """The moments of an exact job, which the daemon keeps as a reference under this name."""
        job_id = self.submit(dict(job, name=name + ": exact"))
        record = self.record(job_id, wanted)
        assert record["state"] == "succeeded", record
        reply = self.client.put("/v1/references/" + urllib.parse.quote(name), {"job": job_id})
        assert reply.status in (201, 204), reply
        return record

    def study(self, study, wanted, progress):
        """A sweep with all records, {"setting", ...}; or the runs of mamba, one per seed."""
        if study["kind"] == "sweep":
            found = self.ask(study, progress)
            jobs = [(row["setting"], job) for row in found["result"]["rows"] for job in row["jobs"]]
            return {**found, "records": self.records(jobs, wanted)}
        study, seed = dict(study), study["job"]["seed"]
        return {"runs": [self.ask({**study, "job": {**study["job"], "seed": seed + k}}, progress) for k in range(study.pop("seeds"))]}

    def ask(self, study, progress):
        """A study of the daemon when it has ended; it is submitted once whatever happens to the driver."""
        reply = self.client.post("/v1/studies", study, headers={"Idempotency-Key": "paper-" + sweep.fingerprint(study)})
        if reply.status == 422:
            raise Refused(mistakes(reply))
        assert reply.status in (200, 201), reply
        return self.finished(reply.json()["id"], progress)

    def finished(self, study_id, progress):
        while True:
            study = self.client.read("/v1/studies/" + study_id, query={"limit": 1000})
            progress(study["progress"]["ended"], study["progress"]["jobs"])
            if study["state"] in ENDED:
                return study
            time.sleep(0.5)

    def records(self, jobs, wanted):
        """Of (setting, id), when they have ended. The first of a setting has what plots need, too."""
        records, seen, every = [], set(), {"predict": wanted.get("predict")}
        for setting, job_id in jobs:
            key = sweep.fingerprint(setting)
            records.append({"setting": setting, **self.record(job_id, wanted if key not in seen else every)})
            seen.add(key)
        return records


def mistakes(reply):
    return "; ".join(e["pointer"] + ": " + e["detail"] for e in reply.json().get("errors", [])) or reply.text


def stored(path, key):
    """What an earlier run has left at this path for the same question, or None."""
    try:
        with open(path) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found["value"] if found.get("key") == key else None


def store(path, key, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump({"key": key, "value": value}, file)
    os.replace(path + ".new", path)
