"""A process that draws without charts: it answers, says that it cannot, or ends.

To draw a chart "hold" takes until somebody has written to the named pipe of its data.
"""

from pathlib import Path
from typing import Any

from auctune.engine.runtime.channel import ParentChannel
from auctune.service.charts.messages import CHART_MESSAGES, Draw, Drawn, NotDrawn

MESSAGES = CHART_MESSAGES
SECONDS = 0.25
"""What a chart takes of the processor, as it says."""


def main(parent: ParentChannel[Any, Any], _argument: None) -> None:
    drawn = 0
    while True:
        request = parent.inbox.get()
        if not isinstance(request, Draw) or request.chart == "end":
            parent.exit(3)
        if request.chart == "hold":
            Path(request.data["pipe"]).read_bytes()
        if request.chart == "fail":
            parent.send(NotDrawn(reason="no such thing", seconds=SECONDS))
        else:
            drawn += 1
            parent.send(Drawn(html=f"<p>{request.chart} {drawn}</p>", seconds=SECONDS))
