"""A node process without torch that does what a script says: for tests of what looks after it.

Its settings' `base` is a JSON list of words, one a start of the process (the last one for all later
starts); `cache` is a folder in which it counts its starts.

| word | it |
| --- | --- |
| die | ends before it is ready |
| crash | ends when it gets a request |
| idle | is ready, and never answers |
| repeat | answers each request twice, and then one that was never sent |
| garble | sends something that is not a message of a node when it gets a request |
| good | answers |
"""

import json
from pathlib import Path
from typing import Any

from auctune.engine.messages.base import Stop
from auctune.engine.messages.node import NODE_MESSAGES, NodeReady, Ping, Pong, Progress, Trained
from auctune.engine.runtime.channel import ParentChannel
from auctune.files.atomic import write_atomically

MESSAGES = NODE_MESSAGES
READY = NodeReady(base_digest="none", architecture="none", context_tokens=None, origin="")


def trained_slot(slot: int, **values: Any) -> Trained:
    """The answer to a request, of no tasks unless `values` have some."""
    defaults = {"request": f"{slot}/alpha/1", "seconds": 1.0, "saved_at": 0.0}
    return Trained(slot=slot, **{**defaults, "results": {}, "refused": {}, **values})


def main(parent: ParentChannel[Any, Any], settings: dict[str, Any]) -> None:
    starts = Path(settings["cache"]) / "starts"
    count = int(starts.read_text()) if starts.exists() else 0
    write_atomically(starts, str(count + 1).encode())  # This process may be killed at any moment.
    words = json.loads(settings["base"])
    word = words[min(count, len(words) - 1)]
    if word == "die":
        parent.exit(3)
    parent.send(READY)
    while not isinstance(request := parent.inbox.get(), Stop):
        if isinstance(request, Ping):
            parent.send(Pong())
        elif word == "crash":
            parent.exit(4)
        elif word == "garble":
            parent.send({"kind": "missing"})
        elif word != "idle":
            trained = trained_slot(request.slot, request=request.id)
            parent.send(trained)
            if word == "repeat":
                parent.send(trained)
                parent.send(
                    Progress(
                        request="99/alpha/1",
                        task="a",
                        rows=0,
                        total_rows=0,
                        tokens=0,
                        loss=None,
                        tokens_per_second=0.0,
                        memory_gb=0.0,
                    )
                )
