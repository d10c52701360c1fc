"""The process: starting and refusing to, ending, restarting, fairness, memory, a full disk, care."""

import contextlib
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import threading
import time

import harness
from harness import (Case, Client, Daemon, Table, command, endless, logistic_text, ratings_text, steady,
                     toy)


class Start(Case):
    def refused(self, *words, **settings):
        daemon = Daemon(start=False, **settings)
        result = subprocess.run(daemon.argv(), env=daemon.env, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=harness.PATIENCE)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        for word in words:
            self.assertIn(word.lower(), result.stdout.lower())
        self.assertNotIn("Sanitizer", result.stdout)
        self.assertFalse(os.path.exists(os.path.join(daemon.state, "url")))
        return result

    def test_listening_beyond_loopback_needs_tls_or_a_proxy(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            self.refused("tls", listen=address)

    def test_behind_a_proxy_it_may_listen_anywhere(self):
        daemon = Daemon(listen="0.0.0.0:0", behind_proxy="true")
        self.assertEqual(daemon.client().get("/v1/me").status, 200)
        self.assertEqual(daemon.stop(), 0)

    def test_settings_are_checked(self):
        for name, value in (("workers", "-1"), ("workers", "two"), ("slice_ms", "1"), ("listen", "here"),
                            ("listen", "127.0.0.1"), ("listen", "127.0.0.1:99999"), ("colour", "red"),
                            ("behind_proxy", "perhaps"), ("max_iterations", "1e99")):
            with self.subTest(name, value=value):
                self.refused(name, **{name: value})

    def test_a_setting_without_a_value_and_an_unknown_command(self):
        for args in (["--workers"], ["dance"], ["backup"], ["token"], ["check", "twice"]):
            with self.subTest(args):
                result = command("--state", harness.scratch(), *args)
                self.assertNotEqual(result.returncode, 0)
                self.assertTrue(result.stderr)

    def test_what_is_wrong_with_the_words_is_said(self):
        state = harness.scratch()
        for args, words in ((["--colour"], "no setting \"colour\""), (["--workers"], "--workers needs a value"),
                            (["backup"], "backup DIRECTORY"), (["check", "x"], "usage: barkerd check")):
            with self.subTest(args):
                result = command("--state", state, *args)
                self.assertEqual(result.returncode, 2)
                self.assertIn(words, result.stderr)
                self.assertLess(len(result.stderr), 200, "who mistypes a word wants no page of help")

    def test_a_folder_of_data_that_was_given_must_be_there(self):
        daemon = Daemon(start=False)
        os.rmdir(daemon.data)
        with self.assertRaisesRegex(AssertionError, "data: %s: No such file" % daemon.data):
            daemon.start()
        self.assertFalse(os.path.exists(daemon.data))
        daemon.data = os.path.join(daemon.state, "data")  # our own is made
        daemon.start()
        self.assertTrue(os.path.isdir(daemon.data))
        self.assertEqual(daemon.stop(), 0)

    def test_the_state_is_not_among_the_data(self):
        base = harness.scratch()
        for folder in ("lab/state/draws", "lab/.hidden/state", "other"):
            os.makedirs(os.path.join(base, folder))
        for state, data in (("lab/state", "lab/state"), ("lab/state", "lab"), ("lab/state", "."),
                            ("lab/state", "lab/state/draws"), ("lab/state", "other/../lab")):
            with self.subTest(data):
                self.refused("state", state=os.path.join(base, state), data=os.path.join(base, data))
        daemon = Daemon(state=os.path.join(base, "lab/.hidden/state"), data=os.path.join(base, "lab"))
        self.assertEqual(daemon.stop(), 0)

    def test_a_state_that_others_may_write_to_is_remarked_on(self):
        daemon = Daemon(start=False)
        os.makedirs(daemon.state)
        for mode, remark in ((0o755, False), (0o777, True)):
            os.chmod(daemon.state, mode)
            daemon.start()
            self.assertEqual(daemon.stop(), 0)
            self.assertEqual("other accounts may write" in daemon.log(), remark, oct(mode))

    def test_settings_come_from_a_file_too_and_the_command_line_wins(self):
        daemon = Daemon(start=False)
        path = os.path.join(daemon.folder, "barkerd.conf")
        with open(path, "w") as file:
            file.write("# settings\nmax_chains = 3\nmax_iterations = 5000\n\n")
        del daemon.settings["max_iterations"]
        daemon.settings = {"config": path, **daemon.settings, "max_chains": 7}
        daemon.start()
        limits = daemon.client().read("/v1/info")["limits"]
        self.assertEqual((limits["chains"], limits["iterations"]), (7, 5000))
        self.assertEqual(daemon.stop(), 0)
        with open(path, "a") as file:
            file.write("workers = many\n")
        result = command("--config", path, "check")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("5", result.stderr)  # the line

    def test_a_second_daemon_on_the_same_state_is_refused(self):
        daemon = Daemon()
        second = subprocess.run(daemon.argv(), env=daemon.env, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=harness.PATIENCE)
        self.assertNotEqual(second.returncode, 0)
        self.assertEqual(daemon.client().get("/v1/me").status, 200)
        self.assertTrue(os.path.exists(os.path.join(daemon.state, "url")))
        self.assertEqual(daemon.stop(), 0)

    def test_a_port_in_use_is_refused_with_the_reason(self):
        daemon = Daemon()
        self.refused(str(daemon.port), listen="127.0.0.1:%d" % daemon.port)
        self.assertEqual(daemon.stop(), 0)

    def test_ipv6_loopback(self):
        if not socket.has_ipv6 or not os.path.exists("/proc/net/if_inet6"):
            self.skipTest("no IPv6 here")
        try:
            socket.socket(socket.AF_INET6).bind(("::1", 0))
        except OSError:
            self.skipTest("no IPv6 loopback here")
        daemon = Daemon(listen="[::1]:0")
        daemon.host = "::1"
        self.assertEqual(daemon.client().get("/v1/me").status, 200)
        self.assertEqual(daemon.stop(), 0)

    def test_tls(self):
        folder = harness.scratch()
        cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key,
                               "-out", cert, "-days", "2", "-subj", "/CN=localhost"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) \
            if any(os.path.exists(p + "/openssl") for p in os.environ["PATH"].split(":")) else None
        if made is None or made.returncode != 0:
            self.skipTest("no openssl to make a certificate with")
        import http.client
        import ssl
        daemon = Daemon(listen="0.0.0.0:0", tls_cert=cert, tls_key=key)
        self.assertEqual(daemon.url, "https://localhost:%d" % daemon.port)  # a name that certificates have
        context = ssl.create_default_context(cafile=cert)
        context.check_hostname = False
        connection = http.client.HTTPSConnection("127.0.0.1", daemon.port, context=context, timeout=harness.PATIENCE)
        connection.request("GET", "/v1/me", headers={"Authorization": "Bearer " + daemon.admin_token,
                                                     "Host": "localhost"})
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        answer = harness.raw(daemon, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertNotIn(b"200 OK", answer)
        daemon.restart(hosts="lab.example, other.example")
        self.assertEqual(daemon.url, "https://lab.example:%d" % daemon.port)
        self.assertEqual(daemon.stop(), 0)

    def test_who_listens_everywhere_is_reached_here(self):
        daemon = Daemon(listen="0.0.0.0:0", behind_proxy="true", hosts="lab.example")
        self.assertEqual(daemon.url, "http://127.0.0.1:%d" % daemon.port)
        self.assertEqual(daemon.stop(), 0)

    def test_a_damaged_catalogue_is_refused_with_the_reason(self):
        daemon = Daemon()
        daemon.client().run(toy())
        self.assertEqual(daemon.stop(), 0)
        path = os.path.join(daemon.state, "barkerd.db")
        with open(path, "r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (os.path.getsize(path) - 4096))
        result = subprocess.run(daemon.argv(), env=daemon.env, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=harness.PATIENCE)
        self.assertNotEqual(result.returncode, 0)
        self.assertTrue(result.stdout)
        self.assertGreaterEqual(result.returncode, 0, "it crashed: %s" % result.returncode)

    def test_help_lists_the_settings(self):
        result = command("--help")
        self.assertEqual(result.returncode, 0)
        for name in ("workers", "slice_ms", "trash_hours", "min_free_mb"):
            self.assertIn(name, result.stdout)
        self.assertEqual(command("--version").returncode, 0)


class Commands(Case):
    def test_tokens_are_made_while_no_daemon_runs(self):
        daemon = Daemon()
        busy = command("token", "add", "carol", state=daemon.state)
        self.assertNotEqual(busy.returncode, 0)
        self.assertEqual(daemon.stop(), 0)
        made = command("token", "add", "carol", "--role", "viewer", "--label", "by hand",
                       "--expires-in-days", "3", state=daemon.state)
        self.assertEqual(made.returncode, 0, made.stderr)
        daemon.start()
        carol = Client(daemon, made.stdout.strip())
        self.assertEqual(carol.read("/v1/me")["role"], "viewer")
        self.assertEqual(daemon.stop(), 0)
        for args in (["token", "add"], ["token", "add", "carol", "--role", "god"],
                     ["token", "add", "A B"], ["token", "remove", "carol"]):
            self.assertNotEqual(command(*args, state=daemon.state).returncode, 0, args)

    def test_no_user_is_made_where_it_cannot_be_seen_what_a_former_one_left(self):
        folder = harness.scratch()
        state, loop = os.path.join(folder, "state"), os.path.join(folder, "loop")
        os.symlink(loop, loop)
        made = command("token", "add", "carol", "--data", loop, state=state)
        self.assertEqual(made.returncode, 1, made.stdout)
        self.assertIn("data folder", made.stderr)

    def test_a_first_token_can_be_made_before_the_first_start(self):
        state = os.path.join(harness.scratch(), "state")
        made = command("token", "add", "root", "--role", "admin", state=state)
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_check_finds_nothing_in_a_good_state_and_damage_in_a_bad_one(self):
        daemon = Daemon()
        job = daemon.client().run(toy(iterations=20000))["id"]
        self.assertEqual(daemon.stop(), 0)
        good = command("check", state=daemon.state)
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)
        path = os.path.join(daemon.state, "draws", job + ".db")
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            file.seek(size // 2)
            file.write(b"\xa5" * (size // 4))
        bad = command("check", state=daemon.state)
        self.assertNotEqual(bad.returncode, 0)
        self.assertIn(job, bad.stdout + bad.stderr)

    def test_damage_that_sqlite_does_not_see_is_found_and_ends_no_daemon(self):
        """One thing wrong at a time: the check names it, and requests for the job are answered."""
        daemon = Daemon()
        job = daemon.client().run(toy(iterations=2000))["id"]
        self.assertEqual(daemon.stop(), 0)
        catalogue, file = (os.path.join(daemon.state, name) for name in ("barkerd.db", "draws/%s.db" % job))
        for path, sql, words in (
                (catalogue, "UPDATE job SET request = '{\"a\":'", "request or plan is not JSON"),
                (catalogue, "UPDATE job SET owner = '{}'", "owner is not a user"),
                (file, "UPDATE meta SET value = 0 WHERE key = 'thin'", "description of its layout"),
                (file, "UPDATE chain SET draws = -1", "cannot have been stored"),
                (file, "UPDATE state SET bytes = zeroblob(length(bytes))", "saved state is damaged")):
            with self.subTest(sql):
                shutil.copy(path, path + ".good")
                with contextlib.closing(sqlite3.connect(path)) as db:
                    db.executescript("PRAGMA foreign_keys = OFF;" + sql)
                checked = command("check", state=daemon.state)
                self.assertEqual(checked.returncode, 1, checked.stdout)
                self.assertIn(words, checked.stdout)
                daemon.start()
                client = daemon.client()
                for what in ("", "/summary", "/diagnostics", "/draws"):
                    self.assertLessEqual(client.get("/v1/jobs/%s%s" % (job, what)).status, 500)
                for what, body in (("/jobs/%s/extend" % job, {"iterations": 10}),
                                   ("/studies", {"kind": "ladder", "job": job})):
                    self.assertIn(client.post("/v1" + what, body).status, (201, 202, 409, 422, 500))
                self.assertTrue(client.get("/v1/jobs").json())  # a list is JSON whatever is stored
                self.assertEqual(client.get("/readyz").status, 200)
                daemon.kill()
                for ending in ("-wal", "-shm"):
                    for each in (catalogue, file):
                        if os.path.exists(each + ending):
                            os.unlink(each + ending)
                os.rename(path + ".good", path)

    def test_check_finds_files_that_are_missing_and_files_of_no_job(self):
        daemon = Daemon()
        job = daemon.client().run(toy(iterations=2000))["id"]
        self.assertEqual(daemon.stop(), 0)
        file = os.path.join(daemon.state, "draws", job + ".db")
        os.rename(file, file.replace(job, "000003t280000001"))
        checked = command("check", state=daemon.state)
        self.assertEqual(checked.returncode, 1, checked.stdout)
        self.assertIn("job %s has draws, but its file is missing" % job, checked.stdout)
        self.assertIn("job file 000003t280000001: it belongs to no job", checked.stdout)

    def test_check_refuses_a_folder_without_a_state_and_makes_none(self):
        for path in (harness.scratch(), os.path.join(harness.scratch(), "typo")):
            checked = command("check", state=path)
            self.assertEqual((checked.returncode, checked.stdout), (1, ""))
            self.assertIn(path + "/barkerd.db", checked.stderr)
            self.assertFalse(os.path.exists(path) and os.listdir(path))

    def test_a_damaged_job_file_does_not_cost_the_others_their_backup(self):
        daemon = Daemon()
        client = daemon.client()
        jobs = [client.run(toy(seed=k))["id"] for k in range(4)]
        self.assertEqual(daemon.stop(), 0)
        broken, unreadable = [os.path.join(daemon.state, "draws", job + ".db") for job in jobs[1:3]]
        with open(broken, "r+b") as file:
            file.seek(16384)
            file.write(b"\xa5" * (os.path.getsize(broken) - 16384))
        os.unlink(unreadable)
        os.mkdir(unreadable)  # reading it fails, as on a disk with bad sectors
        copy = os.path.join(daemon.folder, "backup")
        made = command("backup", copy, state=daemon.state)
        self.assertEqual(made.returncode, 1, made)
        self.assertIn("draws/%s.db" % jobs[1], made.stderr)
        self.assertIn("draws/%s.db" % jobs[2], made.stderr)
        self.assertEqual(sorted(os.listdir(os.path.join(copy, "draws"))),
                         sorted(job + ".db" for job in (jobs[0], jobs[3])))
        with sqlite3.connect(os.path.join(copy, "barkerd.db")) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM job").fetchone()[0], 4)
        db.close()

    def test_a_backup_of_a_busy_daemon_is_a_whole_state(self):
        daemon = Daemon()
        client = daemon.client()
        done = client.run(toy(name="done"))["id"]
        running = client.submit(steady(iterations=5000000, thin=100))
        client.wait_progress(running, 10000)
        copy = os.path.join(daemon.folder, "backup")
        made = command("backup", copy, state=daemon.state)
        self.assertEqual(made.returncode, 0, made.stderr)
        again = command("backup", copy, state=daemon.state)
        self.assertNotEqual(again.returncode, 0, "an existing backup was overwritten")
        draws = client.everything(done)
        client.end(running)
        checked = command("check", state=copy)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        restored = Daemon(state=copy, data=daemon.data, start=False)
        with open(os.path.join(copy, "admin.token"), "w") as file:  # tokens are not copied in the clear
            file.write(daemon.admin_token)
        restored.start()
        other = restored.client()
        self.assertEqual(other.everything(done), draws)
        job = other.job(running)
        self.assertIn(job["state"], ("queued", "running", "succeeded"))
        other.wait(running)
        self.assertEqual(other.everything(running), client.everything(client.run(
            steady(iterations=5000000, thin=100))["id"]))
        self.assertEqual(restored.stop(), 0)
        self.assertEqual(daemon.stop(), 0)


class End(Case):
    def test_sigterm_saves_everything_and_a_restart_goes_on(self):
        quiet = Daemon()
        quiet.file("train.csv", logistic_text(100))
        specs = [steady(iterations=6000000, thin=1500, chains=2),
                 {"model": {"name": "logistic"}, "data": {"path": "train.csv"}, "batch_size": 20,
                  "sampler": {"name": "sgld", "variant": "corrected"}, "iterations": 1500000, "warmup": 1000,
                  "thin": 1000, "chains": 2, "seed": 4}]
        whole = [quiet.client().everything(quiet.client().run(s)["id"]) for s in specs]
        self.assertEqual(quiet.stop(), 0)
        daemon = Daemon()
        daemon.file("train.csv", logistic_text(100))
        client = daemon.client()
        jobs = [client.submit(s) for s in specs]
        held = client.submit(endless())
        client.wait(held, "running")
        client.act(held, "pause")
        at = {}
        for _ in range(4):
            for job in jobs:
                client.wait_progress(job, at.get(job, 0) + 1)
            self.assertEqual(daemon.stop(), 0)
            daemon.start()
            for job in jobs:
                now = client.job(job)
                self.assertIn(now["state"], ("queued", "running", "succeeded"))
                self.assertGreaterEqual(now["progress"]["iteration"], at.get(job, 0))
                at[job] = now["progress"]["iteration"]
            self.assertEqual(client.job(held)["state"], "paused")
        for job, draws in zip(jobs, whole):
            client.wait(job)
            self.assertEqual(client.everything(job), draws)
        client.act(held, "cancel")
        client.wait(held, "cancelled")
        self.assertEqual(daemon.stop(), 0)

    def test_it_ends_although_clients_hold_on(self):
        daemon = Daemon()
        client = daemon.client()
        job = client.submit(endless())
        tag = client.get("/v1/jobs/" + job).headers["ETag"]
        client.act(job, "pause")
        streams = [client.events() for _ in range(10)]
        idle = [socket.create_connection((daemon.host, daemon.port)) for _ in range(10)]
        for s in idle[:5]:
            s.sendall(b"GET /v1/info HTTP/1.1\r\nHost: loc")
        answers = []
        polls = [threading.Thread(target=lambda: answers.append(self.poll(client, job, tag)))
                 for _ in range(5)]
        for t in polls:
            t.start()
        time.sleep(0.3)
        started = time.monotonic()
        self.assertEqual(daemon.stop(), 0)
        self.assertLess(time.monotonic() - started, 55)  # the polls alone would last a minute
        for t in polls:
            t.join(harness.PATIENCE)
        self.assertEqual(len(answers), 5)
        for s in idle:
            s.close()
        for stream in streams:
            stream.close()
        self.assertFalse(os.path.exists(os.path.join(daemon.state, "url")))

    @staticmethod
    def poll(client, job, tag):
        try:
            return client.get("/v1/jobs/" + job, headers={"If-None-Match": tag}, query={"wait": 60}).status
        except (OSError, harness.http.client.HTTPException) as error:
            return error

    def test_sigint_ends_it_too_and_sighup_does_not(self):
        daemon = Daemon()
        daemon.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.assertEqual(daemon.client().get("/v1/me").status, 200)
        daemon.process.send_signal(signal.SIGINT)
        self.assertEqual(daemon.process.wait(harness.PATIENCE), 0)

    def test_a_clean_end_leaves_no_write_ahead_log(self):
        daemon = Daemon()
        daemon.client().run(toy())
        self.assertEqual(daemon.stop(), 0)
        left = [n for n in os.listdir(daemon.state) + os.listdir(os.path.join(daemon.state, "draws"))
                if n.endswith("-wal") and os.path.getsize(os.path.join(daemon.state, n)
                                                          if os.path.exists(os.path.join(daemon.state, n))
                                                          else os.path.join(daemon.state, "draws", n)) > 0]
        self.assertEqual(left, [])


class ChangedData(Case):
    def prepare(self):
        daemon = Daemon()
        daemon.file("train.csv", logistic_text(50))
        client = daemon.client()
        job, _ = client.catch({"model": {"name": "logistic"}, "data": {"path": "train.csv"},
                               "sampler": {"name": "sgbd", "step_size": 0.1}, "iterations": 400000,
                               "warmup": 0, "thin": 1000, "chains": 1, "seed": 5, "batch_size": 10},
                              "pause")
        self.assertEqual(daemon.stop(), 0)
        return daemon, client, job

    def test_a_retry_needs_room_for_what_is_still_to_be_stored(self):
        daemon = Daemon()
        daemon.file("train.csv", logistic_text(50))
        boss, carol = daemon.client(), daemon.user("carol")
        job, _ = carol.catch({"model": {"name": "logistic"}, "data": {"path": "train.csv"},
                              "sampler": {"name": "sgbd", "step_size": 0.1}, "warmup": 0, "chains": 1,
                              "iterations": 10000000, "thin": 10, "seed": 5, "batch_size": 10}, "pause")
        daemon.file("train.csv", logistic_text(50, seed=77))
        self.assertEqual(daemon.stop(), 0)
        daemon.start()
        carol.act(job, "resume")
        carol.wait(job, "failed")
        daemon.file("train.csv", logistic_text(50))
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 8}})
        self.assertProblem(carol.post("/v1/jobs/%s/retry" % job), 422, "would store about")
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 1000}})
        carol.act(job, "retry")
        daemon.kill()

    def test_a_job_whose_data_changed_fails_with_the_reason_and_can_be_retried(self):
        daemon, client, job = self.prepare()
        text = logistic_text(50)
        daemon.file("train.csv", logistic_text(50, seed=77))
        daemon.start()
        client.act(job, "resume")
        done = client.wait(job, "failed")
        self.assertIn("train.csv", done["reason"])
        self.assertIn("sha256", done["reason"])
        self.assertEqual(client.get("/v1/jobs/%s/draws" % job).status, 200)
        reply = client.post("/v1/jobs/%s/extend" % job, {"iterations": 5})
        self.assertProblem(reply, 409)
        self.assertProblem(client.post("/v1/jobs/%s/retry" % job), 422, "train.csv")  # still changed
        daemon.file("train.csv", text)
        client.act(job, "retry")
        client.wait(job)
        again = client.run(client.job(job)["request"])["id"]
        self.assertEqual(client.everything(again), client.everything(job))
        self.assertEqual(daemon.stop(), 0)

    def test_a_job_whose_data_are_gone_fails_with_the_reason(self):
        daemon, client, job = self.prepare()
        os.unlink(os.path.join(daemon.data, "train.csv"))
        daemon.start()
        client.act(job, "resume")
        self.assertIn("train.csv", client.wait(job, "failed")["reason"])
        self.assertEqual(daemon.stop(), 0)

    def test_data_that_change_under_a_job_in_memory_do_not_change_its_draws(self):
        daemon = Daemon()
        daemon.file("train.csv", logistic_text(50))
        client = daemon.client()
        spec = {"model": {"name": "logistic"}, "data": {"path": "train.csv"},
                "sampler": {"name": "sgbd", "step_size": 0.1}, "iterations": 300000, "warmup": 0,
                "thin": 1000, "chains": 1, "seed": 5, "batch_size": 10}
        whole = client.everything(client.run(spec)["id"])
        job = client.submit(spec)
        client.wait_progress(job, 1)
        daemon.file("train.csv", "x1,x2,x3,y\n1,2,3,0\n")
        client.until(job, lambda j: j["state"] in harness.ENDED)
        if client.job(job)["state"] == "succeeded":
            self.assertEqual(client.everything(job), whole)
        else:
            self.assertIn("train.csv", client.job(job)["reason"])
        self.assertEqual(daemon.stop(), 0)

    def test_a_job_whose_file_is_gone_fails_alone(self):
        daemon = Daemon()
        client = daemon.client()
        job, other = client.submit(endless()), client.submit(endless())
        for j in (job, other):
            client.wait_progress(j, 1)
        self.assertEqual(daemon.stop(), 0)
        for suffix in ("", "-wal", "-shm"):
            path = os.path.join(daemon.state, "draws", job + ".db" + suffix)
            if os.path.exists(path):
                os.unlink(path)
        daemon.start()
        client.wait_progress(other, client.job(other)["progress"]["iteration"] + 1)
        self.assertIn(client.job(job)["state"], ("failed", "running", "queued"))
        for j in (job, other):
            client.post("/v1/jobs/%s/cancel" % j)
        self.assertEqual(daemon.stop(), 0)

    def test_a_job_whose_file_is_gone_does_not_begin_again_in_secret(self):
        daemon = Daemon()
        client = daemon.client()
        job = client.run(toy(iterations=2000))["id"]
        self.assertEqual(daemon.stop(), 0)
        os.unlink(os.path.join(daemon.state, "draws", job + ".db"))
        daemon.start()
        reply = client.post("/v1/jobs/%s/extend" % job, {"iterations": 5})
        self.assertProblem(reply, 500, "%s.db is missing" % job)
        self.assertEqual(client.job(job)["state"], "succeeded")
        self.assertEqual(daemon.stop(), 0)

    def test_the_log_of_a_job_tells_of_restarts_and_of_the_program_that_runs_it(self):
        daemon = Daemon()
        client = daemon.client()
        job = client.submit(endless())
        client.wait_progress(job, 1)
        daemon.kill()
        daemon.start()
        lines = [entry["text"] for entry in client.read("/v1/jobs/%s/log" % job)["items"]]
        program = r"barkerd [0-9.]+, build [0-9a-f]{12}"
        self.assertTrue(any(re.fullmatch("running: " + program, line) for line in lines), lines)
        self.assertRegex(lines[-1], r"^the server was restarted \(%s\): the job continues from iteration [1-9]" % program)
        daemon.kill()

    def kernels_noted(self, client, job):
        lines = [entry["text"] for entry in client.read("/v1/jobs/%s/log" % job)["items"]]
        return [re.match("the (\\w+) kernels round differently from the (\\w+) kernels", line).groups()
                for line in lines if "round differently" in line]

    def go_on(self, daemon, isa):
        daemon.kill()
        daemon.env["BARKER_ISA"] = isa
        daemon.start()

    def test_the_log_of_a_job_tells_of_kernels_that_round_otherwise(self):
        daemon = Daemon(env={"BARKER_ISA": "portable"})
        client = daemon.client()
        if "emulated" not in client.read("/v1/info")["isa_available"]:
            self.skipTest("all kernels round alike here")
        runs, ended, waits = client.submit(endless()), client.run(toy(iterations=200))["id"], client.submit(endless())
        for job in (runs, waits):
            client.wait_progress(job, 1)
        client.act(waits, "pause")
        client.wait(waits, "paused")
        self.go_on(daemon, "emulated")
        self.assertEqual(self.kernels_noted(client, runs), [("emulated", "portable")])
        self.assertEqual(client.job(runs)["isa"], "emulated")
        for job, event, body in ((ended, "extend", {"iterations": 100}), (waits, "resume", None)):
            self.assertEqual((client.job(job)["isa"], self.kernels_noted(client, job)), ("portable", []))
            client.act(job, event, body)
            client.wait(job, "running", "succeeded")
            self.assertEqual(self.kernels_noted(client, job), [("emulated", "portable")])
        best = [isa for isa in client.read("/v1/info")["isa_available"] if isa != "portable"][0]
        self.go_on(daemon, best)
        client.act(ended, "extend", {"iterations": 100})
        client.wait(ended)
        for job in (runs, ended, waits):
            self.assertEqual(len(self.kernels_noted(client, job)), 1, "%s rounds as emulated does" % best)
        daemon.kill()

    def test_who_has_lost_the_token_is_told_the_way_back(self):
        daemon = Daemon()
        self.assertEqual(daemon.stop(), 0)
        os.unlink(os.path.join(daemon.state, "admin.token"))
        daemon.launch()
        end = time.monotonic() + harness.PATIENCE
        while "barkerd token add admin --role admin" not in daemon.log():
            self.assertLess(time.monotonic(), end, daemon.log())
            time.sleep(0.01)
        daemon.kill()

    def test_a_job_whose_file_is_damaged_fails_alone(self):
        daemon = Daemon()
        client = daemon.client()
        job, other = client.submit(endless(thin=10000)), client.submit(endless())
        for j in (job, other):
            client.wait_progress(j, 100000)
        self.assertEqual(daemon.stop(), 0)
        path = os.path.join(daemon.state, "draws", job + ".db")
        with open(path, "r+b") as file:
            file.write(b"\xa5" * os.path.getsize(path))
        daemon.start()
        client.wait_progress(other, client.job(other)["progress"]["iteration"] + 1)
        self.assertTrue(client.wait(job, "failed")["reason"])
        self.assertIn(client.get("/v1/jobs/%s/draws" % job).status, (409, 500))
        client.act(other, "cancel")
        self.assertEqual(daemon.stop(), 0)


