"""Whatever happens to a zone: its log says it all, and no promise is broken."""

from collections import Counter

import numpy as np
import pytest

from support.zone_player import ZonePlayer
from support.zones import MadeUpZone

MECHANISMS = {
    "pdftsp": ("pdftsp", {}),
    "exponential": ("pdftsp", {"pricing": "exponential"}),
    "eft": ("eft", {}),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_state_is_the_fold_of_the_log_and_promises_are_kept(name: str) -> None:
    seen: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for seed in range(10):
        rng = np.random.default_rng(seed)
        player = ZonePlayer(MadeUpZone(*MECHANISMS[name]), rng)
        for step in range(150):
            player.step()
            player.check()
            if step % 25 == 24:
                player.check_fold()
        player.check_fold()
        seen += player.seen
        statuses += Counter(row.body["state"] for row in player.made.log.rows.values())
    # The play went everywhere; a mechanism that charges the bid has no lines to accept.
    assert seen["accept"] or name == "eft"
    assert all(
        seen[f] for f in ("pause", "resume", "repair", "change_vendor", "lose", "back", "drain")
    )
    assert all(statuses[s] for s in ("finished", "cancelled", "rejected", "refunded", "failed"))
