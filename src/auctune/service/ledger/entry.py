"""Entries of the ledger. Debits are positive: what is owed to the market, and what it costs.

| account | holds |
| --- | --- |
| user:ID | what a user owes for jobs that were admitted |
| held | payments for jobs that are not over (negative) |
| revenue | payments that were earned (negative) |
| cost:vendors, vendor:NAME | vendors' prices as a cost, and as what is owed to them |
| cost:energy, energy | the same of operating cost |
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


@dataclass(frozen=True, slots=True)
class Entry:
    """An amount on an account; debits are positive."""

    account: str
    amount: Money


def user_account(user: str) -> str:
    """What a user owes."""
    return f"user:{user}"


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


def earn(payment: Money) -> tuple[Entry, ...]:
    """A job is over: its payment is earned."""
    return transfer(HELD, REVENUE, payment)


def refund(user: str, payment: Money) -> tuple[Entry, ...]:
    """The market failed a job: its owner owes nothing for it."""
    return transfer(HELD, user_account(user), payment)


def vendor_work(name: str, price: Money) -> tuple[Entry, ...]:
    """A vendor did its work."""
    return transfer(VENDOR_COSTS, vendor_account(name), price)


def operation(cost: Money) -> tuple[Entry, ...]:
    """Energy was used; a cost below zero is a gain."""
    return transfer(ENERGY_COSTS, ENERGY, cost)


def balances(entries: Iterable[Entry]) -> bool:
    """Whether entries sum to zero."""
    return sum((entry.amount for entry in entries), ZERO) == ZERO
