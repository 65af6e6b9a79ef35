"""Supervision of nodes: heartbeats, restarts with backoff, nodes lost and recovered.

`Executor` owns one `NodeSupervisor` per node and runs all of them on one thread; a launcher decides
where the nodes' workers run.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from auctune.domain import InputError
from auctune.engine.messages.base import Alive, Missing, Response, Started
from auctune.engine.messages.node import (
    Ended,
    Lost,
    NodeMessage,
    NodeReady,
    NodeReply,
    NotCompleted,
    Ping,
    Pong,
    Recovered,
    RequestFailed,
    SlotReply,
    TaskQuota,
    TrainSlotRequest,
)
from auctune.engine.runtime.channel import HEARTBEAT_TIMEOUT, STARTUP_TIMEOUT
from auctune.engine.runtime.mailbox import Mailbox
from auctune.engine.runtime.worker import Launcher, WorkerHandle
from auctune.engine.unix_time import unix_time
from auctune.train.attempts import begin_attempt

OnNodeMessage = Callable[[str, NodeMessage], None]
"""Called with a node's id and its message, one at a time; it must neither wait nor raise."""

# Messages are handled at once; timeouts are checked this often.
_POLL_SECONDS = 0.2
# Silence that a single poll can add: a supervisor that was itself held up has not listened.
_MAX_STEP_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SupervisorPolicy:
    """When a worker is stuck, when it is restarted, and when its node is lost.

    Attributes:
        heartbeat_seconds: without a message after which a worker is killed.
        startup_seconds: the same before it is ready.
        overdue_seconds: after the end of a request's slot, until a worker that has not answered is
            killed.
        max_exits: exits in a row from which on a node is lost.
        min_backoff_seconds, max_backoff_seconds: delay of the third start in a row, doubled for
            each further one; the second start is immediate.
        retry_seconds: between restarts of a lost node.
        stop_seconds: for a worker to save its work, at the end.
    """

    heartbeat_seconds: float = HEARTBEAT_TIMEOUT
    startup_seconds: float = STARTUP_TIMEOUT
    overdue_seconds: float = 120.0
    max_exits: int = 3
    min_backoff_seconds: float = 1.0
    max_backoff_seconds: float = 30.0
    retry_seconds: float = 60.0
    stop_seconds: float = 5.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise InputError(field.name, f"{getattr(self, field.name)!r}", "a number > 0")

    def backoff(self, exits: int) -> float:
        """Return the seconds to wait after so many exits in a row."""
        if exits >= self.max_exits:
            return self.retry_seconds
        if exits < 2:
            return 0.0
        return min(self.max_backoff_seconds, self.min_backoff_seconds * 2.0 ** (exits - 2))


@dataclass(frozen=True, slots=True)
class _Attempt:
    request: TrainSlotRequest
    number: int = 1


