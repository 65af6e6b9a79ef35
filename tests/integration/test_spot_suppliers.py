"""Instances as processes here and as actors of a Ray cluster: same money, same bits."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from auctune.domain import InputError
from auctune.engine.spot.coordinator import StoppedError
from auctune.engine.spot.job_config import SpotRayParams
from auctune.engine.spot.ray_workers import RayProvider
from auctune.engine.spot.state import EventRecord, RowsTrained, SlotFinished, SpotEvent
from auctune.engine.spot.traces import MarketTrace
from auctune.spot import Overhead, SpotAllocation, SpotFirst, SpotMarket, play
from support.elastic import is_same
from support.market_runs import descendants
from support.ray_nodes import RayNodes
from support.spot_policies import fixed
from support.spot_runs import Site, adapter_of, read_adapter, read_events
from support.spot_suppliers import MISSING_SECONDS, SPOT, OnRay, Supplier

pytest_plugins = ["support.spot_site", "support.spot_supplier_fixtures"]
pytestmark = pytest.mark.slow

PRICE = [0.3, 0.4, 0.5, 0.3, 0.25, 0.3]
MARKET = SpotMarket(np.array(PRICE), np.array([3, 4, 0, 2, 1, 4]))
PLENTY = SpotMarket(np.array(PRICE), np.full(6, 4))


@pytest.fixture(scope="module")
def alone(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    return site.undisturbed(tmp_path_factory.mktemp("alone"))


def kinds(folder: Path) -> list[str]:
    return [event["type"] for event in read_events(folder)]


def test_a_run_pays_what_the_simulator_says_and_learns_as_if_alone(
    site: Site, alone: dict[str, Tensor], tmp_path: Path, supplier: Supplier
) -> None:
    # A slot's work is whole micro-batches, so that the run can match the model.
    order = site.with_job(overhead=Overhead(0.75, 0.75))
    supply = supplier.supply(MarketTrace.of_slots(MARKET))
    report = site.run(tmp_path / "run", SpotFirst(), supply, order=order)
    expected = play(SpotFirst(), order.job, MARKET)
    assert report.outcome.allocations == expected.allocations
    assert report.outcome.cost == pytest.approx(expected.cost, abs=1e-9)
    assert is_same(adapter_of(report), alone)


class At:
    """Does something once so many rows are trained by all that are held."""

    def __init__(self, rows: int, workers: int, act: Callable[[], object]) -> None:
        self._rows, self._workers, self._act = rows, workers, act
        self.has_acted = False

    def __call__(self, event: SpotEvent) -> None:
        if self.has_acted or not isinstance(event, RowsTrained):
            return
        if event.progress.rows >= self._rows and event.num_workers >= self._workers:
            self.has_acted = True
            self._act()


def on_cluster() -> list[int]:
    """Workers of this test on its cluster: all nodes are descendants of the test's process."""
    # Until its worker runs, an actor has the name of its class.
    names = (b"WorkerActor", b"auctune.engine.elastic")
    return _processes(
        lambda line: line.startswith(b"ray::") and any(name in line for name in names)
    )


def computing() -> list[int]:
    """Workers of this test, those of its cluster and those beside it."""
    beside = _processes(
        lambda line: not line.startswith(b"ray::") and b"auctune.engine.elastic" in line
    )
    return on_cluster() + beside


def _processes(is_wanted: Callable[[bytes], bool]) -> list[int]:
    found = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            if is_wanted(Path(f"/proc/{pid}/cmdline").read_bytes()):
                found.append(pid)
    return found


def test_an_instance_taken_away_in_mid_slot_costs_its_slot_and_no_weights(
    site: Site, alone: dict[str, Tensor], tmp_path: Path, supplier: Supplier
) -> None:
    order = site.with_job(overhead=Overhead(1.0, 1.0))
    trace = MarketTrace(np.array([0.0, 0.5, 1.0, 2.0]), np.full(4, 0.3), np.array([3, 1, 3, 3]))
    trace = MarketTrace(
        np.append(trace.times, [3.0, 4.0, 5.0]),
        np.full(7, 0.3),
        np.append(trace.available, [3, 3, 3]),
    )
    policy = fixed(*[(0, 3)] * 6)
    report = site.run(tmp_path / "run", policy, supplier.supply(trace), order=order)
    assert report.num_preempted == 2
    assert report.outcome.allocations[0] == SpotAllocation(0, 3)
    assert is_same(adapter_of(report), alone)


