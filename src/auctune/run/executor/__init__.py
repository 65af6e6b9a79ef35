"""Node processes: each holds the base once and trains what the plan puts on its node."""

from auctune.run.executor.cluster.executor import RayExecutor
from auctune.run.executor.cluster.params import RayParams
from auctune.run.executor.executor import Executor, HearNode
from auctune.run.executor.local import LocalExecutor
from auctune.run.executor.messages import NodeSettings, TaskOrder, TaskResult
from auctune.run.executor.node_keeper import KeeperParams
from auctune.run.executor.node_process import NodeError, NodeProcess
from auctune.train.job import LoraJob

__all__ = [
    "Executor",
    "HearNode",
    "KeeperParams",
    "LocalExecutor",
    "LoraJob",
    "NodeError",
    "NodeProcess",
    "NodeSettings",
    "RayExecutor",
    "RayParams",
    "TaskOrder",
    "TaskResult",
]
