"""The log of a real service, gone through again."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import run_auctune


def replayed(
    data: Path,
    config: Path,
    zone: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:
    """Figures of a replay by what decided; all must have come out as it was."""
    options: list[str | Path] = ["--data", data, "--config", config, "--zone", zone, "--json"]
    code, out, lines = run_auctune(["replay", *options], monkeypatch, capsys)
    found = json.loads(out) if out else {}
    assert (code, lines, found.get("differences")) == (0, [], []), out
    return found
