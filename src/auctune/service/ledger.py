"""Entries of the ledger. Debits are positive: what is owed to the market, and what it costs.

| account | holds |
| --- | --- |
| user:ID | what a user owes for jobs that were admitted; of metered ones, for what was used |
| hold:ID | what is set aside of a user's for metered jobs that are not over: owed by nobody |
| held | payments and holds for jobs that are not over (negative) |
| revenue | payments that were earned (negative) |
| cost:vendors, vendor:NAME | vendors' prices as a cost, and as what is owed to them |
| cost:energy, energy | the same of operating cost |
| cost:instances, provider:ZONE | the same of instances that a zone rents |
"""

from collections.abc import Iterable
from dataclasses import dataclass

from auctune.domain import Money
from auctune.domain.money import ZERO

HELD = "held"
REVENUE = "revenue"
VENDOR_COSTS = "cost:vendors"
ENERGY_COSTS = "cost:energy"
ENERGY = "energy"
INSTANCE_COSTS = "cost:instances"


@dataclass(frozen=True, slots=True)
class Entry:
    """An amount on an account; debits are positive."""

    account: str
    amount: Money


def user_account(user: str) -> str:
    """What a user owes."""
    return f"user:{user}"


def hold_account(user: str) -> str:
    """What is set aside of a user's."""
    return f"hold:{user}"


def provider_account(zone: str) -> str:
    """What those are owed from whom a zone rents."""
    return f"provider:{zone}"


def vendor_account(name: str) -> str:
    """What a vendor is owed."""
    return f"vendor:{name}"


def transfer(debit: str, credit: str, amount: Money) -> tuple[Entry, ...]:
    """Two entries that balance; none for nothing."""
    if amount == ZERO:
        return ()
    return Entry(debit, amount), Entry(credit, -amount)


def charge(user: str, payment: Money) -> tuple[Entry, ...]:
    """A job is admitted: its owner owes the payment, which is held until the job is over."""
    return transfer(user_account(user), HELD, payment)


def recognize_revenue(payment: Money) -> tuple[Entry, ...]:
    """A job is over: its payment is earned."""
    return transfer(HELD, REVENUE, payment)


def refund(user: str, payment: Money) -> tuple[Entry, ...]:
    """The market failed a job: its owner owes nothing for it."""
    return transfer(HELD, user_account(user), payment)


def hold(user: str, amount: Money) -> tuple[Entry, ...]:
    """A metered job is admitted: so much may be charged for it, and is set aside."""
    return transfer(hold_account(user), HELD, amount)


def meter(user: str, amount: Money) -> tuple[Entry, ...]:
    """Something was used: it is owed and earned at once, and no longer set aside."""
    return transfer(user_account(user), REVENUE, amount) + release(user, amount)


def release(user: str, amount: Money) -> tuple[Entry, ...]:
    """What was set aside is not needed any more."""
    return transfer(HELD, hold_account(user), amount)


def refund_metered(user: str, amount: Money) -> tuple[Entry, ...]:
    """The market failed a metered job: what was owed for it is owed no more."""
    return transfer(REVENUE, user_account(user), amount)


def instance_cost(zone: str, cost: Money) -> tuple[Entry, ...]:
    """Instances were rented."""
    return transfer(INSTANCE_COSTS, provider_account(zone), cost)


def vendor_cost(name: str, price: Money) -> tuple[Entry, ...]:
    """A vendor did its work."""
    return transfer(VENDOR_COSTS, vendor_account(name), price)


def energy_cost(cost: Money) -> tuple[Entry, ...]:
    """Energy was used; a cost below zero is a gain."""
    return transfer(ENERGY_COSTS, ENERGY, cost)


def is_balanced(entries: Iterable[Entry]) -> bool:
    """Whether entries sum to zero."""
    return sum((entry.amount for entry in entries), ZERO) == ZERO
