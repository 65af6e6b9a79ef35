"""A worker that sends a variable of its environment, or a node's device and GPU, or warns."""

import os
import sys
from pathlib import Path
from typing import Any

from auctune.engine.runtime.channel import ParentChannel


def main(parent: ParentChannel[Any], argument: str | dict[str, Any]) -> None:
    """The argument is the variable, or the settings of a node."""
    if isinstance(argument, str):
        parent.send({"kind": "told", "value": os.environ.get(argument), "cwd": str(Path.cwd())})
    elif argument["base"] == "warns":
        print("a warning", file=sys.stderr)
    else:
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
        parent.send({"kind": "told", "device": argument["device"], "gpu": gpu})
