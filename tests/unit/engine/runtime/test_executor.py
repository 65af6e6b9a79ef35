"""Nodes that do what a script says, under executors of both kinds that look after them."""

import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.messages.base import Started
from auctune.engine.messages.node import (
    Ended,
    Lost,
    NodeMessage,
    NodeReady,
    NotCompleted,
    Progress,
    Recovered,
    TaskQuota,
    Trained,
)
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.supervisor import Executor, SupervisorPolicy
from auctune.train.job import LoraJob
from support.executor_kinds import ExecutorKind
from support.heard import Heard, closing
from support.market_runs import living
from support.waits import poll

pytest_plugins = ["support.executor_fixtures"]

# Pauses that a test need not wait for.
QUICK = SupervisorPolicy(min_backoff_seconds=0.01, retry_seconds=0.05)


def scripted(folder: Path, *words: str) -> NodeSettings:
    folder.mkdir(exist_ok=True)
    return NodeSettings(json.dumps(words), str(folder))


def start(
    kind: ExecutorKind,
    heard: Heard,
    alpha: NodeSettings,
    params: SupervisorPolicy = QUICK,
    **more: NodeSettings,
) -> Executor:
    module = "support.scripted_node"
    nodes = {"alpha": alpha, **more}
    return kind.make(nodes, heard.hear, policy=params, module=module)


def order(folder: Path, task: str = "a", number: int = 1) -> TaskQuota:
    work = folder / "tasks" / task
    return TaskQuota(LoraJob(task, Path("data")), work, number, 8, Path("adapter"))


def test_answers_carry_their_order_and_repeated_ones_are_marked(
    kind: ExecutorKind, tmp_path: Path
) -> None:
    heard = Heard()
    with closing(start(kind, heard, scripted(tmp_path, "repeat"))) as executor:
        declared: Executor = executor
        assert declared.nodes == ("alpha",)
        for slot in (7, 8):
            executor.train(slot, "alpha", [order(tmp_path)])
            answer = heard.wait_for(Trained, slot=slot)
            assert (answer.request, answer.stale) == (f"{slot}/alpha/1", False)
            assert heard.wait_for(Trained, slot=slot).stale
            assert heard.wait_for(Progress).stale
    assert heard.kinds(without=(Trained, Progress)) == [Started, NodeReady]


def test_an_order_is_given_again_to_the_process_that_comes_next(
    kind: ExecutorKind, tmp_path: Path
) -> None:
    heard = Heard()
    with closing(start(kind, heard, scripted(tmp_path, "crash", "good"))) as executor:
        executor.train(0, "alpha", [order(tmp_path)], until=time.time() + 100)
        assert heard.wait_for(Ended) == Ended(how="exit code 4", exits=1, backoff=0.0)
        assert heard.wait_for(Trained).request == "0/alpha/2"


def test_a_slot_that_is_over_is_not_given(kind: ExecutorKind, tmp_path: Path) -> None:
    heard = Heard()
    with closing(start(kind, heard, scripted(tmp_path, "good"))) as executor:
        executor.train(
            0, "alpha", [order(tmp_path, "a"), order(tmp_path, "b")], until=time.time() - 1
        )
        message = heard.wait_for(NotCompleted)
        assert (message.request, message.tasks) == ("0/alpha/1", ("a", "b"))
        executor.train(1, "alpha", [order(tmp_path)], until=time.time() + 100)
        assert heard.wait_for(Trained).slot == 1


def test_a_node_that_ends_again_and_again_is_lost_and_comes_back(
    kind: ExecutorKind, tmp_path: Path
) -> None:
    heard = Heard()
    words = ("crash", "crash", "crash", "die", "die", "good")
    with closing(start(kind, heard, scripted(tmp_path, *words))) as executor:
        executor.train(0, "alpha", [order(tmp_path)])
        heard.wait_for(Recovered)
        executor.train(1, "alpha", [order(tmp_path)])
        heard.wait_for(Trained, slot=1, stale=False)
    again = [Started, NodeReady, Ended]
    assert heard.kinds() == [
        *again, *again, *again, Lost, NotCompleted,
        Started, Ended, Started, Ended, Started, NodeReady, Recovered, Trained,
    ]  # fmt: skip
    pauses = [message.backoff for _, message in heard.messages if isinstance(message, Ended)]
    assert pauses == [0.0, 0.01, 0.05, 0.05, 0.05]


def test_an_order_for_a_lost_node_is_turned_away(kind: ExecutorKind, tmp_path: Path) -> None:
    heard = Heard()
    params = replace(QUICK, max_exits=1, retry_seconds=3600.0)
    with closing(start(kind, heard, scripted(tmp_path, "die"), params)) as executor:
        heard.wait_for(Lost)
        executor.train(4, "alpha", [order(tmp_path)])
        assert heard.wait_for(NotCompleted).why == "the node is lost"


