"""A supervisor on clocks that only the test moves."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from auctune.run.runtime.channel import Message
from auctune.run.runtime.local import start_node
from auctune.run.runtime.messages import NodeSettings, TaskQuota, TrainSlotRequest
from auctune.run.runtime.supervisor import NodeSupervisor, SupervisorPolicy
from auctune.run.runtime.worker import WorkerHandle
from auctune.train.job import LoraJob


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_silence_counts_only_while_somebody_listens(tmp_path: Path) -> None:
    clock = Clock()
    told: list[Message] = []

    def launch(number: int) -> WorkerHandle:
        settings = NodeSettings(json.dumps(["idle"]), str(tmp_path))
        return start_node(settings, lambda message: None, module="support.scripted_node")

    params = SupervisorPolicy(heartbeat_seconds=10.0, startup_seconds=20.0)
    supervisor = NodeSupervisor(
        "alpha", launch, params, told.append, int, wall=clock, monotonic=clock
    )
    supervisor.poll()
    supervisor.on_message(1, {"kind": "ready"})
    # The whole machine stood still for an hour.
    clock.time += 3600.0
    supervisor.poll()
    assert [message["kind"] for message in told] == ["started", "ready"]
    for _ in range(9):
        clock.time += 1.0
        supervisor.poll()
    assert told[-1]["kind"] == "ready"
    supervisor.on_message(1, {"kind": "alive"})
    for _ in range(10):
        clock.time += 1.0
        supervisor.poll()
    assert told[-1]["kind"] == "ready"
    clock.time += 0.5
    supervisor.poll()
    assert told[-1]["how"] == "was silent for 10 s"
    supervisor.on_message(1, {"kind": "trained", "request": "0/alpha/1"})
    assert told[-1] == {"kind": "trained", "request": "0/alpha/1", "stale": True}
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

    def send(self, message: Message) -> None:
        self.done.append(message.get("id") or message["do"])

    def exit_reason(self) -> str:
        return "was cut off"

    def request_stop(self) -> None:
        self.done.append("stop")

    def stop(self, timeout: float = 30.0) -> None:
        self.done.append("stop")

    def kill(self) -> None:
        self.done.append("kill")


@dataclass
class Far:
    """A supervisor of a node elsewhere."""

    clock: Clock = field(default_factory=Clock)
    told: list[Message] = field(default_factory=list)
    links: list[FarLink] = field(default_factory=list)

    def supervisor(self) -> NodeSupervisor:
        params = SupervisorPolicy(heartbeat_seconds=0.5)
        clock, told = self.clock, self.told.append
        return NodeSupervisor(
            "alpha", self._launch, params, told, lambda: 7, wall=clock, monotonic=clock
        )

    def kinds(self) -> list[str]:
        return [message["kind"] for message in self.told]

    def _launch(self, number: int) -> FarLink:
        self.links.append(FarLink())
        return self.links[-1]


ORDER = TrainSlotRequest(
    0, (TaskQuota(LoraJob("a", Path("data")), Path("work"), 1, 8, Path("out")),), None
)


def test_a_node_that_may_be_at_its_tasks_yet_keeps_them_and_gets_no_other_process() -> None:
    far = Far()
    supervisor = far.supervisor()
    supervisor.poll()
    supervisor.on_message(1, {"kind": "ready"})
    supervisor.submit(ORDER)
    assert supervisor.tasks_to_dispatch == {"a"}
    supervisor.dispatch()
    far.clock.time += 1.0
    supervisor.poll()
    assert far.told[-1]["how"] == "was silent for 0.5 s"
    assert far.links[0].done == ["ping", "0/alpha/1", "kill"]
    for _ in range(3):
        supervisor.poll()
        assert supervisor.tasks_in_flight == {"a"}
        assert len(far.links) == 1
    far.links[0].is_gone = True
    supervisor.poll()
    assert supervisor.tasks_in_flight == frozenset()
    assert len(far.links) == 2


def test_a_node_without_a_machine_is_lost_until_it_has_one() -> None:
    far = Far()
    supervisor = far.supervisor()
    supervisor.poll()
    supervisor.submit(ORDER)
    for _ in range(2):
        supervisor.on_message(1, {"kind": "missing", "what": "no Ray node has room"})
    supervisor.submit(ORDER)
    assert far.kinds() == ["lost", "unanswered", "unanswered"]
    assert far.told[0]["how"] == "no Ray node has room"
    supervisor.on_message(1, {"kind": "ready"})
    assert supervisor.tasks_to_dispatch == frozenset()
    supervisor.on_message(1, {"kind": "pong"})
    supervisor.submit(ORDER)
    assert far.kinds()[3:] == ["ready", "back"]
    assert supervisor.tasks_to_dispatch == {"a"}


def test_an_order_that_its_node_was_not_ready_for_says_so_when_the_next_one_comes() -> None:
    far = Far()
    supervisor = far.supervisor()
    supervisor.poll()
    supervisor.submit(ORDER)
    supervisor.submit(replace(ORDER, slot=ORDER.slot + 1))
    (message,) = far.told
    assert (message["slot"], message["begun"]) == (ORDER.slot, False)
    assert message["why"] == "the node was not ready before the next slot began"
