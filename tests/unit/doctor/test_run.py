"""A check that fails or hangs does not keep the others from running."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from auctune.doctor import CHECKS, Check, Finding, Installation, Severity, run_checks
from auctune.doctor import installation as module
from auctune.doctor.installation import CheckTimeoutError, ok, run_with_timeout
from auctune.domain import InputError
from support.installations import make_installation, only

# Without the checks that start child processes.
QUICK = [check for check in CHECKS if check.name not in ("devices", "ray")]


def succeed(at: Installation) -> Iterator[Finding]:
    yield ok("was reached")


def failing(error: Exception) -> Check:
    def run(at: Installation) -> Iterator[Finding]:
        yield ok("found before the failure")
        raise error

    return Check("broken", run)


@pytest.mark.parametrize(
    ("error", "severity", "message"),
    [
        (LookupError("not there"), Severity.ERROR, "the check failed: LookupError: not there"),
        (InputError("x", "is y", "z"), Severity.ERROR, "x: is y; expected z"),
        (PermissionError(13, "Permission denied", "/x"), Severity.ERROR, "Permission denied"),
        (ModuleNotFoundError(name="alembic"), Severity.WARN, "package alembic is not installed"),
    ],
)
def test_a_check_that_fails_is_a_finding_and_the_next_one_runs(
    tmp_path: Path, error: Exception, severity: Severity, message: str
) -> None:
    checks = [failing(error), Check("last", succeed)]
    first, broken, last = run_checks(make_installation(tmp_path), checks)
    assert first.message == "found before the failure"
    assert (broken.check, broken.severity, last.message) == ("broken", severity, "was reached")
    assert message in broken.message


def test_a_check_whose_package_is_not_installed_is_skipped_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As where it was never installed; torch is not started, as the check ends before.
    monkeypatch.setitem(sys.modules, "psutil", None)
    devices = [check for check in CHECKS if check.name == "devices"]
    warning = only(run_checks(make_installation(tmp_path), devices), Severity.WARN)
    assert warning.message == "skipped: the package psutil is not installed"


def test_a_check_that_hangs_is_a_finding_and_the_next_one_runs(tmp_path: Path) -> None:
    never = threading.Event()

    def hang(at: Installation) -> Iterator[Finding]:
        never.wait()
        yield ok("returned")

    checks = [Check("hung", hang, timeout_seconds=0.01), Check("last", succeed)]
    hung, last = run_checks(make_installation(tmp_path), checks)
    never.set()
    assert (hung.severity, last.severity) == (Severity.ERROR, Severity.OK)
    assert "did not end within 0.01 s" in hung.message


def test_a_call_in_time_returns_or_raises_as_without_a_timeout() -> None:
    assert run_with_timeout(5.0, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        run_with_timeout(5.0, lambda: 1 // 0)
    with pytest.raises(CheckTimeoutError):
        run_with_timeout(0.01, threading.Event().wait)


def test_settings_that_never_end_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(module, "_READ_SECONDS", 0.01)
    at = module.load_installation(
        tmp_path / "pipe", tmp_path, tmp_path, tmp_path / "url", online=False
    )
    # Releases the thread that still waits for a writer.
    (tmp_path / "pipe").write_text("")
    assert at.settings is None
    assert "did not end within" in at.settings_error


def test_every_check_yields_findings_and_leaves_nothing_behind(tmp_path: Path) -> None:
    at = make_installation(tmp_path, "port = 0\n")
    checked = {finding.check for finding in run_checks(at, QUICK)}
    assert checked == {check.name for check in QUICK}
    assert list(tmp_path.iterdir()) == [tmp_path / "auctune.toml"]


def test_invalid_settings_skip_only_the_checks_that_need_them(tmp_path: Path) -> None:
    findings = list(run_checks(make_installation(tmp_path, "prot = 8420\n"), QUICK))
    invalid = only((one for one in findings if one.check == "settings"), Severity.ERROR)
    assert "auctune.toml: prot" in invalid.message
    folder = [one for one in findings if one.check == "data folder"]
    assert folder
    assert {one.severity for one in folder} == {Severity.OK}
    skipped = {one.check for one in findings if one.message.startswith("skipped")}
    assert skipped == {"port", "database", "bases", "profiles", "vendors"}
