"""The executor's side of a cluster: links to nodes, through the one bridge process they share."""

import itertools
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from auctune.run.runtime.channel import Message, OnMessage
from auctune.run.runtime.local import NODE_WORKER, WorkerProcess
from auctune.run.runtime.messages import NodeSettings
from auctune.run.runtime.ray.params import (
    RayParams,
    check_ray,
    default_node_resource,
    resource_requirements,
)

BRIDGE = "auctune.run.runtime.ray.bridge"

# A bridge says every second that it lives; loading Ray may hold it up.
_SILENT_SECONDS = 60.0
_STOP_SECONDS = 5.0
# For the bridge to learn that a node was ended.
_KILL_SECONDS = 2.0


class RayNode:
    """To a node process beside an actor.

    Args:
        number: of the link.
        bridge: carries what is said.
        hear: told what the node says, and None once nothing more will come.
    """

    def __init__(self, number: int, bridge: WorkerProcess, hear: OnMessage) -> None:
        self._number = number
        self._bridge = bridge
        self._hear = hear
        self._has_spoken = False
        self._ending = ""
        self._gone = threading.Event()

    @property
    def pid(self) -> None:
        """Said by its actor."""

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended, as was said or must be by now."""
        return self._gone.is_set()

    def exit_reason(self) -> str:
        """How it ended, once it has."""
        return self._ending

    def request_stop(self) -> None:
        """Let it put its work away and end."""
        self.send({"do": "stop"})

    def stop(self, timeout: float = 30.0) -> None:
        """See that it ends within so many seconds, if its machine can be reached."""
        self.request_stop()
        if not self._gone.wait(timeout):
            self.kill()
            self._gone.wait(_KILL_SECONDS)

    def kill(self) -> None:
        """Have it ended at once."""
        self._bridge.send({"do": "end", "link": self._number})

    def heard(self, message: Message) -> None:
        """Take what the bridge says of the node."""
        self._has_spoken = True
        self._hear(message)

    def bridge_says(self, message: Message) -> None:
        """Take what the bridge says of itself: of nodes that were not placed yet, it is all."""
        if not self._has_spoken:
            self._hear(message)

    def end(self, how: str) -> None:
        """Nothing more will come."""
        self._ending = how
        self._gone.set()
        self._hear(None)

    def send(self, message: Message) -> None:
        self._bridge.send({"do": "tell", "link": self._number, "message": message})


class _Bridge:
    """A bridge process with its links.

    Args:
        plan: what it is started with.
        lock: descriptor of a lock that it holds too.
        log: file for its standard error.
    """

    def __init__(self, plan: Message, lock: int | None, log: Path | None) -> None:
        self._lock = threading.Lock()
        self._links: dict[int, RayNode] = {}
        self._word = threading.Event()
        self._failure = ""
        self.has_ended = False
        self.process = WorkerProcess(BRIDGE, plan, self._hear, lock=lock, log=log)
        threading.Thread(target=self._watch, daemon=True).start()

    def add(self, number: int, hear: OnMessage, launch: Message) -> RayNode | None:
        """A link through it; none if it has ended."""
        with self._lock:
            if self.has_ended:
                return None
            link = self._links[number] = RayNode(number, self.process, hear)
        self.process.send({"do": "launch", "link": number, **launch})
        return link

    def _hear(self, message: Message | None) -> None:
        self._word.set()
        if message is None:
            self._over()
        elif message["kind"] == "node":
            self._links[message["link"]].heard(message["message"])
        elif message["kind"] == "gone":
            with self._lock:
                link = self._links.pop(message["link"])
            link.end(message["how"])
        elif message["kind"] == "failed":
            self._failure = f"{message['place']} {message['found']}: {message['expected']}"
        else:
            for link in list(self._links.values()):
                link.bridge_says(message)

    def _over(self) -> None:
        how = self._failure or "lost its bridge to the cluster"
        with self._lock:
            self.has_ended = True
            links, self._links = self._links, {}
        for link in links.values():
            link.end(how)

    def _watch(self) -> None:
        """End one that is frozen."""
        while not self.has_ended:
            self._word.clear()
            if not self._word.wait(_SILENT_SECONDS) and not self.has_ended:
                self.process.kill()


class RayLauncher:
    """Starts node processes on a cluster.

    No order is given to a node before the leases of an earlier bridge's nodes are over.

    Args:
        settings: of each node, by its id.
        work: folder of the nodes' tasks, which all machines see; tells markets apart.
        params: of the cluster.
        resources: custom resources by node, where they are not the default ones.
        logs: folder that all machines see, for NODE.log; none: nobody keeps them.
        lock: descriptor of a lock that the bridge holds too; none: there is none.
        module: of the nodes' worker.

    Raises:
        InputError: if Ray is not installed.
    """

    def __init__(
        self,
        settings: Mapping[str, NodeSettings],
        work: Path,
        *,
        params: RayParams,
        resources: Mapping[str, str] | None = None,
        logs: Path | None = None,
        lock: int | None = None,
        module: str = NODE_WORKER,
    ) -> None:
        check_ray("executor 'ray'")
        adopts = params.address is not None
        # Of an external cluster, a node sees the one GPU that Ray gives it.
        self._settings = {
            node: replace(one, device="cuda") if adopts and one.device.startswith("cuda") else one
            for node, one in settings.items()
        }
        resources = resources or {}
        self._needs = {
            node: resource_requirements(
                one, resources.get(node, default_node_resource(node)), own_gpu=adopts
            )
            for node, one in self._settings.items()
        }
        self._plan = {"work": str(work.absolute()), "ray": params.model_dump()}
        self._logs = None if logs is None else logs.absolute()
        self._lock = lock
        self._module = module
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count(1)
        self._bridge: _Bridge | None = None

    def start(self, node: str, hear: OnMessage) -> RayNode:
        """Have a node placed and its process started; see `Launch`."""
        launch = {
            "node": node,
            "needs": self._needs[node],
            "settings": asdict(self._settings[node]),
            "module": self._module,
            "cwd": str(Path.cwd()),
            "log": None if self._logs is None else str(self._logs / f"{node}.log"),
        }
        number = next(self._numbers)
        link = None if self._bridge is None else self._bridge.add(number, hear, launch)
        while link is None:
            if self._bridge is not None:
                self._bridge.process.kill()
            log = None if self._logs is None else self._logs / "ray.log"
            self._bridge = _Bridge(self._plan, self._lock, log)
            link = self._bridge.add(number, hear, launch)
        return link

    def close(self) -> None:
        """End the bridge, and with it the cluster if it is its own."""
        if self._bridge is not None:
            self._bridge.process.stop(_STOP_SECONDS)