def test_a_run_that_is_stopped_leaves_no_worker_and_goes_on(
    site: Site, alone: dict[str, Tensor], tmp_path: Path, supplier: Supplier
) -> None:
    trace, policy, folder = MarketTrace.of_slots(PLENTY), fixed(*[(1, 1)] * 6), tmp_path / "run"
    listener = At(16, 1, lambda: None)
    with pytest.raises(StoppedError):
        site.run(
            folder,
            policy,
            supplier.supply(trace),
            on_event=listener,
            should_stop=lambda: listener.has_acted,
        )
    assert not computing()
    report = site.run(folder, policy, supplier.supply(trace), resume=True)
    assert is_same(adapter_of(report), alone)
    assert kinds(folder).count("begun") == 1


@pytest.mark.ray
class TestOnACluster:
    """What only a cluster does."""

    def test_a_worker_that_dies_is_started_again_on_its_instance(
        self, site: Site, tmp_path: Path, rented_nodes: RayNodes
    ) -> None:
        # Long enough for both to be ready, however unlike they are.
        order = site.with_training(epochs=16)
        supply = OnRay(rented_nodes.address).supply(MarketTrace.of_slots(PLENTY))
        listener = At(2, 2, lambda: os.kill(on_cluster()[0], signal.SIGKILL))
        folder, policy = tmp_path / "run", fixed(*[(0, 2)] * 6)
        report = site.run(folder, policy, supply, order=order, on_event=listener)
        assert listener.has_acted
        assert kinds(folder).count("worker_crashed") == 1
        assert report.num_preempted == 0
        assert is_same(adapter_of(report), site.undisturbed(tmp_path / "alone", order))

    def test_a_machine_that_is_lost_takes_its_instances_with_it(
        self, site: Site, tmp_path: Path, rented_nodes: RayNodes
    ) -> None:
        # Long enough for both to be ready, however unlike they are.
        order = site.with_training(epochs=16)
        supply = OnRay(rented_nodes.address).supply(MarketTrace.of_slots(PLENTY))
        listener = At(2, 2, lambda: rented_nodes.tell("kill", SPOT))
        folder = tmp_path / "run"
        try:
            # Time for both to be placed; then what is left runs on demand.
            policy = fixed(*[(0, 2)] * 3, *[(1, 0)] * 3)
            report = site.run(folder, policy, supply, order=order, on_event=listener)
        finally:
            rented_nodes.tell("start", SPOT)
        assert listener.has_acted
        assert report.num_preempted >= 2
        assert "worker_crashed" not in kinds(folder)
        assert report.outcome.ending_cost > 0
        assert is_same(adapter_of(report), site.undisturbed(tmp_path / "alone", order))

    def test_what_there_is_can_be_what_the_cluster_has_room_for(
        self, site: Site, alone: dict[str, Tensor], tmp_path: Path, rented_nodes: RayNodes
    ) -> None:
        # By the market there is none.
        none = MarketTrace.of_slots(SpotMarket(np.array(PRICE), np.zeros(6, dtype=np.int64)))
        order = replace(site.order, job=replace(site.order.job, n_max=8))
        supply = OnRay(rented_nodes.address).supply(none, use_cluster_capacity=True)
        report = site.run(tmp_path / "run", SpotFirst(), supply, order=order)
        seen: list[EventRecord] = [
            event for event in read_events(tmp_path / "run") if event["type"] == "slot"
        ]
        # A node of four processors.
        assert seen[0]["observation"]["available"] == 4
        assert report.outcome.allocations[0] == SpotAllocation(0, 4)
        assert is_same(adapter_of(report), alone)

    def test_a_spot_instance_without_a_place_is_taken_away(
        self, site: Site, tmp_path: Path, rented_nodes: RayNodes
    ) -> None:
        assert MISSING_SECONDS > 1.0
        supply = OnRay(rented_nodes.address).supply(MarketTrace.of_slots(PLENTY))
        params = replace(supply.params, spot="auctune:nowhere", missing_seconds=0.5)
        events: list[SpotEvent] = []
        report = site.run(
            tmp_path / "run",
            fixed((1, 1), *[(1, 0)] * 5),
            replace(supply, params=params),
            on_event=events.append,
        )
        first = next(event for event in events if isinstance(event, SlotFinished))
        assert report.num_preempted == first.record.preempted == 1
        assert read_adapter(tmp_path / "run" / "adapter")

    def test_a_cluster_that_does_not_answer_is_one_error(self, site: Site, tmp_path: Path) -> None:
        params = SpotRayParams("127.0.0.1:9", reach_seconds=0.5)
        supply = RayProvider(MarketTrace.of_slots(PLENTY), params, 4)
        with pytest.raises(InputError, match="ray address"):
            site.run(tmp_path / "run", SpotFirst(), supply)
