"""Nodes on a Ray cluster, an actor each."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from auctune.run.executor.cluster.launch import RayLaunch
from auctune.run.executor.cluster.params import RayParams
from auctune.run.executor.executor import HearNode
from auctune.run.executor.kept import KeptExecutor
from auctune.run.executor.messages import NodeSettings
from auctune.run.executor.node_keeper import KeeperParams
from auctune.run.executor.node_process import WORKER


class RayExecutor(KeptExecutor):
    """An `Executor` whose nodes are actors of a cluster, each with a node process beside it.

    Args:
        settings, work, marks, logs, lock, program: as of `RayLaunch`.
        hear, params: as of `KeptExecutor`.
        ray: of the cluster; none: one on this machine.

    Raises:
        InputError: if Ray is not installed.
    """

    def __init__(
        self,
        settings: Mapping[str, NodeSettings],
        work: Path,
        hear: HearNode,
        *,
        ray: RayParams | None = None,
        params: KeeperParams | None = None,
        marks: Mapping[str, str] | None = None,
        logs: Path | None = None,
        lock: int | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        launch = RayLaunch(
            settings,
            work,
            params=ray or RayParams(),
            marks=marks,
            logs=logs,
            lock=lock,
            program=program,
        )
        super().__init__(settings, launch, hear, params)
