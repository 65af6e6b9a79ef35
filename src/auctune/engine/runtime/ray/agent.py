"""Agent process: Ray's driver for all nodes of a service or a run.

It is a process of its own because Ray kills a driver that loses its cluster: the executor sees a
lost agent, and starts another. It exits with its parent, and Ray then ends its actors.

Its messages are those of `auctune.engine.messages.ray`.
"""

import threading
import time
import traceback
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.engine.messages.base import ErrorRecord, Failed, Missing, Stop
from auctune.engine.messages.node import NODE_MESSAGES, NodeReply
from auctune.engine.messages.ray import (
    AGENT_MESSAGES,
    AgentReply,
    AgentRequest,
    FromNode,
    Kill,
    Launch,
    NodeGone,
    ToNode,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.mailbox import Mailbox
from auctune.engine.runtime.ray.cluster import EnsureNode, open_cluster
from auctune.engine.runtime.ray.driver import ActorSpec, RayDriver, RayWorker

MESSAGES = AGENT_MESSAGES
Parent = ParentChannel[AgentReply, AgentRequest]

_POLL_SECONDS = 1.0
# Ray itself gives up a head that has been away for a minute, as a rule.
_HEAD_SECONDS = 90.0


class Agent:
    """Launches the actors of nodes, and forwards messages between them and the parent.

    Args:
        parent: of this process.
        ensure_node: of the cluster to which this process is connected.
    """

    def __init__(self, parent: Parent, ensure_node: EnsureNode) -> None:
        self._parent = parent
        self._ensure_node = ensure_node
        self._workers: dict[int, RayWorker] = {}
        self._driver = RayDriver()
        # Ray starts nodes on the main thread alone; that takes seconds, in which requests come.
        self._starts = Mailbox()

    def run(self) -> None:
        """Serve requests until the parent requests a stop.

        Raises:
            InputError: if the head of the cluster is lost.
        """
        threading.Thread(target=self._serve, daemon=True).start()
        try:
            while not self._starts.is_closed:
                if self._driver.age > _HEAD_SECONDS:
                    found = "the head of the cluster has gone away"
                    raise InputError("ray.address", found, "a cluster")
                self._starts.run_pending(_POLL_SECONDS)
        finally:
            self._driver.close()

    def _serve(self) -> None:
        try:
            while not isinstance(request := self._parent.inbox.get(), Stop):
                # None: it is gone, and its parent has not read that yet.
                worker = self._workers.get(request.node)
                match request:
                    case Launch():
                        self._launch(request.node, request.actor)
                    case ToNode() if worker is not None:
                        worker.send(request.message)
                    case Kill() if worker is not None:
                        worker.kill()
        finally:
            self._starts.close()

    def _launch(self, number: int, spec: ActorSpec) -> None:
        def on_message(message: NodeReply | None) -> None:
            if message is not None:
                self._parent.send(FromNode(node=number, message=message))
                return
            del self._workers[number]
            self._parent.send(NodeGone(node=number, how=worker.exit_reason()))

        def start() -> None:
            try:
                self._ensure_node(spec.name, spec.needs)
            except Exception as error:
                traceback.print_exc()
                worker.on_gone(f"has no Ray node ({type(error).__name__})")
            else:
                worker.start()

        worker = self._workers[number] = self._driver.worker(spec, NODE_MESSAGES, on_message)
        self._starts.post(start)


def main(parent: Parent, argument: dict[str, Any]) -> None:
    """Run an agent; the argument is {address, work, missing_seconds}."""
    begun = time.monotonic()

    def unreachable(why: str) -> None:
        if time.monotonic() - begun > argument["missing_seconds"]:
            parent.send(Missing(what=why))

    try:
        with open_cluster(
            argument["address"], Path(argument["work"]), parent.stop_requested, unreachable
        ) as ensure_node:
            if ensure_node is not None:
                Agent(parent, ensure_node).run()
    except InputError as error:
        parent.send(Failed(error=ErrorRecord.of(error)))
        parent.exit(1)
