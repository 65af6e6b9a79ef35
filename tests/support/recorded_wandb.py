"""Stands in for W&B's package where that is not installed: records what it is called with.

A test copies this file as `wandb.py`. Each call is a line of JSON in the file `RECORDED_WANDB`.
A project named in `REFUSED_PROJECTS` has no runs. As with that package, a child process has the
runs, which cannot be logged without it.
"""

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

_child: "subprocess.Popen[bytes] | None" = None
_starting = threading.Lock()


class Settings:
    def __init__(self, **values: Any) -> None:
        self.values = values


def _record(run: str, call: str, value: Any) -> None:
    # One write: lines of several threads do not mix.
    with Path(os.environ["RECORDED_WANDB"]).open("a") as file:
        file.write(json.dumps([run, call, value]) + "\n")


def _check_child() -> None:
    if _child is None or _child.poll() is not None:
        raise BrokenPipeError("the process of the runs has ended")


class Run:
    def __init__(self, run: str) -> None:
        self._run = run

    def define_metric(self, name: str, step_metric: str) -> None:
        _record(self._run, "define_metric", [name, step_metric])

    def log(self, metrics: dict[str, Any]) -> None:
        _check_child()
        _record(self._run, "log", metrics)

    def finish(self, exit_code: int) -> None:
        _check_child()
        _record(self._run, "finish", exit_code)


def init(**arguments: Any) -> Run:
    global _child
    with _starting:
        if _child is None:
            # It ends with this process.
            _child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    if arguments["project"] in os.environ.get("REFUSED_PROJECTS", "").split():
        raise PermissionError(f"no access to {arguments['project']}")
    settings = arguments.pop("settings").values
    environment = {name: one for name, one in os.environ.items() if name.startswith("WANDB_")}
    (Path(arguments["dir"]) / "run-files").touch()
    facts = {
        **arguments,
        **settings,
        "environment": environment,
        "pid": os.getpid(),
        "child": _child.pid,
    }
    _record(arguments["id"], "init", facts)
    return Run(arguments["id"])
