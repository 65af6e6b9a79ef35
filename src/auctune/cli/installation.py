"""`auctune init`, `doctor` and `profile`: set up and check an installation."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from auctune.cli._support.options import DATA, print_json
from auctune.client.endpoint import URL_FILE
from auctune.doctor import Finding, Severity, load_installation, run_checks
from auctune.domain.errors import InputError
from auctune.run.base_cache import base_cache


def init(
    out: Annotated[Path, typer.Option(help="The file to write, new.")] = Path("auctune.toml"),
) -> None:
    """Write a commented auctune.toml with every setting."""
    # Imports all settings; `doctor` works without the packages that they need.
    from auctune.service.config.generator import template

    try:
        with out.open("x") as file:
            file.write(template())
    except FileExistsError:
        raise InputError(str(out), "is there already", "the name of a new file") from None
    typer.echo(f"{out} is written; start the service with: auctune serve --config {out}")


def doctor(
    config: Annotated[
        Path | None, typer.Option(help="auctune.toml. Default: one zone on this machine.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Data folder of the service.")] = DATA,
    online: Annotated[bool, typer.Option("--online", help="Contact external vendors too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check an installation and say how to fix what is wrong.

    Writes, starts and downloads nothing. Exit code 1 if there is an error.
    """
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


def profile(
    base: Annotated[str, typer.Option(help='"tiny", a folder, or hub:NAME.')],
    out: Annotated[Path, typer.Option(help="The profile to write (JSON).")],
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    threads: Annotated[int | None, typer.Option(help="Threads on a CPU. Default: all.")] = None,
    quick: Annotated[bool, typer.Option(help="Measure less, within 90 seconds.")] = False,
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Time limit. Default: 600, or 90 with --quick.")
    ] = None,
) -> None:
    """Measure a base model's speed and memory on a device.

    Nothing else should run on the device meanwhile.
    """
    # torch takes seconds to import.
    from auctune.run.measure import measure_to_file

    measure_to_file(
        base, out, device, dtype, threads, quick=quick, seconds=seconds, console=Console()
    )


def _line(finding: Finding) -> str:
    fix = f"; fix: {finding.fix}" if finding.fix else ""
    text = f"{finding.severity:<5}  {finding.check:<11}  {finding.message}{fix}"
    # Names come from files: no line break or escape code of theirs reaches the terminal.
    return "".join(c if c.isprintable() else " " for c in text)
