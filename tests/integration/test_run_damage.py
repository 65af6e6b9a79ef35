"""What a disk may do to a run: damaged checkpoints, a torn log, inputs that were changed."""

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from auctune.cli._support.errors import exit_code_of
from auctune.domain import InputError
from auctune.engine.market.report_data import MarketReport
from auctune.service.storage.engine import FILE_NAME
from auctune.service.storage.event_log import checksum
from auctune.standalone.market import resume_market
from auctune.train.checkpoint import load_latest
from support.market_runs import (
    VALIDATION_ROWS,
    Commands,
    count_events,
    quiet,
    read_decisions,
    read_events,
    report_of,
    small_market,
    write_market,
)

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stopped(cache_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was killed with two checkpoints of two tasks, and no task done."""
    folder = tmp_path_factory.mktemp("stopped")
    commands = Commands(cache_home)
    table = small_market() | {"nodes": small_market()["nodes"][:1]}
    market = write_market(folder / "market", table)
    child = commands.start("run", market, "--out", folder / "out")
    child.poll(lambda: count_events(folder / "out", "slot.started") == 3)
    child.kill_group(signal.SIGKILL)
    commands.clear()
    shutil.rmtree(folder / "market")
    return folder / "out"


@pytest.fixture
def out(stopped: Path, tmp_path: Path, in_cache: Path) -> Path:
    """A copy of it that a test may damage."""
    shutil.copytree(stopped, tmp_path / "out")
    return tmp_path / "out"


def test_damaged_checkpoints_are_passed_over_and_said(out: Path) -> None:
    before = read_events(out)
    sums, mood = _checkpoints(out, "sums"), _checkpoints(out, "mood")
    assert len(sums) == len(mood) == 2
    _flip(sums[-1] / "tensors.safetensors")
    state = mood[-1] / "state.json"
    state.write_bytes(state.read_bytes()[:-7])

    report, text = _resume(out)

    for task, damaged, words in (("sums", sums, "checksum"), ("mood", mood, "bytes")):
        note = f"checkpoint {int(damaged[-1].name)}: "
        assert f"note: {task}: {note}" in text
        (line,) = (note for entry in report.tasks if entry.id == task for note in entry.notes)
        assert line.startswith(note)
        assert words in line
        assert line in (out / "report.html").read_text()
    _assert_all_trained(out, before)


def test_a_task_whose_checkpoints_are_all_damaged_is_trained_from_its_first_row(out: Path) -> None:
    for folder in _checkpoints(out, "sums"):
        (folder / "manifest.json").unlink()
    # The last event was not yet whole on disk either.
    log = out / "state" / "auctune.db-wal"
    log.write_bytes(log.read_bytes()[:-9])
    before = read_events(out)

    report, text = _resume(out)

    assert "note: sums: no checkpoint is whole: " in text
    (line,) = (note for task in report.tasks if task.id == "sums" for note in task.notes)
    assert line.endswith("; trained again from its first row")
    _assert_all_trained(out, before)


def test_damage_that_cannot_be_mended_is_one_line_and_changes_nothing(out: Path) -> None:
    def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
        def apply(state: Path) -> None:
            (state / name).write_bytes(change((state / name).read_bytes()))

        return apply

    def change_event(state: Path) -> None:
        with closing(sqlite3.connect(state / FILE_NAME)) as database, database:
            database.execute("DROP TRIGGER IF EXISTS events_refuse_update")
            database.execute("UPDATE events SET slot = 9 WHERE type = 'job.decided'")

    for number, (damage, expected) in enumerate(
        (
            (change_event, "does not match its checksum"),
            (edit(FILE_NAME, lambda b: b""), "is empty; expected"),
            (edit("inputs/000-market.toml", lambda b: b + b"\n"), "market.toml: is not as it was"),
            (edit("inputs/names.json", lambda b: b"{}"), "names.json: is not as it was when"),
            (
                lambda state: next(state.glob("inputs/*-sums.jsonl")).unlink(),
                "sums.jsonl: is gone",
            ),
        )
    ):
        copy = out.parent / f"damaged-{number}"
        shutil.copytree(out, copy)
        read_events(copy)
        damage(copy / "state")
        before = _contents(copy)

        with pytest.raises(InputError, match=expected) as caught:
            resume_market(copy, quiet())

        assert exit_code_of(caught.value) == 2
        assert _contents(copy) == before


def test_a_run_begun_under_other_defaults_is_refused_and_stays(out: Path) -> None:
    """Up to version 15 of the log, exponential prices without `aggregate` took the largest one."""
    with closing(sqlite3.connect(out / "state" / FILE_NAME)) as database, database:
        database.execute("DROP TRIGGER IF EXISTS events_refuse_update")
        (row,) = database.execute(
            "SELECT seq, zone, slot, at, type, job, body, 15 FROM events "
            "WHERE type = 'zone.created'"
        )
        database.execute(
            "UPDATE events SET version = 15, checksum = ? WHERE seq = ?", (checksum(*row), row[0])
        )
    before = _contents(out)

    expected = r"auction: .*, where the run began with .*'aggregate': 'max'.*; expected the release"
    with pytest.raises(InputError, match=expected):
        resume_market(out, quiet())

    assert _contents(out) == before


def _resume(out: Path) -> tuple[MarketReport, str]:
    console = quiet()
    resume_market(out, console)
    return report_of(out), console.file.getvalue()  # type: ignore[attr-defined]


def _checkpoints(out: Path, task: str) -> list[Path]:
    return sorted((out / "state" / "work" / task / "checkpoints").glob("0*"))


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _contents(out: Path) -> dict[str, bytes]:
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and not path.name.endswith((".lock", "-wal", "-shm"))
    }


def _assert_all_trained(out: Path, before: list[dict[str, object]]) -> None:
    """The run has gone on from these events to its end, with all rows and steps on record."""
    assert read_events(out)[: len(before)] == before
    admitted = [line["task"] for line in read_decisions(out) if line["admitted"]]
    assert admitted == ["sums", "mood", "codes"]
    for task in report_of(out).tasks:
        if task.admitted:
            found = load_latest(out / "state" / "work" / task.id / "checkpoints")
            assert found is not None
            total = found[0].state["cursor"]["num_rows"] * found[0].state["cursor"]["epochs"]
            total += VALIDATION_ROWS[task.id]
            assert (task.rows, str(task.state)) == (total, "done")
            assert [point.step for point in task.losses] == list(range(1, task.steps + 1))
