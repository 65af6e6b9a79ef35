"""A node's actor without a cluster: it carries messages, and lives as long as it is called."""

import json
from pathlib import Path

import pytest

from auctune.engine.runtime.channel import Message
from auctune.engine.runtime.messages import NodeSettings
from auctune.engine.runtime.ray.actor import NodeActor
from support.market_runs import living
from support.waits import poll


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor makes its folder the process's: here the one that all tests share."""
    monkeypatch.chdir(tmp_path)


def make_actor(folder: Path, word: str, lease_seconds: float = 60.0) -> NodeActor:
    settings = NodeSettings(json.dumps([word]), str(folder))
    return NodeActor(settings, "support.scripted_node", str(folder), None, lease_seconds)


def received(actor: NodeActor, num_messages: int, *requests: Message) -> list[Message]:
    """So many messages that are not heartbeats, after these requests."""
    messages: list[Message] = []
    while len(messages) < num_messages:
        news, how = actor.exchange(requests)
        assert how is None, how
        messages += [one for one in news if one["kind"] != "alive"]
        requests = ()
    return messages


def exit_reason(actor: NodeActor) -> str:
    while (reason := actor.exchange([])[1]) is None:
        pass
    return reason


def test_messages_go_both_ways_in_their_order_and_then_the_exit_is_known(tmp_path: Path) -> None:
    actor = make_actor(tmp_path, "good")
    assert [message["kind"] for message in received(actor, 2)] == ["started", "ready"]
    train: Message = {"do": "train", "slot": 0, "id": "0/alpha/1", "until": None, "tasks": []}
    answers = received(actor, 2, train, {"do": "ping"})
    assert [message["kind"] for message in answers] == ["trained", "pong"]
    actor.exchange([{"do": "stop"}])
    assert exit_reason(actor) == "exit code 0"


def test_a_worker_is_killed_whose_actor_is_not_called_any_more(tmp_path: Path) -> None:
    actor = make_actor(tmp_path, "idle", lease_seconds=1.0)
    pid = received(actor, 1)[0]["pid"]
    poll(lambda: not living([pid]))
    assert actor.exchange([])[1] == "was left alone by its market"


def test_a_node_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    settings = NodeSettings("tiny", str(tmp_path))
    log = tmp_path / "none" / "alpha.log"
    actor = NodeActor(settings, "none", str(tmp_path), log, 60.0)
    assert actor.exchange([]) == ([], "cannot be started (No such file or directory)")
