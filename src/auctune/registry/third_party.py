"""Mechanisms and kinds of zones of other packages, loaded by entry point, by name.

Only the package that offers the requested name is imported: a broken one affects nothing else.
"""

from collections.abc import Collection
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from auctune.domain import Admission, InputError
from auctune.registry.entry import MechanismEntry

MECHANISMS = "auctune.mechanisms"
"""Entry points: each a `MechanismEntry`."""

ZONE_KINDS = "auctune.zone_kinds"
"""Entry points: each an instance of a subclass of `auctune.service.zones.core.kind.ZoneKind`."""

_MEMBERS = tuple(name for name in vars(Admission) if not name.startswith("_"))


def third_party_names(group: str = MECHANISMS) -> tuple[str, ...]:
    """Names that installed packages offer, each once, in alphabetical order."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def load_entry(
    group: str, name: str, built_in: Collection[str], place: str, expected: str
) -> tuple[Any, str] | None:
    """Load what a package offers under a name.

    Args:
        group: of the entry points.
        name: as the user gave it.
        built_in: names that auctune has itself.
        place: of the name, for errors.
        expected: what an entry point of the group should be, for errors.

    Returns:
        The object, and a text that names it and its package; None if no package offers the name.

    Raises:
        InputError: if two packages, or auctune itself, offer the name, or the object cannot be
            loaded.
    """
    points = list(entry_points(group=group, name=name))
    if not points:
        return None
    owners = [*(["auctune"] if name in built_in else []), *map(_owner, points)]
    if len(owners) > 1:
        found = f"{name!r} is offered by {' and by '.join(owners)}"
        raise InputError(place, found, "one of them to be installed, or names that differ")
    (point,) = points
    who = f"{name!r} of {_owner(point)} ({point.value})"
    try:
        return point.load(), who
    except Exception as error:
        found = f"{who} cannot be loaded ({type(error).__name__}: {error})"
        raise InputError(place, found, expected) from error


def find_entry(name: str, built_in: Collection[str]) -> MechanismEntry | None:
    """Return the mechanism that a package offers under a name, or None if no package does.

    Raises:
        InputError: as `load_entry`; or if the object is not a valid `MechanismEntry`.
    """
    expected = "an auctune.registry.MechanismEntry"
    loaded = load_entry(MECHANISMS, name, built_in, "mechanism", expected)
    if loaded is None:
        return None
    entry, who = loaded
    if not isinstance(entry, MechanismEntry):
        raise InputError("mechanism", f"{who} is {type(entry).__name__}", expected)
    if not (isinstance(entry.params, type) and is_dataclass(entry.params)):
        found = f"{who} has params {entry.params!r}"
        raise InputError("mechanism", found, "a dataclass of its settings")
    return entry


def check_mechanism(name: str, made: object) -> None:
    """Refuse what a package built if it is no mechanism.

    Raises:
        InputError: naming what it lacks.
    """
    missing = [member for member in _MEMBERS if not hasattr(made, member)]
    if missing:
        found = f"{name!r} was built as {type(made).__name__} without {', '.join(missing)}"
        raise InputError("mechanism", found, "all that auctune.domain.Admission has")


def _owner(point: EntryPoint) -> str:
    dist = point.dist
    return "an unknown package" if dist is None else f"{dist.name} {dist.version}"
