"""Factories of executors: nodes as local processes, or as actors on a Ray cluster."""

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


class ExecutorFactory(Protocol):
    """Makes the executor of a zone, and starts single nodes for measurements before that."""

    def check(self, place: str) -> None:
        """Check that the required packages are installed.

        Raises:
            InputError: at this place of the settings, if they are not.
        """
        ...

    def executor(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path, lock: int | None
    ) -> MakeExecutor:
        """Return a function that makes the executor, given the listener to its messages.

        Args:
            settings: of the nodes, by id.
            work: folder of the nodes' tasks.
            logs: folder of the nodes' logs.
            lock: descriptor of a lock that all processes of the executor hold.
        """
        ...

    def probe(
        self, node: str, settings: NodeSettings, work: Path
    ) -> AbstractContextManager[StartNode | None]:
        """Return what starts a node on its machine; None: it is this machine."""
        ...


class LocalExecutorFactory:
    """Nodes are child processes."""

    def check(self, place: str) -> None:
        """Check nothing: no further package is required."""

    def executor(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path, lock: int | None
    ) -> MakeExecutor:
        return lambda hear: LocalExecutor(settings, hear, logs=logs, lock=lock)

    def probe(
        self, node: str, settings: NodeSettings, work: Path
    ) -> AbstractContextManager[StartNode | None]:
        return nullcontext()


@dataclass(frozen=True, slots=True)
class RayExecutorFactory:
    """Nodes are actors on a Ray cluster.

    Attributes:
        params: of the cluster.
        resources: custom resources by node, where the settings name them.
    """

    params: RayParams
    resources: Mapping[str, str]

    def check(self, place: str) -> None:
        check_ray(place)

    def executor(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path, lock: int | None
    ) -> MakeExecutor:
        return lambda hear: RayExecutor(
            settings, work, hear, ray=self.params, marks=self.resources, logs=logs, lock=lock
        )

    @contextmanager
    def probe(self, node: str, settings: NodeSettings, work: Path) -> Iterator[StartNode | None]:
        # The nodes of a cluster that the service starts itself are this machine.
        if self.params.address is None:
            yield None
            return
        launch = RayLaunch({node: settings}, work, params=self.params, marks=self.resources)
        try:
            yield lambda _, hear: launch.start(node, hear)
        finally:
            launch.close()


def _ray_factory(entry: AuctionConfig) -> ExecutorFactory:
    resources = {node.id: node.resource for node in entry.nodes if node.resource is not None}
    params = RayParams() if entry.ray is None else entry.ray.params()
    return RayExecutorFactory(params, resources)


_FACTORIES: dict[str, Callable[[AuctionConfig], ExecutorFactory]] = {
    "local": lambda _: LocalExecutorFactory(),
    "ray": _ray_factory,
}


def executor_factory(entry: AuctionConfig) -> ExecutorFactory:
    """Return the factory that the settings of a zone name."""
    return _FACTORIES[entry.executor](entry)
