"""A node that sends, as what it misses, a variable of its environment or its GPU; or it warns."""

import os
import sys
from pathlib import Path
from typing import Any

from auctune.engine.messages.base import Missing
from auctune.engine.messages.node import NODE_MESSAGES
from auctune.engine.runtime.channel import ParentChannel

MESSAGES = NODE_MESSAGES


def main(parent: ParentChannel[Any, Any], argument: str | dict[str, Any]) -> None:
    """The argument is the variable, or the settings of a node."""
    if isinstance(argument, str):
        parent.send(Missing(what=f"{os.environ.get(argument)} in {Path.cwd()}"))
    elif argument["base"] == "warns":
        print("a warning", file=sys.stderr)
    else:
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES")
        parent.send(Missing(what=f"{argument['device']} is {gpu}"))
