"""Node processes: each holds the base once and trains what the plan puts on its node."""

from auctune.run.executor.messages import NodeSettings, TaskOrder, TaskResult
from auctune.run.executor.node_process import NodeError, NodeProcess

__all__ = ["NodeError", "NodeProcess", "NodeSettings", "TaskOrder", "TaskResult"]
