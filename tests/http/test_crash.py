"""A short kill -9 campaign; tests/crash/kill9 runs long ones."""

import campaign
from harness import Case


class Kill9(Case):
    def test_nothing_acknowledged_is_lost_and_no_draw_differs(self):
        made = campaign.run(15, seed=20, max_jobs=8, least=8, say=lambda text: None)
        self.assertGreaterEqual(len(made.book.jobs), 8)
