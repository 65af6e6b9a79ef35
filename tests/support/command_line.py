"""`auctune` in the process of the test: quick, for what ends before anything is trained."""

import sys
from pathlib import Path

import pytest

from auctune.cli.app import main


def run_auctune(
    arguments: list[str | Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str, list[str]]:
    """Exit code, standard output, and the lines on standard error."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["auctune", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return code, shown.out, shown.err.splitlines()
