"""A data process that does what the `base` of a request says; it knows no data.

| word | it |
| --- | --- |
| crash | ends at once |
| crash once | ends at once, and does it at the second try |
| hang | never answers |
| refuse | answers with an error |
| wait FILE | answers with the process's id once FILE is there |
| other | answers with the process's id |
"""

import json
import os
import sys
import time
from pathlib import Path

from auctune.run.child.parent import Parent


def main() -> None:
    parent = Parent()
    tried = Path(json.loads(sys.argv[1])["cache"]) / "tried"
    while (asked := parent.orders.get())["do"] != "stop":
        word = asked["base"]
        if word == "crash" or (word == "crash once" and not tried.exists()):
            with tried.open("a") as file:
                file.write(f"{word}\n")
            parent.leave(5)
        elif word == "refuse":
            parent.say("failed", id=asked["id"], place="base", found="this", expected="that")
        elif word != "hang":
            if word.startswith("wait "):
                while not Path(word.removeprefix("wait ")).exists():
                    time.sleep(0.01)
            parent.say("done", id=asked["id"], value=os.getpid())
    parent.leave()


if __name__ == "__main__":
    main()
