"""A data process that does what the `base` of a request says; it knows no data.

| word | it |
| --- | --- |
| crash | ends at once |
| crash once | ends at once, and does it at the second try |
| hang | never answers |
| refuse | answers with an error |
| wait FILE | answers with the process's id once FILE is there |
| other | answers with the process's id |

It starts once there is no file "not yet".
"""

import os
import time
from pathlib import Path
from typing import Any

from auctune.engine.messages.base import ErrorRecord, Failed, Ready, Stop
from auctune.engine.messages.data import DATA_MESSAGES, Prepared
from auctune.engine.runtime.channel import ParentChannel

MESSAGES = DATA_MESSAGES


def main(parent: ParentChannel[Any, Any], settings: dict[str, Any]) -> None:
    tried = Path(settings["cache"]) / "tried"
    while (Path(settings["cache"]) / "not yet").exists():
        time.sleep(0.01)
    parent.send(Ready())
    while not isinstance(request := parent.inbox.get(), Stop):
        word = request.base
        if word == "crash" or (word == "crash once" and not tried.exists()):
            with tried.open("a") as file:
                file.write(f"{word}\n")
            parent.exit(5)
        elif word == "refuse":
            parent.send(Failed(error=ErrorRecord("base", "this", "that")))
        elif word != "hang":
            if word.startswith("wait "):
                while not Path(word.removeprefix("wait ")).exists():
                    time.sleep(0.01)
            parent.send(Prepared(value=os.getpid()))
