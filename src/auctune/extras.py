"""Packages that auctune and its extras require, and the command that installs them."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution, requires

from packaging.requirements import Requirement


def required_packages(extra: str = "") -> list[Requirement]:
    """Return the requirements of an extra, or of auctune itself, without their markers.

    Those of the extras that an extra includes come with it.
    """
    found: dict[str, Requirement] = {}
    for one in map(Requirement, requires("auctune") or ()):
        is_core = _applies(one, "")
        if not _applies(one, extra) or is_core == bool(extra):
            continue
        one.marker = None
        if one.name == "auctune":
            parts = [part for name in sorted(one.extras) for part in required_packages(name)]
        else:
            parts = [one]
        found.update((part.name, part) for part in parts)
    return list(found.values())


def missing_packages(*extras: str) -> list[str]:
    """Return the names of the packages of extras, and of auctune itself, that are not installed."""
    wanted = [one for extra in ("", *extras) for one in required_packages(extra)]
    return [name for name in dict.fromkeys(one.name for one in wanted) if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _applies(one: Requirement, extra: str) -> bool:
    return one.marker is None or one.marker.evaluate({"extra": extra})


def install_command(*extras: str) -> str:
    """Return the command that installs what extras require.

    It names packages: auctune may come from a checkout or a file, and pip would look up
    `auctune[spot]` on an index, where somebody else could have that name.
    """
    return pip_install(dict.fromkeys(one for extra in extras for one in required_packages(extra)))


def pip_install(packages: Iterable[Requirement]) -> str:
    """Return the command that installs packages."""
    return " ".join(["pip install", *(f"'{one}'" for one in packages)])
