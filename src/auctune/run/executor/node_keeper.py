"""One node kept going: its process started, watched, ended if it is stuck, and started again.

A process is stuck if it is silent (a living one says so every second), or if an order is not
answered long after its slot. One that ended is started again at once, then after pauses that
double; after N endings in a row it is lost, and tried again every so often. An answered order ends
the row. One whose machine is missing is lost as well, until that comes. No other process is started
before the one that was is gone, and its tasks count as its own until then. All here is called on
one thread, the executor's.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from auctune.domain import InputError
from auctune.run.child import Message
from auctune.run.executor.link import NodeLink
from auctune.run.executor.messages import TaskOrder

LaunchNumbered = Callable[[int], NodeLink]
"""Starts a node's process, whose messages come back to the keeper with this number of it."""

Now = Callable[[], float]

# Of silence, from one look to the next: whoever was held up longer itself has not listened.
_LONGEST_STEP = 1.0

_ANSWERS = ("trained", "failed")
_OF_ORDERS = ("progress", "noted", *_ANSWERS)


@dataclass(frozen=True, slots=True)
class KeeperParams:
    """When a node is taken to be stuck or lost.

    Attributes:
        silent_seconds: without a word, until its process is killed.
        start_silent_seconds: the same before it is ready: loading libraries holds up all threads.
        overdue_seconds: after the end of an order's slot, until a process that has not answered is
            killed.
        tries: endings in a row from which on a node is lost (N).
        first_pause, longest_pause: seconds before the third start in a row, twice as long each
            time after; the second start is at once.
        retry_seconds: between tries of a lost node.
        stop_seconds: for a process to put its work away, at the end.
    """

    silent_seconds: float = 15.0
    start_silent_seconds: float = 60.0
    overdue_seconds: float = 120.0
    tries: int = 3
    first_pause: float = 1.0
    longest_pause: float = 30.0
    retry_seconds: float = 60.0
    stop_seconds: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InputError(field.name, f"{getattr(self, field.name)!r}", "a number > 0")

    def pause(self, endings: int) -> float:
        """Seconds to wait after so many endings in a row."""
        if endings >= self.tries:
            return self.retry_seconds
        return (
            0.0 if endings < 2 else min(self.longest_pause, self.first_pause * 2 ** (endings - 2))
        )


@dataclass(frozen=True, slots=True)
class Order:
    """A slot's work for a node, at one of the tries to have it done."""

    slot: int
    tasks: tuple[TaskOrder, ...]
    until: float | None
    attempt: int = 1

    @property
    def task_ids(self) -> frozenset[str]:
        """Whose work it is."""
        return frozenset(task.job.id for task in self.tasks)


