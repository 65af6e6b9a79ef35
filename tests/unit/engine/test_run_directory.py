"""A folder belongs to one run at a time, and to none that did not begin."""

import subprocess
import sys
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.run_directory import RunDirectory, lock_file

OTHER = InputError("base", "is unknown", "a base")


@pytest.fixture
def place(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "rented" / "run")


def prepare(place: RunDirectory) -> None:
    place.inputs.mkdir()
    (place.inputs / "job.toml").write_text("[job]\n")
    place.event_log.touch()


def go_wrong(place: RunDirectory, error: BaseException, *, event: str = "") -> None:
    """A run that keeps its inputs, perhaps begins, and ends so."""
    with place.open(resume=False):
        if not place.inputs.exists():
            prepare(place)
        place.event_log.write_text(event)
        raise error


def test_a_run_that_goes_wrong_before_it_begins_leaves_nothing(place: RunDirectory) -> None:
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER)
    assert not place.root.exists()
    place.root.mkdir()
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER)
    assert not [*place.root.iterdir()]


def test_a_run_that_goes_wrong_once_it_has_begun_leaves_all(place: RunDirectory) -> None:
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER, event="begun")
    assert place.has_started
    assert (place.inputs / "job.toml").exists()


def test_a_run_that_is_stopped_before_it_begins_keeps_its_inputs_whatever_comes(
    place: RunDirectory,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        go_wrong(place, KeyboardInterrupt())
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER)
    assert (place.inputs / "job.toml").exists()


def test_a_folder_in_use_is_refused_and_left_alone(place: RunDirectory) -> None:
    with place.open(resume=False):
        prepare(place)
        before = {path: path.stat().st_mtime_ns for path in place.root.rglob("*")}
        with pytest.raises(InputError, match="in use"), place.open(resume=False):
            raise AssertionError
        assert {path: path.stat().st_mtime_ns for path in place.root.rglob("*")} == before


def test_what_is_no_folder_to_run_in_is_refused(place: RunDirectory, tmp_path: Path) -> None:
    place.root.parent.write_text("a file")
    with pytest.raises(InputError, match="cannot be created"), place.open(resume=False):
        raise AssertionError
    with (
        pytest.raises(InputError, match="is not a folder"),
        RunDirectory(place.root.parent).open(resume=False),
    ):
        raise AssertionError
    with pytest.raises(InputError, match="holds no run"), place.open(resume=True):
        raise AssertionError
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="not empty"), RunDirectory(tmp_path).open(resume=False):
        raise AssertionError


# Takes the lock, leaves a child that holds it until its standard input closes, and is killed.
KILLED_MARKET = """
import os, subprocess, sys
from pathlib import Path
from auctune.engine.run_directory import lock_file
with lock_file(Path(sys.argv[1]), "market") as lock:
    node = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=int(sys.argv[2]), stdout=subprocess.DEVNULL, pass_fds=[lock],
    )
    os.kill(os.getpid(), 9)
"""


def test_a_lock_is_held_by_one_at_a_time_and_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    refused = pytest.raises(InputError, match="the run: is in use by another process")
    with lock_file(path, "the run"), refused, lock_file(path, "the run"):
        raise AssertionError("held twice")
    with lock_file(path, "the run") as descriptor:
        assert descriptor > 2


def test_whoever_comes_after_a_killed_market_waits_for_its_nodes(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    node = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert node.stdin is not None
    assert node.stdout is not None
    market = subprocess.run(
        [sys.executable, "-c", KILLED_MARKET, str(path), str(node.stdout.fileno())],
        pass_fds=[node.stdout.fileno()],
        check=False,
    )
    assert market.returncode == -9
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path\n"
            "from auctune.engine.run_directory import lock_file\n"
            "print('begin', flush=True)\n"
            "with lock_file(Path(sys.argv[1]), 'run'): print('held')",
            str(path),
        ],
        stdout=subprocess.PIPE,
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == b"begin\n"
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.3)

    # The pipe that the left-over node reads from closes.
    node.stdin.close()
    node.stdout.close()

    assert waiting.stdout.readline() == b"held\n"
    assert waiting.wait() == 0
    assert node.wait() == 0
    waiting.stdout.close()
