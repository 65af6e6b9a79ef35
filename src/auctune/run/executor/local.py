"""Nodes as child processes of this machine, one each."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from auctune.run.child import Hear
from auctune.run.executor.executor import HearNode
from auctune.run.executor.kept import KeptExecutor
from auctune.run.executor.messages import NodeSettings
from auctune.run.executor.node_keeper import KeeperParams
from auctune.run.executor.node_process import WORKER, NodeProcess


class LocalLaunch:
    """Starts child processes.

    Args:
        settings: of each node, by its id.
        logs: folder for what nodes write on standard error, NODE.log; none: nobody keeps it.
        lock: descriptor of a lock that nodes hold too; none: there is none.
        program: a node's, as arguments for the interpreter.
    """

    def __init__(
        self,
        settings: Mapping[str, NodeSettings],
        *,
        logs: Path | None = None,
        lock: int | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        self._settings = dict(settings)
        self._logs = logs
        self._lock = lock
        self._program = program
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)

    def start(self, node: str, hear: Hear) -> NodeProcess:
        """Start a node's process; see `Launch`."""
        return NodeProcess(
            self._settings[node],
            hear,
            lock=self._lock,
            log=None if self._logs is None else self._logs / f"{node}.log",
            program=self._program,
        )

    def close(self) -> None:
        """Nothing but the processes was started."""


class LocalExecutor(KeptExecutor):
    """An `Executor` whose nodes are child processes.

    Args:
        settings, logs, lock, program: as of `LocalLaunch`.
        hear, params: as of `KeptExecutor`.
    """

    def __init__(
        self,
        settings: Mapping[str, NodeSettings],
        hear: HearNode,
        *,
        params: KeeperParams | None = None,
        logs: Path | None = None,
        lock: int | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        launch = LocalLaunch(settings, logs=logs, lock=lock, program=program)
        super().__init__(settings, launch, hear, params)
