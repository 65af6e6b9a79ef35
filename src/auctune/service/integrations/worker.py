"""Process that logs jobs to Weights & Biases: each `start` makes a run, on a thread of its own.

`log` and `end` follow with the run's `id`. Each run is answered by one `RunEnded`, also one that
fails, which concerns no other.
"""

import os
import shutil
import traceback
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from auctune.engine.runtime.channel import Message, ParentChannel
from auctune.wandb_run import WandbRun

if TYPE_CHECKING:
    from auctune.service.integrations.wandb_process import RunMessage

# Slots that were sold come first.
_NICENESS = 19


def main(parent: "ParentChannel[RunMessage]", _argument: None) -> None:
    """Log until the parent stops the process."""
    os.nice(_NICENESS)
    runs: dict[int, SimpleQueue[Message]] = {}
    while (message := parent.inbox.get())["do"] != "stop":
        number = message["id"]
        if message["do"] == "start":
            inbox = runs[number] = SimpleQueue()
            Thread(target=_log_run, args=(parent, message, inbox), daemon=True).start()
        # A run that ended may be ended once more.
        elif number in runs:
            runs[number].put(message)
            if message["do"] == "end":
                del runs[number]


def _log_run(
    parent: "ParentChannel[RunMessage]", start: Message, inbox: "SimpleQueue[Message]"
) -> None:
    folder, error = Path(start["folder"]), None
    # What an earlier process left of the run; `wandb sync` would send both.
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        _log_metrics(start["options"], folder, inbox)
    # The package's errors cannot be named without it.
    except Exception as failure:
        traceback.print_exc()
        if not _has_running_child():
            # W&B's own process has ended, and with it all runs.
            parent.exit(1)
        error = f"{type(failure).__name__}: {failure}"
    if not start["is_kept"]:
        shutil.rmtree(folder, ignore_errors=True)
    parent.send({"kind": "ended", "id": start["id"], "error": error})


def _log_metrics(options: dict[str, Any], folder: Path, inbox: "SimpleQueue[Message]") -> None:
    run = WandbRun(**options, dir=str(folder))
    exit_code = 1
    try:
        while (message := inbox.get())["do"] == "log":
            for metrics in message["steps"]:
                known = {name: one for name, one in metrics.items() if one is not None}
                run.log(known.pop("step"), known)
        exit_code = message["exit_code"]
    finally:
        run.close(exit_code)


def _has_running_child() -> bool:
    try:
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
