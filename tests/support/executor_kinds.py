"""Executors of both kinds for the same tests: child processes, and nodes of a Ray cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import pytest

from auctune.run.executor import HearNode, LocalExecutor, NodeSettings, RayExecutor, RayParams
from auctune.run.executor.kept import KeptExecutor

NEEDS_RAY = pytest.mark.skipif(
    find_spec("ray") is None, reason="Ray is not here: the extra `ray` has it"
)
# What a test over both kinds is parametrized with.
KINDS = ["local", pytest.param("ray", marks=[pytest.mark.thorough, NEEDS_RAY])]

# Short, for tests that wait for it; long against what a busy machine holds up.
LEASE_SECONDS = 3.0


class ExecutorKind(Protocol):
    """Makes executors of one kind."""

    @property
    def address(self) -> str:
        """Of the cluster; none: empty."""
        ...

    def make(
        self, settings: Mapping[str, NodeSettings], hear: HearNode, **options: Any
    ) -> KeptExecutor:
        """An executor; options that both kinds have."""
        ...


class Local:
    """Nodes are child processes."""

    address = ""

    def make(
        self, settings: Mapping[str, NodeSettings], hear: HearNode, **options: Any
    ) -> KeptExecutor:
        return LocalExecutor(settings, hear, **options)


@dataclass
class OnRay:
    """Nodes are on a cluster that is adopted."""

    address: str
    work: Path

    def make(
        self, settings: Mapping[str, NodeSettings], hear: HearNode, **options: Any
    ) -> KeptExecutor:
        ray = RayParams(self.address, lease_seconds=LEASE_SECONDS)
        return RayExecutor(settings, self.work, hear, ray=ray, **options)
