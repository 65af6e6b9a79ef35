"""Factories of executors: nodes as local processes, or as actors on a Ray cluster."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from auctune.engine.base_facts import StartNode
from auctune.engine.market.market_file import MarketFile
from auctune.engine.runtime.local import LocalLauncher
from auctune.engine.runtime.nodes import NodeSettings, node_workers
from auctune.engine.runtime.ray.launcher import RayLauncher
from auctune.engine.runtime.ray.params import RayParams
from auctune.engine.runtime.supervisor import Executor, SupervisorPolicy
from auctune.engine.runtime.worker import Launcher
from auctune.service.config.auction import AuctionConfig
from auctune.service.zones.core.scheduler import MakeExecutor


class ExecutorFactory(ABC):
    """Makes the executor of a zone, and starts single nodes for measurements before that."""

    @abstractmethod
    def _launcher(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path | None, lock: int | None
    ) -> Launcher: ...

    def executor(
        self,
        settings: Mapping[str, NodeSettings],
        work: Path,
        logs: Path,
        lock: int | None,
        policy: SupervisorPolicy | None = None,
    ) -> MakeExecutor:
        """Return a function that makes the executor, given the callback for its messages.

        `settings` are those of the nodes, by id; all processes of the executor hold the `lock`.
        """
        return lambda on_message: Executor(
            settings, self._launcher(settings, work, logs, lock), on_message, policy
        )

    def probe(
        self, node: str, settings: NodeSettings, work: Path
    ) -> AbstractContextManager[StartNode | None]:
        """Return what starts a node on its machine; None: it is this machine."""
        return nullcontext()


class LocalExecutorFactory(ExecutorFactory):
    """Nodes are child processes."""

    def _launcher(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path | None, lock: int | None
    ) -> Launcher:
        return LocalLauncher(node_workers(settings, logs), lock=lock)


@dataclass(frozen=True, slots=True)
class RayExecutorFactory(ExecutorFactory):
    """Nodes are actors on a Ray cluster; some have a custom resource."""

    params: RayParams
    resources: Mapping[str, str]

    def _launcher(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path | None, lock: int | None
    ) -> Launcher:
        return RayLauncher(
            settings, work, params=self.params, resources=self.resources, logs=logs, lock=lock
        )

    @contextmanager
    def probe(self, node: str, settings: NodeSettings, work: Path) -> Iterator[StartNode | None]:
        # The nodes of a cluster that the service starts itself are this machine.
        if self.params.address is None:
            yield None
            return
        launcher = self._launcher({node: settings}, work, None, None)
        try:
            yield lambda _, on_message: launcher.start(node, on_message)
        finally:
            launcher.close()


def executor_factory(entry: AuctionConfig | MarketFile) -> ExecutorFactory:
    """Return the factory that the settings of a zone, or a market file, name."""
    if entry.executor == "local":
        return LocalExecutorFactory()
    resources = {node.id: node.resource for node in entry.nodes if node.resource is not None}
    return RayExecutorFactory(entry.ray or RayParams(), resources)
