"""The first users and keys: added once, and the operator's to change from then on."""

from pathlib import Path

from auctune.service.access.directory import Budget, Directory
from auctune.service.access.key import KnownKey, Role, make_key
from auctune.service.config.models import ServiceConfig
from auctune.service.market import Market
from auctune.service.private_files import write_private

FIRST_KEY = "first-key"
_DAY_SECONDS = 86_400.0


async def add_first_keys(market: Market, file: ServiceConfig) -> None:
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


async def first_operator_key(directory: Directory, data: Path) -> str | None:
    """An operator's key, made where there never was one; it lies in a file for its owner's eyes.

    Its file is there before it is good: whenever the service is killed, somebody can get in.

    Args:
        directory: of keys.
        data: folder of the file.

    Returns:
        The key; none: there is one already.
    """
    if any(key.role is Role.OPERATOR for key in directory.all_keys()):
        return None
    made = make_key()
    write_private(data / FIRST_KEY, made.secret + "\n")
    if directory.user("operator") is None:
        await directory.put_user("operator", None, None)
    known = KnownKey(made.hash, made.prefix)
    await directory.take_key("operator", Role.OPERATOR, "first key", known)
    return made.secret
