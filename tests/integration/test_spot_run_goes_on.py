"""Renting by a clock that goes on while nobody is there: slots are missed, a cap is kept."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from auctune.engine.spot.clock import ModelClock
from auctune.engine.spot.coordinator import CapReachedError, StoppedError
from auctune.engine.spot.state import EventRecord, SlotStarted, SpotEvent, SpotRunState
from auctune.spot import OnDemandOnly, SpotFirst, SpotJob, SpotMarket
from auctune.standalone import spot
from auctune.standalone.spot import ZoneLog
from auctune.standalone.spot_report import SpotRunReport
from support.elastic import is_same
from support.spot_runs import Site, adapter_of, read_adapter, read_events

pytest_plugins = ["support.spot_site"]

STEADY = SpotMarket(np.full(6, 0.25), np.full(6, 2))
SCARCE = SpotMarket(np.full(6, 0.25), np.zeros(6, dtype=np.int64))


class GoingClock(ModelClock):
    """The model's time, which whoever comes back does not find where it was left.

    Args:
        job, num_rows: as of any model's clock.
        now: when somebody comes back.
    """

    runs_while_down = True

    def __init__(self, job: SpotJob, num_rows: int, now: float = 0.0) -> None:
        super().__init__(job, num_rows)
        super().start(now)

    def start(self, now: float) -> None:
        """Nobody sets this one."""

    def seconds_until(self, moment: float) -> float:
        """See `SlotClock`."""
        return max(0.0, moment - self.now())


@dataclass
class Stopping:
    """Wants the run to stop once a slot has begun."""

    slot: int | None = None
    is_over: bool = False

    def __call__(self, event: SpotEvent) -> None:
        if isinstance(event, SlotStarted):
            self.is_over |= event.record.observation.slot == self.slot


class KilledError(Exception):
    """Stands for the end of a process: nothing that it would still have done is done."""


class KilledLog(ZoneLog):
    """A log whose run ends as soon as two pieces of the ending are on record."""

    def append(self, event: EventRecord) -> None:
        super().append(event)
        if sum(one["type"] == "overtime" for one in self.events) == 2:
            raise KilledError


def held_late(folder: Path) -> list[tuple[float, float]]:
    """The pieces of the ending that are on record."""
    return SpotRunState.fold(read_events(folder)).overtime


ROWS = 96


def run(
    site: Site, folder: Path, market: SpotMarket, now: float, stopping: Stopping, cap: float = 1e9
) -> SpotRunReport:
    return site.run(
        folder,
        SpotFirst() if market is STEADY else OnDemandOnly(),
        site.supply(market),
        clock=GoingClock(site.order.job, ROWS, now),
        on_event=stopping,
        resume=folder.exists(),
        cap=cap,
        should_stop=lambda: stopping.is_over,
    )


@pytest.mark.slow
def test_slots_that_passed_are_missed_and_not_paid_and_the_weights_are_the_same(
    site: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(StoppedError):
        run(site, folder, STEADY, 0.0, Stopping(slot=1))
    # Within slot 3, later than it is worth its price.
    report = run(site, folder, STEADY, 3.75, Stopping())
    slots = SpotRunState.fold(read_events(folder)).slots
    assert [one.is_skipped for one in slots[:5]] == [False, False, True, True, False]
    assert [one.paid for one in slots[2:4]] == [0.0, 0.0]
    assert [one.observation.price for one in slots[2:4]] == [0.25, 0.25]
    held = [one.allocation.total for one in slots]
    assert held[2:4] == [0, 0]
    assert report.outcome.slot_cost == pytest.approx(0.25 * held[0] + 0.25 * held[1] + sum(
        one.paid for one in slots[4:]
    ))  # fmt: skip
    assert is_same(adapter_of(report), site.undisturbed(tmp_path / "alone"))


@pytest.mark.slow
def test_a_slot_under_way_goes_on_with_what_is_left_of_it_and_is_paid_once(
    site: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(StoppedError):
        run(site, folder, STEADY, 0.0, Stopping(slot=1))
    run(site, folder, STEADY, 1.6, Stopping())
    slots = SpotRunState.fold(read_events(folder)).slots
    assert not any(one.is_skipped for one in slots)
    assert [one.observation.slot for one in slots] == list(range(len(slots)))


def test_no_slot_begins_that_would_cost_more_than_is_left(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for _ in range(2):
        with pytest.raises(CapReachedError):
            run(site, folder, STEADY, 0.0, Stopping(), cap=1.2)
        state = SpotRunState.fold(read_events(folder))
        assert (state.slot_cost, len(state.slots)) == (1.0, 2)
        assert state.ended is None


@pytest.mark.slow
def test_after_the_deadline_time_is_paid_for_which_instances_were_held_up_to_the_cap(
    site: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    # Nobody was there before the deadline; 12 units of work at 0.9 * 4 a slot take 3.3 slots.
    with pytest.raises(CapReachedError):
        run(site, folder, SCARCE, 6.5, Stopping(), cap=6.0)
    assert sum(map(length, held_late(folder))) == pytest.approx(1.5)
    report = run(site, folder, SCARCE, 12.25, Stopping())
    held = sum(map(length, held_late(folder)))
    assert [since for since, _ in held_late(folder)][:3] == [6.5, 7.0, 12.25]
    assert report.outcome.cost == pytest.approx(4 * held)
    assert report.outcome.cost < 4 * (report.outcome.finish - 6)
    assert report.outcome.value == 0
    assert is_same(read_adapter(folder / "adapter"), site.undisturbed(tmp_path / "alone"))


@pytest.mark.slow
def test_a_kill_after_the_deadline_costs_nothing_that_was_paid_before(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, alone = tmp_path / "run", tmp_path / "alone"
    run(site, alone, SCARCE, 6.5, Stopping())
    with monkeypatch.context() as patched:
        patched.setattr(spot, "ZoneLog", KilledLog)
        with pytest.raises(KilledError):
            run(site, folder, SCARCE, 6.5, Stopping())
    assert len(held_late(folder)) == 2
    run(site, folder, SCARCE, 8.0, Stopping())
    # A batch may end a little after its piece; that is not charged.
    assert sum(map(length, held_late(folder))) <= sum(map(length, held_late(alone)))


def length(piece: tuple[float, float]) -> float:
    since, until = piece
    return until - since
