"""What is installed beside the core, and whether its releases are those that auctune asks for."""

from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement

from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation

EXTRAS = {
    "train": "training",
    "service": "auctune serve",
    "spot": "forecasts by ARIMA",
    "timeshare": "its stand-ins and engression",
    "ray": "clusters",
}


def look(at: Installation) -> Iterator[Finding]:
    """The core and each extra, beside what is installed."""
    known = set(metadata("auctune").get_all("Provides-Extra") or ())
    wanted = [Requirement(text) for text in requires("auctune") or ()]
    core = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    yield judged("", core)
    for extra in EXTRAS:
        if extra not in known:
            yield warn("extras", f"[{extra}] is unknown to what is installed", _mend(extra))
            continue
        own = [one for one in wanted if one not in core and _is_of(one, extra)]
        yield judged(extra, own)


def judged(extra: str, wanted: list[Requirement]) -> Finding:
    """Whether all that an extra asks for is there, in a release that it takes.

    Args:
        extra: its name; empty: the core.
        wanted: what it asks for.
    """
    found = {one.name: _installed(one.name) for one in wanted}
    missing = [name for name, release in found.items() if release is None]
    other = list(_other_releases(wanted, found))
    what = f"[{extra}] ({EXTRAS[extra]})" if extra else "the core"
    mend = _mend(extra)
    if other:
        return wrong("extras", f"{what}: {', '.join(other)}", mend)
    if missing and not extra:
        return wrong("extras", f"{what} lacks {', '.join(missing)}", mend)
    if missing:
        return warn("extras", f"{what} is not installed: {', '.join(missing)}", mend)
    pinned = [f"{one.name} {found[one.name]}" for one in wanted if "==" in str(one.specifier)]
    return ok("extras", f"{what} is installed{': ' if pinned else ''}{', '.join(pinned)}")


def _other_releases(wanted: list[Requirement], found: Mapping[str, str | None]) -> Iterator[str]:
    for one in wanted:
        release = found[one.name]
        # A build of its own, such as 2.13.0+cpu, is that release.
        if release is not None and not one.specifier.contains(release, prereleases=True):
            yield f"{one.name} is {release} and must be {one.specifier}"


def _is_of(one: Requirement, extra: str) -> bool:
    return one.marker is not None and one.marker.evaluate({"extra": extra})


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _mend(extra: str) -> str:
    target = f"auctune[{extra}]" if extra else "auctune"
    return f"make setup, or pip install '{target}'"
