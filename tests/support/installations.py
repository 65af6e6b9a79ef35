"""Installations for the checks of `auctune doctor`."""

from collections.abc import Iterable
from pathlib import Path

from auctune.client.endpoint import URL_FILE
from auctune.doctor import Finding, Installation, Severity, load_installation


def make_installation(
    folder: Path, settings: str | None = None, *, online: bool = False
) -> Installation:
    """Load an installation in a folder, whose `auctune.toml` has this text; None: no such file."""
    config = None if settings is None else folder / "auctune.toml"
    if config is not None:
        config.write_text(settings or "")
    return load_installation(
        config, folder / "data", folder / "cache", folder / "data" / URL_FILE, online=online
    )


def only(findings: Iterable[Finding], severity: Severity) -> Finding:
    (finding,) = [one for one in findings if one.severity == severity]
    return finding


def severities(findings: Iterable[Finding]) -> set[Severity]:
    return {finding.severity for finding in findings}
