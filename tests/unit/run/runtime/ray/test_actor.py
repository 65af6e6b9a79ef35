"""A node's actor without a cluster: what it does with requests that come twice, and with none."""

import json
from collections.abc import Callable
from pathlib import Path

from auctune.run.runtime.channel import Message
from auctune.run.runtime.messages import NodeSettings
from auctune.run.runtime.ray.actor import NodeActor
from auctune.run.runtime.ray.exchange import Reply, Request
from support.market_runs import living, poll

FIRST = Request(answered=0, seen=0, first=0, told=(), end=False)


def make_actor(folder: Path, word: str, lease_seconds: float = 60.0) -> NodeActor:
    settings = NodeSettings(json.dumps([word]), str(folder))
    return NodeActor(settings, "support.scripted_node", str(folder), None, lease_seconds)


def exchange_until(actor: NodeActor, request: Request, reached: Callable[[Reply], bool]) -> Reply:
    """The same request, again and again."""
    while not reached(reply := actor.exchange(request)):
        pass
    return reply


def kinds(reply: Reply) -> list[str]:
    return [message["kind"] for message in reply.said if message["kind"] != "alive"]


def test_an_order_that_comes_again_and_again_is_done_once(tmp_path: Path) -> None:
    actor = make_actor(tmp_path, "good")
    train: Message = {"do": "train", "slot": 0, "id": "0/alpha/1", "until": None, "tasks": []}
    request = Request(answered=0, seen=0, first=0, told=(train, {"do": "ping"}), end=False)
    reply = exchange_until(actor, request, lambda reply: "pong" in kinds(reply))
    assert kinds(reply) == ["started", "ready", "trained", "pong"]
    assert reply.taken == 2
    seen = len(reply.said)
    over = Request(reply.number, seen, first=2, told=(), end=True)
    assert actor.exchange(over).ending == "was ended by its market"
    # By now it has nothing to say but that.
    assert actor.exchange(over) == Reply(reply.number + 2, 2, seen, (), "was ended by its market")


def test_a_node_ends_whose_market_asks_but_never_gets_an_answer(tmp_path: Path) -> None:
    actor = make_actor(tmp_path, "idle", lease_seconds=1.0)
    reply = exchange_until(actor, FIRST, lambda reply: reply.ending is not None)
    assert reply.ending == "was left alone by its market"
    pid = reply.said[0]["pid"]
    assert poll(lambda: not living([pid]))


def test_a_node_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    settings = NodeSettings("tiny", str(tmp_path))
    actor = NodeActor(settings, "none", str(tmp_path), tmp_path / "none" / "alpha.log", 60.0)
    reply = actor.exchange(FIRST)
    assert (reply.said, reply.ending) == ((), "cannot be started (No such file or directory)")
