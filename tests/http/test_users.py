"""Users, tokens, tickets, limits; secrets stay secret."""

import os
import re
import sqlite3
import threading
import time

import harness
from harness import NO_TOKEN, Case, Daemon, endless, toy


def setUpModule():
    global daemon, admin, alice, vera
    daemon = Daemon()
    admin = daemon.client()
    alice = daemon.user("alice")
    vera = daemon.user("vera", "viewer")


def tearDownModule():
    code = daemon.stop()
    assert code == 0, code


class Tokens(Case):
    def test_the_first_token_is_the_admins_and_for_its_eyes_only(self):
        path = os.path.join(daemon.state, "admin.token")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(daemon.state).st_mode & 0o077, 0)
        self.assertRegex(daemon.admin_token, r"^bk_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}$")

    def test_it_stays_the_same_at_the_next_start(self):
        other = Daemon()
        first = other.admin_token
        other.restart()
        self.assertEqual(other.admin_token, first)
        self.assertEqual(other.client().get("/v1/me").status, 200)
        self.assertEqual(other.stop(), 0)

    def test_a_new_token_is_shown_once(self):
        reply = admin.post("/v1/tokens", {"user": "dora", "role": "user", "label": "laptop",
                                          "expires_in_days": 3})
        self.assertEqual(reply.status, 201)
        made = reply.json()
        self.assertEqual((made["user"], made["role"]), ("dora", "user"))
        self.assertRegex(made["token"], r"^bk_%s_" % made["id"])
        listed = {t["id"]: t for t in admin.read("/v1/tokens")["items"]}[made["id"]]
        self.assertEqual((listed["label"], listed["user"]), ("laptop", "dora"))
        self.assertIsNotNone(listed["expires_at"])
        self.assertNotIn(made["token"][12:], admin.get("/v1/tokens").text)

    def test_everybody_makes_and_sees_tokens_of_their_own(self):
        for client, role in ((alice, "user"), (vera, "viewer")):
            reply = client.post("/v1/tokens", {"label": "second"})
            self.assertEqual(reply.status, 201, reply)
            self.assertEqual(reply.json()["role"], role)
            second = daemon.client(reply.json()["token"])
            self.assertEqual(second.read("/v1/me")["role"], role)
            users = {t["user"] for t in client.read("/v1/tokens")["items"]}
            self.assertEqual(users, {client.name})
        self.assertProblem(alice.get("/v1/tokens", query={"user": "vera"}), 403)
        users = {t["user"] for t in alice.read("/v1/tokens", query={"user": "alice"})["items"]}
        self.assertEqual(users, {"alice"})
        users = {t["user"] for t in admin.read("/v1/tokens", query={"user": "vera"})["items"]}
        self.assertEqual(users, {"vera"})

    def test_nobody_but_an_admin_gives_out_rights(self):
        for client, body in ((alice, {"role": "admin"}), (alice, {"user": "vera"}),
                             (alice, {"user": "eve", "role": "user"}), (vera, {"role": "user"}),
                             (vera, {"role": "admin", "user": "vera"}), (alice, {"role": "viewer"})):
            with self.subTest(body):
                before = daemon.catalogue("SELECT count(*) FROM token")
                reply = client.post("/v1/tokens", body)
                if reply.status == 201:  # less than one has oneself may be allowed
                    self.assertEqual(body, {"role": "viewer"})
                    continue
                self.assertProblem(reply, 403)
                self.assertEqual(daemon.catalogue("SELECT count(*) FROM token"), before)

    def test_mistakes_are_pointed_at(self):
        for body, pointer in (({"user": "Alice"}, "/user"), ({"user": ""}, "/user"),
                              ({"user": "a" * 33}, "/user"), ({"user": "a/b"}, "/user"),
                              ({"user": "../x"}, "/user"), ({"user": 5}, "/user"),
                              ({"role": "root"}, "/role"), ({"expires_in_days": 0}, "/expires_in_days"),
                              ({"expires_in_days": -1}, "/expires_in_days"),
                              ({"expires_in_days": 1e9}, "/expires_in_days"),
                              ({"label": "x" * 65}, "/label"), ({"token": "mine"}, "/token")):
            with self.subTest(body):
                self.assertProblem(admin.post("/v1/tokens", {"role": "user", **body}), 422,
                                   pointer=pointer)

    def test_a_user_has_one_role(self):
        reply = admin.post("/v1/tokens", {"user": "vera", "role": "admin"})
        self.assertIn(reply.status, (409, 422), reply)
        self.assertEqual(vera.read("/v1/me")["role"], "viewer")

    def test_a_revoked_token_is_refused_at_once_and_after_a_restart(self):
        other = Daemon()
        carol = other.user("carol")
        spare = other.user("carol")
        self.assertEqual(spare.get("/v1/me").status, 200)
        self.assertEqual(carol.delete("/v1/tokens/" + spare.token_id).status, 204)
        self.assertProblem(spare.get("/v1/me"), 401)
        other.kill()
        other.start()
        self.assertProblem(spare.get("/v1/me"), 401)
        self.assertEqual(carol.get("/v1/me").status, 200)
        self.assertEqual(other.stop(), 0)

    def test_a_token_ends_when_its_time_is_over(self):
        other = Daemon()
        carol = other.user("carol", expires_in_days=1)
        self.assertEqual(carol.get("/v1/me").status, 200)
        other.stop()
        db = sqlite3.connect(os.path.join(other.state, "barkerd.db"))
        db.execute("UPDATE token SET expires_ms = 1000 WHERE user = 'carol'")
        db.commit()
        db.close()
        other.start()
        self.assertProblem(carol.get("/v1/me"), 401)
        self.assertEqual(other.stop(), 0)

    def test_a_token_does_not_outlive_the_one_it_is_made_with(self):
        brief = daemon.user("alice", expires_in_days=2)
        ends = {t["id"]: t for t in alice.read("/v1/tokens")["items"]}[brief.token_id]["expires_at"]
        reply = brief.post("/v1/tokens", {"label": "for ever?"})
        self.assertEqual((reply.status, reply.json()["expires_at"]), (201, ends))
        self.assertEqual(brief.post("/v1/tokens", {"expires_in_days": 1}).status, 201)
        self.assertProblem(brief.post("/v1/tokens", {"expires_in_days": 3}), 422, "outlive", pointer="/expires_in_days")
        chief = daemon.user("chief", "admin", expires_in_days=2)
        self.assertLess(chief.post("/v1/tokens", {"user": "vera", "role": "viewer"}).json()["expires_at"][:10], "2900")
        self.assertProblem(chief.post("/v1/tokens", {"user": "vera", "role": "viewer", "expires_in_days": 9}), 422)
        ticket = brief.post("/v1/tickets").json()["ticket"]
        reply = daemon.client(NO_TOKEN).post("/v1/tickets/redeem", {"ticket": ticket})
        self.assertLess(reply.json()["expires_at"], ends)  # twelve hours are less than two days

    def test_lists_come_in_pages(self):
        walt = daemon.user("walt")
        ids = [walt.token_id] + [walt.post("/v1/tokens", {"label": str(k)}).json()["id"] for k in range(6)]
        for path, key, limit, query in (("/v1/tokens", "id", 3, {"user": "walt"}), ("/v1/users", "name", 2, {}),
                                        ("/v1/tokens", "id", 7, {"user": "walt"})):
            with self.subTest(path, limit=limit):
                whole = [i[key] for i in admin.read(path, query={**query, "limit": 500})["items"]]
                seen, cursor = [], None
                while cursor is not None or not seen:
                    page = admin.read(path, query={**query, "limit": limit, **({"cursor": cursor} if cursor else {})})
                    self.assertLessEqual(len(page["items"]), limit)
                    seen, cursor = seen + [i[key] for i in page["items"]], page["next"]
                self.assertEqual(seen, whole)
                if key == "id":
                    self.assertEqual(sorted(seen), sorted(ids))
        for path in ("/v1/tokens", "/v1/users"):
            for limit in ("0", "501", "x"):
                self.assertProblem(admin.get(path, query={"limit": limit}), 422, pointer="?limit")
        for cursor in ("x", "12", "12.short", "-1.12345678", "99999999999999999999.12345678"):
            self.assertProblem(admin.get("/v1/tokens", query={"cursor": cursor}), 422, pointer="?cursor")

    def test_a_token_that_is_over_leaves_the_lists_after_a_month(self):
        other = Daemon()
        carol, spare = other.user("carol"), other.user("carol")
        old = [other.user("carol").token_id for _ in range(2)]
        self.assertEqual(carol.delete("/v1/tokens/" + spare.token_id).status, 204)
        other.stop()
        db = sqlite3.connect(os.path.join(other.state, "barkerd.db"))
        db.execute("UPDATE token SET expires_ms = 1000 WHERE id = ?", (old[0],))
        db.execute("UPDATE token SET revoked_ms = 1000 WHERE id = ?", (old[1],))
        db.commit()
        db.close()
        other.start()
        listed = lambda: {t["id"] for t in carol.read("/v1/tokens")["items"]}
        while set(old) & listed():
            time.sleep(0.1)
        self.assertEqual(listed(), {carol.token_id, spare.token_id})
        self.assertEqual(other.stop(), 0)

    def test_revoking_what_is_not_ones_own_is_404(self):
        for token_id in (vera.token_id, "00000000", "x", "a" * 300):
            self.assertProblem(alice.delete("/v1/tokens/" + token_id), 404)
        self.assertEqual(vera.get("/v1/me").status, 200)

    def test_use_is_noted(self):
        spare = daemon.user("alice")
        spare.get("/v1/me")
        daemon.user("alice")  # a commit carries it along
        listed = {t["id"]: t for t in alice.read("/v1/tokens")["items"]}
        self.assertIsNotNone(listed[alice.token_id]["used_at"])


