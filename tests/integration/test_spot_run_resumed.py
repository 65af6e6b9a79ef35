"""A job on rented instances is killed around a checkpoint, or finds its folder damaged."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from auctune.engine.elastic.trainer import ElasticTrainer
from auctune.engine.spot import job
from auctune.engine.spot.state import RowsTrained, SlotStarted, SpotEvent, SpotRunState, Warned
from auctune.spot import InstanceStart, SpotFirst, SpotMarket
from auctune.standalone.spot_report import SpotRunReport
from support.elastic import is_same
from support.spot_policies import fixed
from support.spot_runs import Site, adapter_of, read_events

pytest_plugins = ["support.spot_site"]

SCARCE = SpotMarket(
    np.array([0.3, 0.4, 0.5, 0.3, 0.25, 0.3]),
    np.array([2, 0, 1, 0, 2, 0]),
)


@pytest.fixture(scope="module")
def whole(site: Site, tmp_path_factory: pytest.TempPathFactory) -> SpotRunReport:
    """The run that nothing happens to."""
    return site.run(tmp_path_factory.mktemp("whole") / "run", SpotFirst(), site.supply(SCARCE))


class CoordinatorKilledError(BaseException):
    """In place of a signal."""


class Mortal(ElasticTrainer):
    """A trainer whose process is killed at a checkpoint, before or after it is written."""

    saves_left: int
    writes: bool

    def save(self) -> Path:
        Mortal.saves_left -= 1
        if Mortal.saves_left < 0:
            if self.writes:
                super().save()
            raise CoordinatorKilledError
        return super().save()


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Mortal]]:
    with monkeypatch.context() as patched:
        patched.setattr(job, "ElasticTrainer", Mortal)
        yield Mortal


class Recording:
    """Keeps the events of a resumed run."""

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.rows: list[int] = []
        self.notes: list[str] = []

    def __call__(self, event: SpotEvent) -> None:
        match event:
            case SlotStarted(record):
                self.slots.append(record.observation.slot)
            case RowsTrained(progress=progress):
                self.rows.append(progress.rows)
            case Warned(text):
                self.notes.append(text)


@pytest.mark.slow
@pytest.mark.parametrize("writes", [False, True], ids=["before", "after"])
def test_a_kill_around_a_checkpoint_costs_neither_time_nor_rows(
    site: Site, whole: SpotRunReport, tmp_path: Path, mortal: type[Mortal], writes: bool
) -> None:
    policy, supply, folder = SpotFirst(), site.supply(SCARCE), tmp_path / "run"
    mortal.writes = writes
    for deaths, saves in enumerate((0, 14, 3)):
        mortal.saves_left = saves
        with pytest.raises(CoordinatorKilledError):
            site.run(folder, policy, supply, resume=deaths > 0, saved_every=0.0)
    mortal.saves_left = 10**9
    report = site.run(folder, policy, supply, resume=True)
    assert report.outcome.allocations == whole.outcome.allocations
    assert report.outcome.slot_cost == whole.outcome.slot_cost
    assert report.outcome.finish == pytest.approx(whole.outcome.finish, abs=1e-9)
    assert is_same(adapter_of(report), adapter_of(whole))


@pytest.mark.slow
@pytest.mark.parametrize("writes", [False, True], ids=["before", "after"])
def test_a_start_that_goes_on_goes_on_after_a_kill_and_costs_its_time_once(
    site: Site, tmp_path: Path, mortal: type[Mortal], writes: bool
) -> None:
    # A start takes a slot and a half, and two of four are held when the deadline passes.
    order = site.with_job(overhead=InstanceStart(1.5))
    policy = fixed((1, 1), (1, 0), (1, 1), (1, 0), (1, 2), (2, 0))
    supply, folder = site.supply(SCARCE), tmp_path / "run"
    mortal.writes, mortal.saves_left = writes, 10**9
    whole = site.run(tmp_path / "whole", policy, supply, order=order)
    num_deaths = 0
    while not (folder / "adapter").exists():
        mortal.saves_left = 4
        with suppress(CoordinatorKilledError):
            site.run(folder, policy, supply, order=order, resume=num_deaths > 0, saved_every=0.0)
        num_deaths += 1
        assert num_deaths < 20
    times = {event["type"]: event["time"] for event in read_events(folder)}
    assert times["overtime_started"] < times["saved"], "some deaths are after the deadline"
    resumed = site.run(folder, policy, supply, order=order, resume=True)
    assert resumed.outcome.ending_cost == pytest.approx(whole.outcome.ending_cost, abs=1e-9)
    assert resumed.outcome.finish == pytest.approx(whole.outcome.finish, abs=1e-9)
    seen, expected = (
        [one.observation for one in SpotRunState.fold(read_events(at)).slots]
        for at in (folder, tmp_path / "whole")
    )
    assert seen == expected


@pytest.mark.slow
def test_a_run_that_goes_on_says_where_it_is_and_what_was_lost(
    site: Site, tmp_path: Path, mortal: type[Mortal]
) -> None:
    folder, supply = tmp_path / "run", site.supply(SCARCE)
    mortal.writes, mortal.saves_left = True, 6
    with pytest.raises(CoordinatorKilledError):
        site.run(folder, SpotFirst(), supply, saved_every=0.0)
    slots = [event["observation"]["slot"] for event in read_events(folder) if "paid" in event]
    newest = max((folder / "state/checkpoints").iterdir())
    (newest / "state.json").write_text("{}")
    mortal.saves_left = 10**9
    recorded = Recording()
    site.run(folder, SpotFirst(), supply, resume=True, on_event=recorded)
    assert recorded.slots[0] == slots[-1]
    assert recorded.rows[0] == 12
    damaged, lost = recorded.notes
    assert f"checkpoint {int(newest.name)}: state.json has 2 of" in damaged
    assert "resumes from row 12" in lost
    assert "14 recorded rows" in lost
