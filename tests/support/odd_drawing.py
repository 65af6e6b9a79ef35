"""A process that draws without charts: it answers, says that it cannot, or ends."""

from typing import Any

from auctune.engine.runtime.channel import ParentChannel


def main(parent: ParentChannel[Any], _argument: None) -> None:
    drawn = 0
    while True:
        order = parent.inbox.get()
        if order["do"] != "draw" or order["chart"] == "end":
            parent.exit(3)
        if order["chart"] == "fail":
            parent.send({"kind": "failed", "id": order["id"], "reason": "no such thing"})
        else:
            drawn += 1
            parent.send(
                {"kind": "drawn", "id": order["id"], "html": f"<p>{order['chart']} {drawn}</p>"}
            )
