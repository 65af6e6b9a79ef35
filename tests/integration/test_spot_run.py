"""A job on instances that come and go costs what the simulator says, and learns as if alone."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from auctune.domain import InputError
from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.engine.messages.base import ErrorRecord, Failed
from auctune.engine.messages.elastic import GRADIENT_MESSAGES
from auctune.engine.runtime.channel import OnMessage, ParentChannel
from auctune.engine.runtime.worker import WorkerHandle
from auctune.engine.spot.job import forecast_source
from auctune.engine.spot.provider import (
    InstanceProvider,
    SpotRunError,
    TraceCapacity,
)
from auctune.engine.spot.state import (
    DataNoted,
    EventRecord,
    InstancesPreempted,
    RowsTrained,
    SpotEvent,
    SpotRunState,
    Warned,
)
from auctune.engine.spot.traces import MarketTrace
from auctune.spot import (
    Ahanp,
    Ahap,
    InfeasibleAllocationError,
    InstanceStart,
    OnDemandOnly,
    Overhead,
    Policy,
    SpotAllocation,
    SpotFirst,
    SpotJob,
    SpotMarket,
    SpotObservation,
    SpotOutcome,
    UniformProgress,
    play,
)
from auctune.spot.forecasts.forecast import make_forecasts
from auctune.spot.forecasts.naive import PerfectForecaster
from auctune.train.adapter_files import read_epochs
from support.elastic import ThreadWorker, Work, is_same
from support.peft_adapters import start_of
from support.small_bases import build_base, write_pairs
from support.spot_policies import fixed
from support.spot_runs import (
    Site,
    ThreadLauncher,
    ThreadProvider,
    adapter_of,
    honest,
    read_adapter,
    read_events,
)

pytest_plugins = ["support.spot_site"]
pytestmark = pytest.mark.slow

PRICE = [0.3, 0.4, 0.5, 0.3, 0.25, 0.3]
AVAILABLE = [3, 4, 0, 2, 1, 4]
MARKET = SpotMarket(np.array(PRICE), np.array(AVAILABLE))
SCARCE = SpotMarket(np.array(PRICE), np.array([2, 0, 1, 0, 2, 0]))
# Whole numbers of micro-batches fit into a slot of any size, so the run can match the model.
EVEN = Overhead(0.75, 0.75)


@pytest.fixture(scope="module")
def alone(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    return site.undisturbed(tmp_path_factory.mktemp("alone"))


def assert_same_money(found: SpotOutcome, expected: SpotOutcome) -> None:
    assert found.allocations == expected.allocations
    assert found.slot_cost == pytest.approx(expected.slot_cost, abs=1e-12)
    assert found.ending_cost == pytest.approx(expected.ending_cost, abs=1e-9)
    assert found.finish == pytest.approx(expected.finish, abs=1e-9)
    assert found.value == pytest.approx(expected.value, abs=1e-9)


@pytest.mark.parametrize("market", [MARKET, SCARCE], ids=["plenty", "scarce"])
@pytest.mark.parametrize(
    "policy",
    [SpotFirst(), OnDemandOnly(), UniformProgress(), Ahanp(sigma=0.35), Ahap(window=3, sigma=0.35)],
    ids=lambda policy: type(policy).__name__,
)
def test_a_run_holds_and_pays_what_the_simulator_says(
    site: Site, alone: dict[str, Tensor], tmp_path: Path, market: SpotMarket, policy: Policy
) -> None:
    order = site.with_job(overhead=EVEN)
    forecaster = PerfectForecaster(market)
    forecast = forecast_source(policy, order.job.deadline, lambda: forecaster, None)
    supply = site.supply(market)
    report = site.run(tmp_path / "run", policy, supply, order=order, forecast=forecast)
    horizon = 5 if policy.horizon is None else policy.horizon
    longer = SpotMarket(np.append(market.price, 1.0), np.append(market.available, 0))
    table = make_forecasts(forecaster, longer, 0, 6, max(1, horizon))
    assert_same_money(report.outcome, play(policy, order.job, market, table))
    assert is_same(adapter_of(report), alone)


def test_a_coordinator_of_workers_on_gpus_needs_none_itself(
    site: Site, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    # Workers that are threads compute with the test's base, whatever device their settings name.
    order = replace(site.order, workers=replace(site.settings, device="cuda:99"))
    report = site.run(tmp_path / "run", OnDemandOnly(), site.supply(MARKET), order=order)
    assert is_same(adapter_of(report), alone)


def test_what_is_left_at_the_deadline_is_paid_by_the_fraction(site: Site, tmp_path: Path) -> None:
    policy = fixed((1, 0), (0, 0), (0, 1), (0, 0), (0, 0), (1, 0))
    report = site.run(tmp_path / "run", policy, site.supply(SCARCE))
    expected = play(policy, site.order.job, SCARCE)
    assert expected.ending_cost > 0
    # Rows come whole, so what a slot does is a row's work more or less than the model's.
    assert report.outcome.ending_cost == pytest.approx(expected.ending_cost, abs=0.5)
    assert report.outcome.slot_cost == pytest.approx(expected.slot_cost, abs=1e-12)
    assert report.outcome.ending_cost == pytest.approx(
        site.order.job.n_max * (report.outcome.finish - site.order.job.deadline), abs=1e-12
    )


class Recording:
    """Keeps the events of a run."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, int]] = []
        self.workers: list[tuple[float, int]] = []
        self.notes: list[str] = []

    def __call__(self, event: SpotEvent) -> None:
        match event:
            case InstancesPreempted(now, count):
                self.taken.append((now, count))
            case RowsTrained(now, num_workers, _):
                self.workers.append((now, num_workers))
            case Warned(text) | DataNoted(text):
                self.notes.append(text)


