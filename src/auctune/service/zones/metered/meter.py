"""What a metered job may cost, and has cost so far."""

from dataclasses import dataclass
from typing import Any

from auctune.domain import Money
from auctune.domain.money import ZERO
from auctune.service.ledger import Entry, hold, meter, refund_metered, release


@dataclass
class Meter:
    """Of one job.

    Attributes:
        owner: user id.
        cap: the most that is charged.
        charged: so far.
        next_slot: all numbers below it are charged.
    """

    owner: str
    cap: Money
    charged: Money = ZERO
    next_slot: int = 0

    @property
    def remaining(self) -> Money:
        """What is still set aside."""
        return self.cap - self.charged

    def is_charged(self, slot: int) -> bool:
        """Whether what has this number is on record already."""
        return slot < self.next_slot

    def begin(self) -> tuple[Entry, ...]:
        """The job is admitted: its cap is set aside."""
        return hold(self.owner, self.cap)

    def charge(self, slot: int, amount: Money) -> tuple[Entry, ...]:
        """Something was used.

        Args:
            slot: its number, above all before it.
            amount: at most what is left.
        """
        assert not self.is_charged(slot), slot
        assert ZERO <= amount <= self.remaining, (amount, self.remaining)
        self.next_slot = slot + 1
        self.charged += amount
        return meter(self.owner, amount)

    def lower(self, held: Money) -> tuple[Entry, ...]:
        """Lower the cap, so that no more than `held` is still set aside; release the rest."""
        assert ZERO <= held <= self.remaining, (held, self.remaining)
        released, self.cap = self.remaining - held, self.charged + held
        return release(self.owner, released)

    def end(self, *, refunded: bool) -> tuple[Entry, ...]:
        """Release what was not used; give back what was if the service failed the job."""
        back = refund_metered(self.owner, self.charged) if refunded else ()
        return self.lower(ZERO) + back

    def to_record(self) -> dict[str, Any]:
        """As plain values; money as text."""
        return {
            "owner": self.owner,
            "cap": str(self.cap),
            "charged": str(self.charged),
            "next_slot": self.next_slot,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Meter":
        """What `to_record` gave."""
        cap, charged = Money(record["cap"]), Money(record["charged"])
        return cls(record["owner"], cap, charged, record["next_slot"])
