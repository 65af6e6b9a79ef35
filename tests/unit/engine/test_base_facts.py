"""What is learned of a base elsewhere: each time anew, and as it was last if nobody is there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.base_facts import BaseFacts, Elsewhere, StartNode, learn_base
from auctune.engine.messages.base import Missing
from auctune.engine.messages.node import NodeReady, NodeReply
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.nodes import NodeError, NodeSettings
from auctune.engine.runtime.worker import WorkerHandle
from auctune.files.device_profile import Profile
from support.zones import made_up_profile

SETTINGS = NodeSettings("tiny", "cache")
NOBODY = Missing(what="no Ray node with 'auctune:alpha' is in the cluster")


@dataclass
class Scripted:
    """A process elsewhere that says what it was told to, and then nothing more."""

    stopped: bool = False

    pid = None
    is_gone = False

    def send(self, message: Mapping[str, object]) -> None: ...
    def is_lost(self) -> bool:
        return False

    def request_stop(self) -> None: ...
    def kill(self) -> None: ...

    def exit_reason(self) -> str:
        return "the node was lost"

    def stop(self, timeout: float = 30.0) -> None:
        self.stopped = True


def saying(*messages: NodeReply | None) -> tuple[StartNode, Scripted]:
    link = Scripted()

    def start(_: NodeSettings, hear: OnMessage) -> WorkerHandle:
        for message in messages:
            hear(message)
        return link

    return start, link


def ready(digest: str) -> NodeReady:
    origin = made_up_profile().origin
    return NodeReady(
        base_digest=digest,
        architecture=origin.architecture,
        context_tokens=512,
        origin=origin.key,
    )


def learn(
    kept: Path, *messages: NodeReply | None, name: str = "north", given: Profile | None = None
) -> BaseFacts:
    start, link = saying(*messages)
    try:
        return learn_base(
            SETTINGS, kept, profile=given or made_up_profile(), elsewhere=Elsewhere(name, start)
        )
    finally:
        assert link.stopped


@pytest.mark.parametrize("silence", [NOBODY, None])
def test_a_place_where_nobody_is_any_more_is_as_it_was_last(
    tmp_path: Path, silence: NodeReply | None
) -> None:
    facts = learn(tmp_path, ready("one"))
    assert (facts.digest, facts.context_tokens) == ("one", 512)
    assert learn(tmp_path, silence) == facts
    again = learn(tmp_path, NOBODY, ready("two"))
    assert again == facts


def test_whoever_is_there_is_asked_again(tmp_path: Path) -> None:
    learn(tmp_path, ready("one"))
    assert learn(tmp_path, ready("two")).digest == "two"


def test_a_place_that_was_never_asked_is_waited_for(tmp_path: Path) -> None:
    learn(tmp_path, ready("one"))
    assert learn(tmp_path, NOBODY, ready("two"), name="south").digest == "two"
    with pytest.raises(NodeError, match="the node was lost"):
        learn(tmp_path, NOBODY, None, name="east")


def test_a_profile_is_of_an_architecture_whatever_its_weights_are(tmp_path: Path) -> None:
    given = replace(made_up_profile(), token_seconds=0.5)
    assert learn(tmp_path, ready("as another processor trains it"), given=given).profile == given
    other = replace(given, origin=replace(given.origin, architecture="another", base_name="wide"))
    for place in ("north", "south"):
        with pytest.raises(InputError, match=r"measured with another base \(wide\); expected one"):
            learn(tmp_path, ready("one"), name=place, given=other)
    # Nobody is there: by what was said last.
    with pytest.raises(InputError, match=r"measured with another base \(wide\)"):
        learn(tmp_path, NOBODY, given=other)
