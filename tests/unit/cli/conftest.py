from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import run_auctune


@pytest.fixture
def auctune(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, list[str]]]:
    """An `auctune` command: exit code, standard output, and lines on standard error."""

    def run(*arguments: str | Path) -> tuple[int, str, list[str]]:
        return run_auctune(list(arguments), monkeypatch, capsys)

    return run
