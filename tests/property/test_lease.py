"""A lease over messages that are lost, late and out of order, on clocks that do not agree."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from auctune.run.runtime.channel import Message
from auctune.run.runtime.ray.exchange import Reply, Request
from auctune.run.runtime.ray.lease import Lease
from auctune.run.runtime.ray.post import Post
from auctune.run.runtime.ray.relay import Relay
from support.thorough import drawn

SECONDS = 3.0


@dataclass
class World:
    """One time, which two clocks show with an offset."""

    time: float = 0.0
    pending: list[tuple[float, int, Request | Reply]] = field(default_factory=list)
    sent: int = 0

    def clock(self, offset: float) -> float:
        return self.time + offset

    def send(self, what: Request | Reply, delays: list[float]) -> None:
        """On its way as often as there are delays."""
        for delay in delays:
            self.sent += 1
            self.pending.append((self.time + delay, self.sent, what))

    def arrive(self, until: float) -> list[Request | Reply]:
        """What has come by a time."""
        come = sorted(one for one in self.pending if one[0] <= until)
        self.pending = [one for one in self.pending if one[0] > until]
        return [what for _, _, what in come]


# Each message: how long its copies are on their way; none: it is lost.
WAYS = st.lists(st.floats(0.0, 8.0), max_size=2)
STEPS = st.lists(st.tuples(st.floats(0.01, 2.0), WAYS, WAYS), min_size=1, max_size=40)


@drawn(200)
@given(steps=STEPS, offset=st.floats(-50.0, 50.0))
def test_a_node_has_ended_once_its_market_takes_it_to_have(
    steps: list[tuple[float, list[float], list[float]]], offset: float
) -> None:
    world = World()
    lease = Lease(SECONDS, lambda: world.clock(offset))
    post = Post(lease)
    relay = Relay(lambda messages: None, SECONDS, lambda: world.clock(0.0))
    has_ended = False
    for pause, there, back in steps:
        world.send(relay.request(), there)
        for what in world.arrive(world.time):
            # By its watch, which looks before it hands on anything.
            has_ended = has_ended or lease.left <= 0
            if isinstance(what, Reply):
                relay.take(what)
            elif not has_ended:
                post.take(what)
                world.send(post.reply(), back)
        if relay.has_begun and relay.left < -1e-9:
            assert has_ended or lease.left <= 1e-9
        world.time += pause


@drawn(200)
@given(steps=st.lists(st.tuples(st.integers(0, 3), WAYS, WAYS), min_size=1, max_size=40))
def test_what_is_said_is_heard_once_and_in_its_order(
    steps: list[tuple[int, list[float], list[float]]],
) -> None:
    world, heard = World(), list[Message]()
    relay = Relay(heard.extend, SECONDS, lambda: world.time)
    post, told, words = Post(Lease(SECONDS, lambda: world.time)), list[Message](), 0
    for news, there, back in [*steps, *[(0, [0.0], [0.0])] * 3]:
        for _ in range(news):
            post.say({"kind": str(words)})
            relay.tell({"do": str(words)})
            words += 1
        world.send(relay.request(), there)
        # What is sent at once comes at once, after what is late.
        for _ in range(2):
            for what in world.arrive(world.time):
                if isinstance(what, Reply):
                    relay.take(what)
                else:
                    told += post.take(what)
                    world.send(post.reply(), back)
        world.time += 1.0
    assert [message["kind"] for message in heard] == [str(n) for n in range(words)]
    assert [message["do"] for message in told] == [str(n) for n in range(words)]
