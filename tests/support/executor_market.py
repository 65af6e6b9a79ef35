"""A market that has two nodes load their base, says so, and waits to be killed."""

import sys
import threading
from pathlib import Path

from auctune.engine.messages.base import Started
from auctune.engine.messages.node import NodeMessage, NodeReady
from auctune.engine.runtime.local import start_fork_server
from auctune.engine.runtime.nodes import NodeSettings
from support.executor_kinds import Local, OnRay


def main() -> None:
    address, cache, work = sys.argv[1:]
    kind = OnRay(address, Path(work)) if address else Local()
    settings = NodeSettings("tiny", cache)

    def hear(node: str, message: NodeMessage) -> None:
        if isinstance(message, Started):
            print("started", message.pid, flush=True)
        elif isinstance(message, NodeReady):
            print("ready", None, flush=True)

    start_fork_server()
    kind.make({"alpha": settings, "beta": settings}, hear)
    threading.Event().wait()


if __name__ == "__main__":
    main()
