"""What happens in a rented zone beside what all zones, and metered ones, know.

| kind | body |
| --- | --- |
| zone.opened | base, market, start, market_slot_seconds |
| slot.began | price, available |
| job.decided | first, terms, renting, unit_cost, unit_price, worth, held, left, jobs, estimated |
| job.metered | at, share, price, on_demand, spot, missed |
| job.trained | number |
| job.ended | state, note, finish |

`market` is a digest of what is replayed. `first` is the job's first slot; its own slots are
numbered from there: `slot` of job.metered, `number` of job.trained, and `at` is that slot in the
zone's numbers; `share` is the part of it that was paid, below 1 in the ending alone. A price is in
units of the on-demand price; `unit_price` is what an on-demand instance costs an owner for a slot,
`unit_cost` what it costs the service. A decision follows from what is on record: `left` is what was
left of the owner's budget, `jobs` how many the zone runs at once, and the estimate was made of
`estimated`: first, deadline, hard_factor.
"""

from enum import StrEnum


class SpotKind(StrEnum):
    """What happened."""

    ENDED = "job.ended"
