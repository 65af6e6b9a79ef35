"""Whatever happens to a rented zone: its log says it all, and each slot is charged once."""

from collections import Counter

import numpy as np
import pytest

from auctune.replay.spot import SpotVerifier
from auctune.service.zones.spot.state import KEPT_JOBS
from support.late_rentals import LateRentals, Paid
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
    assert all(seen[name] for name in ("pause", "resume", "late", "decide_received"))
    wanted = ("finished", "cancelled", "rejected", "refunded", "failed", "paused", "training")
    assert all(states[name] for name in wanted)


def test_all_but_the_estimates_that_were_made_up_follows_from_the_log() -> None:
    charges = 0
    for seed in range(8 if THOROUGH else 2):
        player = SpotPlayer(np.random.default_rng(seed))
        for _ in range(120):
            player.step()
        rental = player.zone.rental
        verified = SpotVerifier(rental.market, rental.clock).verify_log(player.log.read())
        charges += verified.counts["charges"]
        assert all(one.what.startswith("job.decided: decision.") for one in verified.differences)
        estimated = [one for one in verified.differences if one.what.endswith("expected_cost")]
        assert len(estimated) == verified.counts["decisions"] > 5
    assert charges > 20


@pytest.mark.slow
def test_p90_covers_what_jobs_that_start_late_and_train_slowly_pay() -> None:
    kept: dict[bool, float] = {}
    missed: dict[bool, float] = {}
    for learns in (False, True):
        paid: list[Paid] = []
        for seed in range(6 if THOROUGH else 2):
            player = LateRentals(seed, learns=learns)
            paid += [player.run() for _ in range(KEPT_JOBS + 40)][KEPT_JOBS:]
        kept[learns] = sum(one.cost <= one.p90 for one in paid) / len(paid)
        missed[learns] = sum(one.num_missed for one in paid) / len(paid)
    # Shares of jobs; slots a job.
    assert kept[False] < 0.5
    assert 0.85 <= kept[True] <= 0.98
    assert missed[True] * 10 < missed[False]


@pytest.mark.slow
def test_what_was_learned_is_the_same_after_a_restart_and_in_the_log_gone_through_again() -> None:
    player = LateRentals(0)
    for _ in range(KEPT_JOBS + 5):
        player.run()
    pace, draws = player.pace(), player.rng.bit_generator.state
    assert pace.start_seconds > 15.0
    assert len(pace.speeds) == KEPT_JOBS
    assert 0.45 < pace.speed < 0.75
    before = player.estimated().estimate
    player.restart()
    player.rng.bit_generator.state = draws
    assert player.pace() == pace
    assert player.estimated().estimate == before
    rental = player.zone.rental
    verified = SpotVerifier(rental.market, rental.clock).verify_log(player.log.read())
    assert verified.differences == ()
    assert verified.counts["decisions"] == KEPT_JOBS + 5
