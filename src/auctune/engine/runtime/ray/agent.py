"""Agent process: Ray's driver for all nodes of a service or a run.

It is a process of its own because Ray kills a driver that loses its cluster: the executor sees a
lost agent, and starts another. It exits with its parent, and Ray then ends its actors.

It receives launch {node, name, needs, settings, module, ...}, send {node, message}, kill {node} and
stop, and sends `AgentMessage`s. `node` is a number of the start of a node's worker.
"""

import queue
import threading
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.engine.runtime.channel import Message, ParentChannel, error_record
from auctune.engine.runtime.mailbox import Mailbox
from auctune.engine.runtime.messages import NodeSettings, WorkerMessage
from auctune.engine.runtime.ray.actor import NodeActor
from auctune.engine.runtime.ray.cluster import EnsureNode, open_cluster
from auctune.engine.runtime.ray.launcher import AgentMessage

_POLL_SECONDS = 1.0
_CALL_SECONDS = 0.2
_REPORT_SECONDS = 1.0
# Ray itself gives up a head that has been away for a minute, as a rule.
_HEAD_SECONDS = 90.0


class Agent:
    """Launches the actors of nodes, and forwards messages between them and the parent.

    Args:
        parent: of this process.
        ensure_node: of the cluster to which this process is connected.
    """

    def __init__(self, parent: ParentChannel[AgentMessage], ensure_node: EnsureNode) -> None:
        self._parent = parent
        self._ensure_node = ensure_node
        self._nodes: dict[int, _RemoteNode] = {}
        self._resources = _ClusterResources()
        # Ray starts nodes on the main thread alone; that takes seconds, in which requests come.
        self._starts = Mailbox()

    def run(self) -> None:
        """Serve requests until the parent requests a stop.

        Raises:
            InputError: if the head of the cluster is lost.
        """
        threading.Thread(target=self._serve, daemon=True).start()
        while not self._starts.is_closed:
            if self._resources.age > _HEAD_SECONDS:
                raise InputError(
                    "ray.address", "the head of the cluster has gone away", "a cluster"
                )
            self._starts.run_pending(_POLL_SECONDS)

    def _serve(self) -> None:
        try:
            while (message := self._parent.inbox.get())["do"] != "stop":
                # None: it is gone, and its parent has not read that yet.
                node = self._nodes.get(message["node"])
                match message["do"]:
                    case "launch":
                        self._launch(message)
                    case "send" if node is not None:
                        node.outbox.put(message["message"])
                    case "kill" if node is not None:
                        node.killed.set()
        finally:
            self._starts.close()

    def _launch(self, message: Message) -> None:
        number = message["node"]
        node = _RemoteNode(
            message,
            lambda one: self._parent.send({"kind": "node", "node": number, "message": one}),
            self._resources,
        )
        self._nodes[number] = node

        def run() -> None:
            # While the head is away, Ray raises errors of many types; a node whose end is not
            # reported would never be started again.
            try:
                how = node.run()
            except Exception as error:
                traceback.print_exc()
                how = f"was lost with its Ray driver's call ({type(error).__name__})"
            gone(how)

        def gone(how: str) -> None:
            del self._nodes[number]
            self._parent.send({"kind": "gone", "node": number, "how": how})

        def start() -> None:
            try:
                self._ensure_node(message["name"], message["needs"])
            except Exception as error:
                traceback.print_exc()
                gone(f"has no Ray node ({type(error).__name__})")
            else:
                threading.Thread(target=run, daemon=True).start()

        self._starts.post(start)


