"""Mechanisms of other packages, found by entry point when one is asked for by name.

Nothing is imported but the package of the mechanism that is asked for, so a broken one is in
nobody else's way.
"""

from collections.abc import Collection
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from auctune.domain import Admission, InputError
from auctune.mechanism_entry import MechanismEntry

GROUP = "auctune.mechanisms"
_MEMBERS = tuple(name for name in vars(Admission) if not name.startswith("_"))


def third_party_names() -> tuple[str, ...]:
    """Names that installed packages offer, each once, in alphabetical order."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def find_entry(name: str, built_in: Collection[str]) -> MechanismEntry | None:
    """The mechanism that a package offers under this name; none if no package does.

    Args:
        name: as the user gave it.
        built_in: names that auctune has itself.

    Raises:
        InputError: naming the package, if two of them or auctune itself offer the same name, or
            if what is offered cannot be loaded, or is no `MechanismEntry`.
    """
    points = list(entry_points(group=GROUP, name=name))
    if not points:
        return None
    owners = [*(["auctune"] if name in built_in else []), *map(_owner, points)]
    if len(owners) > 1:
        found = f"{name!r} is offered by {' and by '.join(owners)}"
        raise InputError("mechanism", found, "one of them to be installed, or names that differ")
    (point,) = points
    return _load(point)


def check_mechanism(name: str, made: object) -> None:
    """Refuse what a package built if it is no mechanism.

    Raises:
        InputError: naming what it lacks.
    """
    missing = [member for member in _MEMBERS if not hasattr(made, member)]
    if missing:
        found = f"{name!r} was built as {type(made).__name__} without {', '.join(missing)}"
        raise InputError("mechanism", found, "all that auctune.domain.Admission has")


def _load(point: EntryPoint) -> MechanismEntry:
    expected = "an auctune.registry.MechanismEntry"
    who = f"{point.name!r} of {_owner(point)} ({point.value})"
    try:
        entry: Any = point.load()
    except Exception as error:
        found = f"{who} cannot be loaded ({type(error).__name__}: {error})"
        raise InputError("mechanism", found, expected) from error
    if not isinstance(entry, MechanismEntry):
        raise InputError("mechanism", f"{who} is {type(entry).__name__}", expected)
    if not (isinstance(entry.params, type) and is_dataclass(entry.params)):
        found = f"{who} has params {entry.params!r}"
        raise InputError("mechanism", found, "a dataclass of its settings")
    return entry


def _owner(point: EntryPoint) -> str:
    dist = point.dist
    return "an unknown package" if dist is None else f"{dist.name} {dist.version}"
