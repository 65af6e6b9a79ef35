"""What somebody types, against a market that is served in the test's own process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.command_line import run_auctune
from support.serving import Served

Run = Callable[..., tuple[int, str, list[str]]]
"""An `auctune` command's words; its exit code, standard output, and lines on standard error."""


def typing_as(
    key: str, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    monkeypatch.setenv("AUCTUNE_URL", served.url)
    monkeypatch.setenv("AUCTUNE_API_KEY", key)

    def run(*arguments: str | Path) -> tuple[int, str, list[str]]:
        return run_auctune(list(arguments), monkeypatch, capsys)

    return run