class Fairness(Case):
    def test_a_short_job_does_not_wait_for_long_ones_of_somebody_else(self):
        daemon = Daemon(workers=2, slice_ms=50)
        hog, guest = daemon.user("hog"), daemon.user("guest")
        long = [hog.submit(endless(chains=4)) for _ in range(4)]
        for job in long:
            hog.wait(job, "running")
        before = sum(hog.job(j)["progress"]["iteration"] for j in long)
        short = guest.submit(steady(iterations=300000, chains=2))
        done = guest.wait(short)
        self.assertEqual(done["progress"]["fraction"], 1)
        for job in long:
            self.assertEqual(hog.job(job)["state"], "running")
        # Nor do the long ones stand still while it runs.
        self.assertGreater(sum(hog.job(j)["progress"]["iteration"] for j in long), before)
        for job in long:
            hog.act(job, "cancel")
        for job in long:
            hog.wait(job, "cancelled")
        self.assertEqual(daemon.stop(), 0)

    def test_two_users_get_about_the_same(self):
        daemon = Daemon(workers=2, slice_ms=20)
        one, two = daemon.user("one"), daemon.user("two")
        crowd = [one.submit(endless()) for _ in range(6)]
        single = two.submit(endless(chains=2))
        two.wait_progress(single, 1)
        slices = self.usage(one)
        end = time.monotonic() + harness.PATIENCE
        while time.monotonic() < end:
            usage = self.usage(one)
            if usage["one"] + usage["two"] > slices["one"] + slices["two"] + 3:
                break
            time.sleep(0.1)
        share = (usage["two"] - slices["two"]) / (usage["one"] + usage["two"] - slices["one"]
                                                 - slices["two"])
        self.assertGreater(share, 0.3)
        self.assertLess(share, 0.7)
        for client, job in [(one, j) for j in crowd] + [(two, single)]:
            client.act(job, "cancel")
        self.assertEqual(daemon.stop(), 0)

    @staticmethod
    def usage(client):
        users = {u["name"]: u["usage_seconds"] for u in client.read("/v1/queue")["users"]}
        return {"one": users.get("one", 0), "two": users.get("two", 0)}

    def test_priorities_count_within_a_user(self):
        daemon = Daemon(workers=1, slice_ms=20)
        client = daemon.client()
        low = client.submit(endless(priority=0))
        client.wait(low, "running")
        high = client.submit(steady(priority=10))
        client.wait_progress(high, 1)
        at = client.job(low)["progress"]["iteration"]
        client.wait(high)
        # At most the slice that was under way and the one that is now.
        self.assertEqual(client.job(low)["state"], "running")
        after = client.job(low)["progress"]["iteration"]
        total = client.job(high)["progress"]["total"]
        self.assertLess(after - at, 10 * total)
        client.act(low, "cancel")
        self.assertEqual(daemon.stop(), 0)

    def test_a_user_runs_no_more_chains_at_once_than_allowed(self):
        daemon = Daemon(workers=2, user_running_chains=1)
        client = daemon.user("carol")
        job = client.submit(endless(chains=4))
        client.wait(job, "running")
        for _ in range(40):
            queue = client.read("/v1/queue")
            self.assertLessEqual(sum(j["running_chains"] for j in queue["running"]), 1)
        client.act(job, "cancel")
        self.assertEqual(daemon.stop(), 0)


