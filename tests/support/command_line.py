"""`auctune` in the process of the test: quick, for what ends before anything is trained."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from auctune.cli.app import app, main
from support.process_umask import umask


def all_commands() -> dict[str, Any]:
    """Every command by what one types for it, those of groups as `keys add`."""
    found: dict[str, Any] = {}
    root: Any = typer.main.get_command(app)
    context = typer.Context(root)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        is_group = hasattr(command, "list_commands")
        if not is_group or command.invoke_without_command:
            found[name] = command
        if not is_group:
            continue
        for own in command.list_commands(context):
            found[f"{name} {own}"] = command.get_command(context, own)
    return found


def run_auctune(
    arguments: list[str | Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, list[str]]:
    """Exit code, standard output, and the lines on standard error.

    Left out is the one that says that kernels are compiled: not every machine has to.
    """
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["auctune", *map(str, arguments)])
    # `serve` makes the files of its process private.
    before = umask()
    with pytest.raises(SystemExit) as ended:
        main()
    os.umask(before)
    shown = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    errors = [line for line in shown.err.splitlines() if not line.startswith("compiling ")]
    return code, shown.out, errors
