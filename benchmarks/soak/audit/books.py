"""The ledger as a whole: each event's entries sum to 0, nothing is held, no budget is exceeded."""

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal

from auctune.service.event_writer import from_minor_units, to_minor_units
from auctune.service.ledger import HELD, hold_account, user_account
from soak.log import Log


def check_books(
    log: Log, balances: Mapping[str, str], budgets: Mapping[str, Decimal]
) -> Iterator[str]:
    """What is wrong with the ledger once all jobs are over.

    Args:
        log: with it.
        balances: as the service says them.
        budgets: of users.
    """
    by_event: Counter[int] = Counter()
    sums: Counter[str] = Counter()
    exceeded: set[str] = set()
    owed = {
        (user_account(user), hold_account(user)): to_minor_units(most)
        for user, most in budgets.items()
    }
    seq = 0
    for one in log.booked:
        if one.seq != seq:
            exceeded |= {
                pair[0] for pair, most in owed.items() if sum(sums[a] for a in pair) > most
            }
            seq = one.seq
        by_event[one.seq] += one.amount
        sums[one.account] += one.amount
    yield from (
        f"entries of event {seq} sum to {total}" for seq, total in by_event.items() if total
    )
    yield from (f"{account} owes more than its budget" for account in exceeded)
    for account, total in sums.items():
        if (account == HELD or account.startswith("hold:")) and total:
            yield f"{account} is {total} at the end, with no job that is not over"
    if sum(sums.values()):
        yield f"the books do not balance: {sum(sums.values())}"
    for account in sums.keys() | balances.keys():
        said = Decimal(balances.get(account, "0"))
        found = from_minor_units(sums[account])
        if said != found:
            yield f"{account} is said to be {said}, and its entries sum to {found}"
