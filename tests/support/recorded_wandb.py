"""Stands in for W&B's package where that is not installed: records what it is called with.

A test copies this file as `wandb.py`. Each call is a line of JSON in the file `RECORDED_WANDB`.
A project named in `REFUSED_PROJECTS` has no runs.
"""

import json
import os
from pathlib import Path
from typing import Any


class Settings:
    def __init__(self, **values: Any) -> None:
        self.values = values


def _record(run: str, call: str, value: Any) -> None:
    # One write: lines of several threads do not mix.
    with Path(os.environ["RECORDED_WANDB"]).open("a") as file:
        file.write(json.dumps([run, call, value]) + "\n")


class Run:
    def __init__(self, run: str) -> None:
        self._run = run

    def define_metric(self, name: str, step_metric: str) -> None:
        _record(self._run, "define_metric", [name, step_metric])

    def log(self, metrics: dict[str, Any]) -> None:
        _record(self._run, "log", metrics)

    def finish(self, exit_code: int) -> None:
        _record(self._run, "finish", exit_code)


def init(**arguments: Any) -> Run:
    if arguments["project"] in os.environ.get("REFUSED_PROJECTS", "").split():
        raise PermissionError(f"no access to {arguments['project']}")
    settings = arguments.pop("settings").values
    environment = {name: one for name, one in os.environ.items() if name.startswith("WANDB_")}
    (Path(arguments["dir"]) / "run-files").touch()
    facts = {**arguments, **settings, "environment": environment, "pid": os.getpid()}
    _record(arguments["id"], "init", facts)
    return Run(arguments["id"])
