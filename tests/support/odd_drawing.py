"""A process that draws without charts: it answers, says that it cannot, or ends."""

from typing import Any

from auctune.engine.runtime.channel import ParentChannel
from auctune.service.charts.messages import CHART_MESSAGES, Draw, Drawn, NotDrawn

MESSAGES = CHART_MESSAGES


def main(parent: ParentChannel[Any, Any], _argument: None) -> None:
    drawn = 0
    while True:
        request = parent.inbox.get()
        if not isinstance(request, Draw) or request.chart == "end":
            parent.exit(3)
        if request.chart == "fail":
            parent.send(NotDrawn(request=request.id, reason="no such thing"))
        else:
            drawn += 1
            parent.send(Drawn(request=request.id, html=f"<p>{request.chart} {drawn}</p>"))
