"""`auctune doctor`: what of an installation works, what does not, and what mends it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.cli.service_options import DATA, print_json

if TYPE_CHECKING:
    from auctune.service.doctor import Finding


def doctor(
    config: Annotated[
        Path | None, typer.Option(help="auctune.toml; none: one zone on this machine.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Data folder of the service.")] = DATA,
    online: Annotated[
        bool, typer.Option("--online", help="Ask vendors outside whether they are there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at an installation, and say what mends what is wrong.

    Nothing is written, started or fetched. Exit code 1 if something is wrong.
    """
    from auctune.client.address import URL_FILE
    from auctune.run.base_cache import base_cache
    from auctune.service.doctor import State, examine, look_up

    found = []
    at = look_up(config, data, base_cache(), data / URL_FILE, online=online)
    for finding in examine(at):
        found.append(finding)
        if not as_json:
            typer.echo(_line(finding))
    if as_json:
        print_json([_record(finding) for finding in found])
    if any(finding.state == State.WRONG for finding in found):
        raise typer.Exit(1)


def _line(finding: "Finding") -> str:
    mend = f"; mend: {finding.mend}" if finding.mend else ""
    text = f"{finding.state:<5}  {finding.name:<11}  {finding.said}{mend}"
    # Names come from files: no line break or escape code of theirs reaches the terminal.
    return "".join(c if c.isprintable() else " " for c in text)


def _record(finding: "Finding") -> dict[str, str]:
    return {
        "check": finding.name,
        "state": str(finding.state),
        "said": finding.said,
        "mend": finding.mend,
    }
