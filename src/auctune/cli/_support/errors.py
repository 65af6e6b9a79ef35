"""Errors as users see them: one line on standard error, and an exit code.

| code | meaning |
| --- | --- |
| 2 | bad input: options, files, settings |
| 1 | another error of auctune or of the system, such as a damaged checkpoint or a full disk |
| 130 | interrupted |
| 141 | the output pipe was closed |

Any other exception is a defect of auctune and keeps its traceback.
"""

import os
import sys

import typer

import auctune
from auctune.domain.errors import AuctuneError, InputError
from auctune.extras import missing_packages

INTERRUPTED = 130
CLOSED_PIPE = 141


class MissingExtraError(AuctuneError):
    """A command needs packages of extras that are not installed."""


def require_extras(command: str, *extras: str) -> None:
    """Refuse a command if a package that its extras require is not installed.

    Raises:
        MissingExtraError: with the packages, and how to install the extras.
    """
    if missing := missing_packages(*extras):
        named = ", ".join(missing[:3]) + (", ..." if missing[3:] else "")
        wheel = f"auctune-{auctune.__version__}-py3-none-any.whl[{','.join(extras)}]"
        raise MissingExtraError(
            f"{command}: missing packages: {named}; expected an installation with "
            f"{' and '.join(extras)}, such as pip install '{wheel}'"
        )


def exit_code_of(error: Exception) -> int:
    """Print an error and return its exit code; raise it again if it is a defect."""
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
        # Otherwise the interpreter reports the closed pipe again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        _print(f"{place}{error.strerror}")
        return 1
    raise error


def _message(error: typer.TyperException) -> str:
    message, context = error.format_message(), getattr(error, "ctx", None)
    if context is None:
        return message
    if message.startswith("Missing command"):
        names = ", ".join(context.command.list_commands(context))
        return f"{context.command_path}: a command is missing; expected one of {names}"
    stop = "" if message.endswith((".", "?")) else "."
    return f"{message}{stop} See `{context.command_path} --help`."


def _print(message: str) -> None:
    # Names come from files: strip line breaks and escape codes.
    line = "".join(c if c.isprintable() else " " for c in message)
    typer.echo(f"auctune: {' '.join(line.split())}", err=True)