class Wide(Case):
    def test_a_job_with_twenty_thousand_parameters_streams_in_constant_memory(self):
        daemon = Daemon(workers=1)
        daemon.file("ratings.csv", ratings_text(450, 520, 3000))
        client = daemon.client()
        job = client.submit({"model": {"name": "matrix_factorization", "rank": 20},
                             "data": {"path": "ratings.csv"}, "batch_size": 300,
                             "sampler": {"name": "sgbd", "step_size": 0.001}, "iterations": 100000,
                             "warmup": 0, "thin": 50, "chains": 1, "seed": 2})
        first = client.wait_progress(job, 2000)
        self.assertEqual(first["request"]["model"]["rank"], 20)
        early = daemon.status("VmRSS")
        client.wait_progress(job, first["progress"]["iteration"] + 8000)
        late = daemon.status("VmRSS")
        stored = client.job(job)["stored_bytes"]
        self.assertGreater(stored, 8000 // 50 * 19480 * 8)
        # What was stored between the two looks is 25 MB and more. (A sanitizer keeps what was freed, as much as it likes.)
        honest = not harness.sanitized()
        if honest:
            self.assertLess(late - early, 16 * 1024)
        client.end(job)
        before = daemon.status("VmRSS")
        body = client.draws(job, format="npy")
        array = re.search(rb"\((\d+), (\d+), (\d+)\)", body[:128])
        chains, draws, width = (int(x) for x in array.groups())
        self.assertEqual((chains, width), (1, 20 * (450 + 520) + 80))
        self.assertEqual(len(body) - 128, 8 * draws * width)
        one = Table(client.draws(job, params="U[450,20],log_lambda_V[7],V[520,1]"))
        self.assertEqual(len(one.rows), draws)
        offset = 128 + 8 * (449 * 20 + 19)
        self.assertEqual(one.values["U[450,20]"], [
            struct.unpack_from("<d", body, offset + 8 * width * i)[0] for i in range(draws)])
        page = client.read("/v1/jobs/%s/summary" % job, query={"limit": 50, "order": "worst"})
        self.assertEqual(len(page["parameters"]), 50)
        # Downloads and summaries are made piece by piece too.
        if honest:
            self.assertLess(daemon.status("VmRSS") - before, 160 * 1024)
        self.assertEqual(daemon.stop(), 0)


    def test_memory_of_large_answers_is_given_back(self):
        daemon = Daemon()
        client = daemon.client()
        job = client.run(toy(iterations=600000, warmup=0, chains=2))["id"]
        sizes = []
        for _ in range(12):
            client.read("/v1/jobs/%s/summary" % job)
            client.draws(job, format="npy")
            sizes.append(daemon.status("VmRSS"))
        # The numbers of one request are 10 MB, its working memory several times that.
        if not harness.sanitized():
            self.assertLess(sizes[-1] - sizes[0], 60 * 1024, sizes)
        self.assertEqual(daemon.stop(), 0)


class FullDisk(Case):
    def setUp(self):
        self.mount = os.path.join(harness.scratch(), "small")
        os.makedirs(self.mount)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", self.mount],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) \
            if os.geteuid() == 0 else None
        if made is None or made.returncode != 0:
            self.skipTest("no small file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", self.mount])

    def fill(self, leave):
        """A file that leaves so many bytes free."""
        about = os.statvfs(self.mount)
        path = os.path.join(self.mount, "ballast")
        left = about.f_bavail * about.f_frsize - leave
        with open(path, "wb", buffering=0) as file:
            try:
                while left > 0:
                    left -= file.write(b"\0" * min(left, 1 << 18))
            except OSError:
                pass  # the daemon was quicker
        return path

    def run_dry(self, **settings):
        daemon = Daemon(state=os.path.join(self.mount, "state"), **settings)
        self.addCleanup(daemon.kill)
        client = daemon.client()
        spec = toy(iterations=8000000, warmup=0, thin=8, chains=2, seed=3)  # 16 MB
        done = client.run(toy())["id"]
        job = client.submit(spec)
        client.wait_progress(job, 1000)
        daemon.process.send_signal(signal.SIGSTOP)  # it is not to be over before the disk is full
        ballast = self.fill(leave=100000)
        daemon.process.send_signal(signal.SIGCONT)
        waiting = client.until(job, lambda j: "waits" in j["reason"] or j["state"] in harness.ENDED,
                               "the full disk to be noticed")
        self.assertIn(waiting["state"], ("running", "queued"))
        self.assertTrue(re.search("disk|space|MB", waiting["reason"]), waiting["reason"])
        # Reading goes on; new jobs are told why not, or are stored nevertheless.
        self.assertEqual(client.job(done)["state"], "succeeded")
        self.assertGreater(len(Table(client.draws(done)).rows), 0)
        self.assertGreater(len(client.draws(job)), 0)
        self.assertEqual(client.read("/v1/queue")["workers"], 2)
        reply = client.post("/v1/jobs", toy())
        self.assertIn(reply.status, (201, 507), reply)
        self.assertTrue(daemon.alive())
        before = client.job(job)["progress"]["iteration"]
        os.unlink(ballast)
        client.wait_progress(job, before + 1)
        client.wait(job)
        quiet = Daemon()
        self.assertEqual(client.everything(job),
                         quiet.client().everything(quiet.client().run(spec)["id"]))
        self.assertEqual(quiet.stop(), 0)
        self.assertEqual(daemon.stop(), 0)
        checked = command("check", state=daemon.state)
        self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_sampling_waits_before_the_disk_is_full_and_goes_on_with_the_same_draws(self):
        self.run_dry(min_free_mb=2)

    def test_and_when_the_disk_runs_full_in_the_middle_of_a_commit(self):
        self.run_dry(min_free_mb=0)

    def test_uploads_to_a_full_disk_leave_nothing(self):
        daemon = Daemon(data=os.path.join(self.mount, "data"))
        client = daemon.client()
        self.fill(leave=200000)
        reply = client.put("/v1/datasets/big.csv", b"a,b\n" + b"1,2\n" * 500000)
        self.assertProblem(reply, 507)
        self.assertProblem(client.get("/v1/datasets/big.csv"), 404)
        end = time.monotonic() + harness.PATIENCE
        files = None  # what was begun goes when the request is over, a moment after its reply
        while files != [] and time.monotonic() < end:
            files = [f for _, _, fs in os.walk(daemon.data) for f in fs]
        self.assertEqual(files, [])
        self.assertEqual(client.put("/v1/datasets/small.csv", "a,b\n1,2\n").status, 201)
        self.assertEqual(daemon.stop(), 0)

    def test_uploads_leave_the_reserve_of_their_own_disk(self):
        daemon = Daemon(data=os.path.join(self.mount, "data"), min_free_mb=1)
        client = daemon.client()
        self.fill(leave=3 << 20)
        for size in (2000000, 1 << 25):
            self.assertProblem(client.put("/v1/datasets/big.csv", b"1,2\n" * (size // 4)), 507, "kept free")
        self.assertEqual(client.put("/v1/datasets/small.csv", "a,b\n1,2\n").status, 201)
        self.assertEqual(daemon.stop(), 0)

    def test_a_daemon_starts_on_a_full_disk_and_serves_what_there_is(self):
        daemon = Daemon(state=os.path.join(self.mount, "state"))
        client = daemon.client()
        job = client.run(toy())["id"]
        draws = client.everything(job)
        ballast = self.fill(leave=0)
        daemon.kill()
        try:
            daemon.start()
        except AssertionError:
            text = daemon.log()[-500:]
            self.assertTrue(re.search("disk|space|full", text), "no word about the full disk: " + text)
            os.unlink(ballast)
            daemon.start()
        self.assertEqual(client.everything(job), draws)
        if os.path.exists(ballast):
            os.unlink(ballast)
        self.assertEqual(daemon.stop(), 0)


class Retention(Case):
    def test_the_trash_is_emptied_when_its_time_is_over(self):
        daemon = Daemon(trash_hours=1)
        client = daemon.client()
        old, new = client.run(toy())["id"], client.run(toy())["id"]
        for job in (old, new):
            self.assertEqual(client.delete("/v1/jobs/" + job).status, 204)
        self.assertEqual(daemon.stop(), 0)
        db = sqlite3.connect(os.path.join(daemon.state, "barkerd.db"))
        # Two hours later for one; for the other the wall clock alone has jumped.
        db.execute("UPDATE meta SET value = value + 7200000 WHERE key = 'uptime_ms'")
        db.execute("UPDATE job SET deleted_uptime_ms = deleted_uptime_ms + 7200000, "
                   "deleted_ms = deleted_ms - 864000000 WHERE id = ?", (new,))
        db.commit()
        db.close()
        daemon.start()
        end = time.monotonic() + harness.PATIENCE
        path = os.path.join(daemon.state, "draws", old + ".db")
        while os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.2)
        self.assertFalse(os.path.exists(path))
        trash = None  # the file goes first, its row a commit later
        while trash != [new] and time.monotonic() < end:
            trash = [j["id"] for j in client.read("/v1/jobs", query={"trash": "true"})["items"]]
        self.assertEqual(trash, [new])
        self.assertEqual(daemon.stop(), 0)

    def test_without_a_trash_deleting_is_for_good(self):
        daemon = Daemon(trash_hours=0)
        client = daemon.client()
        job = client.run(toy())["id"]
        self.assertEqual(client.delete("/v1/jobs/" + job).status, 204)
        self.assertFalse(os.path.exists(os.path.join(daemon.state, "draws", job + ".db")))
        self.assertProblem(client.post("/v1/jobs/%s/restore" % job), 404)
        self.assertEqual(daemon.stop(), 0)


class Restarted(Case):
    """What a restart finds: everything that was acknowledged."""

    def test_everything_is_there_after_a_kill(self):
        daemon = Daemon()
        admin, alice = daemon.client(), daemon.user("alice")
        job = alice.run(toy(name="before", tags=["t"]))["id"]
        alice.patch("/v1/jobs/" + job, {"note": "kept", "visibility": "lab"})
        trashed = alice.run(toy())["id"]
        alice.delete("/v1/jobs/" + trashed)
        alice.put("/v1/references/ref", '{"parameters": [{"name": "theta[1]", "mean": 0, "sd": 1}]}',
                  headers={"Content-Type": "application/json"})
        alice.put("/v1/datasets/up.csv", "a,y\n1,0\n2,1\n")
        admin.post("/v1/users", {"name": "vera", "role": "viewer"})
        cancelled = alice.submit(endless())
        alice.act(cancelled, "cancel")
        paused = alice.submit(endless())
        alice.act(paused, "pause")
        views = ["/v1/jobs/" + job, "/v1/jobs/%s/summary" % job, "/v1/jobs/%s/log" % job,
                 "/v1/references/ref", "/v1/datasets/up.csv", "/v1/jobs?trash=true"]
        before = [alice.read(v) for v in views] + [alice.everything(job)]
        daemon.kill()
        daemon.start()
        self.assertEqual([alice.read(v) for v in views] + [alice.everything(job)], before)
        self.assertEqual(alice.wait(cancelled, "cancelled")["id"], cancelled)
        self.assertEqual(alice.job(paused)["state"], "paused")
        self.assertIn("vera", [u["name"] for u in admin.read("/v1/users")["items"]])
        self.assertEqual(alice.post("/v1/jobs/%s/restore" % trashed).status, 200)
        alice.act(paused, "cancel")
        self.assertEqual(daemon.stop(), 0)
