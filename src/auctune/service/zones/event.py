"""What happens in a zone, as the log keeps it.

| kind | body | to the mechanism |
| --- | --- | --- |
| zone.opened | version, supply, mechanism, settings, epoch | - |
| slot.began | energy_cost | SlotAdvanced |
| prices.learned | prices | PricesLearned |
| job.received | owner, request, training | - |
| job.decided | owner, request, training, size, task, offers, decision, line, reply | Offered |
| job.repaired | file, report, size | - |
| job.vendor_changed | failed, why, repair | - |
| job.trained | node, slot, seconds, result | - |
| job.released | given_up, found, plan | Released |
| job.replanned | given_up, found, why, plan | Replanned |
| job.paused, job.resumed | given_up, found, plan | Released, Replanned |
| job.cancelled | - | - |
| job.finished | files | - |
| job.failed | code, message, param, refund | - |
| job.noted | text | - |
| node.lost | node, why, drained | NodeLost |
| node.returned | node | NodeReturned |
| node.noted | node, text | - |

Offers are what vendors call theirs, by vendor; a repair says who is to do it from now on. A plan
is what was asked for when cells were sought: work and first slot. A decision says what was left of
a budget (budget_left) that its price was above.

State is the fold over them; see `auctune.service.zones.auction.state`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

VERSION = 1


class Kind(StrEnum):
    """What happened."""

    ZONE_OPENED = "zone.opened"
    SLOT_BEGAN = "slot.began"
    PRICES_LEARNED = "prices.learned"
    RECEIVED = "job.received"
    DECIDED = "job.decided"
    REPAIRED = "job.repaired"
    VENDOR_CHANGED = "job.vendor_changed"
    TRAINED = "job.trained"
    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    PAUSED = "job.paused"
    RESUMED = "job.resumed"
    CANCELLED = "job.cancelled"
    FINISHED = "job.finished"
    FAILED = "job.failed"
    JOB_NOTED = "job.noted"
    NODE_LOST = "node.lost"
    NODE_RETURNED = "node.returned"
    NODE_NOTED = "node.noted"


@dataclass(frozen=True, slots=True)
class ZoneEvent:
    """One line of the log.

    Attributes:
        seq: its number in the whole log, rising.
        zone: the zone's name.
        slot: the slot in which it happened.
        at: unix time.
        kind: what happened.
        job: the job that it is about, if it is about one.
        body: plain JSON values.
    """

    seq: int
    zone: str
    slot: int
    at: float
    kind: Kind
    job: str | None
    body: dict[str, Any]