def test_rows_that_lose_their_ends_are_noted(site: Site, tmp_path: Path) -> None:
    order = site.with_training(max_length=8)
    seen = Recording()
    site.run(tmp_path / "run", OnDemandOnly(), site.supply(MARKET), order=order, on_event=seen)
    assert seen.notes[0].startswith("rows longer than max_length = 8 are truncated: ")


def test_an_instance_taken_away_in_mid_slot_costs_its_slot_and_no_weights(
    site: Site, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    order = site.with_job(overhead=Overhead(1.0, 1.0))
    trace = MarketTrace(
        np.array([0.0, 0.5, 1.0, 2.0, 2.25, 2.75]),
        np.full(6, 0.3),
        np.array([4, 1, 4, 2, 0, 4]),
    )
    policy = fixed((0, 4), (0, 2), (0, 2), (2, 0), (2, 0), (2, 0))
    seen = Recording()
    report = site.run(tmp_path / "run", policy, site.supply(trace), order=order, on_event=seen)
    assert [count for _, count in seen.taken] == [3, 2]
    assert seen.taken[0][0] == pytest.approx(0.5, abs=0.1)
    assert seen.taken[1][0] == pytest.approx(2.25, abs=0.1)
    assert max(count for now, count in seen.workers if 0.6 < now <= 1.0) == 1
    # Slot 0: half a slot of 4 and half of 1; slot 1: 2; slot 2: a quarter of 2.
    assert report.outcome.progress[:3] == pytest.approx([2.5, 4.5, 5.0], abs=0.51)
    assert report.outcome.slot_cost == pytest.approx(0.3 * 8 + 2 * 3)
    assert report.num_preempted == 5
    assert is_same(adapter_of(report), alone)


def test_preferences_are_learnt_from_an_adapter_whatever_is_taken_away(
    site: Site, tmp_path: Path
) -> None:
    order = site.with_training(
        data=write_pairs(tmp_path / "pairs.jsonl", 48),
        method="dpo",
        beta=0.3,
        **start_of(tmp_path, site.base, "gpt2"),
    )
    order = replace(order, job=replace(order.job, overhead=Overhead(1.0, 1.0)))
    trace = MarketTrace(np.array([0.0, 0.5, 1.0]), np.full(3, 0.3), np.array([4, 1, 4]))
    policy = fixed((0, 4), (0, 2), (0, 2), (2, 0), (2, 0), (2, 0))
    folder = tmp_path / "run"
    report = site.run(folder, policy, site.supply(trace), order=order)
    assert report.num_preempted == 3
    assert is_same(adapter_of(report), site.undisturbed(tmp_path / "alone", order))
    kept = read_epochs(folder)
    assert [(metrics.epoch, metrics.step) for metrics, _ in kept] == [(1, 6), (2, 12)]
    assert is_same(read_adapter(kept[-1][1]), adapter_of(report))
    # Reported again, they are where they were.
    assert site.run(folder, policy, site.supply(trace), order=order, resume=True) == report
    assert read_epochs(folder) == kept


@pytest.mark.parametrize(("lost_at", "back_at"), [(0.5, 1.0), (0.5, 0.75), (0.9999, 0.99999)])
def test_by_instance_those_that_replace_preempted_ones_must_start(
    site: Site, tmp_path: Path, lost_at: float, back_at: float
) -> None:
    order = site.with_job(overhead=InstanceStart(0.25))
    trace = MarketTrace(
        np.array([0.0, lost_at, back_at, 5.0]), np.full(4, 0.3), np.array([4, 1, 4, 4])
    )
    policy = fixed(*[(0, 4)] * 6)
    report = site.run(tmp_path / "run", policy, site.supply(trace), order=order)
    slots = SpotRunState.fold(read_events(tmp_path / "run")).slots
    assert slots[0].preempted == report.num_preempted == 3
    assert slots[1].observation.last == SpotAllocation(0, 1)
    # Three start for a quarter of the slot.
    done = report.outcome.progress[1] - report.outcome.progress[0]
    assert done == pytest.approx(4 - 0.25 * 3, abs=0.26)
    assert slots[2].observation.last == SpotAllocation(0, 4)


class CoordinatorKilled(BaseException):
    """In place of a signal."""


class Killing:
    """Ends the coordinator's life at an event."""

    def __init__(self, event: int) -> None:
        self.left = event

    def __call__(self, event: SpotEvent) -> None:
        if not isinstance(event, Warned | DataNoted):
            self.left -= 1
        if self.left < 0:
            raise CoordinatorKilled


@pytest.mark.parametrize("saved_every", [0.0, 1e9], ids=["each-turn", "slot-ends"])
def test_a_coordinator_that_dies_anywhere_loses_nothing_on_record_and_pays_nothing_twice(
    site: Site, alone: dict[str, Tensor], tmp_path: Path, saved_every: float
) -> None:
    policy, supply = SpotFirst(), site.supply(SCARCE)
    whole = site.run(tmp_path / "whole", policy, supply)
    folder = tmp_path / "run"
    events: list[EventRecord] = []
    for deaths, event in enumerate((0, 1, 2, 3, 5, 1, 4, 2, 8, 1, 6, 3, 9)):
        with pytest.raises(CoordinatorKilled):
            site.run(
                folder,
                policy,
                supply,
                on_event=Killing(event),
                resume=deaths > 0,
                saved_every=saved_every,
            )
        before, events = events, read_events(folder)
        assert events[: len(before)] == before, "the journal only grows"
    report = site.run(folder, policy, supply, resume=True)
    assert report.outcome.allocations == whole.outcome.allocations
    assert report.outcome.slot_cost == whole.outcome.slot_cost
    assert report.outcome.finish == pytest.approx(whole.outcome.finish, abs=1e-9)
    assert is_same(adapter_of(report), alone)
    assert site.run(folder, policy, supply, resume=True) == report


def test_what_was_taken_away_before_a_kill_stays_away_after_it(
    site: Site, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    trace = MarketTrace(
        np.array([0.0, 0.3, 0.5, 1.0, 5.0]), np.full(5, 0.3), np.array([4, 1, 4, 4, 4])
    )
    policy = fixed(*[(0, 4)] * 6)
    whole = site.run(tmp_path / "whole", policy, site.supply(trace))
    with pytest.raises(CoordinatorKilled):
        # On record up to 0.6 of slot 0, where there are four again to be had.
        site.run(tmp_path / "run", policy, site.supply(trace), on_event=Killing(7), saved_every=0.0)
    events = read_events(tmp_path / "run")
    assert 0.5 < events[-1]["time"] < 0.8
    assert sum(event["type"] == "preempted" for event in events) == 1
    report = site.run(tmp_path / "run", policy, site.supply(trace), resume=True)
    assert report.outcome == whole.outcome
    assert is_same(adapter_of(report), alone)


def test_what_cannot_be_trained_leaves_the_folder_free(site: Site, tmp_path: Path) -> None:
    order = site.with_training(target_modules=("nowhere",))
    with pytest.raises(InputError, match="target_modules"):
        site.run(tmp_path / "run", SpotFirst(), site.supply(MARKET), order=order)
    assert not (tmp_path / "run").exists()
    assert site.run(tmp_path / "run", SpotFirst(), site.supply(MARKET)).adapter is not None


def test_a_finished_run_is_reported_again_and_not_run_again(site: Site, tmp_path: Path) -> None:
    supply = site.supply(MARKET)
    report = site.run(tmp_path / "run", SpotFirst(), supply)
    events = read_events(tmp_path / "run")
    assert site.run(tmp_path / "run", SpotFirst(), supply, resume=True) == report
    assert read_events(tmp_path / "run") == events


def test_a_folder_is_used_for_one_run_and_that_run_alone(site: Site, tmp_path: Path) -> None:
    folder, supply = tmp_path / "run", site.supply(MARKET)
    with pytest.raises(CoordinatorKilled):
        site.run(folder, SpotFirst(), supply, on_event=Killing(3))
    with pytest.raises(InputError, match="holds a run already"):
        site.run(folder, SpotFirst(), supply)
    with pytest.raises(InputError, match=r"policy: 'od-only'.*expected 'msu'"):
        site.run(folder, OnDemandOnly(), supply, resume=True)
    earlier = site.with_job(deadline=5)
    with pytest.raises(InputError, match="job: "):
        site.run(folder, SpotFirst(), supply, order=earlier, resume=True)
    coarser = replace(site.order, micro_batch=4)
    with pytest.raises(InputError, match="micro_batch: 4"):
        site.run(folder, SpotFirst(), supply, order=coarser, resume=True)
    with pytest.raises(InputError, match="trace: "):
        site.run(folder, SpotFirst(), site.supply(SCARCE), resume=True)
    assert site.run(folder, SpotFirst(), supply, resume=True).adapter is not None


class Changeable:
    """A policy that does not answer twice alike."""

    name, horizon = "changeable", 0

    def __init__(self) -> None:
        self.count = 0

    def start(self, job: SpotJob) -> "Changeable":
        self.count += 1
        return self

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        return SpotAllocation(self.count, 0)


def test_a_policy_that_answers_otherwise_than_on_record_is_refused(
    site: Site, tmp_path: Path
) -> None:
    policy = Changeable()
    with pytest.raises(CoordinatorKilled):
        site.run(tmp_path / "run", policy, site.supply(MARKET), on_event=Killing(3))
    with pytest.raises(InputError, match=r"slot 0: .*demand=2.*demand=1.*on record"):
        site.run(tmp_path / "run", policy, site.supply(MARKET), resume=True)


@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (-1, 2), (0, 4)])
def test_what_may_not_be_held_is_neither_rented_nor_paid(
    site: Site, tmp_path: Path, counts: tuple[int, int]
) -> None:
    with pytest.raises(InfeasibleAllocationError, match="slot 0"):
        site.run(tmp_path / "run", fixed(counts), site.supply(MARKET))
    assert [event["type"] for event in read_events(tmp_path / "run")] == ["begun"]


