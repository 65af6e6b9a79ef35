"""What happens in a rented zone beside what all zones, and metered ones, know.

| kind | body |
| --- | --- |
| zone.opened | base, market, start, market_slot_seconds |
| slot.began | price, available |
| job.decided | first, ready_at, terms, renting, worth, held, left, jobs, estimated, unit_* |
| job.ready | seconds |
| job.metered | at, share, price, on_demand, spot, missed |
| job.trained | number |
| job.ended | state, note, finish |

`market` is a digest of what is replayed. `first` is the job's first slot; its own slots are
numbered from there: `slot` of job.metered, `number` of job.trained, and `at` is that slot in the
zone's numbers; `share` is the part of it that was paid, below 1 in the ending alone. A price is in
units of the on-demand price; `unit_price` is what an on-demand instance costs an owner for a slot,
`unit_cost` what it costs the service. A decision follows from what is on record: `left` is what was
left of the owner's budget, `jobs` how many the zone runs at once, `ready_at` when the job's process
was expected to be able to train, and the estimate was made of `estimated`: slot, the newest one
that it knew; first, deadline, hard_factor; start_seconds and speeds, the zone's `Pace`. `seconds`
is what a process of the job took until it could train.
"""

from enum import StrEnum

CAP_REACHED = "cap_reached"
"""Code of the failure of a job that its cap ended."""


class SpotKind(StrEnum):
    """What happened."""

    READY = "job.ready"
    ENDED = "job.ended"
