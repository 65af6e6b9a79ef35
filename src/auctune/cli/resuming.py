"""How a run that was stopped is said to go on."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from auctune.cli.errors import INTERRUPTED
from auctune.domain.errors import AuctuneError, InputError


@contextmanager
def resumable(command: str, folder: Path, is_kept: Callable[[], bool]) -> Iterator[None]:
    """Says how to go on, of what stops a run that can.

    Args:
        command: of the run, such as `spot run`.
        folder: of the run.
        is_kept: whether the folder has what the run needs to go on.

    Raises:
        AuctuneError: what stopped it, and how to go on.
    """
    again = f"go on with: auctune {command} --resume {shlex.quote(str(folder))}"
    try:
        yield
    except (InputError, BrokenPipeError):
        # Bad input is to be mended first; whoever closed the pipe has seen enough.
        raise
    except (AuctuneError, OSError) as error:
        if not is_kept():
            raise
        what = error.strerror if isinstance(error, OSError) else None
        raise AuctuneError(f"{what or error}; {again}") from None
    except KeyboardInterrupt:
        typer.echo(f"stopped; {again}" if is_kept() else "stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None


def check_alone(context: typer.Context) -> None:
    """All else that a run goes on with is in its folder.

    Raises:
        InputError: if anything stands beside `--resume`.
    """
    for name in context.params:
        source = context.get_parameter_source(name)
        if name != "resume" and source is not None and source.name == "COMMANDLINE":
            raise InputError("--resume", "stands with other arguments", "--resume DIR alone")
