"""What the user sees of an error: one line on stderr, and an exit code.

| code | meaning |
| --- | --- |
| 2 | bad input: options, files, settings |
| 1 | something else that auctune or the system names, such as a damaged checkpoint or a full disk |
| 130 | interrupted |
| 141 | whoever read the output closed it |

Anything else is a defect of auctune: it keeps its traceback.
"""

import os
import sys

import typer

from auctune.domain.errors import AuctuneError, InputError

INTERRUPTED = 130
CLOSED_PIPE = 141


def exit_code_of(error: Exception) -> int:
    """Tell the user what is wrong; the exit code.

    Raises:
        Exception: `error` itself, if it is none that the user can mend.
    """
    if isinstance(error, typer.Abort):
        _say("interrupted")
        return INTERRUPTED
    if isinstance(error, typer.TyperException):
        _say(_message(error))
        return error.exit_code
    if isinstance(error, InputError):
        _say(str(error))
        return 2
    if isinstance(error, AuctuneError):
        _say(str(error))
        return 1
    if isinstance(error, BrokenPipeError):
        # Whoever read has seen enough; the interpreter shall not complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        _say(f"{place}{error.strerror}")
        return 1
    raise error


def _message(error: typer.TyperException) -> str:
    """What was wrong with what was typed; of a group alone, what it could be followed by."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if context is None or not message.startswith("Missing command"):
        return message
    names = ", ".join(getattr(context.command, "commands", ()))
    return f"{context.command_path}: is not all; expected one of {names} behind it"


def _say(message: str) -> None:
    # Names come from files: no line break or escape code of theirs reaches the terminal.
    line = "".join(c if c.isprintable() else " " for c in message)
    typer.echo(f"auctune: {' '.join(line.split())}", err=True)
