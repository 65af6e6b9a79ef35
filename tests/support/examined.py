"""Installations for the checks of `auctune doctor`."""

from collections.abc import Callable, Iterable
from pathlib import Path

from auctune.client.address import URL_FILE
from auctune.service.doctor import Finding, Installation, State, look_up

Look = Callable[[Installation], Iterable[Finding]]


def installation(
    folder: Path, settings: str | None = None, *, online: bool = False
) -> Installation:
    """One in a folder, with `auctune.toml` of this text, or none."""
    config = None if settings is None else folder / "auctune.toml"
    if config is not None:
        config.write_text(settings or "")
    return look_up(
        config, folder / "data", folder / "cache", folder / "data" / URL_FILE, online=online
    )


def found(look: Look, at: Installation) -> list[Finding]:
    """What a check has found."""
    return list(look(at))


def only(findings: Iterable[Finding], state: State) -> Finding:
    """The one finding that is in this state."""
    (finding,) = [one for one in findings if one.state == state]
    return finding


def states(findings: Iterable[Finding]) -> set[State]:
    """All states that there are."""
    return {finding.state for finding in findings}
