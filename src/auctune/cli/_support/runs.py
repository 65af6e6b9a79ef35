"""Options and errors of commands that start a run in a folder, and resume it."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from auctune.cli._support.errors import INTERRUPTED
from auctune.domain.errors import AuctuneError, InputError

NewRunFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder to create for the run.")
]
Resume = Annotated[Path | None, typer.Option(metavar="DIR", help="Resume the run in this folder.")]


def run_folder(
    context: typer.Context,
    out: Path | None,
    resume: Path | None,
    required: Mapping[str, tuple[Path | None, str]],
    allowed: Collection[str] = (),
) -> Path:
    """Return the folder of a new run, or of one to resume; its folder has all other options.

    `required` are the files of a new run by argument or option, each with what is expected;
    `allowed` are parameters that may be set with `--resume`.
    """
    if resume is None:
        for place, (path, expected) in required.items():
            if path is None:
                raise InputError(place, "is missing", expected)
        if out is None:
            raise InputError("--out", "is missing", "a folder for the run")
        return out
    for name in context.params.keys() - {"resume", *allowed}:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            found = "cannot be combined with other arguments"
            raise InputError("--resume", found, "--resume DIR alone")
    return resume


@contextmanager
def resumable(command: str, folder: Path, is_stored: Callable[[], bool]) -> Iterator[None]:
    """Add to an error or interrupt of a run, if its folder has what is needed, how to resume it."""
    resume = f"resume with: auctune {command} --resume {shlex.quote(str(folder))}"
    try:
        yield
    except (InputError, BrokenPipeError):
        raise
    except (AuctuneError, OSError) as error:
        if not is_stored():
            raise
        reason = error.strerror if isinstance(error, OSError) else None
        raise AuctuneError(f"{reason or error}; {resume}") from None
    except KeyboardInterrupt:
        typer.echo(f"stopped; {resume}" if is_stored() else "stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None