def with_workers(site: Site, wrong: Work, *, of: Callable[[int], bool]) -> ThreadProvider:
    """Instances of which those numbered so have a worker that does something else."""
    right, numbers = honest(site.base), count()

    def make(settings: WorkerSettings) -> Work:
        return wrong if of(next(numbers)) else right(settings)

    return ThreadProvider(MarketTrace.of_slots(MARKET), make)


def dying(parent: ParentChannel[Any, Any]) -> None:
    """A worker that ends at once."""


def test_a_worker_that_dies_is_started_again(
    site: Site, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    supply = with_workers(site, dying, of=lambda number: number in (0, 1, 5))
    seen = Recording()
    report = site.run(tmp_path / "run", SpotFirst(), supply, on_event=seen)
    restarts = [note for note in seen.notes if "worker crashed" in note]
    assert report.num_crashed == len(restarts) == 3
    assert report.outcome.slot_cost == play(SpotFirst(), site.order.job, MARKET).slot_cost
    assert is_same(adapter_of(report), alone)


class LostWorker(ThreadWorker):
    """A worker whose machine is lost at its first micro-batch."""

    def __init__(self, on_message: OnMessage) -> None:
        self._lost = threading.Event()
        super().__init__(self._vanish, GRADIENT_MESSAGES, on_message)

    def is_lost(self) -> bool:
        return self._lost.is_set()

    def _vanish(self, parent: ParentChannel[Any, Any]) -> None:
        # Others bring in what this one would have.
        self._lost.set()


@dataclass
class LosingProvider(ThreadProvider):
    """Whose first two machines are lost."""

    def open(self, settings: WorkerSettings, log: Path) -> InstanceProvider:
        honest_ones, numbers = ThreadLauncher(settings, self.make), count()

        class Losing:
            def start(self, name: str, on_message: OnMessage) -> WorkerHandle:
                if next(numbers) < 2:
                    return LostWorker(on_message)
                return honest_ones.start(name, on_message)

            def close(self) -> None:
                honest_ones.close()

        return InstanceProvider(self.trace, Losing(), TraceCapacity(self.trace))


def test_a_machine_that_is_lost_is_a_preemption_and_no_death(
    site: Site, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    supply = LosingProvider(MarketTrace.of_slots(MARKET), honest(site.base))
    report = site.run(tmp_path / "run", SpotFirst(), supply)
    assert (report.num_preempted, report.num_crashed) == (2, 0)
    first = read_events(tmp_path / "run")[1]
    assert first["allocation"] == {"on_demand": 0, "spot": 3}
    # The slot is paid whole, and the next one finds what the market has.
    paid = zip(report.outcome.allocations, MARKET.price, strict=False)
    cost = sum(one.on_demand + one.spot * float(price) for one, price in paid)
    assert report.outcome.slot_cost == pytest.approx(cost)
    assert is_same(adapter_of(report), alone)


def test_an_instance_whose_worker_dies_again_and_again_is_given_back(
    site: Site, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    # Three instances in slot 0; what is started after them is the second one's again.
    supply = with_workers(site, dying, of=lambda number: number in (1, 3, 4))
    seen = Recording()
    report = site.run(tmp_path / "run", SpotFirst(), supply, on_event=seen)
    assert "3 times in a row" in seen.notes[-1]
    assert is_same(adapter_of(report), alone)


def test_workers_that_all_die_end_the_run_in_one_line_and_resumably(
    site: Site, alone: dict[str, Tensor], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises(SpotRunError, match=r"workers\.log"):
        site.run(folder, SpotFirst(), with_workers(site, dying, of=lambda number: True))
    report = site.run(folder, SpotFirst(), site.supply(MARKET), resume=True)
    assert report.outcome.slot_cost == play(SpotFirst(), site.order.job, MARKET).slot_cost
    assert is_same(adapter_of(report), alone)


def test_a_worker_on_another_base_is_refused(site: Site, tmp_path: Path) -> None:
    other = build_base(tmp_path / "other", "gpt2", seed=1)
    supply = ThreadProvider(MarketTrace.of_slots(MARKET), honest(other))
    with pytest.raises(SpotRunError, match="base_digest"):
        site.run(tmp_path / "run", SpotFirst(), supply)


def test_what_a_worker_cannot_use_is_said_as_input(site: Site, tmp_path: Path) -> None:
    def refuse(parent: ParentChannel[Any, Any]) -> None:
        parent.send(Failed(error=ErrorRecord("base", "nowhere", "a base")))

    supply = ThreadProvider(MarketTrace.of_slots(MARKET), lambda settings: refuse)
    with pytest.raises(InputError, match="nowhere"):
        site.run(tmp_path / "run", SpotFirst(), supply)


def test_a_loss_that_is_no_number_ends_the_run_without_an_adapter(
    site: Site, tmp_path: Path
) -> None:
    order = site.with_training(learning_rate=1e9, max_grad_norm=0.0)
    report = site.run(tmp_path / "run", SpotFirst(), site.supply(MARKET), order=order)
    assert report.adapter is None
    assert report.outcome.value == 0.0 < report.outcome.cost
    assert "step" in report.note
    assert not (tmp_path / "run/adapter").exists()


def test_the_bill_adds_up(site: Site, tmp_path: Path) -> None:
    policy = fixed((1, 0), (0, 0), (0, 1), (0, 0), (0, 0), (1, 0))
    report = site.run(tmp_path / "run", policy, site.supply(SCARCE))
    bill = json.loads((tmp_path / "run/bill.json").read_text())
    for line, price in zip(bill["slots"], PRICE, strict=True):
        assert line["paid"] == pytest.approx(line["on_demand"] + line["spot"] * price)
    ending = site.order.job.n_max * bill["overtime_slots"]
    assert bill["cost"] == pytest.approx(sum(line["paid"] for line in bill["slots"]) + ending)
    assert bill["cost"] == report.outcome.cost
    assert bill["utility"] == pytest.approx(bill["value"] - bill["cost"])
