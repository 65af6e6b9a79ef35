"""Whatever happens to a timeshare zone: its log says it all, and no second is charged twice."""

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

import numpy as np
import pytest

from auctune.engine.pool.events import ExitReason, JobJoined, PoolEvent, QuantumTrained
from auctune.replay.timeshare import TimeshareVerifier
from auctune.service.storage.event_log import EventType
from auctune.service.storage.queries import Status
from support.pooled_zones import PRICE, SECONDS, PooledZone, PoolPlayer
from support.thorough import THOROUGH


@pytest.mark.slow
def test_state_is_the_fold_of_the_log_and_what_is_used_is_charged_once() -> None:
    seen: set[str] = set()
    states: Counter[str] = Counter()
    codes: Counter[str] = Counter()
    num_open = num_cancelled = 0
    for seed in range(6, 12):
        player = PoolPlayer(np.random.default_rng(seed))
        for step in range(200):
            player.step()
            if step % 20 == 19:
                player.check()
        player.made.restart()
        player.check()
        num_open += check_charges(player)
        num_cancelled += check_cancelled(player)
        seen |= player.seen
        rows = player.made.log.rows.values()
        states += Counter(row.body["state"] for row in rows)
        codes += Counter(row.body["error"]["code"] for row in rows if row.body["error"])
    assert seen >= {"join", "unit", "leave", "pack", "restart", "snapshot", "pause", "refused"}
    assert num_open > 3
    assert num_cancelled > 10
    expected = ("finished", "failed", "refunded", "cancelled", "rejected", "training", "paused")
    assert all(states[state] for state in expected), states
    failures = (
        "target_not_reached",
        "cap_reached",
        "step_too_long",
        "training_failed",
        "service_failed",
    )
    assert all(codes[code] for code in failures), codes


def used_by_job(events: Iterable[PoolEvent]) -> dict[str, Decimal]:
    """What each job used of the pool, by the pool's log alone, in money."""
    used: dict[str, Decimal] = {}
    for event in events:
        pairs: list[tuple[str, float]] = []
        if isinstance(event, QuantumTrained):
            pairs = list(zip(event.jobs, event.seconds, strict=True))
        elif isinstance(event, JobJoined):
            pairs = [(event.id, event.seconds)]
        for name, seconds in pairs:
            amount = (PRICE * Decimal(seconds)).quantize(Decimal("0.0001"))
            used[name] = used.get(name, Decimal(0)) + amount
    return used


def check_charges(player: PoolPlayer) -> int:
    """Check that each unit of a job is charged once; return how many open ones had any."""
    used = used_by_job(player.made.pool_log)
    jobs = player.made.zone.state.jobs.values()
    for job in jobs:
        assert job.meter.charged == min(job.meter.cap, used.get(job.id, Decimal(0)))
    for name, row in player.made.log.rows.items():
        if row.body["meter"] is not None:
            assert Decimal(row.body["meter"]["charged"]) <= used.get(name, Decimal(0))
    return sum(job.meter.charged > 0 for job in jobs)


def check_cancelled(player: PoolPlayer) -> int:
    """Check that cancelled jobs paid for their last units; return how many had any."""
    used = used_by_job(player.made.pool_log)
    charged: dict[str, Decimal] = {}
    num_paid = 0
    most: dict[str, Decimal] = {}
    for event in player.made.log.read():
        name = str(event.job)
        if event.type == EventType.METERED:
            num_paid += name in most and Decimal(event.body["amount"]) > 0
            charged[name] = charged.get(name, Decimal(0)) + Decimal(event.body["amount"])
        elif event.type == EventType.CANCELLED and "held" in event.body:
            most[name] = charged.get(name, Decimal(0)) + Decimal(event.body["held"])
    for name, limit in most.items():
        row = player.made.log.rows[name].body
        assert row["state"] == "cancelled"
        assert Decimal(row["meter"]["charged"]) == charged.get(name, Decimal(0))
        assert charged.get(name, Decimal(0)) == min(limit, used.get(name, Decimal(0)))
    return num_paid


