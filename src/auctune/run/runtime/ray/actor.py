"""A node's actor: starts the node process beside itself, and carries what is said.

A plain class, made an actor of Ray by the bridge.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from auctune.run.runtime.channel import Message
from auctune.run.runtime.local import WorkerProcess, start_node
from auctune.run.runtime.messages import NodeSettings
from auctune.run.runtime.ray.exchange import Reply, Request
from auctune.run.runtime.ray.lease import Lease
from auctune.run.runtime.ray.post import Post

# A reply waits so long for something to say; meanwhile no request comes.
_WAIT_SECONDS = 0.2


class NodeActor:
    """Holds one node process, as long as its market renews the lease.

    Args:
        settings: of the node.
        module: of its worker.
        cwd: folder in which paths are relative.
        log: file for its standard error; none: nobody keeps it.
        lease_seconds: without its market, after which the process is ended.
        now: seconds that never jump.
    """

    def __init__(
        self,
        settings: NodeSettings,
        module: str,
        cwd: str,
        log: Path | None,
        lease_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._changed = threading.Condition()
        self._post = Post(Lease(lease_seconds, now))
        self._ended_for = ""
        self._process: WorkerProcess | None = None
        # What the process says waits until it has been said that there is one.
        with suppress(OSError):
            os.chdir(cwd)
        with self._changed:
            try:
                self._process = start_node(settings, self._hear, log=log, module=module)
            except OSError as error:
                self._post.ending = f"cannot be started ({error.strerror})"
            else:
                pid, host = self._process.pid, socket.gethostname()
                self._post.say({"kind": "started", "pid": pid, "host": host})
        threading.Thread(target=self._watch, daemon=True).start()

    def exchange(self, request: Request) -> Reply:
        """Take what the market says, and give what the node said; waits a little if it is silent.

        A request that comes again does what it did, and no more.
        """
        with self._changed:
            news = self._post.take(request)
            if self._process is not None:
                for message in news:
                    self._process.send(message)
        if request.end:
            self._end("was ended by its market")
        with self._changed:
            self._changed.wait_for(lambda: self._post.has_news, _WAIT_SECONDS)
            return self._post.reply()

    def _hear(self, message: Message | None) -> None:
        """On a thread of the process's own."""
        if message is None:
            assert self._process is not None
            ending = self._ended_for or self._process.exit_reason()
        with self._changed:
            if message is not None:
                self._post.say(message)
            elif self._post.ending is None:
                self._post.ending = ending
            self._changed.notify_all()

    def _end(self, how: str) -> None:
        with self._changed:
            if self._process is None or self._post.ending is not None:
                return
            self._ended_for = self._ended_for or how
        # It has been heard to have ended before this returns.
        self._process.kill()

    def _watch(self) -> None:
        """End the process with its lease."""
        with self._changed:
            while self._post.ending is None and (left := self._post.lease.left) > 0:
                self._changed.wait(left)
        self._end("was left alone by its market")