def test_a_node_that_sends_nonsense_is_restarted_alone(kind: ExecutorKind, tmp_path: Path) -> None:
    heard = Heard()
    nodes = scripted(tmp_path / "alpha", "garble", "good"), scripted(tmp_path / "beta", "good")
    with closing(start(kind, heard, nodes[0], beta=nodes[1])) as executor:
        executor.train(0, "alpha", [order(tmp_path)])
        # A process cannot send it; an actor can.
        expected = r"PydanticSerialization|^sent a message that could not be handled \(Unable to"
        assert re.search(expected, heard.wait_for(Ended).how)
        assert heard.wait_for(Trained).request == "0/alpha/2"
        executor.train(0, "beta", [order(tmp_path, "b")])
        heard.wait_for(Trained, "beta")
    assert heard.kinds().count(Ended) == 1


def test_a_listener_that_fails_holds_up_no_node(
    kind: ExecutorKind, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()

    def hear(node: str, message: NodeMessage) -> None:
        heard.hear(node, message)
        if isinstance(message, NodeReady):
            raise ValueError("a defect of the listener")

    executor = kind.make(
        {"alpha": scripted(tmp_path, "good")}, hear, policy=QUICK, module="support.scripted_node"
    )
    with closing(executor):
        executor.train(0, "alpha", [order(tmp_path)])
        heard.wait_for(Trained)
    assert [record.message for record in caplog.records] == [
        "a message of node alpha was not handled"
    ]


@pytest.mark.slow
def test_a_frozen_process_is_found_and_replaced(kind: ExecutorKind, tmp_path: Path) -> None:
    heard = Heard()
    params = replace(QUICK, heartbeat_seconds=2.5)
    with closing(start(kind, heard, scripted(tmp_path, "idle", "good"), params)) as executor:
        executor.train(0, "alpha", [order(tmp_path)])
        pid = heard.wait_for(Started).pid
        heard.wait_for(NodeReady)
        os.kill(pid, signal.SIGSTOP)
        assert heard.wait_for(Ended).how == "was silent for 2.5 s"
        poll(lambda: not living([pid]))
        assert heard.wait_for(Trained).request == "0/alpha/2"


def test_a_living_process_that_never_answers_is_found_too(
    kind: ExecutorKind, tmp_path: Path
) -> None:
    heard = Heard()
    params = replace(QUICK, overdue_seconds=0.5)
    with closing(start(kind, heard, scripted(tmp_path, "idle", "good"), params)) as executor:
        heard.wait_for(NodeReady)
        executor.train(0, "alpha", [order(tmp_path)], until=time.time() + 0.5)
        assert heard.wait_for(Ended).how == "was 0.5 s late with slot 0"
        assert heard.wait_for(NotCompleted).slot == 0


def test_a_task_waits_for_the_node_that_is_still_at_it(kind: ExecutorKind, tmp_path: Path) -> None:
    heard = Heard()
    alpha = scripted(tmp_path / "alpha", "idle", "good")
    beta = scripted(tmp_path / "beta", "good")
    with closing(start(kind, heard, alpha, beta=beta)) as executor:
        executor.train(0, "alpha", [order(tmp_path, "a")])
        pid = heard.wait_for(Started).pid
        heard.wait_for(NodeReady)
        executor.train(1, "beta", [order(tmp_path, "a"), order(tmp_path, "b")])
        executor.train(1, "alpha", [order(tmp_path, "c")])
        os.kill(pid, signal.SIGKILL)
        # A later slot has come for alpha: what it was at is not done again.
        assert heard.wait_for(NotCompleted).why.startswith(
            ("the node killed by SIGKILL", "the node was lost with its actor (ActorDiedError: ")
        )
        heard.wait_for(Trained, "beta")
    answers = [node for node, message in heard.messages if isinstance(message, Trained)]
    assert answers in (["beta"], ["alpha", "beta"])
    kinds = [(node, type(message)) for node, message in heard.messages]
    assert kinds.index(("alpha", Ended)) < kinds.index(("beta", Trained))


def test_a_frozen_process_does_not_hold_up_the_end(kind: ExecutorKind, tmp_path: Path) -> None:
    heard = Heard()
    executor = start(kind, heard, scripted(tmp_path, "good"), replace(QUICK, stop_seconds=0.2))
    pid = heard.wait_for(Started).pid
    heard.wait_for(NodeReady)
    os.kill(pid, signal.SIGSTOP)
    executor.close()
    poll(lambda: not living([pid]))


def test_a_node_that_cannot_be_started_is_tried_again(kind: ExecutorKind, tmp_path: Path) -> None:
    heard = Heard()
    logs = tmp_path / "logs"
    (logs / "alpha.log").mkdir(parents=True)
    executor = kind.make(
        {"alpha": scripted(tmp_path / "alpha", "good")},
        heard.hear,
        policy=QUICK,
        logs=logs,
        module="support.scripted_node",
    )
    with closing(executor):
        assert heard.wait_for(Lost).how == "cannot be started (Is a directory)"
        (logs / "alpha.log").rmdir()
        heard.wait_for(Recovered)
    assert (logs / "alpha.log").read_text() == ""


def test_limits_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="heartbeat_seconds"):
        SupervisorPolicy(heartbeat_seconds=0.0)
