"""A process sees whether another one trains on its machine, also after that was killed."""

import subprocess
import sys
from pathlib import Path

from auctune.engine.runtime.training_lock import TrainingLock

TRAINS = """
import sys
from pathlib import Path
from auctune.engine.runtime.training_lock import TrainingLock
with TrainingLock(Path(sys.argv[1])).hold():
    print("trains", flush=True)
    sys.stdin.read()
"""


def start_training(cache: Path) -> "subprocess.Popen[str]":
    worker = subprocess.Popen(
        [sys.executable, "-c", TRAINS, str(cache)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "trains\n"
    return worker


def test_a_process_that_trains_is_seen_until_it_ends_or_is_killed(tmp_path: Path) -> None:
    cache = tmp_path / "bases"
    lock = TrainingLock(cache)
    assert not lock.is_held()
    first, second = start_training(cache), start_training(cache)
    first.communicate()
    assert lock.is_held()
    second.kill()
    second.communicate()
    assert not lock.is_held()


def test_it_is_held_for_a_block(tmp_path: Path) -> None:
    with TrainingLock(tmp_path).hold():
        assert TrainingLock(tmp_path).is_held()
    assert not TrainingLock(tmp_path).is_held()


def test_without_a_folder_nothing_is_seen_to_train(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    lock = TrainingLock(tmp_path / "file" / "bases")
    with lock.hold():
        assert not lock.is_held()
