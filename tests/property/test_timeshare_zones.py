"""Whatever happens to a timeshare zone: its log says it all, and no second is charged twice."""

from collections import Counter
from decimal import Decimal

import numpy as np

from auctune.service.zones.event import Kind
from auctune.service.zones.metered.again import go_again
from auctune.service.zones.timeshare.again import TimeshareAgain
from support.pooled_zones import PRICE, PoolPlayer
from support.thorough import THOROUGH


def test_state_is_the_fold_of_the_log_and_what_is_used_is_charged_once() -> None:
    seen: set[str] = set()
    states: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    num_open = 0
    for seed in range(7):
        player = PoolPlayer(np.random.default_rng(seed))
        for step in range(200):
            player.step()
            if step % 20 == 19:
                player.check()
        # What was not heard is told again: the log knows of every unit then.
        player.made.restart()
        player.check()
        num_open += check_charges(player)
        seen |= player.seen
        rows = player.made.log.rows.values()
        states += Counter(row.body["state"] for row in rows)
        codes += Counter(row.body["error"]["code"] for row in rows if row.body["error"])
    assert seen >= {"join", "unit", "leave", "pack", "restart", "snapshot", "pause", "refused"}
    assert num_open > 3
    expected = ("finished", "failed", "refunded", "cancelled", "rejected", "learning", "paused")
    assert all(states[state] for state in expected), states
    failures = (
        "target_not_reached",
        "cap_reached",
        "step_too_long",
        "training_failed",
        "service_failed",
    )
    assert all(codes[code] for code in failures), codes


def check_charges(player: PoolPlayer) -> int:
    """By the journal alone: each unit of a job is charged once; how many open ones had any."""
    used: dict[str, Decimal] = {}
    for event in player.made.journal:
        if event["type"] == "unit":
            for name, seconds in zip(event["names"], event["seconds"], strict=True):
                amount = (PRICE * Decimal(seconds)).quantize(Decimal("0.0001"))
                used[name] = used.get(name, Decimal(0)) + amount
        elif event["type"] == "joined":
            amount = (PRICE * Decimal(event["seconds"])).quantize(Decimal("0.0001"))
            used[event["id"]] = used.get(event["id"], Decimal(0)) + amount
    jobs = player.made.zone.state.jobs.values()
    for job in jobs:
        assert job.meter.charged == min(job.meter.cap, used.get(job.id, Decimal(0)))
    for name, row in player.made.log.rows.items():
        if row.body["meter"] is not None:
            assert Decimal(row.body["meter"]["charged"]) <= used.get(name, Decimal(0))
    return sum(job.meter.charged > 0 for job in jobs)


def test_all_but_the_estimates_that_were_made_up_follows_from_the_log() -> None:
    charges = 0
    estimates = "job.decided: decision.estimate."
    for seed in range(6 if THOROUGH else 3):
        player = PoolPlayer(np.random.default_rng(seed))
        for _ in range(150):
            player.step()
        player.made.restart()
        events = list(player.made.log.read())
        asked = [event for event in events if event.kind == Kind.DECIDED]
        again = go_again(events, TimeshareAgain(PRICE, player.made.clock, asked))
        assert again.num_decisions == len(asked) > 5
        charges += again.num_charges
        assert [one for one in again.differences if not one.what.startswith(estimates)] == []
        told = {(one.name, one.what.removeprefix(estimates)) for one in again.differences}
        assert {(event.job, "finish") for event in asked} <= told
    assert charges > 15
