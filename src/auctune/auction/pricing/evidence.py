"""How much of a bid prices may learn from.

A bid that costs its owner nothing must not move what others pay. Of bids whose owner is known:

1. A bid counts up to its owner's budget. It does not count at all if the budget did not allow its
   price, or if no schedule could ever run it.
2. A rejected bid counts only as long as its owner's rejected bids of late are together no more,
   in number and in work, than all other bids that count: those of others, and its own that were
   admitted. An admitted bid takes capacity and pays for it: it always counts.
3. Per sample, a bid counts for no more than the highest one of another owner of late, or twice the
   most that anybody paid of late. Where one owner alone bids, prices rise with what it pays.

Bids without an owner, as in simulations, count as they are.
"""

from dataclasses import dataclass, replace

from auctune.domain import Decision, Money, Reason, Saved, Task, round_money
from auctune.domain.money import LARGEST, STEP

_BUCKETS = 6
# How far above the highest payment a bid counts where no other owner bids as high.
_OVER_PAYMENT = 2
# Work is added up in thousandths of a sample: sums of integers do not depend on their order.
_PARTS = 1000


@dataclass(slots=True)
class _Sums:
    """Bids that count, of one owner: number, work in parts, highest value and payment a sample."""

    num_bids: int = 0
    work: int = 0
    num_rejected: int = 0
    work_rejected: int = 0
    highest: float = 0.0
    most_paid: float = 0.0

    def add(self, other: "_Sums") -> None:
        self.num_bids += other.num_bids
        self.work += other.work
        self.num_rejected += other.num_rejected
        self.work_rejected += other.work_rejected
        self.highest = max(self.highest, other.highest)
        self.most_paid = max(self.most_paid, other.most_paid)


class BidEvidence:
    """Bids of late that prices learned from, by owner.

    Args:
        window: slots that count as of late.
    """

    def __init__(self, window: int) -> None:
        self._bucket_slots = max(1, -(-window // _BUCKETS))
        # By time, so that what is old can be dropped; then by owner.
        self._buckets: dict[int, dict[str, _Sums]] = {}
        self._totals: dict[str, _Sums] = {}
        self._all = _Sums()

    def record(self, task: Task, decision: Decision, now: int) -> Task | None:
        """Record a bid; return the task as prices may learn from it, `None` if they may not.

        Args:
            task: with its bid.
            decision: on it.
            now: the current slot.
        """
        if task.owner is None:
            return task
        backed = _backed(task, decision)
        if backed is None:
            return None
        self._drop_before(now // self._bucket_slots - _BUCKETS)
        own = self._totals.setdefault(task.owner, _Sums())
        rejected = int(not decision.admitted)
        work = round(task.work * _PARTS)
        if rejected and (
            own.num_rejected + 1 > self._all.num_bids - own.num_rejected
            or own.work_rejected + work > self._all.work - own.work_rejected
        ):
            return None
        paid = float(max(decision.payment, STEP)) / task.work if decision.admitted else 0.0
        one = _Sums(1, work, rejected, rejected * work, float(backed) / task.work, paid)
        self._buckets.setdefault(now // self._bucket_slots, {}).setdefault(task.owner, _Sums()).add(
            one
        )
        own.add(one)
        self._all.add(one)
        return replace(task, bid=min(backed, self._most(task)))

    def save(self) -> Saved:
        return {
            "sums": [
                [
                    bucket,
                    owner,
                    sums.num_bids,
                    sums.work,
                    sums.num_rejected,
                    sums.work_rejected,
                    sums.highest,
                    sums.most_paid,
                ]
                for bucket, owners in self._buckets.items()
                for owner, sums in owners.items()
            ]
        }

    def load(self, saved: Saved) -> None:
        self._buckets = {}
        for bucket, owner, bids, work, rejected, work_rejected, highest, paid in saved["sums"]:
            sums = _Sums(bids, work, rejected, work_rejected, highest, paid)
            self._buckets.setdefault(bucket, {})[owner] = sums
        self._add_up()

    def _most(self, task: Task) -> Money:
        """Return what a bid may count for."""
        others = (sums.highest for owner, sums in self._totals.items() if owner != task.owner)
        density = max(_OVER_PAYMENT * self._all.most_paid, max(others, default=0.0))
        return round_money(min(density * task.work, float(LARGEST)))

    def _drop_before(self, bucket: int) -> None:
        old = [known for known in self._buckets if known <= bucket]
        if old:
            for known in old:
                del self._buckets[known]
            self._add_up()

    def _add_up(self) -> None:
        self._totals, self._all = {}, _Sums()
        for owners in self._buckets.values():
            for owner, sums in owners.items():
                self._totals.setdefault(owner, _Sums()).add(sums)
                self._all.add(sums)


def _backed(task: Task, decision: Decision) -> Money | None:
    """How much of a bid its owner could have paid; `None`: not even the price."""
    if decision.reason is Reason.NO_FEASIBLE_SCHEDULE:
        return None
    if task.budget is None:
        return task.bid
    # Without a price it is unknown what would have been enough.
    needed = task.bid if decision.price is None else decision.price
    return None if task.budget < needed else min(task.bid, task.budget)
