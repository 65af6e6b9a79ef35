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
        yield ok("settings", f"{at.config}: {len(at.zones)} zones can be opened")


def unread(name: str) -> Finding:
    """Of a check that needs settings which cannot be read."""
    return warn(name, "not looked at: the settings cannot be read", "mend the settings first")
