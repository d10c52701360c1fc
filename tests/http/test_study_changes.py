"""Sweeps whose jobs are extended or paused one by one, and the bound on studies: they follow, or wait with the reason."""

import os
import sqlite3
import time

import harness
import test_sweep
from harness import Case, Daemon, endless, toy
from test_sweep import act, ask, finish, jobs_of, see, sweep, until


def setUpModule():
    global daemon, alice, bob, carol
    daemon = Daemon()
    alice, bob, carol = daemon.user("alice"), daemon.user("bob"), daemon.user("carol")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


def endless_sweep(client):
    """Four jobs under way that do not end."""
    study = ask(client, sweep([{"/seed": [1, 2, 3, 4]}], endless(chains=1)))
    return until(client, study, lambda s: s["progress"]["under_way"] == 4, "four jobs")


def states(client, study):
    return [client.job(j["id"])["state"] for j in jobs_of(client, study)]


def wait_states(client, study, state):
    end = time.monotonic() + harness.PATIENCE
    while set(states(client, study)) != {state}:
        assert time.monotonic() < end, states(client, study)
        time.sleep(0.05)


class Extended(Case):
    def test_a_job_extended_by_its_owner_does_not_keep_its_study_from_being_deleted(self):
        study = ask(alice, sweep([{"/seed": [1, 2]}], endless(iterations=1000000)))
        finish(alice, study)
        job = jobs_of(alice, study)[0]["id"]
        alice.act(job, "extend", {"iterations": 9 * 10 ** 10})
        self.assertEqual(alice.delete("/v1/studies/" + study["id"]).status, 204)
        end = time.monotonic() + harness.PATIENCE
        while alice.get("/v1/jobs/" + job).status != 404:
            self.assertLess(time.monotonic(), end, "the job is cancelled and in the trash")
            time.sleep(0.05)

    def test_an_extension_adds_to_the_iterations_made(self):
        """Not to those of the request, which a job with stop_when may be far from."""
        study = ask(alice, sweep([{"/seed": [1, 2]}],
                                 toy(iterations=10 ** 9, chains=1, warmup=100, stop_when={"ess": 300})))
        finish(alice, study)
        jobs = [j["id"] for j in jobs_of(alice, study)]
        made = [alice.job(j)["progress"]["iteration"] for j in jobs]
        self.assertLess(max(made), 10 ** 8)
        act(alice, study, "extend", {"iterations": 1000})
        self.assertEqual(finish(alice, study)["state"], "succeeded")
        self.assertEqual([alice.job(j)["progress"]["iteration"] for j in jobs], [m + 1000 for m in made])
        act(alice, study, "extend", {"iterations": 500})
        finish(alice, study)
        self.assertEqual([alice.job(j)["progress"]["iteration"] for j in jobs], [m + 1500 for m in made])


class Paused(Case):
    def test_a_resume_is_not_lost_with_the_daemon(self):
        """As after a kill between the answer to a resume and what follows from it."""
        other = Daemon()
        eve = other.user("eve")
        study = endless_sweep(eve)
        act(eve, study, "pause")
        wait_states(eve, study, "paused")
        self.assertEqual({eve.job(j["id"])["reason"] for j in jobs_of(eve, study)}, {"paused with its study"})
        self.assertEqual(other.stop(), 0)
        catalogue = sqlite3.connect(os.path.join(other.state, "barkerd.db"))
        with catalogue:
            catalogue.execute("UPDATE study SET state = 'running'")
        catalogue.close()
        other.start()
        end = time.monotonic() + harness.PATIENCE
        while "paused" in states(eve, study):
            self.assertLess(time.monotonic(), end, "the jobs go on")
            time.sleep(0.05)
        self.assertEqual(other.stop(), 0)

    def test_jobs_that_were_paused_one_by_one_wait_until_the_study_is_resumed(self):
        study = endless_sweep(alice)
        for job in jobs_of(alice, study):
            alice.act(job["id"], "pause")
        until(alice, study, lambda s: "paused by its owner" in s["reason"], "the reason")
        self.assertEqual(set(states(alice, study)), {"paused"})
        act(alice, study, "resume")
        until(alice, study, lambda s: "paused" not in s["reason"], "no such reason")
        self.assertNotIn("paused", states(alice, study))
        self.assertProblem(alice.post("/v1/studies/%s/resume" % study["id"]), 409, "none of its jobs is paused")
        act(alice, study, "cancel")
        finish(alice, study)


class Bounds(Case):
    def test_a_user_has_a_hundred_studies_under_way_at_most(self):
        other = Daemon(user_active_jobs=10000)
        eve, ann = other.user("eve"), other.user("ann")
        ended = ask(eve, sweep([{"/seed": [1]}], toy(iterations=200)))
        finish(eve, ended)
        for _ in range(100):
            act(eve, ask(eve, sweep([{"/seed": [1]}], endless(chains=1))), "pause")
        request = sweep([{"/seed": [1]}])
        self.assertProblem(eve.post("/v1/studies", request), 422, "100 studies under way", "may have 100")
        self.assertProblem(eve.post("/v1/studies/%s/extend" % ended["id"], {"iterations": 5}), 422, "under way")
        self.assertEqual(eve.post("/v1/studies", test_sweep.test_studies.ladder()).status, 201)
        self.assertEqual(finish(ann, ask(ann, request))["state"], "succeeded")
        self.assertEqual(other.stop(), 0)
