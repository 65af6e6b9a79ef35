"""Requests to the process that renders charts, and its responses."""

from dataclasses import dataclass
from typing import Any, Literal

from auctune.engine.messages.base import Alive, Response, Stop, WorkerMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Render a chart of `worker.CHARTS`, with a text alternative; one at a time."""

    chart: str
    data: dict[str, Any]
    text: str
    type: Literal["draw"] = "draw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn(Response):
    """A chart has been rendered.

    Attributes:
        seconds: of the processor, that it took.
    """

    html: str
    seconds: float
    type: Literal["drawn"] = "drawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDrawn(Response):
    """A chart cannot be rendered; attributes as of `Drawn`."""

    reason: str
    seconds: float
    type: Literal["not_drawn"] = "not_drawn"


ChartRequest = Draw | Stop
ChartReply = Alive | Drawn | NotDrawn
CHART_MESSAGES = WorkerMessages(ChartRequest, ChartReply)
