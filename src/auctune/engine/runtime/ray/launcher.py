"""Launcher of nodes on a Ray cluster, by way of an agent process that all launchers share."""

import itertools
import secrets
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from auctune.engine.messages.base import Alive, Failed, Missing, Started
from auctune.engine.messages.node import NodeReply
from auctune.engine.messages.ray import (
    AGENT_MESSAGES,
    AgentReply,
    FromNode,
    Kill,
    Launch,
    NodeGone,
    ToNode,
)
from auctune.engine.runtime.channel import HEARTBEAT_TIMEOUT, OnMessage
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.runtime.nodes import NODE_WORKER, NodeSettings, node_workers
from auctune.engine.runtime.ray.driver import ActorSpec, RemoteHandle
from auctune.engine.runtime.ray.params import (
    check_ray,
    default_node_resource,
    resource_requirements,
)
from auctune.files.atomic import write_atomically

AGENT = "auctune.engine.runtime.ray.agent"

# An agent sends a heartbeat every second; loading Ray may hold it up.
_HEARTBEAT_SECONDS = 60.0
_STOP_SECONDS = 5.0
# Not the name of a task, whose folders are beside it.
_ID_FILE = ".market"


class RayNode(RemoteHandle):
    """Handle of a worker in an actor, by way of the agent.

    Args:
        number: of its start.
        agent: forwards messages.
        on_message: as of `RemoteHandle`.
    """

    def __init__(self, number: int, agent: WorkerProcess, on_message: OnMessage) -> None:
        super().__init__(on_message)
        self._number, self._agent = number, agent
        self._is_placed = self._is_missing = False

    def is_lost(self) -> bool:
        return self._is_missing

    def send(self, message: Any) -> None:
        self._agent.send(ToNode(node=self._number, message=message))

    def kill(self) -> None:
        self._agent.send(Kill(node=self._number))

    def on_worker_message(self, message: NodeReply) -> None:
        """Handle a message of the worker."""
        # Until its actor runs, the agent reports that the node waits.
        self._is_placed |= isinstance(message, Started)
        self._is_missing = isinstance(message, Missing)
        self._on_message(message)

    def on_agent_message(self, message: Alive | Missing) -> None:
        """Handle a message of the agent itself, which concerns nodes that are not placed yet."""
        if not self._is_placed:
            self._on_message(message)


class RayAgent:
    """Handle of an agent process and of the nodes that it serves.

    Args:
        argument: of the process.
        lock: descriptor of a lock that it holds too, or None.
        log: file for its standard error, or None.
    """

    def __init__(self, argument: dict[str, Any], lock: int | None, log: Path | None) -> None:
        self.users: set[int] = set()
        self._lock = threading.Lock()
        self._nodes: dict[int, RayNode] = {}
        self._numbers = itertools.count(1)
        self._heartbeat = threading.Event()
        self._failure = ""
        self.has_ended = False
        self.process = WorkerProcess(
            AGENT, argument, self._on_message, AGENT_MESSAGES, lock=lock, log=log
        )
        threading.Thread(target=self._watch, daemon=True).start()

    def launch(self, on_message: OnMessage, actor: ActorSpec) -> RayNode | None:
        """Return the handle of a new node, or None if the agent has ended."""
        with self._lock:
            if self.has_ended:
                return None
            number = next(self._numbers)
            node = self._nodes[number] = RayNode(number, self.process, on_message)
        self.process.send(Launch(node=number, actor=actor))
        return node

    def _on_message(self, message: AgentReply | None) -> None:
        self._heartbeat.set()
        match message:
            case None:
                self._on_end()
            case FromNode():
                self._nodes[message.node].on_worker_message(message.message)
            case NodeGone():
                with self._lock:
                    node = self._nodes.pop(message.node)
                node.on_gone(message.how)
            case Failed(error=error):
                self._failure = f"{error.place} {error.found}: {error.expected}"
            case Alive() | Missing():
                with self._lock:
                    nodes = list(self._nodes.values())
                for node in nodes:
                    node.on_agent_message(message)

    def _on_end(self) -> None:
        how = self._failure or "lost its agent on the cluster"
        with self._lock:
            self.has_ended = True
            nodes, self._nodes = self._nodes, {}
        for node in nodes.values():
            node.on_gone(how)

    def _watch(self) -> None:
        """Kill a frozen agent."""
        while not self.has_ended:
            self._heartbeat.clear()
            if not self._heartbeat.wait(_HEARTBEAT_SECONDS) and not self.has_ended:
                self.process.kill()


