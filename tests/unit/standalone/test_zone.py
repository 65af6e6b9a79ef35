"""A zone without a service: its clock and its log."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from auctune.registry.mechanisms import build
from auctune.service.event_writer import LogWriter
from auctune.service.storage import StoreError
from auctune.service.storage.engine import FILE_NAME
from auctune.service.zones.auction.state import AuctionModel, AuctionState
from auctune.service.zones.core.events import JobNoted
from auctune.standalone import zone as module
from auctune.standalone.market_zone import MarketZone
from auctune.standalone.zone import LogicalClock, ZoneRun, open_log
from support.zones import made_up_supply


@pytest.mark.parametrize("slot_seconds", [1e-9, 0.01, 0.05, 0.11, 1.0, 3600.0])
def test_the_clock_is_at_the_slot_that_a_run_has_reached_however_short_slots_are(
    slot_seconds: float,
) -> None:
    clock = LogicalClock(1_795_831_510.123, slot_seconds)
    for slot in range(2000):
        clock.slot = slot
        assert clock.slots.slot() == slot


@contextmanager
def _open_run(folder: Path) -> Iterator[ZoneRun[MarketZone]]:
    supply, clock = made_up_supply(), LogicalClock(0.0, 1.0)
    model = AuctionModel(AuctionState(cluster=supply.cluster), build("pdftsp", supply.cluster))
    with open_log(folder) as (store, writer):
        zone = MarketZone({}, supply, model, clock.slots, writer)
        with closing(ZoneRun(zone, clock, store, writer)) as run:
            yield run


def _note(zone: MarketZone) -> None:
    zone.record(JobNoted(text="a note"))


def test_a_log_that_cannot_be_written_ends_the_run_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_OUTAGE_SECONDS", 0.01)
    with _open_run(tmp_path) as run:
        run.call(_note)
        (tmp_path / FILE_NAME).rename(tmp_path / "elsewhere.db")
        (tmp_path / FILE_NAME).touch()
        with pytest.raises(StoreError, match="was replaced by another file"):
            run.call(_note)

    assert [event.body["text"] for event in run.about_none] == ["a note"]
    # What a service would log for its operator is in the error.
    assert capsys.readouterr() == ("", "")


def test_a_command_that_takes_long_is_no_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OUTAGE_SECONDS", 0.001)
    checks = threading.Semaphore(0)
    monkeypatch.setattr(LogWriter, "outage", property(lambda _: checks.release()))
    with _open_run(tmp_path) as run:
        run.call(lambda _: [checks.acquire() for _ in range(3)])