class Users(Case):
    def test_admins_keep_the_users(self):
        reply = admin.post("/v1/users", {"name": "frank", "role": "viewer"})
        self.assertEqual(reply.status, 201, reply)
        self.assertEqual((reply.json()["name"], reply.json()["role"]), ("frank", "viewer"))
        listed = {u["name"]: u["role"] for u in admin.read("/v1/users")["items"]}
        self.assertEqual(listed["frank"], "viewer")
        self.assertEqual(listed["alice"], "user")

    def test_what_is_not_given_stays_as_it_is(self):
        quotas = {"active_jobs": 7, "stored_mb": None}
        admin.post("/v1/users", {"name": "ivan", "role": "viewer", "quotas": {"active_jobs": 7}})
        reply = admin.post("/v1/users", {"name": "ivan"})
        self.assertEqual((reply.json()["role"], reply.json()["quotas"]), ("viewer", quotas))
        reply = admin.post("/v1/users", {"name": "ivan", "role": "user", "quotas": None})
        self.assertEqual((reply.json()["role"], reply.json()["quotas"]), ("user", quotas))
        created = reply.json()["created_at"]
        listed = {u["name"]: u for u in admin.read("/v1/users")["items"]}
        self.assertEqual(listed["ivan"], {"name": "ivan", "role": "user", "quotas": quotas,
                                          "usage": {"active_jobs": 0, "stored_bytes": 0,
                                                    "references": 0, "uploads": 0,
                                                    "upload_bytes": 0},
                                          "created_at": created})
        self.assertEqual(listed["alice"]["quotas"], {"active_jobs": None, "stored_mb": None})
        self.assertEqual(admin.post("/v1/users", {"name": "judy"}).json()["role"], "user")

    def test_a_changed_role_counts_at_once(self):
        grace = daemon.user("grace")
        self.assertEqual(grace.post("/v1/jobs", toy()).status, 201)
        self.assertEqual(admin.post("/v1/users", {"name": "grace", "role": "viewer"}).status, 201)
        self.assertProblem(grace.post("/v1/jobs", toy()), 403)
        self.assertEqual(grace.read("/v1/me")["role"], "viewer")

    def test_a_user_goes_when_nothing_is_left_of_it(self):
        heidi = daemon.user("heidi")
        job = heidi.run(toy())["id"]
        self.assertProblem(admin.delete("/v1/users/heidi"), 409, "job")
        self.assertEqual(heidi.get("/v1/me").status, 200)
        self.assertEqual(heidi.delete("/v1/jobs/" + job, query={"purge": "true"}).status, 204)
        self.assertEqual(admin.delete("/v1/users/heidi").status, 204)
        self.assertProblem(heidi.get("/v1/me"), 401)
        self.assertProblem(admin.delete("/v1/users/heidi"), 404)

    def test_nothing_of_a_former_user_is_left_to_another_of_that_name(self):
        karl = daemon.user("karl")
        self.assertEqual(karl.put("/v1/datasets/secret.csv", "a,b\n1,2\n").status, 201)
        self.assertEqual(karl.put("/v1/references/mine", '{"parameters": [{"name": "x", "mean": 0, "sd": 1}]}',
                                  headers={"Content-Type": "application/json"}).status, 204)
        study = karl.post("/v1/studies", {"kind": "ladder", "job": toy()}).json()
        for job in study["jobs"]:
            karl.wait(job["id"])
        for purge in ("false", "true"):
            self.assertProblem(admin.delete("/v1/users/karl", query={"purge": purge}), 409)
        for job in study["jobs"]:
            self.assertEqual(admin.delete("/v1/jobs/" + job["id"], query={"purge": "true"}).status, 204)
        self.assertProblem(admin.delete("/v1/users/karl"), 409)
        self.assertEqual(admin.delete("/v1/users/karl", query={"purge": "true"}).status, 204)
        again = daemon.user("karl")
        for path in ("/v1/datasets", "/v1/references", "/v1/studies", "/v1/jobs"):
            own = [i for i in again.read(path)["items"] if not i.get("shared")]
            self.assertEqual(own, [], path)

    def test_a_name_under_which_something_is_left_is_refused(self):
        folder = os.path.join(daemon.data, ".users", "liam")
        os.makedirs(folder)
        with open(os.path.join(folder, "left.csv"), "w") as file:
            file.write("1,2\n")
        self.assertProblem(admin.post("/v1/users", {"name": "liam"}), 409, "1 upload", "purge=true")
        self.assertProblem(admin.post("/v1/tokens", {"user": "liam", "role": "user"}), 409, "1 upload")
        self.assertProblem(admin.delete("/v1/users/liam"), 404)
        self.assertEqual(admin.delete("/v1/users/liam", query={"purge": "true"}).status, 204)
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(admin.post("/v1/users", {"name": "liam"}).status, 201)

    def test_admins_who_take_each_others_role_leave_one_admin(self):
        for round in range(8):
            pair = [daemon.user("chief%d%s" % (round, side), "admin") for side in "ab"]
            answers = Limits.together(self, 2, lambda k: pair[k].post("/v1/users", {
                "name": pair[1 - k].name, "role": "viewer"}))
            self.assertIn(sorted(answers), ([201, 401], [201, 403]))
            pair = [daemon.user("chief%d%s" % (round, side), "admin") for side in "cd"]
            answers = Limits.together(self, 2, lambda k: pair[k].delete("/v1/users/" + pair[1 - k].name))
            self.assertIn(sorted(answers), ([204, 401], [204, 503]))  # over, or about to be

    def test_mistakes(self):
        self.assertProblem(admin.post("/v1/users", {}), 422, pointer="/name")
        self.assertProblem(admin.post("/v1/users", {"name": "A B"}), 422, pointer="/name")
        self.assertProblem(admin.post("/v1/users", {"name": "x", "role": "god"}), 422, pointer="/role")
        for quotas, pointer in (({"active_jobs": 0}, "/quotas/active_jobs"),
                                ({"stored_mb": "9"}, "/quotas/stored_mb"),
                                ({"stored_mb": 1 << 40}, "/quotas/stored_mb"),
                                ({"chains": 9}, "/quotas/chains"), (5, "/quotas")):
            reply = admin.post("/v1/users", {"name": "x", "quotas": quotas})
            self.assertProblem(reply, 422, pointer=pointer)
        self.assertProblem(admin.delete("/v1/users/admin"), 409)
        self.assertProblem(admin.delete("/v1/users/nobody"), 404)

    def test_the_last_admin_cannot_lose_its_role(self):
        reply = admin.post("/v1/users", {"name": "admin", "role": "viewer"})
        self.assertIn(reply.status, (409, 422), "nobody could ever undo this: %r" % reply)
        self.assertEqual(admin.read("/v1/me")["role"], "admin")


