"""The checker against planted faults, one for each constraint."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auctune.edge import EdgeLedger, EdgePlan, Move, SlotPlan, first_violation
from support.edge_plans import FIRST, JOB, MARKET, PLAN, SECOND


def test_a_plan_that_keeps_all_is_passed() -> None:
    assert first_violation(JOB, PLAN, EdgeLedger(MARKET), finish=2) is None


def slots(first: SlotPlan = FIRST, second: SlotPlan = SECOND) -> EdgePlan:
    return EdgePlan((first, second))


PARTS: Any = {"a": 2.5}
FAULTS = {
    "a chunk that is left": (
        "2a", slots(second=replace(SECOND, moves=(Move("a", "a", 1), Move("b", "a", 1)))),
    ),
    "a chunk that is trained twice": (
        "2a", slots(second=replace(SECOND, moves=(Move("a", "a", 2), Move("b", "a", 2)))),
    ),
    "chunks of the wrong origin, all as many as there are": (
        "2a", slots(second=replace(SECOND, moves=(Move("a", "a", 2), Move("b", "a", 1)))),
    ),
    "a worker too few": ("2b", slots(second=replace(SECOND, workers={"a": 1}))),
    "a server without workers": ("2c", EdgePlan((FIRST, SECOND, SlotPlan(3, {}, "a", ())))),
    "a slot that is there twice": ("2c", slots(second=replace(SECOND, slot=1))),
    "more traffic than may cross": (
        "2d",
        # The server far from two workers: 2 * 5 MB, and 3 chunks of 2 MB, over 20 with theirs.
        slots(second=replace(SECOND, workers={"a": 2, "b": 0})),
    ),
    "more workers than a site holds": ("2e", slots(second=replace(SECOND, workers={"a": 3}))),
    "a slot before the arrival": ("2g", slots(first=replace(FIRST, slot=0))),
    "a slot after the last": ("2g", slots(second=replace(SECOND, slot=5))),
    "a part of a worker": ("2h", slots(second=replace(SECOND, workers=PARTS))),
    "a negative number of chunks": (
        "2h", slots(second=replace(SECOND, moves=(Move("a", "a", 3), Move("b", "a", -2)))),
    ),
    "a server at no site": ("2i", slots(second=replace(SECOND, server="c"))),
    "chunks to no site": ("2i", slots(first=replace(FIRST, moves=(Move("a", "c", 4),)))),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_by_its_constraint(fault: str) -> None:
    constraint, plan = FAULTS[fault]
    ledger = EdgeLedger(MARKET)
    if constraint == "2d":
        ledger.traffic[2] = 7
    found = first_violation(JOB, plan, ledger)
    assert found is not None
    assert found.constraint == constraint, str(found)


def test_a_finish_other_than_the_last_slot_is_found() -> None:
    found = first_violation(JOB, PLAN, EdgeLedger(MARKET), finish=3)
    assert found is not None
    assert str(found) == "(2f) finish: 3; expected the last slot with workers, 2"
    empty = first_violation(replace(JOB, chunks={"a": 1}), EdgePlan(()), EdgeLedger(MARKET))
    assert empty is not None


def test_what_others_hold_counts() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.used[2, 0, 0] = 1
    found = first_violation(JOB, PLAN, ledger)
    assert found is not None
    assert str(found) == "(2e) slot 2, site a: 3 units of gpu; expected 2 at most"


def test_the_server_takes_its_part_of_a_site() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.used[2, 1, 1] = 8
    found = first_violation(JOB, PLAN, ledger)
    assert found is not None
    assert found.constraint == "2e"
    assert "site b" in found.place


def test_nothing_runs_at_a_lost_site() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.lose("b", 2)
    found = first_violation(JOB, PLAN, ledger)
    assert found is not None
    assert str(found) == "(2e) slot 2, site b: is lost; expected a site that is there"


def test_nor_does_a_server_that_occupies_nothing() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.lose("b", 2)
    found = first_violation(replace(JOB, server={}), PLAN, ledger)
    assert found is not None
    assert str(found) == "(2e) slot 2, site b: is lost; expected a site that is there"


def test_traffic_is_what_crosses_and_no_more() -> None:
    # One worker away from the server; then two of them, and two chunks that cross.
    assert FIRST.traffic_mb(JOB, MARKET) == 5
    assert SECOND.traffic_mb(JOB, MARKET) == 2 * 5 + 2 * 2


def test_a_ledger_gives_back_what_it_took() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.take(JOB, PLAN)
    assert ledger.traffic.tolist() == [0, 5, 14, 0, 0]
    assert ledger.used[1].tolist() == [[2, 5], [1, 2]]
    assert ledger.used[2].tolist() == [[2, 4], [0, 1]]
    ledger.give_back(JOB, PLAN)
    assert not ledger.traffic.any()
    assert not np.any(ledger.used)