class NodeKeeper:
    """Keeps one node.

    Args:
        node: its id.
        launch: starts its process.
        params: when it is stuck or lost.
        tell: told what a user of the node is to know.
        wall: unix time.
        monotonic: seconds that never jump.
    """

    def __init__(
        self,
        node: str,
        launch: LaunchNumbered,
        params: KeeperParams,
        tell: Callable[[Message], None],
        *,
        wall: Now,
        monotonic: Now,
    ) -> None:
        self.node = node
        self._launch = launch
        self._params = params
        self._tell = tell
        self._wall = wall
        self._monotonic = monotonic
        self._process: NodeLink | None = None
        # Ended or told to end, and perhaps at its tasks yet.
        self._leaving: list[tuple[NodeLink, frozenset[str]]] = []
        self._number = 0
        self._start_at = monotonic()
        self._looked_at = self._start_at
        self._silent = 0.0
        self._ready = False
        self._lost = False
        self._endings = 0
        self._given: Order | None = None
        self._waiting: Order | None = None

    @property
    def busy(self) -> frozenset[str]:
        """Tasks that a process of it is at, or may be yet."""
        given = frozenset[str]() if self._given is None else self._given.task_ids
        return given.union(*(tasks for _, tasks in self._leaving))

    @property
    def wanted(self) -> frozenset[str]:
        """Tasks of the order that it could take now; none if there is no such order."""
        if self._waiting is None or self._given is not None or not self._ready or self._lost:
            return frozenset()
        return self._waiting.task_ids

    def give(self, order: Order) -> None:
        """Have an order done as soon as it can be."""
        if self._waiting is not None:
            self._give_up(
                self._waiting, "the node was not ready before the next slot began", begun=False
            )
        self._waiting = order
        if self._lost:
            self._drop_waiting("the node is lost")

    def send(self) -> None:
        """Hand its process the order that waits; there is one that it can take."""
        assert self._process is not None
        assert self._waiting is not None
        order, self._waiting = self._waiting, None
        self._given = order
        self._process.train(order.slot, order.tasks, order=self._id(order), until=order.until)

    def look(self) -> None:
        """Do what is due by now."""
        now = self._monotonic()
        self._silent += min(_LONGEST_STEP, now - self._looked_at)
        self._looked_at = now
        if self._waiting is not None and self._is_over(self._waiting, 0.0):
            self._drop_waiting("its slot ended before the node could take it")
        self._leaving = [one for one in self._leaving if not one[0].is_gone]
        if self._process is None:
            if now >= self._start_at and not self._leaving:
                self._start()
        elif self._silent > (limit := self._silence()):
            self._bury(f"was silent for {limit:g} s")
        elif self._given is not None and self._is_over(self._given, self._params.overdue_seconds):
            self._bury(f"was {self._params.overdue_seconds:g} s late with slot {self._given.slot}")

    def heard(self, number: int, message: Message | None) -> None:
        """Take what its process of this number says; None: it has ended."""
        if number != self._number:
            if message is not None and message["kind"] in _OF_ORDERS:
                self._tell(message | {"stale": True})
            return
        assert self._process is not None
        if message is None:
            self._bury(self._process.ending())
            return
        self._silent = 0.0
        kind = message["kind"]
        if kind in _OF_ORDERS:
            self._take(message)
        elif kind == "pong":
            self._come_back()
        elif kind == "missing":
            self._lose(message["what"])
        elif kind != "alive":
            self._tell(message)
            if kind == "ready":
                self._ready = True
                self._process.ping()

    def ask_to_stop(self) -> None:
        """Let its process end."""
        if self._process is not None:
            self._process.ask_to_stop()

    def stop(self, seconds: float) -> None:
        """See that its process ends within so many seconds."""
        if self._process is not None:
            self._process.stop(seconds)
            self._process = None

    def _start(self) -> None:
        self._number += 1
        self._silent = 0.0
        try:
            self._process = self._launch(self._number)
        except OSError as error:
            self._note_ending(f"cannot be started ({error.strerror})")
        else:
            if self._process.pid is not None:
                self._tell({"kind": "started", "pid": self._process.pid})

    def _take(self, message: Message) -> None:
        """A message about an order: the one that the process is at, or an old one."""
        stale = self._given is None or message["order"] != self._id(self._given)
        if not stale and message["kind"] in _ANSWERS:
            self._given = None
            self._endings = 0
        self._tell(message | {"stale": stale})

    def _come_back(self) -> None:
        if self._lost:
            self._lost = False
            # Until it has answered an order, the next ending is one too many.
            self._endings = self._params.tries - 1
            self._tell({"kind": "back"})

    def _bury(self, how: str) -> None:
        """Let go of a process that has ended, or is to end now."""
        assert self._process is not None
        self._process.kill()
        self._leaving.append((self._process, self.busy))
        self._process = None
        # What it said before counts as old from here on.
        self._number += 1
        self._ready = False
        self._note_ending(how)

    def _note_ending(self, how: str) -> None:
        """Its process is gone, or never came to be: see when to start the next one."""
        self._endings += 1
        pause = self._params.pause(self._endings)
        self._start_at = self._monotonic() + pause
        self._tell({"kind": "ended", "how": how, "endings": self._endings, "pause": pause})
        self._take_back(how)
        if self._endings >= self._params.tries:
            self._lose(how)

    def _lose(self, how: str) -> None:
        if not self._lost:
            self._lost = True
            self._tell({"kind": "lost", "how": how})
            self._drop_waiting("the node is lost")

    def _take_back(self, how: str) -> None:
        """Have the order that the process was at wait for the next one."""
        order, self._given = self._given, None
        if order is None:
            return
        if self._waiting is None:
            self._waiting = replace(order, attempt=order.attempt + 1)
        else:
            self._give_up(order, f"the node {how}")

    def _drop_waiting(self, why: str) -> None:
        order, self._waiting = self._waiting, None
        if order is not None:
            self._give_up(order, why)

    def _give_up(self, order: Order, why: str, *, begun: bool = True) -> None:
        self._tell(
            {
                "kind": "unanswered",
                "order": self._id(order),
                "slot": order.slot,
                "tasks": sorted(order.task_ids),
                "why": why,
                "begun": begun,
            }
        )

    def _id(self, order: Order) -> str:
        return f"{order.slot}/{self.node}/{order.attempt}"

    def _is_over(self, order: Order, seconds: float) -> bool:
        return order.until is not None and self._wall() >= order.until + seconds

    def _silence(self) -> float:
        params = self._params
        return params.silent_seconds if self._ready else params.start_silent_seconds
