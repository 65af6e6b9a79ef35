"""Workers that are slow, stuck or gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from auctune.run.spot.crew import Crew, Turn
from auctune.run.spot.kind import Kind
from auctune.run.spot.link import Link
from auctune.run.spot.provider import Instance
from auctune.train.data_parallel.trainer import ElasticTrainer
from support.spot_runs import Site, ThreadWorker, honest, mute

pytest_plugins = ["support.spot_site"]


@pytest.fixture
def trainer(site: Site, tmp_path: Path) -> ElasticTrainer:
    return ElasticTrainer(site.base, site.order.training, tmp_path, micro_batch=2)


class Yard:
    """Instances of a test."""

    def __init__(self, site: Site, trainer: ElasticTrainer) -> None:
        self._site = site
        self._ready = {
            "kind": "ready",
            "base_digest": site.base.digest,
            "data_digest": trainer.data_digest,
            "num_parameters": trainer.values.size,
        }
        self._held: list[Instance] = []

    def frozen(self) -> Instance:
        """One that gets ready, takes its part, and never answers."""
        return self._hold(ThreadWorker(self._freeze))

    def silent(self) -> Instance:
        """One that hangs while it loads."""
        return self._hold(ThreadWorker(mute))

    def honest(self) -> Instance:
        make = honest(self._site.base)
        return self._hold(ThreadWorker(make(self._site.settings)))

    def close(self) -> None:
        for instance in self._held:
            instance.process.kill()

    def _hold(self, worker: ThreadWorker) -> Instance:
        self._held.append(Instance(f"spot-{len(self._held)}", Kind.SPOT, worker))
        return self._held[-1]

    def _freeze(self, link: Link) -> None:
        link.send(self._ready)
        mute(link)


@pytest.fixture
def yard(site: Site, trainer: ElasticTrainer) -> Iterator[Yard]:
    yard = Yard(site, trainer)
    yield yard
    yard.close()


def until(crew: Crew, what: str) -> Turn:
    """Turns up to the first in which something of a kind happens."""
    while True:
        turn = crew.turn(0.05)
        if getattr(turn, what):
            return turn


def test_a_worker_that_is_stuck_is_killed_and_its_part_goes_to_another(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    crew = Crew(trainer, site.base.digest, stuck_seconds=0.0)
    stuck = yard.frozen()
    crew.join(stuck)
    assert until(crew, "lost").lost == [stuck]
    assert crew.instances == []
    patient = Crew(trainer, site.base.digest)
    patient.join(yard.honest())
    while trainer.rows < 2:
        patient.turn(0.05)
        trainer.advance()


def test_a_worker_that_never_gets_ready_is_killed(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    crew = Crew(trainer, site.base.digest, stuck_seconds=0.0)
    silent = yard.silent()
    crew.join(silent)
    assert until(crew, "lost").lost == [silent]


def test_what_a_worker_says_after_it_has_left_is_not_heard(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    crew = Crew(trainer, site.base.digest)
    leaving = yard.honest()
    crew.join(leaving)
    until(crew, "ready")
    crew.turn(0.0)
    crew.leave(leaving)
    leaving.process.kill()
    for _ in range(3):
        turn = crew.turn(0.05)
        assert turn == Turn()
    assert trainer.advance() == 0


def test_the_quicker_worker_does_what_the_frozen_one_does_not(
    site: Site, trainer: ElasticTrainer, yard: Yard
) -> None:
    crew = Crew(trainer, site.base.digest)
    frozen, quick = yard.frozen(), yard.honest()
    crew.join(frozen)
    until(crew, "ready")
    crew.join(quick)
    for _ in range(3):
        assert until(crew, "brought").brought == [quick]
    # The first part of the batch is with the frozen one: nothing counts before it.
    assert trainer.advance() == 0
    crew.leave(frozen)
    until(crew, "brought")
    assert [trainer.advance() for _ in range(4)] == [2, 2, 2, 2]
    assert trainer.step == 1
