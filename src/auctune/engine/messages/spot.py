"""Requests to the process of a spot job, and its replies.

After `BeginRun` it sends `RunEvent`s and `JobWarning`s, `JobReady` when training may begin, and at
last `CapReached`, `Failed` or nothing. It acts on an event only once `EventCommitted` has answered
it. A new run's first event and warnings of loading precede `JobReady`; a run that had ended sends
none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from auctune.engine.messages.base import Alive, Failed, Ready, Stop, WorkerMessages
from auctune.engine.spot.state import EventRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRun:
    """Train the job from where its run's events so far end."""

    events: Sequence[EventRecord]
    type: Literal["begin_run"] = "begin_run"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCommitted:
    """The newest event is on disk, unless the job has ended and is not open any more."""

    is_open: bool
    type: Literal["event_committed"] = "event_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReady(Ready):
    """Everything is loaded; training may begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """An event of the run (`auctune.engine.spot.state`), to be recorded."""

    event: EventRecord
    type: Literal["run_event"] = "run_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWarning:
    """A warning for the operator."""

    text: str
    type: Literal["job_warning"] = "job_warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapReached:
    """The next slot would cost `rate`, more than may be paid."""

    rate: float
    type: Literal["cap_reached"] = "cap_reached"


SpotRequest = BeginRun | EventCommitted | Stop
SpotReply = Alive | JobReady | RunEvent | JobWarning | CapReached | Failed
SPOT_MESSAGES = WorkerMessages(SpotRequest, SpotReply)
