"""Where a zone's nodes run, as its settings say: an object a way, found by the executor's name."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from auctune.run.base_facts import StartNode
from auctune.run.executor import HearNode, LocalExecutor, NodeSettings, RayExecutor, RayParams
from auctune.run.executor.cluster.launch import RayLaunch
from auctune.run.executor.cluster.params import check_ray
from auctune.run.executor.executor import Executor
from auctune.service.config.auction import AuctionConfig

MakeExecutor = Callable[[HearNode], Executor]


class Nodes(Protocol):
    """Makes a zone's executor, and has a node asked before there is one."""

    def check(self, place: str) -> None:
        """See that what it needs is installed.

        Raises:
            InputError: at this place of the settings, if it is not.
        """
        ...

    def executor(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path, lock: int | None
    ) -> MakeExecutor:
        """An executor, made when somebody hears it.

        Args:
            settings: of each node, by its id.
            work: folder of the nodes' tasks.
            logs: folder of their logs.
            lock: descriptor of a lock that is held as long as anything of it lives.
        """
        ...

    def probe(
        self, node: str, settings: NodeSettings, work: Path
    ) -> AbstractContextManager[StartNode | None]:
        """What starts a node where it stands; none: here."""
        ...


class LocalNodes:
    """Child processes."""

    def check(self, place: str) -> None:
        """Nothing is needed."""

    def executor(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path, lock: int | None
    ) -> MakeExecutor:
        """See `Nodes`."""
        return lambda hear: LocalExecutor(settings, hear, logs=logs, lock=lock)

    def probe(
        self, node: str, settings: NodeSettings, work: Path
    ) -> AbstractContextManager[StartNode | None]:
        """Here."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    """Actors on a Ray cluster.

    Attributes:
        params: of the cluster.
        marks: custom resources by node, where they are named.
    """

    params: RayParams
    resources: Mapping[str, str]

    def check(self, place: str) -> None:
        """See that Ray is installed."""
        check_ray(place)

    def executor(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path, lock: int | None
    ) -> MakeExecutor:
        """See `Nodes`."""
        return lambda hear: RayExecutor(
            settings, work, hear, ray=self.params, marks=self.resources, logs=logs, lock=lock
        )

    @contextmanager
    def probe(self, node: str, settings: NodeSettings, work: Path) -> Iterator[StartNode | None]:
        """On the cluster, unless that is one of our own: its nodes are this machine."""
        if self.params.address is None:
            yield None
            return
        launch = RayLaunch({node: settings}, work, params=self.params, marks=self.resources)
        try:
            yield lambda _, hear: launch.start(node, hear)
        finally:
            launch.close()


def _cluster_nodes(entry: AuctionConfig) -> Nodes:
    marks = {node.id: node.resource for node in entry.nodes if node.resource is not None}
    return ClusterNodes(RayParams() if entry.ray is None else entry.ray.params(), marks)


_EXECUTORS: dict[str, Callable[[AuctionConfig], Nodes]] = {
    "local": lambda _: LocalNodes(),
    "ray": _cluster_nodes,
}


def nodes_of(entry: AuctionConfig) -> Nodes:
    """Where a zone's nodes run."""
    return _EXECUTORS[entry.executor](entry)