class Tickets(Case):
    def test_a_ticket_signs_in_once(self):
        ticket = alice.post("/v1/tickets").json()["ticket"]
        nobody = daemon.client(NO_TOKEN)
        reply = nobody.post("/v1/tickets/redeem", {"ticket": ticket})
        self.assertEqual(reply.status, 201, reply)
        session = daemon.client(reply.json()["token"])
        self.assertEqual(session.read("/v1/me")["user"], "alice")
        self.assertIsNotNone(reply.json()["expires_at"])
        self.assertIn(nobody.post("/v1/tickets/redeem", {"ticket": ticket}).status, (401, 404, 422))

    def test_a_viewers_ticket_makes_a_viewer(self):
        ticket = vera.post("/v1/tickets").json()["ticket"]
        reply = daemon.client(NO_TOKEN).post("/v1/tickets/redeem", {"ticket": ticket})
        self.assertEqual(reply.json()["role"], "viewer")

    def test_one_users_tickets_are_not_taken_by_anothers(self):
        first = vera.post("/v1/tickets").json()["ticket"]
        mine = [alice.post("/v1/tickets") for _ in range(80)]
        self.assertEqual({r.status for r in mine}, {201})
        self.assertEqual(vera.post("/v1/tickets").status, 201)
        for ticket in (first, mine[-1].json()["ticket"]):
            reply = daemon.client(NO_TOKEN).post("/v1/tickets/redeem", {"ticket": ticket})
            self.assertEqual(reply.status, 201, reply)

    def test_guessing_is_limited(self):
        nobody = daemon.client(NO_TOKEN, source="127.9.9.9")
        answers = until_refused(lambda: nobody.post("/v1/tickets/redeem", {"ticket": "guess"}))
        self.assertNotIn(201, [a.status for a in answers])

    def test_mistakes(self):
        nobody = daemon.client(NO_TOKEN)
        self.assertProblem(nobody.post("/v1/tickets/redeem", {}), 422, pointer="/ticket")
        self.assertProblem(nobody.post("/v1/tickets/redeem", {"ticket": 5}), 422, pointer="/ticket")


