"""Requests to the process of the sites of a zone, and its replies.

| request | replies |
| --- | --- |
| (its start) | `SitesReady`, or `Failed`; after it, at any time, `SiteLost` and `SiteRecovered` |
| `TrainSlot` | `SlotEnded` for each job, and at last `SlotDone` |
| `PrepareSlot`, `PrefetchSlot` | none |

A slot that was trained before is reported again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from auctune.engine.edge.edge_folder import SlotOutcome
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.slot_run import RowProgress
from auctune.engine.messages.base import Alive, Failed, Ready, Response, Stop, WorkerMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSlot:
    """Train a slot that has begun.

    Attributes:
        slot: its number.
        open: jobs that have not ended: the process releases all others.
        requests: of its jobs.
    """

    slot: int
    open: Sequence[str]
    requests: Sequence[SlotRequest]
    type: Literal["train_slot"] = "train_slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareSlot:
    """Start all workers of the slot that comes next; attributes as of `TrainSlot`."""

    open: Sequence[str]
    requests: Sequence[SlotRequest]
    type: Literal["prepare_slot"] = "prepare_slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchSlot:
    """Start workers of the slot that comes next, in the room beside a running slot."""

    requests: Sequence[SlotRequest]
    type: Literal["prefetch_slot"] = "prefetch_slot"


@dataclass(frozen=True, slots=True)
class SlotTrained:
    """A job's slot that was trained and saved."""

    job: str
    outcome: SlotOutcome
    type: Literal["slot_trained"] = "slot_trained"


@dataclass(frozen=True, slots=True)
class SlotLost:
    """A job's slot that was not trained.

    Attributes:
        job: whose.
        why: for its owner.
        failed: whether something went wrong; otherwise a site was lost, or its time is over.
        out_of_memory: whether memory was too small, as far as that is known.
        rows_lost: whether rows of a lost site are needed that no other site can read.
        late: progress when its time was over; None if it was lost for another reason, such as an
            error.
    """

    job: str
    why: str
    failed: bool = True
    out_of_memory: bool = False
    rows_lost: bool = False
    late: RowProgress | None = None
    type: Literal["slot_lost"] = "slot_lost"


@dataclass(frozen=True, slots=True)
class JobFailed:
    """A job that fails again and again at sites that are alive, and why."""

    job: str
    why: str
    type: Literal["job_failed"] = "job_failed"


SlotEnd = SlotTrained | SlotLost | JobFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesReady(Ready):
    """The sites are connected, but for those that are `lost`."""

    lost: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotEnded:
    """How a job's slot ended."""

    slot: int
    end: Annotated[SlotEnd, Field(discriminator="type")]
    type: Literal["slot_ended"] = "slot_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDone(Response):
    """All jobs of a slot have been answered."""

    slot: int
    type: Literal["slot_done"] = "slot_done"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLost:
    """A site is lost."""

    site: str
    type: Literal["site_lost"] = "site_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRecovered:
    """A site that was lost is back."""

    site: str
    type: Literal["site_recovered"] = "site_recovered"


SitesRequest = TrainSlot | PrepareSlot | PrefetchSlot | Stop
SitesReply = Alive | SitesReady | SlotEnded | SlotDone | SiteLost | SiteRecovered | Failed
SITES_MESSAGES = WorkerMessages(SitesRequest, SitesReply)
