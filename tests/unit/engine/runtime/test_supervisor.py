"""A supervisor on clocks that only the test moves."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auctune.engine.messages.base import Alive, Missing, Started
from auctune.engine.messages.node import (
    Lost,
    NodeReady,
    NotCompleted,
    Ping,
    Pong,
    Recovered,
    TaskQuota,
    TrainSlotRequest,
)
from auctune.engine.runtime.local import start_node
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.supervisor import NodeSupervisor, SupervisorPolicy
from auctune.engine.runtime.worker import WorkerHandle
from auctune.train.job import LoraJob
from support.scripted_node import READY, trained_slot


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_silence_counts_only_while_somebody_listens(tmp_path: Path) -> None:
    clock = Clock()
    told: list[Any] = []

    def launch(number: int) -> WorkerHandle:
        settings = NodeSettings(json.dumps(["idle"]), str(tmp_path))
        return start_node(settings, lambda message: None, module="support.scripted_node")

    params = SupervisorPolicy(heartbeat_seconds=10.0, startup_seconds=20.0)
    supervisor = NodeSupervisor("alpha", launch, params, told.append, wall=clock, monotonic=clock)
    supervisor.poll()
    supervisor.on_message(1, READY)
    # The whole machine stood still for an hour.
    clock.time += 3600.0
    supervisor.poll()
    assert [type(message) for message in told] == [Started, NodeReady]
    for _ in range(9):
        clock.time += 1.0
        supervisor.poll()
    assert told[-1] == READY
    supervisor.on_message(1, Alive())
    for _ in range(10):
        clock.time += 1.0
        supervisor.poll()
    assert told[-1] == READY
    clock.time += 0.5
    supervisor.poll()
    assert told[-1].how == "was silent for 10 s"
    supervisor.on_message(1, trained_slot(0))
    assert told[-1] == trained_slot(0, stale=True)
    supervisor.stop(0.0)


def test_pauses_double_up_to_their_longest() -> None:
    params = SupervisorPolicy(
        max_exits=9, min_backoff_seconds=1.0, max_backoff_seconds=30.0, retry_seconds=60.0
    )
    assert [params.backoff(exits) for exits in range(1, 11)] == [
        0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 60.0, 60.0
    ]  # fmt: skip


class FarLink:
    """To a node of which is only known what the test says."""

    pid = None

    def __init__(self) -> None:
        self.is_gone = False
        self.done: list[str] = []
        self.attempts: list[int | None] = []

    def send(self, message: object) -> None:
        if isinstance(message, TrainSlotRequest):
            self.done.append(message.id)
            self.attempts += [task.attempt for task in message.tasks]
        else:
            assert message == Ping()
            self.done.append("ping")

    def exit_reason(self) -> str:
        return "was cut off"

    def request_stop(self) -> None:
        self.done.append("stop")

    def stop(self, timeout: float = 30.0) -> None:
        self.done.append("stop")

    def is_lost(self) -> bool:
        return False

    def kill(self) -> None:
        self.done.append("kill")


@dataclass
class Far:
    """A supervisor of a node elsewhere."""

    clock: Clock = field(default_factory=Clock)
    told: list[Any] = field(default_factory=list)
    links: list[FarLink] = field(default_factory=list)

    def supervisor(self) -> NodeSupervisor:
        params = SupervisorPolicy(heartbeat_seconds=0.5)
        clock, told = self.clock, self.told.append
        return NodeSupervisor("alpha", self._launch, params, told, wall=clock, monotonic=clock)

    def kinds(self) -> list[type]:
        return [type(message) for message in self.told]

    def _launch(self, number: int) -> FarLink:
        self.links.append(FarLink())
        return self.links[-1]


def order(folder: Path, slot: int = 0) -> TrainSlotRequest:
    quota = TaskQuota(LoraJob("a", Path("data")), folder / "a", 1, 8, Path("out"))
    return TrainSlotRequest(slot, (quota,), None)


def test_a_node_that_may_be_at_its_tasks_yet_keeps_them_and_gets_no_other_process(
    tmp_path: Path,
) -> None:
    far = Far()
    supervisor = far.supervisor()
    supervisor.poll()
    supervisor.on_message(1, READY)
    supervisor.submit(order(tmp_path))
    assert supervisor.tasks_to_dispatch == {"a"}
    supervisor.dispatch()
    far.clock.time += 1.0
    supervisor.poll()
    assert far.told[-1].how == "was silent for 0.5 s"
    assert far.links[0].done == ["ping", "0/alpha/1", "kill"]
    for _ in range(3):
        supervisor.poll()
        assert supervisor.tasks_in_flight == {"a"}
        assert len(far.links) == 1
    far.links[0].is_gone = True
    supervisor.poll()
    assert supervisor.tasks_in_flight == frozenset()
    assert len(far.links) == 2


def test_a_node_without_a_machine_is_lost_until_it_has_one(
    tmp_path: Path,
) -> None:
    far = Far()
    supervisor = far.supervisor()
    supervisor.poll()
    supervisor.submit(order(tmp_path))
    for _ in range(2):
        supervisor.on_message(1, Missing(what="no Ray node has room"))
    supervisor.submit(order(tmp_path))
    assert far.kinds() == [Lost, NotCompleted, NotCompleted]
    assert far.told[0].how == "no Ray node has room"
    supervisor.on_message(1, READY)
    assert supervisor.tasks_to_dispatch == frozenset()
    supervisor.on_message(1, Pong())
    supervisor.submit(order(tmp_path))
    assert far.kinds()[3:] == [NodeReady, Recovered]
    assert supervisor.tasks_to_dispatch == {"a"}


def test_an_order_that_its_node_was_not_ready_for_says_so_when_the_next_one_comes(
    tmp_path: Path,
) -> None:
    far = Far()
    supervisor = far.supervisor()
    supervisor.poll()
    supervisor.submit(order(tmp_path))
    supervisor.submit(order(tmp_path, 1))
    (message,) = far.told
    assert (message.slot, message.begun) == (0, False)
    assert message.why == "the node was not ready before the next slot began"


def test_each_request_begins_an_attempt_above_those_of_any_start_before(tmp_path: Path) -> None:
    attempts = []
    for _ in range(2):
        far = Far()
        supervisor = far.supervisor()
        for number in (1, 3):
            supervisor.poll()
            supervisor.on_message(number, READY)
            if number == 1:
                supervisor.submit(order(tmp_path))
            supervisor.dispatch()
            supervisor.on_message(number, None)
            far.links[-1].is_gone = True
        attempts += [number for link in far.links for number in link.attempts]
    assert attempts == [1, 2, 3, 4]


def test_a_node_whose_tasks_have_no_disk_is_restarted_with_its_request(tmp_path: Path) -> None:
    far = Far()
    supervisor = far.supervisor()
    supervisor.poll()
    supervisor.on_message(1, READY)
    (tmp_path / "a").touch()
    supervisor.submit(order(tmp_path))
    supervisor.dispatch()
    assert far.told[-1].how == "cannot begin slot 0 (File exists)"
    assert far.links[0].done == ["ping", "kill"]
    far.links[0].is_gone = True
    (tmp_path / "a").unlink()
    supervisor.poll()
    supervisor.on_message(3, READY)
    assert supervisor.tasks_to_dispatch == {"a"}
    supervisor.dispatch()
    assert far.links[1].done == ["ping", "0/alpha/2"]
