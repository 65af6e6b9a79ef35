"""Double-entry ledger. Debits are positive: amounts owed to the market, and its costs.

| account | balance |
| --- | --- |
| user:ID | amount that a user owes for admitted jobs, metered jobs, answers and stored files |
| hold:ID | a user's holds for open metered jobs: reserved, not owed |
| held | payments and holds of open jobs (negative) |
| revenue | earned payments (negative) |
| cost:vendors, vendor:NAME | vendors' prices, as a cost and as a debt to the vendor |
| cost:energy, energy | operating cost, likewise |
| cost:instances, provider:ZONE | cost of the instances that a zone rents, likewise |
"""

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
    """Amount on an account; debits are positive."""

    account: str
    amount: Money


def user_account(user: str) -> str:
    """Return the account of a user's debt."""
    return f"user:{user}"


def hold_account(user: str) -> str:
    """Return the account of a user's holds."""
    return f"hold:{user}"


def provider_account(zone: str) -> str:
    """Return the account of the provider that a zone rents from."""
    return f"provider:{zone}"


def vendor_account(name: str) -> str:
    """Return the account of a vendor."""
    return f"vendor:{name}"


def transfer(debit: str, credit: str, amount: Money) -> tuple[Entry, ...]:
    """Return two entries that balance, or none for an amount of zero."""
    if amount == ZERO:
        return ()
    return Entry(debit, amount), Entry(credit, -amount)


def charge(user: str, payment: Money) -> tuple[Entry, ...]:
    """Charge the payment of an admitted job; it is held until the job is over."""
    return transfer(user_account(user), HELD, payment)


def recognize_revenue(payment: Money) -> tuple[Entry, ...]:
    """Turn the held payment of a completed job into revenue."""
    return transfer(HELD, REVENUE, payment)


def refund(user: str, payment: Money) -> tuple[Entry, ...]:
    """Refund the held payment of a job that the market failed."""
    return transfer(HELD, user_account(user), payment)


def hold(user: str, amount: Money) -> tuple[Entry, ...]:
    """Reserve the largest amount that an admitted metered job may cost."""
    return transfer(hold_account(user), HELD, amount)


def meter(user: str, amount: Money) -> tuple[Entry, ...]:
    """Charge usage of a metered job: owed and earned at once, and taken from the hold."""
    return transfer(user_account(user), REVENUE, amount) + release(user, amount)


def charge_usage(user: str, amount: Money) -> tuple[Entry, ...]:
    """Charge tokens of answers, or storage: owed and earned at once."""
    return transfer(user_account(user), REVENUE, amount)


def release(user: str, amount: Money) -> tuple[Entry, ...]:
    """Release an amount of a hold."""
    return transfer(HELD, hold_account(user), amount)


def refund_metered(user: str, amount: Money) -> tuple[Entry, ...]:
    """Refund the usage of a metered job that the market failed."""
    return transfer(REVENUE, user_account(user), amount)


def instance_cost(zone: str, cost: Money) -> tuple[Entry, ...]:
    """Record the cost of rented instances."""
    return transfer(INSTANCE_COSTS, provider_account(zone), cost)


def vendor_cost(name: str, price: Money) -> tuple[Entry, ...]:
    """Record the price of a vendor's repair."""
    return transfer(VENDOR_COSTS, vendor_account(name), price)


def energy_cost(cost: Money) -> tuple[Entry, ...]:
    """Record the cost of energy; a negative cost is a gain."""
    return transfer(ENERGY_COSTS, ENERGY, cost)
