"""A keeper on clocks that only the test moves."""

import json
from pathlib import Path

from auctune.run.child import Message
from auctune.run.executor.messages import NodeSettings
from auctune.run.executor.node_keeper import KeeperParams, NodeKeeper
from auctune.run.executor.node_process import NodeProcess
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
