"""Users and keys that the settings bring: added once, and the operator's to change from then on."""

from auctune.service.access.directory import Budget
from auctune.service.access.key import Role
from auctune.service.market import Market
from auctune.service.settings.service_file import ServiceFile

_DAY_SECONDS = 86_400.0


async def add_first_keys(market: Market, file: ServiceFile) -> None:
    """Add those that are not known yet. One that was revoked stays so.

    Raises:
        InputError: if a key is not where it should be; nobody is added then.
    """
    keys = [(entry, entry.key(f"keys[{index}]")) for index, entry in enumerate(file.keys)]
    for user in file.users:
        if market.directory.user(user.name) is None:
            budget = None
            if user.budget is not None:
                budget = Budget(user.budget, user.budget_days * _DAY_SECONDS)
            await market.put_user(user.name, None, budget)
    for entry, key in keys:
        await market.directory.take_key(entry.user, Role(entry.role), entry.name, key)
