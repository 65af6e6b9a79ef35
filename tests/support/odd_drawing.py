"""A process that draws without charts: it answers, says that it cannot, or ends."""

import os

from auctune.run.child.parent import Parent


def main() -> None:
    """Do what the name of a chart says."""
    parent = Parent()
    drawn = 0
    while True:
        order = parent.orders.get()
        if order["do"] != "draw" or order["chart"] == "end":
            os._exit(3)
        if order["chart"] == "fail":
            parent.say("failed", id=order["id"], reason="no such thing")
        else:
            drawn += 1
            parent.say("drawn", id=order["id"], html=f"<p>{order['chart']} {drawn}</p>")


if __name__ == "__main__":
    main()
