"""No check keeps another from its turn."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.doctor import CHECKS, Check, Finding, Installation, State, examine
from auctune.service.doctor import installation as module
from auctune.service.doctor.finding import ok
from auctune.service.doctor.limit import HungError, within
from support.examined import installation, only


def fine(at: Installation) -> Iterator[Finding]:
    yield ok("last", "was reached")


def of_error(error: Exception) -> Check:
    def look(at: Installation) -> Iterator[Finding]:
        yield ok("first", "was seen before")
        raise error

    return Check("broken", look)


@pytest.mark.parametrize(
    ("error", "state", "said"),
    [
        (LookupError("nothing there"), State.WRONG, "the check failed: LookupError: nothing there"),
        (InputError("x", "is y", "z"), State.WRONG, "x: is y; expected z"),
        (PermissionError(13, "Permission denied", "/x"), State.WRONG, "Permission denied"),
        (ModuleNotFoundError(name="sqlalchemy"), State.WARN, "the package sqlalchemy is not inst"),
    ],
)
def test_a_check_that_fails_is_a_finding_and_the_next_one_is_made(
    tmp_path: Path, error: Exception, state: State, said: str
) -> None:
    checks = [of_error(error), Check("last", fine)]
    first, broken, last = examine(installation(tmp_path), checks)
    assert first.said == "was seen before"
    assert (broken.name, broken.state, last.said) == ("broken", state, "was reached")
    assert said in broken.said


def test_a_check_that_hangs_is_a_finding_and_the_next_one_is_made(tmp_path: Path) -> None:
    never = threading.Event()

    def hang(at: Installation) -> Iterator[Finding]:
        never.wait()
        yield ok("hung", "came back")

    checks = [Check("hung", hang, seconds=0.01), Check("last", fine)]
    hung, last = examine(installation(tmp_path), checks)
    never.set()
    assert (hung.state, last.state) == (State.WRONG, State.OK)
    assert "did not end within 0.01 s" in hung.said


def test_a_call_in_time_returns_or_raises_as_it_would_alone() -> None:
    assert within(5.0, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(5.0, lambda: 1 // 0)
    with pytest.raises(HungError):
        within(0.01, threading.Event().wait)


def test_settings_that_never_end_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(module, "_READ_SECONDS", 0.01)
    at = module.look_up(tmp_path / "pipe", tmp_path, tmp_path, tmp_path / "url", online=False)
    # Lets the thread go that still waits for a writer.
    (tmp_path / "pipe").write_text("")
    assert at.file is None
    assert "did not end within" in at.trouble


def test_names_of_checks_are_those_of_their_findings(tmp_path: Path) -> None:
    # Ones that start no process of their own.
    quick = [check for check in CHECKS if check.name not in ("devices", "ray")]
    at = installation(tmp_path, "port = 0\n")
    named = {finding.name for finding in examine(at, quick)}
    assert named == {check.name for check in quick}
    assert list(tmp_path.iterdir()) == [tmp_path / "auctune.toml"]


def test_wrong_settings_do_not_keep_the_machine_from_being_examined(tmp_path: Path) -> None:
    at = installation(tmp_path, "prot = 8420\n")
    quick = [check for check in CHECKS if check.name not in ("devices", "ray")]
    findings = list(examine(at, quick))
    trouble = only((one for one in findings if one.name == "settings"), State.WRONG)
    assert "auctune.toml: prot" in trouble.said
    folder = [one for one in findings if one.name == "data folder"]
    assert folder
    assert {one.state for one in folder} == {State.OK}
    unread = [one for one in findings if one.name in ("port", "database", "bases", "profiles")]
    assert {one.state for one in unread} == {State.WARN}
