"""Workers that are slow, stuck or gone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.engine.elastic.trainer import ElasticTrainer
from auctune.engine.messages.base import Alive, Missing
from auctune.engine.messages.elastic import GRADIENT_MESSAGES, FileLoaded, GradientWorkerReady
from auctune.engine.runtime.channel import OnMessage, ParentChannel
from auctune.engine.runtime.requests import STUCK_SECONDS
from auctune.engine.runtime.worker import WorkerHandle
from auctune.engine.spot.provider import Instance, PurchaseOption
from auctune.engine.spot.worker_pool import PollResult, WorkerPool
from support.elastic import ThreadWorker, Work, new_trainer
from support.spot_runs import Site, ThreadLauncher, honest, mute

pytest_plugins = ["support.spot_site"]


@pytest.fixture
def trainer(site: Site, tmp_path: Path) -> ElasticTrainer:
    return new_trainer(site.base, site.settings.job, tmp_path, 2)


class Yard:
    """Instances of a test."""

    def __init__(self, site: Site, trainer: ElasticTrainer) -> None:
        self._site, self._trainer = site, trainer
        self._held: list[Instance] = []

    def frozen(self) -> Instance:
        """One that gets ready, takes its part, and never answers."""
        return self._hold(self._freeze)

    def silent(self) -> Instance:
        """One that hangs while it loads."""
        return self._hold(mute)

    def honest(self) -> Instance:
        return self._hold(honest(self._site.base)(self._site.settings))

    def close(self) -> None:
        for instance in self._held:
            instance.kill()

    def _hold(self, work: Work) -> Instance:
        launcher = ThreadLauncher(self._site.settings, lambda _: work)
        self._held.append(Instance(f"spot-{len(self._held)}", PurchaseOption.SPOT, launcher))
        return self._held[-1]

    def _freeze(self, parent: ParentChannel[Any, Any]) -> None:
        facts = self._trainer.facts
        parent.send(GradientWorkerReady(base_digest=facts.base_digest))
        parent.inbox.get()
        parent.send(FileLoaded(counts=facts.counts, notes=()))
        mute(parent)


@pytest.fixture
def yard(site: Site, trainer: ElasticTrainer) -> Iterator[Yard]:
    yard = Yard(site, trainer)
    yield yard
    yard.close()


def until(pool: WorkerPool, what: str) -> PollResult:
    """Turns up to the first in which something of a kind happens."""
    while True:
        result = pool.poll(0.05)
        if getattr(result, what):
            return result


def test_a_worker_that_is_stuck_is_killed_and_its_part_goes_to_another(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    pool = WorkerPool(trainer, stuck_seconds=0.0)
    stuck = yard.frozen()
    pool.add(stuck)
    assert until(pool, "exited").exited == [stuck]
    assert pool.instances == []
    patient = WorkerPool(trainer)
    patient.add(yard.honest())
    while trainer.rows < 2:
        patient.poll(0.05)
        trainer.advance()


def test_a_worker_that_never_gets_ready_is_killed(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    pool = WorkerPool(trainer, stuck_seconds=0.0)
    silent = yard.silent()
    pool.add(silent)
    assert until(pool, "exited").exited == [silent]


def test_the_weights_of_a_step_are_one_array_for_all_workers_and_never_changed(
    site: Site, trainer: ElasticTrainer, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, sent = WorkerPool(trainer), list[object]()
    weights = trainer.weights
    before = weights.copy()
    for instance in (yard.honest(), yard.honest()):
        pool.add(instance)
    for worker in pool._workers.values():
        handle = worker.requests._handle
        assert handle is not None
        send = handle.send

        def note(message: object, send: Callable[..., None] = send) -> None:
            sent.extend(getattr(message, "arrays", ()))
            send(message)

        monkeypatch.setattr(handle, "send", note)

    # No part is given out before both are ready: one alone could compute all of a step.
    next_part = trainer.next_micro_batch
    monkeypatch.setattr(
        trainer, "next_micro_batch", lambda: next_part() if len(pool.ready) == 2 else None
    )
    step = trainer.step
    while trainer.step == step:
        pool.poll(0.05)
        trainer.advance()
    assert [array is weights for array in sent] == [True, True]
    np.testing.assert_array_equal(weights, before)
    assert not np.array_equal(trainer.weights, before)


class Loading(ThreadWorker):
    """A worker that loads its base for as long as a test wants."""

    num_kills = 0

    def kill(self) -> None:
        self.num_kills += 1


class LoadingLauncher:
    """Has started one that loads."""

    worker: Loading
    send: OnMessage

    def start(self, name: str, on_message: OnMessage) -> WorkerHandle:
        self.send, self.worker = on_message, Loading(mute, GRADIENT_MESSAGES, on_message)
        return self.worker

    def close(self) -> None:
        ThreadWorker.kill(self.worker)


def test_a_worker_may_load_its_base_for_hours_as_long_as_it_lives(
    site: Site, trainer: ElasticTrainer
) -> None:
    clock = [0.0]
    pool = WorkerPool(trainer, now=lambda: clock[0])
    launcher = LoadingLauncher()
    pool.add(Instance("spot-0", PurchaseOption.SPOT, launcher))
    for _ in range(20):
        clock[0] += STUCK_SECONDS
        launcher.send(Alive())
        pool.poll(0.0)
    assert launcher.worker.num_kills == 0
    # A place that it waits for does not count.
    clock[0] += STUCK_SECONDS + 1
    launcher.send(Missing(what="no place"))
    pool.poll(0.0)
    assert launcher.worker.num_kills == 1
    launcher.close()


def test_what_a_worker_says_after_it_has_left_is_not_heard(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    pool = WorkerPool(trainer)
    leaving = yard.honest()
    pool.add(leaving)
    until(pool, "ready")
    pool.poll(0.0)
    pool.remove(leaving)
    leaving.kill()
    for _ in range(3):
        result = pool.poll(0.05)
        assert result == PollResult()
    assert trainer.advance() == 0


def test_the_quicker_worker_does_what_the_frozen_one_does_not(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    pool = WorkerPool(trainer)
    frozen, quick = yard.frozen(), yard.honest()
    pool.add(frozen)
    until(pool, "ready")
    pool.add(quick)
    for _ in range(3):
        assert until(pool, "delivered").delivered == [quick]
    # The first part of the batch is with the frozen one: nothing counts before it.
    assert trainer.advance() == 0
    pool.remove(frozen)
    until(pool, "delivered")
    assert [trainer.advance() for _ in range(4)] == [2, 2, 2, 2]
    assert trainer.step == 1