class NodeSupervisor:
    """Supervisor of one node: its worker, and the request that it is at; for one thread.

    A worker is stuck if it sends no heartbeat, or if it does not answer a request long after its
    slot. One that exited is restarted at once, then with a backoff; after `max_exits` exits in a
    row the node is lost, and restarted every `retry_seconds`. An answer ends the row. A node whose
    machine is missing is lost as well, until that comes. No worker is started before the last one
    is gone, and its tasks count as its own until then.

    Args:
        node: its id.
        launch: starts a worker; its messages come to `on_message` with the number of the start.
        policy: when it is stuck or lost.
        emit: called with each message for the user of the node.
        wall: clock in unix time.
        monotonic: monotonic clock.
    """

    def __init__(
        self,
        node: str,
        launch: Callable[[int], WorkerHandle],
        policy: SupervisorPolicy,
        emit: Callable[[NodeMessage], None],
        *,
        wall: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.node = node
        self._launch = launch
        self._policy = policy
        self._emit = emit
        self._wall = wall
        self._monotonic = monotonic
        self._worker: WorkerHandle | None = None
        # Workers that were killed or have exited, and may be at their tasks yet.
        self._terminating: list[tuple[WorkerHandle, frozenset[str]]] = []
        self._number = 0
        self._start_at = monotonic()
        self._polled_at = self._start_at
        self._silent_seconds = 0.0
        self._ready = False
        self._lost = False
        self._exits = 0
        self._current: _Attempt | None = None
        self._pending: _Attempt | None = None

    @property
    def tasks_in_flight(self) -> frozenset[str]:
        """Tasks that a worker of this node is at, or may be yet."""
        current = frozenset[str]() if self._current is None else self._current.request.task_ids
        return current.union(*(tasks for _, tasks in self._terminating))

    @property
    def tasks_to_dispatch(self) -> frozenset[str]:
        """Tasks of the request that the worker could take now; empty if there is none."""
        if self._pending is None or self._current is not None or not self._ready or self._lost:
            return frozenset()
        return self._pending.request.task_ids

    def submit(self, request: TrainSlotRequest) -> None:
        """Have a request done as soon as it can be; it replaces one that waits."""
        if self._pending is not None:
            why = "the node was not ready before the next slot began"
            self._give_up(self._pending, why, begun=False)
        self._pending = _Attempt(request)
        if self._lost:
            self._drop_pending("the node is lost")

    def dispatch(self) -> None:
        """Send the worker the pending request; there is one that it can take."""
        assert self._worker is not None
        assert self._pending is not None
        self._current, self._pending = self._pending, None
        request = self._current.request
        try:
            tasks = tuple(
                replace(task, attempt=begin_attempt(task.folder)) for task in request.tasks
            )
        except OSError as error:
            self._reap(f"cannot begin slot {request.slot} ({error.strerror})")
            return
        request = replace(request, tasks=tasks, id=self._id(self._current))
        self._worker.send(request)

    def poll(self) -> None:
        """Check all timeouts, and start a worker that is due."""
        now = self._monotonic()
        self._silent_seconds += min(_MAX_STEP_SECONDS, now - self._polled_at)
        self._polled_at = now
        if self._pending is not None and self._is_over(self._pending, 0.0):
            self._drop_pending("its slot ended before the node could take it")
        self._terminating = [one for one in self._terminating if not one[0].is_gone]
        policy = self._policy
        timeout = policy.heartbeat_seconds if self._ready else policy.startup_seconds
        if self._worker is None:
            if now >= self._start_at and not self._terminating:
                self._start()
        elif self._silent_seconds > timeout:
            self._reap(f"was silent for {timeout:g} s")
        elif self._current is not None and self._is_over(self._current, policy.overdue_seconds):
            slot = self._current.request.slot
            self._reap(f"was {policy.overdue_seconds:g} s late with slot {slot}")

    def on_message(self, number: int, message: NodeReply | None) -> None:
        """Handle a message of the worker of this number; None: it has ended."""
        if number != self._number:
            if isinstance(message, SlotReply):
                self._emit(replace(message, stale=True))
            return
        assert self._worker is not None
        if message is None:
            self._reap(self._worker.exit_reason())
            return
        self._silent_seconds = 0.0
        if isinstance(message, SlotReply):
            self._on_slot_reply(message)
            return
        match message:
            case Alive():
                pass
            case Pong():
                self._mark_recovered()
            case Missing():
                self._mark_lost(message.what, missing=True)
            case NodeReady():
                self._ready = True
                self._worker.send(Ping())
                # Last: who hears of it may submit a request at once.
                self._emit(message)
            case _:
                self._emit(message)

    def reset(self, how: str) -> None:
        """Kill the worker, if there is one, and start another: the state of this one is unknown."""
        if self._worker is None:
            self._record_exit(how)
        else:
            self._reap(how)

    def request_stop(self) -> None:
        """Let the worker save its work and exit; does not wait for it."""
        if self._worker is not None:
            self._worker.request_stop()

    def stop(self, timeout: float) -> None:
        """Have the worker exit within so many seconds, or kill it."""
        if self._worker is not None:
            self._worker.stop(timeout)
            self._worker = None

    def _start(self) -> None:
        self._number += 1
        self._silent_seconds = 0.0
        try:
            self._worker = self._launch(self._number)
        except OSError as error:
            self._record_exit(f"cannot be started ({error.strerror})")
        # The system has no thread left.
        except RuntimeError as error:
            self._record_exit(f"cannot be started ({error})")
        else:
            if self._worker.pid is not None:
                self._emit(Started(pid=self._worker.pid))

    def _on_slot_reply(self, message: SlotReply) -> None:
        """Handle a reply about a request: the one that the worker is at, or an old one."""
        current = self._current
        if current is None or message.request != self._id(current):
            self._emit(replace(message, stale=True))
            return
        if isinstance(message, RequestFailed):
            message = replace(message, slot=current.request.slot)
        if isinstance(message, Response):
            self._current = None
            self._exits = 0
        self._emit(message)

    def _mark_recovered(self) -> None:
        if self._lost:
            self._lost = False
            # Until it has answered a request, its next exit is one too many.
            self._exits = self._policy.max_exits - 1
            self._emit(Recovered())

    def _reap(self, how: str) -> None:
        """Release a worker that has exited, or kill it."""
        assert self._worker is not None
        self._worker.kill()
        self._terminating.append((self._worker, self.tasks_in_flight))
        self._worker = None
        # From here on, messages that it sent before are stale.
        self._number += 1
        self._ready = False
        self._record_exit(how)

    def _record_exit(self, how: str) -> None:
        self._exits += 1
        backoff = self._policy.backoff(self._exits)
        self._start_at = self._monotonic() + backoff
        self._emit(Ended(how=how, exits=self._exits, backoff=backoff))
        self._requeue(how)
        if self._exits >= self._policy.max_exits:
            self._mark_lost(how)

    def _mark_lost(self, how: str, *, missing: bool = False) -> None:
        if not self._lost:
            self._lost = True
            self._emit(Lost(how=how, missing=missing))
            self._drop_pending("the node is lost")

    def _requeue(self, how: str) -> None:
        """Have the request that the worker was at wait for the next worker."""
        attempt, self._current = self._current, None
        if attempt is None:
            return
        if self._pending is None:
            self._pending = replace(attempt, number=attempt.number + 1)
        else:
            self._give_up(attempt, f"the node {how}")

    def _drop_pending(self, why: str) -> None:
        attempt, self._pending = self._pending, None
        if attempt is not None:
            self._give_up(attempt, why)

    def _give_up(self, attempt: _Attempt, why: str, *, begun: bool = True) -> None:
        self._emit(
            NotCompleted(
                request=self._id(attempt),
                slot=attempt.request.slot,
                tasks=tuple(sorted(attempt.request.task_ids)),
                why=why,
                begun=begun,
            )
        )

    def _id(self, attempt: _Attempt) -> str:
        return f"{attempt.request.slot}/{self.node}/{attempt.number}"

    def _is_over(self, attempt: _Attempt, seconds: float) -> bool:
        until = attempt.request.until
        return until is not None and self._wall() >= until + seconds


class Executor:
    """Trains slots on nodes, and keeps the nodes running.

    Each request is answered by one `Trained`, `RequestFailed` or `NotCompleted` that is not marked
    `stale`, whatever happens to its node. Any message about another request than the
    one a node is at (late, or repeated) has `stale` set. A task is on one node at a time: a request
    waits while another node is still at one of its tasks. An unexpected error in the supervision of
    a node is logged, and its worker restarted.

    Args:
        nodes: their ids; their workers are started at once.
        launcher: starts the workers; closed with the executor.
        on_message: called on the executor's thread; must not close the executor.
        policy: when a node is stuck or lost.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        launcher: Launcher,
        on_message: OnNodeMessage,
        policy: SupervisorPolicy | None = None,
    ) -> None:
        self._launcher = launcher
        self._on_message = on_message
        self._policy = policy or SupervisorPolicy()
        self._mailbox = Mailbox()
        self._supervisors = {
            node: NodeSupervisor(
                node,
                partial(self._launch, node),
                self._policy,
                partial(self._emit, node),
                wall=unix_time,
                monotonic=time.monotonic,
            )
            for node in nodes
        }
        self._thread = threading.Thread(target=self._run, name="executor", daemon=True)
        self._thread.start()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Ids of the nodes."""
        return tuple(self._supervisors)

    def train(
        self, slot: int, node: str, tasks: Sequence[TaskQuota], until: float | None = None
    ) -> None:
        """Have a node train a slot; returns at once. Arguments as of `TrainSlotRequest`.

        After `until`, a request that no worker has taken is given up.
        """
        request = TrainSlotRequest(slot, tuple(tasks), until)
        supervisor = self._supervisors[node]
        self._mailbox.post(lambda: self._call(supervisor, supervisor.submit, request))

    def close(self) -> None:
        """Stop all workers; no message comes once this returns."""
        self._mailbox.close()
        self._thread.join()

    def _launch(self, node: str, number: int) -> WorkerHandle:
        def on_message(message: NodeReply | None) -> None:
            supervisor = self._supervisors[node]
            self._mailbox.post(
                lambda: self._call(supervisor, supervisor.on_message, number, message)
            )

        return self._launcher.start(node, on_message)

    def _call(
        self, supervisor: NodeSupervisor, method: Callable[..., None], *arguments: object
    ) -> None:
        """Call a method of a supervisor; an unexpected error restarts the worker of its node."""
        try:
            method(*arguments)
        except Exception as error:
            _log.exception("supervision of node %s failed", supervisor.node)
            supervisor.reset(f"was given up by its supervisor ({type(error).__name__}: {error})")

    def _emit(self, node: str, message: NodeMessage) -> None:
        try:
            self._on_message(node, message)
        except Exception:
            _log.exception("a message of node %s was not handled", node)

    def _run(self) -> None:
        supervisors = self._supervisors.values()
        while not self._mailbox.is_closed:
            for supervisor in supervisors:
                self._call(supervisor, supervisor.poll)
                tasks = supervisor.tasks_to_dispatch
                if tasks and not any(tasks & other.tasks_in_flight for other in supervisors):
                    self._call(supervisor, supervisor.dispatch)
            # All messages must be handled before a node is taken to be silent.
            self._mailbox.run_pending(_POLL_SECONDS)
        for supervisor in supervisors:
            self._call(supervisor, supervisor.request_stop)
        deadline = time.monotonic() + self._policy.stop_seconds
        for supervisor in supervisors:
            self._call(supervisor, supervisor.stop, max(0.0, deadline - time.monotonic()))
        self._launcher.close()
