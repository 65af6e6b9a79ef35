"""What happens in an edge zone beside what zones of all kinds know, and what is in it.

| kind | body | to the mechanism |
| --- | --- | --- |
| zone.opened | base, slots, sites, traffic_mb_per_slot, chunk_mb, pricing | - |
| slot.began | - | EdgeAdvanced |
| job.decided | facts, job, last, answer, line, earliest, budget_left | EdgeOffered |
| job.trained | outcome | - |
| job.released | torn, why | EdgeReplanned |
| job.replanned | found, why | EdgeReplanned |
| job.paused | given_up_for | EdgeReplanned |
| job.cancelled, job.failed | - | EdgeReplanned |
| job.resumed | found | EdgeReplanned |
| site.lost | site, why | SiteLost |
| site.returned | site | SiteReturned |

`job` is the bid as the mechanism was offered it, `last` the last slot by which it is in time, and
`answer` what it was told. Whoever gives up a plan gives up what lies behind the slot of the event;
`torn` are slots before that which trained nothing. `found` is a plan for the rest, from the next
slot on. A line is the finish of the line that was accepted.

State is the fold over them; see `auctune.service.zones.edge.memory`.
"""

from enum import StrEnum


class EdgeKind(StrEnum):
    """What happened."""

    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    SITE_LOST = "site.lost"
    SITE_RETURNED = "site.returned"
