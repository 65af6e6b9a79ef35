"""What happens in metered zones beside what zones of all kinds know.

| kind | body |
| --- | --- |
| job.metered | slot, amount, cost, and what is of the zone's kind |

`slot` numbers what is charged of a job, rising; `amount` is what its owner is charged, `cost` what
the service itself pays for it, both as text. A decision of a metered zone has max_cost and
estimate.
"""

from enum import StrEnum


class MeteredKind(StrEnum):
    """What happened."""

    METERED = "job.metered"
