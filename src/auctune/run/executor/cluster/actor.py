"""A node's actor: starts the node process beside itself, and carries what is said.

A plain class, made an actor of Ray by the bridge.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from auctune.run.child import Message
from auctune.run.executor.cluster.exchange import Reply, Request
from auctune.run.executor.cluster.lease import Lease
from auctune.run.executor.messages import NodeSettings
from auctune.run.executor.node_process import NodeProcess

# A reply waits so long for something to say; meanwhile no request comes.
_WAIT_SECONDS = 0.2


class NodeActor:
    """Holds one node process, as long as its market renews the lease.

    Args:
        settings: of the node.
        program: its, as arguments for the interpreter.
        log: file for its standard error; none: nobody keeps it.
        lease_seconds: without its market, after which the process is ended.
        now: seconds that never jump.
    """

    def __init__(
        self,
        settings: NodeSettings,
        program: Sequence[str],
        log: Path | None,
        lease_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changed = threading.Condition()
        self._said: list[Message] = []
        self._seen = 0
        self._taken = 0
        self._number = 0
        self._ending: str | None = None
        self._lease = Lease(lease_seconds, now)
        self._process: NodeProcess | None = None
        # What the process says waits until it has been said that there is one.
        with self._changed:
            try:
                self._process = NodeProcess(settings, self._hear, log=log, program=program)
            except OSError as error:
                self._ending = f"cannot be started ({error.strerror})"
            else:
                pid, host = self._process.pid, socket.gethostname()
                self._said.append({"kind": "started", "pid": pid, "host": host})
        threading.Thread(target=self._watch, daemon=True).start()

    def exchange(self, request: Request) -> Reply:
        """Take what the market says, and give what the node said; waits a little if it is silent.

        A request that comes again does what it did, and no more.
        """
        with self._changed:
            self._lease.acknowledged(request.answered)
            self._hand_on(request)
            gone = max(0, request.seen - self._seen)
            del self._said[:gone]
            self._seen += gone
        if request.end:
            self._end("was ended by its market")
        with self._changed:
            self._changed.wait_for(lambda: self._said or self._ending, _WAIT_SECONDS)
            self._number += 1
            self._lease.replied(self._number)
            said = tuple(self._said)
            return Reply(self._number, self._taken, self._seen, said, self._ending)

    def _hand_on(self, request: Request) -> None:
        news = request.told[max(0, self._taken - request.first) :]
        if self._process is not None:
            for message in news:
                self._process.tell(message)
        self._taken += len(news)

    def _hear(self, message: Message | None) -> None:
        """On a thread of the process's own."""
        if message is None:
            assert self._process is not None
            ending = self._process.ending()
        with self._changed:
            if message is not None:
                self._said.append(message)
            elif self._ending is None:
                self._ending = ending
            self._changed.notify_all()

    def _end(self, how: str) -> None:
        with self._changed:
            process = self._process
            if process is None or self._ending is not None:
                return
        # It says that it has ended before this returns.
        process.kill()
        with self._changed:
            self._ending = how

    def _watch(self) -> None:
        """End the process with its lease."""
        with self._changed:
            while self._ending is None and (left := self._lease.left) > 0:
                self._changed.wait(left)
        self._end("was left alone by its market")
