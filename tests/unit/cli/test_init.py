"""`auctune init`: what it asks on a terminal, and takes from options without one."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auctune.cli import init
from auctune.service.config.models import ServiceConfig, read_config

Run = Callable[..., tuple[int, str, list[str]]]


def summary(config: ServiceConfig) -> tuple[str, float, str]:
    (zone,) = config.zones
    return zone.base, zone.slot_seconds, config.billing.currency


def type_at_a_terminal(folder: Path, text: str) -> tuple[int, str]:
    """Type lines at `auctune init` on a terminal; its exit code, and what the terminal shows."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "auctune", "init"]
    process = subprocess.Popen(command, cwd=folder, stdin=its, stdout=its, stderr=its)
    os.close(its)
    os.write(ours, text.encode())
    shown = b""
    # A terminal that nobody has open any more is an error to read.
    while data := _read(ours):
        shown += data
    os.close(ours)
    return process.wait(), shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.slow
def test_enter_takes_each_default(tmp_path: Path) -> None:
    code, shown = type_at_a_terminal(tmp_path, "\n" * 4)
    assert code == 0, shown
    # The device depends on the machine.
    for question in (
        "Device [",
        "Base [tiny]: ",
        "Slot length in seconds [60]: ",
        "Currency [XXX]: ",
    ):
        assert shown.count(question) == 1, shown
    assert summary(read_config(tmp_path / "auctune.toml")) == ("tiny", 60.0, "XXX")


@pytest.mark.slow
def test_a_bad_answer_is_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    typed = "gpu\ncpu\nempty\nsmollm2\n0\nx\n20\neuro\neur\n"
    code, shown = type_at_a_terminal(tmp_path, typed)
    assert code == 0, shown
    assert "Error: 'gpu' is not here; expected cpu" in shown
    assert "Error: 'empty' has no config.json; expected a folder of a model" in shown
    assert shown.count("; expected 1 to 86400 seconds") == 2
    assert "Error: 'euro'; expected three letters" in shown
    assert "make the base first: auctune base smollm2\r\n" in shown
    assert summary(read_config(tmp_path / "auctune.toml")) == ("smollm2", 20.0, "EUR")


@pytest.mark.parametrize(
    ("options", "devices"),
    [
        ((), ["cuda:0", "cuda:2"]),
        (("--device", "cuda"), ["cuda:0", "cuda:2"]),
        (("--device", "cuda:2"), ["cuda:2"]),
        (("--device", "cpu"), ["cpu"]),
    ],
)
def test_all_gpus_that_compute_are_the_default(
    auctune: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    devices: list[str],
) -> None:
    works = {"name": "NVIDIA H200", "total_bytes": 150 << 30, "free_bytes": 0, "error": None}
    trials = [works, works | {"error": "out of memory"}, works]
    monkeypatch.setattr(init, "try_devices", lambda: trials)
    out = tmp_path / "auctune.toml"
    assert auctune("init", "--out", out, "--yes", *options)[0] == 0
    (zone,) = read_config(out).zones
    assert [need.device for need in zone.requirements().devices] == devices


def test_options_are_answers(auctune: Run, tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    out = tmp_path / "auctune.toml"
    base = ("--base", tmp_path / "base", "--device", "cpu")
    code, shown, errors = auctune("init", "--out", out, *base, "--currency", "chf")
    assert (code, errors) == (0, [])
    assert shown == f"wrote {out}; start the service with: auctune serve --config {out}\n"
    assert summary(read_config(out)) == (str(tmp_path / "base"), 300.0, "CHF")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--device", "gpu", "--device: 'gpu' is not here; expected cpu"),
        ("--base", "nope", "--base: 'nope' is unknown: there is no such folder; expected tiny"),
        ("--slot-seconds", "nan", "--slot-seconds: 'nan'; expected 1 to 86400 seconds"),
        ("--currency", "credits", "--currency: 'credits'; expected three letters"),
    ],
)
def test_a_bad_option_is_one_line_and_writes_nothing(
    auctune: Run, tmp_path: Path, option: str, value: str, words: str
) -> None:
    out = tmp_path / "auctune.toml"
    device = () if option == "--device" else ("--device", "cpu")
    code, shown, errors = auctune("init", "--out", out, *device, option, value)
    assert (code, shown) == (2, "")
    assert errors[-1].startswith(f"auctune: {words}")
    assert not out.exists()


def test_a_file_that_exists_is_left_alone(auctune: Run, tmp_path: Path) -> None:
    out = tmp_path / "auctune.toml"
    out.write_text("port = 1\n")
    code, _, errors = auctune("init", "--out", out, "--yes")
    assert code == 2
    assert errors == [f"auctune: {out}: already exists; expected the name of a new file"]
    assert out.read_text() == "port = 1\n"
