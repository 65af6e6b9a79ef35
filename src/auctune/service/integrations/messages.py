"""Requests to the process that logs jobs to Weights & Biases, and its responses.

`id` is that of a run, of which `EndRun` is the last request, and `RunEnded` the one response.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from auctune.engine.messages.base import Alive, Response, Stop, WorkerMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Start a run.

    Attributes:
        folder: of its files.
        is_kept: whether they stay once it has ended.
        options: arguments of `WandbRun`.
    """

    id: int
    folder: Path
    is_kept: bool
    options: dict[str, Any]
    type: Literal["start_run"] = "start_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSteps:
    """Log metrics of steps."""

    id: int
    steps: Sequence[dict[str, Any]]
    type: Literal["log_steps"] = "log_steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRun:
    """End a run; it may have ended before."""

    id: int
    exit_code: int
    type: Literal["end_run"] = "end_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Response):
    """A run is complete, or has failed."""

    id: int
    error: str | None
    type: Literal["run_ended"] = "run_ended"


RunRequest = StartRun | LogSteps | EndRun | Stop
RunReply = Alive | RunEnded
RUN_MESSAGES = WorkerMessages(RunRequest, RunReply)