def until_refused(ask):
    """All replies up to 429, which comes soon: limits fill up again as time goes by, but slowly."""
    answers = [ask()]
    while answers[-1].status != 429:
        assert len(answers) < 100, "no limit"
        answers.append(ask())
    return answers


class Limits(Case):
    def test_ten_wrong_tokens_a_minute_from_one_address(self):
        guess = daemon.client("bk_abcdefgh_" + "A" * 43, source="127.5.5.5")
        answers = until_refused(lambda: guess.get("/v1/me"))
        self.assertEqual([a.status for a in answers[:10]], [401] * 10)
        self.assertGreater(int(answers[-1].headers["Retry-After"]), 0)

    def test_wrong_tokens_never_keep_a_right_one_out(self):
        guess = daemon.client("bk_abcdefgh_" + "A" * 43, source="127.5.5.7")
        until_refused(lambda: guess.get("/v1/me"))
        self.assertEqual(daemon.client(alice.token, source="127.5.5.7").get("/v1/me").status, 200)

    def test_five_changes_a_minute(self):
        slow = Daemon(writes_per_minute=5)
        carol = slow.client()  # the admin, so that no token has to be made
        answers = until_refused(lambda: carol.post("/v1/jobs", toy()))
        self.assertEqual([a.status for a in answers[:5]], [201] * 5)
        self.assertProblem(answers[-1], 429)
        self.assertGreater(int(answers[-1].headers["Retry-After"]), 0)
        self.assertEqual(carol.get("/v1/jobs").status, 200)  # reading goes on
        self.assertEqual(len(carol.read("/v1/jobs")["items"]), sum(a.status == 201 for a in answers))
        self.assertEqual(slow.stop(), 0)

    def test_the_limit_is_each_users_own(self):
        slow = Daemon(writes_per_minute=5)
        carol = slow.user("carol")
        until_refused(lambda: carol.post("/v1/jobs", toy()))
        self.assertEqual(slow.client().post("/v1/jobs", toy()).status, 201)
        self.assertEqual(slow.stop(), 0)

    def test_reads_are_limited_too(self):
        slow = Daemon(reads_per_second=1)
        client = slow.client()
        answers = [client.get("/v1/me").status for _ in range(40)]
        self.assertEqual(answers[0], 200)
        self.assertIn(429, answers)
        self.assertEqual(slow.stop(), 0)

    def test_unfinished_jobs_are_limited(self):
        small = Daemon(user_active_jobs=2)
        carol, dave = small.user("carol"), small.user("dave")
        first, second = carol.submit(endless()), carol.submit(endless())
        self.assertProblem(carol.post("/v1/jobs", toy()), 422, "2")
        self.assertEqual(dave.post("/v1/jobs", toy()).status, 201)
        carol.act(first, "cancel")
        carol.wait(first, "cancelled")
        self.assertEqual(carol.post("/v1/jobs", toy()).status, 201)
        carol.act(second, "cancel")
        self.assertEqual(small.stop(), 0)

    def together(self, count, act):
        """Runs act(k) in as many threads, released at once; returns the statuses."""
        answers, start = [None] * count, threading.Barrier(count)

        def one(k):
            start.wait()
            answers[k] = act(k).status
        threads = [threading.Thread(target=one, args=(k,)) for k in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return answers

    def test_simultaneous_submissions_do_not_exceed_the_limit(self):
        small = Daemon(user_active_jobs=5)
        carol = small.user("carol")
        answers = self.together(24, lambda k: carol.post("/v1/jobs", endless(seed=k)))
        self.assertEqual(sorted(answers), [201] * 5 + [422] * 19)
        self.assertEqual(small.catalogue("SELECT count(*) FROM job"), [(5,)])
        self.assertEqual(small.stop(), 0)

    def test_jobs_that_go_on_count_too(self):
        small = Daemon(user_active_jobs=4)
        carol = small.user("carol")
        ended = [carol.run(toy(seed=k))["id"] for k in range(8)]
        answers = self.together(12, lambda k: carol.post("/v1/jobs/%s/extend" % ended[k], {
            "iterations": 800000000}) if k < 8 else carol.post("/v1/jobs", endless(seed=k)))
        self.assertEqual(sum(a in (201, 202) for a in answers), 4, answers)
        self.assertEqual(sum(a == 422 for a in answers), 8, answers)
        states = [carol.job(j)["state"] for j in ended]
        self.assertEqual(states.count("succeeded"), 8 - answers[:8].count(202))
        self.assertEqual(small.stop(), 0)

    def test_users_have_quotas_of_their_own(self):
        small = Daemon(user_active_jobs=2, user_stored_mb=1)
        boss = small.client()
        carol, dave = small.user("carol"), small.user("dave")
        self.assertEqual(carol.read("/v1/me")["quotas"], {"active_jobs": 2, "stored_mb": 1})
        reply = boss.post("/v1/users", {"name": "carol", "quotas": {"active_jobs": 3}})
        self.assertEqual(reply.status, 201, reply)
        self.assertEqual(reply.json()["quotas"], {"active_jobs": 3, "stored_mb": None})
        self.assertEqual(carol.read("/v1/me")["quotas"], {"active_jobs": 3, "stored_mb": 1})
        little = endless(thin=10 ** 9)
        for user, most in ((carol, 3), (dave, 2)):
            jobs = [user.submit(little) for _ in range(most)]
            self.assertProblem(user.post("/v1/jobs", little), 422, "may have %d" % most)
            for job in jobs:
                user.act(job, "cancel")
                user.wait(job, "cancelled")
        big = toy(iterations=400000, warmup=0, chains=1)
        self.assertProblem(carol.post("/v1/jobs", big), 422, "MB")
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 100}})
        self.assertEqual(carol.read("/v1/me")["quotas"], {"active_jobs": 2, "stored_mb": 100})
        job = carol.submit(big)
        carol.wait(job)  # it is not paused for its size either
        self.assertGreater(carol.job(job)["stored_bytes"], 2 << 20)
        self.assertProblem(dave.post("/v1/jobs", big), 422, "MB")
        self.assertEqual(small.stop(), 0)
        small.start()
        self.assertEqual(carol.read("/v1/me")["quotas"], {"active_jobs": 2, "stored_mb": 100})
        boss.post("/v1/users", {"name": "carol", "quotas": {}})
        self.assertEqual(carol.read("/v1/me")["quotas"], {"active_jobs": 2, "stored_mb": 1})
        self.assertEqual(small.stop(), 0)

    def test_what_a_user_has_is_shown_beside_what_they_may_have(self):
        erin = daemon.user("erin")
        nothing = {"active_jobs": 0, "stored_bytes": 0, "references": 0, "uploads": 0,
                   "upload_bytes": 0}
        self.assertEqual(erin.read("/v1/me")["usage"], nothing)
        ended, going = erin.run(toy())["id"], erin.submit(endless())
        used = erin.read("/v1/me")["usage"]
        self.assertEqual(used["active_jobs"], 1)
        self.assertGreaterEqual(used["stored_bytes"], erin.job(ended)["stored_bytes"])
        listed = {u["name"]: u["usage"] for u in admin.read("/v1/users")["items"]}
        self.assertEqual(listed["erin"]["active_jobs"], 1)
        self.assertGreater(listed["erin"]["stored_bytes"], 0)
        erin.act(going, "cancel")
        erin.wait(going, "cancelled")
        for job in (ended, going):
            self.assertEqual(erin.delete("/v1/jobs/" + job).status, 204)
        self.assertEqual(erin.read("/v1/me")["usage"], nothing)

    def test_a_running_job_is_paused_by_its_owners_own_quota(self):
        small = Daemon(slice_ms=10)
        boss, carol = small.client(), small.user("carol")
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 1000}})
        job = carol.submit(toy(iterations=40000000, warmup=0, chains=2, thin=10))
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 1}})
        ended = carol.until(job, lambda j: j["state"] in ("succeeded", "paused"))
        self.assertEqual(ended["state"], "paused")
        self.assertIn("quota", ended["reason"])
        self.assertEqual(small.stop(), 0)

    @staticmethod
    def slices(client):
        text = client.get("/metrics").text
        return int(float(re.search(r"^barkerd_slices_total (\S+)", text, re.M).group(1)))

    def test_a_running_job_stops_within_a_slice_of_its_quota(self):
        small = Daemon(workers=1, slice_ms=300)
        boss, carol = small.client(), small.user("carol")
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 1000}})
        job = carol.submit(toy(iterations=4 * 10 ** 8, warmup=0, chains=1, thin=100))
        carol.until(job, lambda j: j["stored_bytes"] > 1 << 20)
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 1}})
        slices = self.slices(boss)
        paused = carol.until(job, lambda j: j["state"] in ("succeeded", "paused"))
        self.assertEqual(paused["state"], "paused")
        self.assertLessEqual(self.slices(boss) - slices, 2)  # that under way, and the one that paused it
        self.assertProblem(carol.post("/v1/jobs/%s/resume" % job), 422, "carol has", "of 1 MB")
        self.assertEqual(carol.job(job)["state"], "paused")
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 1000}})
        self.assertEqual(carol.act(job, "resume")["id"], job)
        self.assertEqual(small.stop(), 0)

    def test_a_job_waits_while_the_quota_of_its_owner_cannot_be_read(self):
        small = Daemon(workers=1, slice_ms=50)
        boss, carol = small.client(), small.user("carol")
        job = carol.submit(endless())
        carol.wait(job, "running")
        self.assertEqual(small.stop(), 0)
        with sqlite3.connect(os.path.join(small.state, "barkerd.db")) as db:
            db.execute("UPDATE user SET quotas = 'no JSON' WHERE name = 'carol'")
        db.close()
        small.start()
        carol.until(job, lambda j: j["reason"].startswith("the job waits"))
        at = carol.job(job)["progress"]["iteration"]
        self.assertNotEqual(carol.post("/v1/jobs", toy()).status, 201)
        self.assertEqual(carol.job(job)["progress"]["iteration"], at)
        boss.post("/v1/users", {"name": "carol", "quotas": {"stored_mb": 100}})
        carol.until(job, lambda j: j["progress"]["iteration"] > at)
        self.assertEqual(small.stop(), 0)

    def test_a_job_that_is_restored_counts_against_the_quota_again(self):
        small = Daemon(user_stored_mb=3)
        carol = small.user("carol")
        jobs = []
        for _ in range(3):
            jobs.append(carol.run(toy(iterations=100000, warmup=0, chains=1))["id"])
            self.assertEqual(carol.delete("/v1/jobs/" + jobs[-1]).status, 204)
        replies = [carol.post("/v1/jobs/%s/restore" % job) for job in jobs]
        self.assertEqual([reply.status for reply in replies[:2]], [200, 200])
        self.assertProblem(replies[2], 422, "carol has", "of 3 MB")
        self.assertLessEqual(carol.read("/v1/me")["usage"]["stored_bytes"], 3 << 20)
        self.assertEqual(carol.delete("/v1/jobs/" + jobs[0]).status, 204)
        self.assertEqual(carol.post("/v1/jobs/%s/restore" % jobs[2]).status, 200)
        self.assertEqual(small.stop(), 0)

    def test_stored_bytes_are_limited_at_submission_and_while_running(self):
        small = Daemon(user_stored_mb=1)
        carol = small.user("carol")
        self.assertProblem(carol.post("/v1/jobs", toy(iterations=1000000)), 422, "MB")
        # Each is within the quota by itself; together they are not.
        jobs = [carol.submit(toy(iterations=50000, warmup=0, chains=2, seed=k)) for k in range(1)]
        for job in jobs:
            carol.until(job, lambda j: j["state"] in ("succeeded", "paused"))
        reply = carol.post("/v1/jobs", toy(iterations=50000, warmup=0, chains=2))
        self.assertProblem(reply, 422, "MB")
        self.assertEqual(small.stop(), 0)

    def test_what_an_extension_adds_counts_in_every_state(self):
        small = Daemon(user_stored_mb=3)
        carol = small.user("carol")
        ended = carol.run(toy(iterations=100000, warmup=0, chains=1))["id"]
        going = carol.submit(endless(iterations=5 * 10 ** 9, thin=10 ** 5))
        carol.wait(going, "running")
        for job, state, much in ((ended, "succeeded", 400000), (going, "running", 9 * 10 ** 10),
                                 (going, "paused", 9 * 10 ** 10)):
            with self.subTest(state):
                if state == "paused":
                    carol.act(job, "pause")
                reply = carol.post("/v1/jobs/%s/extend" % job, {"iterations": much})
                self.assertProblem(reply, 422, "carol has", "of 3 MB")
                self.assertEqual(carol.job(job)["state"], state)
        for job in (ended, going):
            self.assertEqual(carol.act(job, "extend", {"iterations": 1000})["id"], job)
        self.assertEqual(small.stop(), 0)

    def test_data_files_of_one_user_are_limited_together(self):
        small = Daemon(user_stored_mb=1)
        carol, dave = small.user("carol"), small.user("dave")
        put = lambda user, name, size: user.put("/v1/datasets/" + name, b"1,2\n" * (size // 4))
        self.assertEqual(put(carol, "a.csv", 700000).status, 201)
        self.assertProblem(put(carol, "b.csv", 700000), 422, "1 MB")
        self.assertEqual([d["name"] for d in carol.read("/v1/datasets")["items"]], ["a.csv"])
        self.assertEqual(put(carol, "a.csv", 1000000).status, 201)  # in place of the other
        self.assertEqual(put(dave, "b.csv", 700000).status, 201)
        self.assertEqual(carol.delete("/v1/datasets/a.csv").status, 204)
        self.assertEqual(put(carol, "b.csv", 700000).status, 201)
        self.assertEqual(small.stop(), 0)

    def test_limits_of_jobs_are_settings(self):
        small = Daemon(max_iterations=1000, max_chains=3, max_dimension=2)
        small.file("wide.csv", harness.logistic_text(20))
        client = small.client()
        for fields, pointer in (({"iterations": 901}, "/iterations"), ({"chains": 4}, "/chains")):
            self.assertProblem(client.post("/v1/jobs", toy(**fields)), 422, pointer=pointer)
        reply = client.post("/v1/jobs", {"model": {"name": "logistic"}, "data": {"path": "wide.csv"},
                                         "sampler": {"name": "sgbd", "step_size": 0.1},
                                         "iterations": 5, "warmup": 5, "chains": 1})
        self.assertProblem(reply, 422, "3 parameters", pointer="/model")
        limits = client.read("/v1/info")["limits"]
        self.assertEqual((limits["iterations"], limits["chains"], limits["dimension"]), (1000, 3, 2))
        job = client.run(toy())["id"]
        self.assertProblem(client.post("/v1/jobs/%s/extend" % job, {"iterations": 1000}), 422)
        self.assertEqual(small.stop(), 0)


class Secrets(Case):
    def test_tokens_are_neither_in_the_log_nor_in_the_database_nor_in_the_process_list(self):
        other = Daemon(verbose=2)
        tokens = [other.admin_token]
        carol = other.user("carol")
        tokens.append(carol.token)
        ticket = carol.post("/v1/tickets").json()["ticket"]
        session = other.client(NO_TOKEN).post("/v1/tickets/redeem", {"ticket": ticket})
        tokens += [session.json()["token"], ticket]
        carol.get("/v1/me", query={"token": carol.token})
        carol.get("/v1/jobs", headers={"X-Extra": carol.token})
        carol.put("/v1/datasets/a.csv", "a,b\n1,2\n")
        carol.run(toy())
        with open("/proc/%d/cmdline" % other.process.pid, "rb") as file:
            cmdline = file.read()
        with open("/proc/%d/environ" % other.process.pid, "rb") as file:
            environ = file.read()
        self.assertEqual(other.stop(), 0)
        places = {"log": other.log().encode(), "cmdline": cmdline, "environ": environ}
        for folder, _, names in os.walk(other.folder):
            for name in names:
                path = os.path.join(folder, name)
                if name != "admin.token":
                    with open(path, "rb") as file:
                        places[path] = file.read()
        self.assertTrue(any(p.endswith("barkerd.db") for p in places))
        for token in tokens:
            secret = token.split("_", 2)[-1].encode() if token.startswith("bk_") else token.encode()
            self.assertGreater(len(secret), 20)
            for place, content in places.items():
                self.assertNotIn(secret, content, "a secret is in " + place)

    def test_what_the_state_holds_is_for_the_daemon_alone(self):
        alice.run(toy())
        for folder, _, names in os.walk(daemon.state):
            for name in names:
                mode = os.stat(os.path.join(folder, name)).st_mode
                self.assertEqual(mode & 0o077, 0, name)
