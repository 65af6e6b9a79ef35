"""Requests to the process of a spot job, and its replies.

After `BeginRun` it sends `JobReady`, `RunEvent`s and `JobWarning`s, and at last `CapReached`,
`Failed` or nothing. It acts on an event only once `EventCommitted` has answered it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from auctune.engine.messages.base import Alive, Failed, Ready, Stop, WorkerMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRun:
    """Train the job from where its run's events so far end."""

    events: Sequence[dict[str, Any]]
    type: Literal["begin"] = "begin"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCommitted:
    """The newest event is on disk, unless the job has ended and is not open any more."""

    is_open: bool
    type: Literal["committed"] = "committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReady(Ready):
    """Everything is loaded, after so many seconds (set by the service); training may begin."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """An event of the run (`auctune.engine.spot.state`), to be recorded."""

    event: dict[str, Any]
    type: Literal["event"] = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWarning:
    """A warning for the operator."""

    text: str
    type: Literal["warning"] = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapReached:
    """The next slot would cost `rate`, more than may be paid."""

    rate: float
    type: Literal["capped"] = "capped"


SpotRequest = BeginRun | EventCommitted | Stop
SpotReply = Alive | JobReady | RunEvent | JobWarning | CapReached | Failed
SPOT_MESSAGES = WorkerMessages(SpotRequest, SpotReply)
