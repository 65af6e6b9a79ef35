"""Process that logs jobs to Weights & Biases: each run has a thread of its own.

One that fails concerns no other. `id` is that of a run, of which `EndRun` is the last request, and
`RunEnded` the one response.
"""

import os
import shutil
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal

from auctune.engine.messages.base import Alive, Response, Stop, WorkerMessages
from auctune.engine.runtime.channel import ParentChannel
from auctune.wandb_run import WandbRun


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


MESSAGES = RUN_MESSAGES
Parent = ParentChannel[RunReply, RunRequest]
Inbox = SimpleQueue[LogSteps | EndRun]

# Slots that were sold come first.
_NICENESS = 19


def main(parent: Parent, _argument: None) -> None:
    """Log until the parent stops the process."""
    os.nice(_NICENESS)
    runs: dict[int, Inbox] = {}
    while not isinstance(request := parent.inbox.get(), Stop):
        if isinstance(request, StartRun):
            inbox = runs[request.id] = SimpleQueue()
            Thread(target=_log_run, args=(parent, request, inbox), daemon=True).start()
        # A run that ended may be ended once more.
        elif request.id in runs:
            runs[request.id].put(request)
            if isinstance(request, EndRun):
                del runs[request.id]


def _log_run(parent: Parent, start: StartRun, inbox: Inbox) -> None:
    folder, error = start.folder, None
    # What an earlier process left of the run; `wandb sync` would send both.
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        _log_metrics(start.options, folder, inbox)
    # The package's errors cannot be named without it.
    except Exception as failure:
        traceback.print_exc()
        if not _has_running_child():
            # W&B's own process has ended, and with it all runs.
            parent.exit(1)
        error = f"{type(failure).__name__}: {failure}"
    if not start.is_kept:
        shutil.rmtree(folder, ignore_errors=True)
    parent.send(RunEnded(id=start.id, error=error))


def _log_metrics(options: dict[str, Any], folder: Path, inbox: Inbox) -> None:
    run = WandbRun(**options, dir=str(folder))
    exit_code = 1
    try:
        while isinstance(request := inbox.get(), LogSteps):
            for metrics in request.steps:
                known = {name: one for name, one in metrics.items() if one is not None}
                run.log(known.pop("step"), known)
        exit_code = request.exit_code
    finally:
        run.close(exit_code)


def _has_running_child() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
