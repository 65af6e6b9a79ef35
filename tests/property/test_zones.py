"""Whatever happens to a zone: its log says it all, and no promise is broken."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.domain import Cell, InputError, Schedule
from auctune.service.zones.auction.state import AuctionJob
from auctune.service.zones.core.job import Phase
from support.thorough import rotated
from support.zone_player import ZonePlayer, assert_same
from support.zones import MadeUpZone

MECHANISMS = {
    "pdftsp": ("pdftsp", {}),
    "exponential": ("pdftsp", {"pricing": "exponential"}),
    "eft": ("eft", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", rotated(MECHANISMS))
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
        seen[f]
        for f in ["pause", "resume", "repair", "change_vendor", "lose", "back", "drain", "run_out"]
    )
    assert all(statuses[s] for s in ("finished", "cancelled", "rejected", "refunded", "failed"))


RANGE = {
    "pricing": "exponential",
    "compute_low": "0.001",
    "compute_high": "1",
    "memory_low": "0.001",
    "memory_high": "1",
}


def priced(made: MadeUpZone, job: AuctionJob, cells: tuple[Cell, ...]) -> Decimal:
    """What a job would pay for cells now, by the market's own explanation."""
    rest = replace(job.task, work=job.work_left, quotes=())
    mechanism, slot = made.zone.mechanism, made.zone.state.slot
    plan = mechanism.explain(rest, Schedule(cells), slot).chosen
    assert plan is not None
    assert plan.price is not None
    return plan.price


@pytest.mark.parametrize("settings", [RANGE, {}], ids=["exponential", "learned"])
def test_a_paused_job_gets_no_cells_worth_more_than_those_it_gave_up(
    settings: dict[str, str],
) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(4):
        made, rng = MadeUpZone("pdftsp", settings), np.random.default_rng(seed)
        zone, worth = made.zone, Decimal(0)
        zone.decide(made.bid("mine", "30", rows=400, slots=10, owner="ann"))
        job = zone.state.jobs["mine"]
        for number in range(60):
            if job.phase is Phase.PAUSED:
                rest = replace(job.task, work=job.work_left, quotes=())
                found = zone.mechanism.plan_rest(rest, zone.state.slot + 1)
                if found is None:
                    break
                price = priced(made, job, found)
                if price <= worth:
                    assert zone.resume("mine")
                    outcomes["resumed"] += 1
                else:
                    with pytest.raises(InputError, match=f"would cost {price} now"):
                        zone.resume("mine")
                    outcomes["refused"] += 1
            else:
                left = job.cells_from(zone.state.slot + 1)
                zone.pause("mine")
                worth = priced(made, job, left)
            made.keep()
            amount = f"{rng.integers(1, 40) / 10}"
            zone.decide(made.bid(f"{number}", amount, slots=int(rng.integers(2, 11)), owner="bob"))
            if rng.random() < 0.3 and number:
                zone.cancel(f"{rng.integers(number)}")
            made.keep()
    assert outcomes["resumed"]
    assert outcomes["refused"]


def test_a_slot_that_fails_while_its_job_is_paused_is_made_good() -> None:
    made = MadeUpZone("pdftsp", RANGE)
    made.zone.decide(made.bid("mine", "30", rows=200, slots=8))
    made.pass_slots()
    job = made.zone.state.jobs["mine"]
    assert job.cells[0].slot == made.zone.state.slot
    made.zone.pause("mine")
    made.keep()
    assert job.given_up is not None
    # The slot that trains now comes to nothing: one more is needed than was given up.
    assert job.given_up.work < job.work_left
    made.executor.orders.clear()
    assert made.zone.resume("mine")


def test_quotes_learn_what_is_due_once() -> None:
    made = MadeUpZone()
    pricing = made.zone.mechanism.pricing  # type: ignore[attr-defined]
    for number in range(40):
        if pricing.needs_update():
            break
        made.zone.decide(made.bid(f"{number}", "5", owner=f"user-{number % 8}"))
    assert pricing.needs_update()
    ask = made.bid("quote", "0", owner="carol")
    menus = [made.zone.quote(ask) for _ in range(2)]
    made.keep()
    assert not pricing.needs_update()
    assert menus[0] == menus[1]
    assert made.log.events[-1][0].type == "prices.updated"
    assert_same(made.folded().mechanism.save(), made.zone.mechanism.save())
