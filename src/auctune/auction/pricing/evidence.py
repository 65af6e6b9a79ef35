"""How much of a bid prices may learn from.

A bid that costs its owner nothing must not move what others pay. Of bids whose owner is known:

1. A bid counts up to its owner's budget. It does not count at all if the budget did not allow its
   price, or if no schedule could ever run it.
2. A rejected bid counts only as long as its owner's rejected bids of late are together no more,
   in number and in work, than all bids of others that count. An admitted one takes capacity and
   pays for it: it always counts.
3. Per sample, a bid counts for no more than the highest one of another owner of late, or twice
   what it pays if that is more. Where one owner alone bids, prices thus rise with what it pays.

Bids without an owner, as in simulations, count as they are.
"""

from dataclasses import dataclass, replace

from auctune.domain import Decision, Money, Reason, Saved, Task, round_money
from auctune.domain.money import LARGEST, STEP

_BUCKETS = 6
# How far above its payment an admitted bid counts where no other owner bids as high.
_OVER_PAYMENT = 2
# Work is added up in thousandths of a sample: sums of integers do not depend on their order.
_PARTS = 1000


@dataclass(slots=True)
class _Sums:
    """Bids that count, of one owner: number, work in parts, and the highest value per sample."""

    num_bids: int = 0
    work: int = 0
    num_rejected: int = 0
    work_rejected: int = 0
    highest: float = 0.0

    def add(self, other: "_Sums") -> None:
        self.num_bids += other.num_bids
        self.work += other.work
        self.num_rejected += other.num_rejected
        self.work_rejected += other.work_rejected
        self.highest = max(self.highest, other.highest)


class BidEvidence:
    """Bids of late that prices learned from, by owner.

    Args:
        window: slots that count as of late.
    """

    def __init__(self, window: int) -> None:
        self._span = max(1, -(-window // _BUCKETS))
        # By time, so that what is old can be dropped; then by owner.
        self._buckets: dict[int, dict[str, _Sums]] = {}
        self._totals: dict[str, _Sums] = {}
        self._all = _Sums()

    def counted(self, task: Task, decision: Decision, now: int) -> Task | None:
        """The task as prices may learn from it; `None`: they may not.

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
        self._drop_before(now // self._span - _BUCKETS)
        own = self._totals.setdefault(task.owner, _Sums())
        rejected = int(not decision.admitted)
        work = round(task.work * _PARTS)
        if rejected and (
            own.num_rejected + 1 > self._all.num_bids - own.num_bids
            or own.work_rejected + work > self._all.work - own.work
        ):
            return None
        most = self._most(task, decision)
        one = _Sums(1, work, rejected, rejected * work, float(backed) / task.work)
        self._buckets.setdefault(now // self._span, {}).setdefault(task.owner, _Sums()).add(one)
        own.add(one)
        self._all.add(one)
        return replace(task, bid=min(backed, most))

    def save(self) -> Saved:
        """All that is kept."""
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
                ]
                for bucket, owners in self._buckets.items()
                for owner, sums in owners.items()
            ]
        }

    def load(self, saved: Saved) -> None:
        """Take over what was saved."""
        self._buckets = {}
        for bucket, owner, *sums in saved["sums"]:
            self._buckets.setdefault(bucket, {})[owner] = _Sums(*sums)
        self._add_up()

    def _most(self, task: Task, decision: Decision) -> Money:
        """What a bid may count for."""
        highest = max(
            (sums.highest for owner, sums in self._totals.items() if owner != task.owner),
            default=0.0,
        )
        most = round_money(min(highest * task.work, float(LARGEST)))
        if decision.admitted:
            most = max(most, _OVER_PAYMENT * max(decision.payment, STEP))
        return most

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
