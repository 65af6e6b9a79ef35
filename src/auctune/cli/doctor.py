"""`auctune doctor`: check an installation and say how to fix what is wrong."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.service_options import DATA, print_json

if TYPE_CHECKING:
    from auctune.doctor import Finding


def doctor(
    config: Annotated[
        Path | None, typer.Option(help="auctune.toml; none: one zone on this machine.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Data folder of the service.")] = DATA,
    online: Annotated[bool, typer.Option("--online", help="Contact external vendors too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check an installation and say how to fix what is wrong.

    Nothing is written, started or fetched. Exit code 1 if there is an error.
    """
    from auctune.client.address import URL_FILE
    from auctune.doctor import Severity, load_installation, run_checks
    from auctune.run.base_cache import base_cache

    findings = []
    at = load_installation(config, data, base_cache(), data / URL_FILE, online=online)
    for finding in run_checks(at):
        findings.append(finding)
        if not as_json:
            typer.echo(_line(finding))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.severity == Severity.ERROR for finding in findings):
        raise typer.Exit(1)


def _line(finding: "Finding") -> str:
    fix = f"; fix: {finding.fix}" if finding.fix else ""
    text = f"{finding.severity:<5}  {finding.check:<11}  {finding.message}{fix}"
    # Names come from files: none of their line breaks and escape codes reaches the terminal.
    return "".join(c if c.isprintable() else " " for c in text)
