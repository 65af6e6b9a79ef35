"""Executors of both kinds for the same tests: child processes, and nodes of a Ray cluster."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from auctune.engine.runtime.local import LocalLauncher
from auctune.engine.runtime.nodes import NODE_WORKER, NodeSettings, node_workers
from auctune.engine.runtime.ray.launcher import RayLauncher
from auctune.engine.runtime.supervisor import Executor, OnNodeMessage, SupervisorPolicy
from auctune.engine.runtime.worker import Launcher

# What a test over both kinds is parametrized with.
KINDS = ["local", pytest.param("ray", marks=[pytest.mark.slow, pytest.mark.ray])]

# Short, for tests that wait for it; long against what a busy machine holds up.
LEASE_SECONDS = 3.0


class ExecutorKind(ABC):
    """Makes executors of one kind.

    Attributes:
        address: of the cluster; empty: there is none.
    """

    address: str

    def make(
        self,
        settings: Mapping[str, NodeSettings],
        on_message: OnNodeMessage,
        *,
        policy: SupervisorPolicy | None = None,
        logs: Path | None = None,
        module: str = NODE_WORKER,
    ) -> Executor:
        """An executor of these nodes."""
        return Executor(settings, self.launcher(settings, logs, module), on_message, policy)

    @abstractmethod
    def launcher(
        self, settings: Mapping[str, NodeSettings], logs: Path | None, module: str
    ) -> Launcher:
        """What starts their workers."""


class Local(ExecutorKind):
    """Nodes are child processes."""

    address = ""

    def launcher(
        self, settings: Mapping[str, NodeSettings], logs: Path | None, module: str
    ) -> Launcher:
        return LocalLauncher(node_workers(settings, logs, module))


@dataclass
class OnRay(ExecutorKind):
    """Nodes are on an external cluster."""

    address: str
    work: Path

    def launcher(
        self, settings: Mapping[str, NodeSettings], logs: Path | None, module: str
    ) -> Launcher:
        made = RayLauncher(settings, self.work, address=self.address, logs=logs, module=module)
        made.lease_seconds = LEASE_SECONDS
        return made
