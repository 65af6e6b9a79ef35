"""What happens in a timeshare zone beside what all zones and metered ones know, and what is in it.

| kind | body |
| --- | --- |
| zone.opened | base, price_per_second, allocator, memory_gb |
| job.decided | decision {.., max_cost, estimate, target_loss}, deadline_unit, left, estimated |
| pool.unit | number, unit, span, shares |
| job.joined | number, unit, rate, memory |
| job.metered | slot, amount, cost, unit, seconds, batches, loss, share, finish, verdict |
| job.left | number, how, why, best |
| job.cancelled | held, unless it had left the pool |
| job.settled | - |

A unit is a slot of the zone; `number` is that of the event in the pool's journal which said so:
what has a number that is on record is never taken over again. Of a job that left, what it had
learned best lies in the pool's folder, if it had learned anything. A job that is cancelled while
the pool may be training it keeps `held` set aside and is charged what the pool still trains of it;
once the pool has dropped it, it is settled, which releases the rest. A decision follows from what
is on record: `left` is what was left of the owner's budget, and the estimate was made of
`estimated`: `seq` of the newest event that the zone knew, and `first_unit` in which the job could
begin.

State is the fold over them; see `auctune.service.zones.timeshare.state`.
"""

from enum import StrEnum


class TimeshareKind(StrEnum):
    """What happened."""

    UNIT = "pool.unit"
    JOINED = "job.joined"
    LEFT = "job.left"
    SETTLED = "job.settled"
