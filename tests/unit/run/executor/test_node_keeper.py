"""A keeper on clocks that only the test moves."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auctune.run.child import Message
from auctune.run.executor.messages import NodeSettings, TaskOrder
from auctune.run.executor.node_keeper import KeeperParams, NodeKeeper, Order
from auctune.run.executor.node_process import NodeProcess
from auctune.train.job import LoraJob
from support import scripted_node


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_silence_counts_only_while_somebody_listens(tmp_path: Path) -> None:
    clock = Clock()
    told: list[Message] = []

    def launch(number: int) -> NodeProcess:
        settings = NodeSettings(json.dumps(["idle"]), str(tmp_path))
        return NodeProcess(settings, lambda message: None, program=(scripted_node.__file__,))

    params = KeeperParams(silent_seconds=10.0, start_silent_seconds=20.0)
    keeper = NodeKeeper("alpha", launch, params, told.append, wall=clock, monotonic=clock)
    keeper.look()
    keeper.heard(1, {"kind": "ready"})
    # The whole machine stood still for an hour.
    clock.time += 3600.0
    keeper.look()
    assert [message["kind"] for message in told] == ["started", "ready"]
    for _ in range(9):
        clock.time += 1.0
        keeper.look()
    assert told[-1]["kind"] == "ready"
    keeper.heard(1, {"kind": "alive"})
    for _ in range(10):
        clock.time += 1.0
        keeper.look()
    assert told[-1]["kind"] == "ready"
    clock.time += 0.5
    keeper.look()
    assert told[-1]["how"] == "was silent for 10 s"
    keeper.heard(1, {"kind": "trained", "order": "0/alpha/1"})
    assert told[-1] == {"kind": "trained", "order": "0/alpha/1", "stale": True}
    keeper.stop(0.0)


def test_pauses_double_up_to_their_longest() -> None:
    params = KeeperParams(tries=9, first_pause=1.0, longest_pause=30.0, retry_seconds=60.0)
    assert [params.pause(endings) for endings in range(1, 11)] == [
        0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 60.0, 60.0
    ]  # fmt: skip


class FarLink:
    """To a node of which is only known what the test says."""

    pid = None

    def __init__(self) -> None:
        self.is_gone = False
        self.done: list[str] = []

    def ping(self) -> None:
        self.done.append("ping")

    def measure(self, effort: str) -> None:
        self.done.append("measure")

    def train(
        self,
        slot: int,
        orders: Sequence[TaskOrder],
        *,
        order: str = "",
        until: float | None = None,
    ) -> None:
        self.done.append(order)

    def ending(self) -> str:
        return "was cut off"

    def ask_to_stop(self) -> None:
        self.done.append("stop")

    def stop(self, seconds: float = 30.0) -> None:
        self.done.append("stop")

    def kill(self) -> None:
        self.done.append("kill")


@dataclass
class Far:
    """A keeper of a node elsewhere."""

    clock: Clock = field(default_factory=Clock)
    told: list[Message] = field(default_factory=list)
    links: list[FarLink] = field(default_factory=list)

    def keeper(self) -> NodeKeeper:
        params = KeeperParams(silent_seconds=0.5)
        clock, told = self.clock, self.told.append
        return NodeKeeper("alpha", self._launch, params, told, wall=clock, monotonic=clock)

    def kinds(self) -> list[str]:
        return [message["kind"] for message in self.told]

    def _launch(self, number: int) -> FarLink:
        self.links.append(FarLink())
        return self.links[-1]


ORDER = Order(0, (TaskOrder(LoraJob("a", Path("data")), Path("work"), 1, 8, Path("out")),), None)


def test_a_node_that_may_be_at_its_tasks_yet_keeps_them_and_gets_no_other_process() -> None:
    far = Far()
    keeper = far.keeper()
    keeper.look()
    keeper.heard(1, {"kind": "ready"})
    keeper.give(ORDER)
    assert keeper.wanted == {"a"}
    keeper.send()
    far.clock.time += 1.0
    keeper.look()
    assert far.told[-1]["how"] == "was silent for 0.5 s"
    assert far.links[0].done == ["ping", "0/alpha/1", "kill"]
    for _ in range(3):
        keeper.look()
        assert keeper.busy == {"a"}
        assert len(far.links) == 1
    far.links[0].is_gone = True
    keeper.look()
    assert keeper.busy == frozenset()
    assert len(far.links) == 2


def test_a_node_without_a_machine_is_lost_until_it_has_one() -> None:
    far = Far()
    keeper = far.keeper()
    keeper.look()
    keeper.give(ORDER)
    for _ in range(2):
        keeper.heard(1, {"kind": "missing", "what": "no Ray node has room"})
    keeper.give(ORDER)
    assert far.kinds() == ["lost", "unanswered", "unanswered"]
    assert far.told[0]["how"] == "no Ray node has room"
    keeper.heard(1, {"kind": "ready"})
    assert keeper.wanted == frozenset()
    keeper.heard(1, {"kind": "pong"})
    keeper.give(ORDER)
    assert far.kinds()[3:] == ["ready", "back"]
    assert keeper.wanted == {"a"}


def test_an_order_that_its_node_was_not_ready_for_says_so_when_the_next_one_comes() -> None:
    far = Far()
    keeper = far.keeper()
    keeper.look()
    keeper.give(ORDER)
    keeper.give(replace(ORDER, slot=ORDER.slot + 1))
    (message,) = far.told
    assert (message["slot"], message["begun"]) == (ORDER.slot, False)
    assert message["why"] == "the node was not ready before the next slot began"
