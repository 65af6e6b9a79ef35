"""What happens in an auction's zone beside what zones of all kinds know, and what is in it.

| kind | body | to the mechanism |
| --- | --- | --- |
| zone.opened | base, cluster, profiles, mechanism, settings, sample_tokens | - |
| slot.began | energy_cost | SlotAdvanced |
| prices.learned | prices | PricesLearned |
| job.decided | task, offers, line, earliest, budget_left | Offered |
| job.repaired | file, report, size | - |
| job.vendor_changed | failed, why, repair | - |
| job.released | given_up, found, plan | Released |
| job.replanned | given_up, found, why, plan | Replanned |
| job.paused, job.resumed | given_up, given_up_for, found, plan | Released, Replanned |
| node.lost | node, why, drained | NodeLost |
| node.returned | node | NodeReturned |
| node.noted | node, text | - |

Offers are what vendors call theirs, by vendor; a repair says who is to do it from now on. A plan
is what was asked for when cells were sought: work and first slot. A pause says what the cells given
up were worth (given_up_for). A task has its owner and what was left of the owner's budget, and a
decision the same where the price was above it (budget_left).

State is the fold over them; see `auctune.service.zones.auction.state`.
"""

from enum import StrEnum


class AuctionKind(StrEnum):
    """What happened."""

    PRICES_LEARNED = "prices.learned"
    REPAIRED = "job.repaired"
    VENDOR_CHANGED = "job.vendor_changed"
    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    NODE_LOST = "node.lost"
    NODE_RETURNED = "node.returned"
    NODE_NOTED = "node.noted"
