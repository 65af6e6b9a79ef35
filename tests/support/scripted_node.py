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

from auctune.engine.runtime.channel import ParentChannel


def main(parent: ParentChannel[Any], settings: dict[str, Any]) -> None:
    starts = Path(settings["cache"]) / "starts"
    count = int(starts.read_text()) if starts.exists() else 0
    starts.write_text(str(count + 1))
    words = json.loads(settings["base"])
    word = words[min(count, len(words) - 1)]
    if word == "die":
        parent.exit(3)
    parent.send({"kind": "ready", "base_digest": "none"})
    while (message := parent.inbox.get())["do"] != "stop":
        if message["do"] == "ping":
            parent.send({"kind": "pong"})
        elif word == "crash":
            parent.exit(4)
        elif word == "garble":
            parent.send({"kind": "missing"})
        elif word != "idle":
            answer = {"slot": message["slot"], "results": {}, "refused": {}}
            parent.send({"kind": "trained", "request": message["id"], **answer})
            if word == "repeat":
                parent.send({"kind": "trained", "request": message["id"], **answer})
                parent.send({"kind": "progress", "request": "99/alpha/1", "task": "a"})
