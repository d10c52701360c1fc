"""One hostile user against an honest one: whatever the first does (attacks.py), the second is served."""

import json

import harness
from attacks import Attack
from harness import Case, Daemon, command
from honest import Honest, latencies, latency_line

# Limits that the attack reaches within seconds. The rates are not among them: they would be the only defence.
SETTINGS = {"data_memory_mb": 256, "request_memory_mb": 128, "chain_memory_mb": 256, "connections_per_address": 512,
            "user_active_jobs": 100, "user_stored_mb": 256, "trash_mb": 64, "workers": 2, "slice_ms": 100,
            "writes_per_minute": 1000000, "verbose": 0}
BUDGETS = ("data_memory_mb", "request_memory_mb", "chain_memory_mb")
OVERHEAD_MB = 160  # threads with their stacks, arenas and databases; buffers of a thousand connections

REQUESTS = 150                          # of the honest user: eight seconds and more
ATTACK_SECONDS = harness.PATIENCE / 2  # the attack, and with it the test, gives up


def settings():
    """Those that this build has."""
    known = command("--help").stdout
    return {name: value for name, value in SETTINGS.items() if name in known}


class Hostile(Case):
    def test_an_honest_user_is_served_whatever_another_does(self):
        daemon = Daemon(**settings())
        honest, enemy = Honest(daemon), daemon.user("enemy")
        before = daemon.status("RssAnon") // 1024
        with Attack(daemon, enemy.token, ATTACK_SECONDS) as attack:
            honest.live(REQUESTS, attack.running)
            attacked = attack.running()
        alive, most = daemon.alive(), honest.most_kb // 1024
        print("\n    honest: %s\n    memory: %d MB, before %d MB\n    hostile: %s"
              % (latency_line(latencies(honest.seen)["all"]), most, before, json.dumps(attack.outcome)))
        with self.subTest("the daemon lives, and all of it happened under attack"):
            self.assertTrue(alive, daemon.last_words())
            self.assertTrue(attacked)
            self.assertTrue(all(attack.outcome.values()), attack.outcome)
        with self.subTest("no request of the honest user is refused or fails"):
            self.assertEqual(honest.refused(), [])
        with self.subTest("the honest user has asked everything"):
            self.assertGreaterEqual(len(honest.seen), REQUESTS)
        with self.subTest("its jobs have succeeded meanwhile"):
            self.assertTrue(honest.jobs)
            self.assertEqual([honest.ends.get(j) for j in honest.jobs], ["succeeded"] * len(honest.jobs))
        with self.subTest("memory stays within the budgets"):
            if not harness.sanitized():
                self.assertLess(most, before + sum(SETTINGS[name] for name in BUDGETS) + OVERHEAD_MB)
        with self.subTest("it ends in order, and nothing is damaged"):
            self.assertEqual(daemon.stop(), 0)
            checked = command("check", state=daemon.state)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