@pytest.mark.parametrize("killed", ["nobody", "after the cancellation", "after the unit"])
@pytest.mark.parametrize("has_joined", [True, False])
def test_whoever_trains_and_cancels_again_and_again_pays_for_all_of_it(
    killed: str, has_joined: bool
) -> None:
    made = PooledZone()
    cap, num_jobs = Decimal(50), 20
    for number in range(num_jobs):
        job = f"job{number}"
        made.decide(job, cap=str(cap))
        if has_joined:
            made.joins(job)
        assert made.zone.cancel(job)
        made.keep()
        row = made.log.rows[job]
        assert (row.status, row.body["state"]) == (Status.CANCELLED, "cancelled")
        finished_at = row.body["finished_at"]
        # At most what the longest unit may cost stays set aside.
        held = Decimal(row.body["meter"]["cap"]) - Decimal(row.body["meter"]["charged"])
        assert held == 5 * PRICE * Decimal(SECONDS)
        assert not made.zone.cancel(job)
        if killed == "after the cancellation":
            made.restart()
        if not has_joined:
            made.joins(job)
        made.trains({job: (3, 0.7, 9.5)})
        if killed == "after the unit":
            made.restart()
        made.drops([job])
        assert made.log.rows[job].body["finished_at"] == finished_at
        assert made.log.rows[job].body["meter"]["charged"] == "5.0000"
        assert made.folded().state == made.zone.state
    assert not made.zone.state.jobs
    assert not made.zone.state.cancelled
    assert all(sum(entry.amount for entry in entries) == 0 for _, entries in made.log.entries)
    used = sum(used_by_job(made.pool_log).values(), Decimal(0))
    sums = made.log.balances()
    # Half a second to load each, and all of its unit but what another job had.
    assert sums["user:ann"] == -sums["revenue"] == used == num_jobs * Decimal(5)
    assert sums["held"] == sums["hold:ann"] == 0


def test_a_cancelled_job_never_pays_beyond_its_cap_and_nothing_once_it_is_settled() -> None:
    made = PooledZone()
    made.decide("small", cap="1")
    made.decide("stuck", cap="500")
    for job in ("small", "stuck"):
        made.joins(job)
        assert made.zone.cancel(job)
    made.keep()
    # Longer than any unit can be.
    made.trains({"small": (1, 0.7, 9.0), "stuck": (1, 0.7, 60.0)})
    made.drops(["small", "stuck"])
    charged = {name: row.body["meter"]["charged"] for name, row in made.log.rows.items()}
    assert charged == {"small": "1.0000", "stuck": "25.2500"}
    made.zone.settle_dropped(made.zone.state.seq)
    made.trains({"stuck": (1, 0.7, 1.0)})
    assert made.log.balances()["user:ann"] == Decimal("26.25")


def test_a_job_that_had_left_the_pool_is_over_once_it_is_cancelled() -> None:
    made = PooledZone()
    made.decide("job")
    made.joins("job")
    made.leaves("job", ExitReason.TARGET_REACHED)
    assert made.zone.cancel("job")
    made.keep()
    assert not made.zone.state.cancelled
    assert made.log.balances()["held"] == 0


def test_an_erased_owner_has_nothing_to_come() -> None:
    made = PooledZone()
    for job, owner in (("mine", "ann"), ("other", "bob")):
        made.decide(job, owner=owner)
        made.joins(job)
        assert made.zone.cancel(job)
    made.zone.settle("ann")
    made.keep()
    assert list(made.zone.state.cancelled) == ["other"]
    rows = dict(made.log.rows)
    made.trains({"mine": (1, 0.7, 1.0), "other": (1, 0.7, 1.0)})
    assert made.log.rows["mine"] is rows["mine"]
    assert made.log.rows["other"] is not rows["other"]


def test_all_but_the_estimates_that_were_made_up_follows_from_the_log() -> None:
    charges = 0
    estimates = "job.decided: decision.estimate."
    for seed in range(6 if THOROUGH else 3):
        player = PoolPlayer(np.random.default_rng(seed))
        for _ in range(150):
            player.step()
        player.made.restart()
        events = list(player.made.log.read())
        decided = [event for event in events if event.type == EventType.DECIDED]
        verifier = TimeshareVerifier(PRICE, player.made.clock, decided)
        verified = verifier.verify_log(events)
        assert verified.counts["decisions"] == len(decided) > 5
        charges += verified.counts["charges"]
        assert [one for one in verified.differences if not one.what.startswith(estimates)] == []
        told = {(one.name, one.what.removeprefix(estimates)) for one in verified.differences}
        assert {(event.job, "finish") for event in decided} <= told
    assert charges > 15
