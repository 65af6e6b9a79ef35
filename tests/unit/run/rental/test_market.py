"""A record that is replayed without an end: what is seen, and what is run on, is one market."""

from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.run.rental.estimate import Renting, estimate, longest_deadline
from auctune.run.rental.market import MOST_SEEN, ReplayedRecord, read_replayed
from auctune.run.rental.order import JobTerms

SLOT = 600.0


def recorded(tmp_path: Path, start: int | None = 3, slots: int = 7) -> ReplayedRecord:
    """Two lines a slot; within each slot instances go."""
    lines = ["t_s,available,price"]
    for half in range(2 * slots):
        available = 5 + half // 2 - half % 2
        lines.append(f"{half * SLOT / 2:g},{available},{0.5 + half // 2 / 10:g}")
    file = tmp_path / "market.csv"
    file.write_text("\n".join(lines) + "\n")
    return read_replayed(file, None, None, on_demand_price=2.0, slot_seconds=SLOT, start=start)


@pytest.mark.parametrize("first", [0, 2, 4, 5, 11])
def test_a_trace_is_the_market_that_is_seen_slot_by_slot_over_the_end_and_on(
    tmp_path: Path, first: int
) -> None:
    market = recorded(tmp_path)
    trace = market.trace(first, 9)
    times = np.array(trace["times"])
    assert (times[0], bool(np.all(np.diff(times) > 0))) == (0.0, True)
    for slot in range(9):
        within = (times >= slot) & (times < slot + 1)
        seen = market.seen(first + slot)
        price, available = seen.price[-1], seen.available[-1]
        assert min(np.array(trace["available"])[within]) == available
        assert set(np.array(trace["price"])[within]) == {price}
        # What jobs choose by, and operators see, is the market as the slot begins: never less.
        as_it_begins = np.array(trace["available"])[within][0]
        assert market.beginning(first + slot) == (price, as_it_begins)
        assert as_it_begins >= available


def test_nothing_is_seen_that_is_yet_to_come(tmp_path: Path) -> None:
    market = recorded(tmp_path, start=2)
    seen = market.seen(0)
    assert seen.num_slots == 3
    assert np.array_equal(seen.price, market.market.price[:3])
    later = market.seen(10)
    assert later.num_slots == 13
    assert np.array_equal(later.price[7:], market.market.price[:6])
    assert market.seen(10 * MOST_SEEN).num_slots == MOST_SEEN


def test_it_begins_a_third_into_the_record_where_nothing_is_said(tmp_path: Path) -> None:
    assert recorded(tmp_path, None).start == 2
    with pytest.raises(InputError, match=r"start: 7; expected a slot of the market, 0 to 6"):
        recorded(tmp_path, 7)
    assert recorded(tmp_path, 1).digest != recorded(tmp_path, 2).digest


def test_as_long_as_the_past_tells_of_it_a_job_has_an_estimate(tmp_path: Path) -> None:
    seen = recorded(tmp_path, 0, slots=20).seen(19)
    most = longest_deadline(seen)
    assert most == 12
    renting = Renting("msu", "seasonal")
    found = estimate(JobTerms(9.0, most, 1.5, 20.0, 1, 4, 0.9, 0.95).job(), renting, seen)
    assert 0 < found.cost <= found.cost_p90
    assert 0 <= found.risk <= 1
    with pytest.raises(InputError):
        estimate(JobTerms(9.0, most + 2, 1.5, 20.0, 1, 4, 0.9, 0.95).job(), renting, seen)


def test_who_knows_the_future_does_not_forecast_here() -> None:
    with pytest.raises(InputError, match="knows the future"):
        Renting("msu", "perfect")
