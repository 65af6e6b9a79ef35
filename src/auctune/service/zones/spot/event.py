"""What happens in a rented zone beside what all zones, and metered ones, know.

| kind | body |
| --- | --- |
| zone.opened | base, market, start, market_slot_seconds |
| slot.began | price, available |
| job.decided | first, terms, renting, unit_cost, unit_price, worth |
| job.metered | at, on_demand, spot, missed |
| job.trained | number |
| job.ended | state, note, finish |

`market` is a digest of what is replayed. `first` is the job's first slot; its own slots are
numbered from there: `slot` of job.metered, `number` of job.trained, and `at` is that slot in the
zone's numbers. A price is in units of the on-demand price; `unit_price` is what an on-demand
instance costs an owner for a slot, `unit_cost` what it costs the service.
"""

from enum import StrEnum


class SpotKind(StrEnum):
    """What happened."""

    ENDED = "job.ended"
