"""Errors as the user sees them: one line on standard error, and an exit code.

| code | meaning |
| --- | --- |
| 2 | bad input: options, files, settings |
| 1 | another error of auctune or of the system, such as a damaged checkpoint or a full disk |
| 130 | interrupted |
| 141 | the reader of the output closed it |

Any other exception is a defect of auctune and keeps its traceback.
"""

import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from auctune.domain.errors import AuctuneError, InputError

INTERRUPTED = 130
CLOSED_PIPE = 141


def exit_code_of(error: Exception) -> int:
    """Print an error and return its exit code.

    Raises:
        Exception: `error` itself, if it is a defect.
    """
    if isinstance(error, typer.Abort):
        _print("interrupted")
        return INTERRUPTED
    if isinstance(error, typer.TyperException):
        _print(_message(error))
        return error.exit_code
    if isinstance(error, InputError):
        _print(str(error))
        return 2
    if isinstance(error, AuctuneError):
        _print(str(error))
        return 1
    if isinstance(error, BrokenPipeError):
        # Keeps the interpreter from reporting the closed pipe once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        _print(f"{place}{error.strerror}")
        return 1
    raise error


@contextmanager
def resumable(command: str, folder: Path, is_kept: Callable[[], bool]) -> Iterator[None]:
    """Add to an error or interrupt of a run how to resume it.

    Args:
        command: of the run, such as `spot run`.
        folder: of the run.
        is_kept: whether the folder has what it takes to resume.

    Raises:
        AuctuneError: what stopped the run, and how to resume it.
    """
    resume = f"go on with: auctune {command} --resume {shlex.quote(str(folder))}"
    try:
        yield
    except (InputError, BrokenPipeError):
        raise
    except (AuctuneError, OSError) as error:
        if not is_kept():
            raise
        what = error.strerror if isinstance(error, OSError) else None
        raise AuctuneError(f"{what or error}; {resume}") from None
    except KeyboardInterrupt:
        typer.echo(f"stopped; {resume}" if is_kept() else "stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None


def refuse_with_resume(context: typer.Context, allowed: Collection[str] = ()) -> None:
    """Refuse options beside `--resume`: the run's folder has them.

    Args:
        context: of the command.
        allowed: names of parameters that may be given.

    Raises:
        InputError: naming `--resume`.
    """
    for name in context.params.keys() - {"resume", *allowed}:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError("--resume", "is given with other arguments", "--resume DIR alone")


def _message(error: typer.TyperException) -> str:
    message, context = error.format_message(), getattr(error, "ctx", None)
    if context is None or not message.startswith("Missing command"):
        return message
    names = ", ".join(context.command.list_commands(context))
    return f"{context.command_path}: a command is missing; expected one of {names}"


def _print(message: str) -> None:
    # Names come from files: no line break or escape code of theirs reaches the terminal.
    line = "".join(c if c.isprintable() else " " for c in message)
    typer.echo(f"auctune: {' '.join(line.split())}", err=True)
