"""auctune.toml, read and checked as `auctune serve` does."""

from collections.abc import Iterator

from auctune.service.doctor.finding import Finding, ok, warn, wrong
from auctune.service.doctor.installation import Installation


def look(at: Installation) -> Iterator[Finding]:
    """What a start would refuse."""
    if at.missing is not None and at.config is None:
        yield warn("settings", at.trouble, "install the extra service")
    elif at.missing is not None:
        yield wrong("settings", at.trouble, "install the extra service")
    elif at.trouble:
        yield wrong("settings", at.trouble, f"{at.config}, at the place named")
    elif at.config is None:
        yield ok("settings", "no file: the defaults, one zone on this machine")
    else:
        names = ", ".join(zone.name for zone in at.zones)
        yield ok("settings", f"{at.config}: can be opened, zones: {names}")


def unread(name: str) -> Finding:
    """Of a check that needs settings which cannot be read."""
    return warn(name, "not looked at: the settings cannot be read", "mend the settings first")
