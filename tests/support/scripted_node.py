"""A node process without torch that does what a script says: for tests of what looks after it.

Its settings' `base` is a JSON list of words, one a start of the process (the last one for all later
starts); `cache` is a folder in which it counts its starts.

| word | it |
| --- | --- |
| die | ends before it is ready |
| crash | ends when it gets an order |
| idle | is ready, and never answers |
| repeat | answers each order twice, and then an order that nobody gave |
| good | answers |
"""

import json
import sys
from pathlib import Path

from auctune.run.child.parent import Parent


def main() -> None:
    parent = Parent()
    settings = json.loads(sys.argv[1])
    starts = Path(settings["cache"]) / "starts"
    count = int(starts.read_text()) if starts.exists() else 0
    starts.write_text(str(count + 1))
    words = json.loads(settings["base"])
    word = words[min(count, len(words) - 1)]
    if word == "die":
        parent.leave(3)
    parent.say("ready", base_digest="none")
    while (message := parent.orders.get())["do"] != "stop":
        if message["do"] == "ping":
            parent.say("pong")
        elif word == "crash":
            parent.leave(4)
        elif word != "idle":
            answer = {"slot": message["slot"], "results": {}, "refused": {}}
            parent.say("trained", order=message["order"], **answer)
            if word == "repeat":
                parent.say("trained", order=message["order"], **answer)
                parent.say("progress", order="99/alpha/1", task="a")
    parent.leave()


if __name__ == "__main__":
    main()
