"""Whatever happens to a rented zone: its log says it all, and each slot is charged once."""

from collections import Counter

import numpy as np

from auctune.service.zones.metered.again import go_again
from auctune.service.zones.spot.again import SpotAgain
from support.spot_player import SpotPlayer
from support.thorough import THOROUGH


def test_state_is_the_fold_of_the_log_and_money_is_what_slots_cost() -> None:
    seen: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for seed in range(60 if THOROUGH else 12):
        player = SpotPlayer(np.random.default_rng(seed))
        for step in range(120):
            player.step()
            if step % 10 == 9:
                player.check()
            if step % 40 == 39:
                player.check_fold()
        seen += player.seen
        states += Counter(row.body["state"] for row in player.log.rows.values())
    # The play went everywhere.
    assert all(seen[name] for name in ("pause", "resume", "late", "tell_again", "decide_received"))
    wanted = ("finished", "cancelled", "rejected", "refunded", "failed", "paused", "training")
    assert all(states[name] for name in wanted)


def test_all_but_the_estimates_that_were_made_up_follows_from_the_log() -> None:
    charges = 0
    for seed in range(8 if THOROUGH else 2):
        player = SpotPlayer(np.random.default_rng(seed))
        for _ in range(120):
            player.step()
        rental = player.zone.rental
        again = go_again(player.log.read(), SpotAgain(rental.market, rental.clock))
        charges += again.num_charges
        assert all(one.what.startswith("job.decided: decision.") for one in again.differences)
        estimated = [one for one in again.differences if one.what.endswith("expected_cost")]
        assert len(estimated) == again.num_decisions > 5
    assert charges > 20
