"""`auctune doctor`: a line a finding, its exit code, and JSON; `auctune base`: its names."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auctune.doctor import CHECKS, run
from auctune.train.packaged_base import PACKAGED_BASES

Run = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the checks that start processes, which are tested on their own."""
    quick = tuple(check for check in CHECKS if check.name not in ("devices", "ray"))
    monkeypatch.setattr(run, "CHECKS", quick)


def test_a_fresh_folder_has_no_errors_and_one_line_a_finding(tmp_path: Path, auctune: Run) -> None:
    (tmp_path / "auctune.toml").write_text("port = 0\n")
    config = tmp_path / "auctune.toml"
    code, shown, errors = auctune("doctor", "--config", config, "--data", tmp_path / "d")
    lines = shown.splitlines()
    assert (code, errors) == (0, [])
    assert {line.split()[0] for line in lines} <= {"ok", "warn"}
    assert any(line.startswith("ok     settings     ") for line in lines)
    assert not (tmp_path / "d").exists()


def test_an_error_is_shown_with_its_fix_and_exit_code_1(tmp_path: Path, auctune: Run) -> None:
    asked = ("doctor", "--config", tmp_path / "auctune.toml", "--data", tmp_path)
    (tmp_path / "auctune.toml").write_text("port = 0\n[[zones]]\nbase = '/no/such/base'\n")
    code, shown, _ = auctune(*asked)
    (line,) = [line for line in shown.splitlines() if line.startswith("error")]
    assert code == 1
    what, _, fix = line.partition("; fix: ")
    assert what.split(maxsplit=2)[1:] == ["bases", "/no/such/base: this folder does not exist"]
    assert fix == "set base in auctune.toml to a folder beside it, or to hub:ORG/NAME"
    code, shown, _ = auctune(*asked, "--json")
    records = json.loads(shown)
    assert code == 1
    assert {"check", "severity", "message", "fix"} == records[0].keys()
    assert [one["check"] for one in records if one["severity"] == "error"] == ["bases"]


def test_bases_are_listed_without_a_name_and_with_a_wrong_one(auctune: Run) -> None:
    code, shown, _ = auctune("base")
    assert code == 0
    assert [line.split()[0] for line in shown.splitlines()] == list(PACKAGED_BASES)
    code, shown, errors = auctune("base", "nope")
    names = ", ".join(PACKAGED_BASES)
    assert (code, shown) == (2, "")
    assert errors == [f"auctune: base: 'nope' is in no package; expected one of {names}"]