_agents: dict[str | None, RayAgent] = {}
_agents_lock = threading.Lock()


class RayLauncher:
    """Starts the workers of nodes on a cluster.

    Launchers with the same address share an agent, which ends with the last of them.

    Args:
        settings: of each node, by its id.
        work: folder of the nodes' tasks, which all machines see; distinguishes markets.
        address: of the cluster; None: one on this machine, which is started and stopped with the
            market.
        resources: custom resources by node on an external cluster, where they are not the default
            ones.
        logs: folder that all machines see, for NODE.log, or None.
        lock: descriptor of a lock that the agent holds too, or None.
        module: of the nodes' worker.

    Attributes:
        lease_seconds: without an answer of a worker after which it is killed; one that is cut off
            ends itself after twice that time.
        missing_seconds: without a place on the cluster after which a node is lost until it has one.

    Raises:
        InputError: if Ray is not installed.
    """

    lease_seconds = HEARTBEAT_TIMEOUT
    missing_seconds = 15.0

    def __init__(
        self,
        settings: Mapping[str, NodeSettings],
        work: Path,
        *,
        address: str | None,
        resources: Mapping[str, str] | None = None,
        logs: Path | None = None,
        lock: int | None = None,
        module: str = NODE_WORKER,
    ) -> None:
        check_ray("executor 'ray'")
        is_external = address is not None
        # On an external cluster, a node sees the one GPU that Ray gives it.
        settings = {
            node: replace(one, device="cuda")
            if is_external and one.device.startswith("cuda")
            else one
            for node, one in settings.items()
        }
        self._work = work.absolute()
        self._market = _market_id(self._work)
        # On a local cluster, which markets share, each node has a Ray node of its own.
        names = {node: default_node_resource(f"{self._market}:{node}") for node in settings}
        if is_external:
            names = {node: default_node_resource(node) for node in settings}
            names |= resources or {}
        self._needs = {
            node: resource_requirements(one, names[node], own_gpu=is_external)
            for node, one in settings.items()
        }
        self._address = address
        self._logs = None if logs is None else logs.absolute()
        self._workers = node_workers(settings, self._logs, module)
        self._lock = lock

    def start(self, node: str, on_message: OnMessage) -> RayNode:
        actor = ActorSpec.of(
            self._workers[node],
            self._needs[node],
            lease_seconds=self.lease_seconds,
            missing_seconds=self.missing_seconds,
            name=f"{self._market}:{node}",
        )
        while True:
            handle = self._agent().launch(on_message, actor)
            if handle is not None:
                return handle

    def close(self) -> None:
        with _agents_lock:
            agent = _agents.get(self._address)
            if agent is not None:
                agent.users.discard(id(self))
                if not agent.users:
                    del _agents[self._address]
                    agent.process.stop(_STOP_SECONDS)

    def _agent(self) -> RayAgent:
        """Return the agent, a new one if it has ended."""
        address = self._address
        with _agents_lock:
            agent = _agents.get(address)
            if agent is None or agent.has_ended:
                users = set() if agent is None else agent.users
                if agent is not None:
                    agent.process.kill()
                argument = {
                    "address": address,
                    "work": str(self._work),
                    "missing_seconds": self.missing_seconds,
                }
                log = None if self._logs is None else self._logs / "ray.log"
                agent = _agents[address] = RayAgent(argument, self._lock, log)
                agent.users = users
            agent.users.add(id(self))
            return agent


def _market_id(work: Path) -> str:
    """Return the id of the market of a folder, unlike that of any other market on a cluster.

    The folder's path would not do: other machines have others of the same path.
    """
    work.mkdir(parents=True, exist_ok=True)
    file = work / _ID_FILE
    if not file.exists():
        write_atomically(file, secrets.token_hex(8).encode())
    return file.read_text()