class _RemoteNode:
    """A node's actor, from its placement to its end, on a thread of its own.

    Args:
        launch: the request for it.
        on_message: called with each message of the worker, and with "alive" or "missing" while it
            is not placed.
        resources: of the cluster.
    """

    def __init__(
        self,
        launch: Message,
        on_message: Callable[[WorkerMessage], None],
        resources: "_ClusterResources",
    ) -> None:
        self.outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.killed = threading.Event()
        self._launch = launch
        self._on_message = on_message
        self._resources = resources
        self._begun_at = self._reported_at = time.monotonic()

    def run(self) -> str:
        """Run the node's worker; return how it ended."""
        import ray

        actor = self._create_actor()
        if actor is None:
            return "was stopped before it was placed"
        try:
            return self._serve(actor)
        finally:
            ray.kill(actor)

    def _create_actor(self) -> Any:
        """Return the actor; one of an earlier agent that has its name is killed first."""
        import ray

        launch, needs = self._launch, dict(self._launch["needs"])
        options = ray.remote(NodeActor).options(
            name=launch["name"],
            num_cpus=needs.pop("CPU", 0),
            num_gpus=needs.pop("GPU", 0),
            resources=needs,
            max_restarts=0,
            max_task_retries=0,
        )
        log = None if launch["log"] is None else Path(launch["log"])
        while not self.killed.is_set():
            try:
                return options.remote(
                    NodeSettings(**launch["settings"]),
                    launch["module"],
                    launch["cwd"],
                    log,
                    launch["lease_seconds"],
                )
            except ValueError:
                _kill_named(launch["name"])
                self._report_waiting("an earlier one is still there")
                time.sleep(_CALL_SECONDS)
        return None

    def _serve(self, actor: Any) -> str:
        """Exchange messages with the actor until its worker has ended; return how it did."""
        import ray

        call, answered_at = None, None
        while not self.killed.is_set():
            if call is None:
                call = actor.exchange.remote(_drain(self.outbox))
            ready, _ = ray.wait([call], timeout=_CALL_SECONDS)
            now = time.monotonic()
            if ready:
                try:
                    messages, how = ray.get(call)
                # A call that was lost may have been made or not: the worker cannot be used further.
                except ray.exceptions.RayError as error:
                    return f"was lost with its actor ({type(error).__name__})"
                call, answered_at = None, now
                for message in messages:
                    self._on_message(message)
                if how is not None:
                    return str(how)
            elif answered_at is None:
                self._report_waiting(self._resources.why_waiting(self._launch["needs"]))
            elif now - answered_at > self._launch["lease_seconds"]:
                return f"did not answer for {self._launch['lease_seconds']:g} s"
        return "was stopped"

    def _report_waiting(self, why: str) -> None:
        """Report that the node is not placed yet: after a while as missing."""
        now = time.monotonic()
        if now - self._reported_at < _REPORT_SECONDS:
            return
        self._reported_at = now
        is_missing = now - self._begun_at > self._launch["missing_seconds"]
        self._on_message({"kind": "missing", "what": why} if is_missing else {"kind": "alive"})


class _ClusterResources:
    """Resources of the cluster's live nodes, refreshed every second on a thread of its own.

    The head of a cluster may go away and come back. One that does not answer for long, or no longer
    knows the driver's own node, is another cluster: its driver has to start again.
    """

    def __init__(self) -> None:
        import ray

        self._own = ray.get_runtime_context().get_node_id()
        self._kinds: frozenset[str] = frozenset()
        self._seen_at = time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def age(self) -> float:
        """Seconds since the driver's own node was seen."""
        return time.monotonic() - self._seen_at

    def why_waiting(self, needs: Collection[str]) -> str:
        """Return why a node with such needs is not placed."""
        for kind in needs:
            if kind not in self._kinds:
                return f"no Ray node with {kind!r} is in the cluster"
        return f"no Ray node has room for {', '.join(needs)}"

    def _run(self) -> None:
        import ray

        while True:
            try:
                alive = [node for node in ray.nodes() if node["Alive"]]
            # While the head is away, Ray raises errors of many types.
            except Exception:
                alive = []
            if any(node["NodeID"] == self._own for node in alive):
                self._seen_at = time.monotonic()
                self._kinds = frozenset(kind for node in alive for kind in node["Resources"])
            time.sleep(_POLL_SECONDS)


def _drain(outbox: "queue.SimpleQueue[Message]") -> list[Message]:
    messages = []
    while not outbox.empty():
        messages.append(outbox.get())
    return messages


def _kill_named(name: str) -> None:
    import ray

    try:
        ray.kill(ray.get_actor(name))
    except ValueError:
        # It has ended meanwhile.
        return


def main(parent: ParentChannel[AgentMessage], argument: dict[str, Any]) -> None:
    """Run an agent; the argument is {address, work, missing_seconds}."""
    begun = time.monotonic()

    def unreachable(why: str) -> None:
        if time.monotonic() - begun > argument["missing_seconds"]:
            parent.send({"kind": "missing", "what": why})

    try:
        with open_cluster(
            argument["address"], Path(argument["work"]), parent.stop_requested, unreachable
        ) as ensure_node:
            if ensure_node is not None:
                Agent(parent, ensure_node).run()
    except InputError as error:
        parent.send({"kind": "failed", **error_record(error)})
        parent.exit(1)
