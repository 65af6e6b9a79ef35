"""The workers that are there, and the micro-batches that they are at.

Each worker is at one micro-batch at a time and gets the next when it has brought that one in, so
the quicker do more. What a worker was at when it died is handed to another.
"""

import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from auctune.run.runtime.channel import read_error
from auctune.run.spot.errors import SpotRunError
from auctune.run.spot.link import LinkClosedError, Parcel
from auctune.run.spot.provider import Instance
from auctune.train.data_parallel.batches import Contribution, RowRange
from auctune.train.data_parallel.trainer import ElasticTrainer

# A worker that takes longer to get ready, or for one micro-batch, is stuck, and killed.
STUCK_SECONDS = 600.0


@dataclass(eq=False)
class _Member:
    instance: Instance
    ready: bool = False
    # Of the weights that it has.
    step: int = -1
    part: RowRange | None = None
    # Its process was started, or it was given its part.
    since: float = field(default_factory=time.monotonic)

    @property
    def is_awaited(self) -> bool:
        return self.part is not None or not self.ready


@dataclass
class Turn:
    """What happened while the crew was listened to.

    Attributes:
        ready: instances whose workers can begin.
        brought: instances whose workers have brought in a micro-batch.
        lost: instances whose workers have died; they are no longer of the crew.
    """

    ready: list[Instance] = field(default_factory=list)
    brought: list[Instance] = field(default_factory=list)
    lost: list[Instance] = field(default_factory=list)


class Crew:
    """All workers of a trainer.

    Args:
        trainer: whose micro-batches they compute.
        base_digest: of its base, which theirs must have too.
        stuck_seconds: that a worker may take to get ready, and for one micro-batch.
    """

    def __init__(
        self, trainer: ElasticTrainer, base_digest: str, stuck_seconds: float = STUCK_SECONDS
    ) -> None:
        self._trainer = trainer
        self._base_digest = base_digest
        self._stuck_seconds = stuck_seconds
        self._members: dict[str, _Member] = {}
        self._inbox: queue.SimpleQueue[tuple[_Member, Parcel | None]] = queue.SimpleQueue()

    @property
    def instances(self) -> list[Instance]:
        """Those of the crew, the oldest first."""
        return [member.instance for member in self._members.values()]

    @property
    def ready(self) -> list[Instance]:
        """Those whose workers can compute."""
        return [member.instance for member in self._members.values() if member.ready]

    def join(self, instance: Instance) -> None:
        """Listen to a worker from now on."""
        member = _Member(instance)
        self._members[instance.id] = member
        threading.Thread(target=self._listen, args=(member,), daemon=True).start()

    def leave(self, instance: Instance) -> None:
        """Listen no more to a worker, if one does; what it was at is handed to another."""
        member = self._members.pop(instance.id, None)
        if member is not None and member.part is not None:
            self._trainer.give_back(member.part)

    def turn(self, seconds: float) -> Turn:
        """Hand out micro-batches, and wait so long at most for one message.

        Raises:
            SpotRunError: if a worker computes something else than the trainer wants.
            InputError: if a worker cannot use the job.
        """
        turn = Turn()
        self._hand_out(turn)
        with suppress(queue.Empty):
            member, parcel = self._inbox.get(timeout=seconds)
            if self._members.get(member.instance.id) is member:
                self._hear(member, parcel, turn)
        self._end_stuck()
        return turn

    def _listen(self, member: _Member) -> None:
        link = member.instance.process.link
        with suppress(LinkClosedError):
            while True:
                self._inbox.put((member, link.receive()))
        self._inbox.put((member, None))

    def _hear(self, member: _Member, parcel: Parcel | None, turn: Turn) -> None:
        if parcel is None:
            self._lose(member, turn)
        elif parcel.words["kind"] == "ready":
            self._check(member, parcel)
            member.ready = True
            turn.ready.append(member.instance)
        elif parcel.words["kind"] == "gradient":
            assert member.part is not None
            contribution = Contribution(parcel.numbers, parcel.words["loss"])
            part, member.part = member.part, None
            turn.brought.append(member.instance)
            self._trainer.take(part, contribution)
        else:
            raise read_error(parcel.words, SpotRunError)

    def _check(self, member: _Member, parcel: Parcel) -> None:
        expected = {
            "base_digest": self._base_digest,
            "data_digest": self._trainer.data_digest,
            "num_parameters": self._trainer.values.size,
        }
        for name, value in expected.items():
            if parcel.words[name] != value:
                raise SpotRunError(
                    f"{member.instance.id}: {name} is {parcel.words[name]!r} there, {value!r} here"
                )

    def _hand_out(self, turn: Turn) -> None:
        for member in list(self._members.values()):
            if not member.ready or member.part is not None:
                continue
            part = self._trainer.next_part()
            if part is None:
                return
            member.part, member.since = part, time.monotonic()
            try:
                self._send(member, part)
            except LinkClosedError:
                self._lose(member, turn)

    def _send(self, member: _Member, part: RowRange) -> None:
        link = member.instance.process.link
        if member.step != self._trainer.step:
            link.send({"kind": "weights"}, self._trainer.values)
            member.step = self._trainer.step
        link.send({"kind": "part", "first": part.first, "stop": part.stop})

    def _lose(self, member: _Member, turn: Turn) -> None:
        self.leave(member.instance)
        turn.lost.append(member.instance)

    def _end_stuck(self) -> None:
        """Kill workers that are silent for too long; that they died is heard as ever."""
        now = time.monotonic()
        for member in self._members.values():
            if member.is_awaited and now - member.since > self._stuck_seconds:
                member.instance.process.kill()
