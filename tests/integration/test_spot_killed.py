"""kill -9 at random moments, twenty times: the same weights as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from auctune.standalone.spot import SpotRunFolder
from auctune.train.checkpoint import CHECKPOINTS, newest_number
from support import spot_coordinator
from support.elastic import is_same
from support.one_fork_server import PLACE
from support.spot_runs import make_site, read_adapter, read_events

pytestmark = pytest.mark.slow

KILLS = 20
# Which of them hit the coordinator; the others hit a worker.
COORDINATOR = (6, 13)


class Run:
    """A coordinator's process.

    Attributes:
        num_restarts: how often it has started its own processes again.
    """

    def __init__(self, site: Path, folder: Path) -> None:
        self.num_restarts = 0
        self._checkpoints = SpotRunFolder(folder).state / CHECKPOINTS
        self._errors = folder.parent / "errors.txt"
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(spot_coordinator.__file__)), str(site), str(folder)],
                stdout=subprocess.PIPE,
                stderr=errors,
                # It has a fork server of its own, as everywhere but in tests.
                env={name: value for name, value in os.environ.items() if name != PLACE},
            )

    def wait_for(self, count: int) -> int:
        """Wait until it has trained so many times more, and come further than a checkpoint ago.

        A job whose processes end again and again before the next checkpoint fails, as it should.

        Returns:
            Rows trained.
        """
        before = newest_number(self._checkpoints)
        while True:
            line = self._read_line()
            if line is None:
                self.close()
                pytest.fail(f"the job ended early:\n{self._errors.read_text()[-10_000:]}")
            count -= "rows" in line
            if "rows" in line and count <= 0 and newest_number(self._checkpoints) > before:
                return int(line["rows"])

    def _read_line(self) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            return None
        found: dict[str, Any] = json.loads(line)
        self.num_restarts += "is started again" in found.get("warning", "")
        return found

    def workers(self) -> list[int]:
        """Processes whose parent's parent is the coordinator."""
        return [worker for child in children(self.process.pid) for worker in children(child)]

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> int:
        assert self.process.stdout is not None
        while self._read_line() is not None:
            pass
        self.process.stdout.close()
        return self.process.wait()


def children(pid: int) -> list[int]:
    found = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def test_a_job_killed_twenty_times_ends_with_the_weights_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    site = make_site(tmp_path / "site")
    order = spot_coordinator.make_order(site.folder)
    alone = site.undisturbed(tmp_path / "alone", order)
    draw = random.Random(20240917)
    folder = tmp_path / "run"
    run = Run(site.folder, folder)
    orphans: list[int] = []
    num_restarts = 0
    for number in range(KILLS):
        rows = run.wait_for(draw.randrange(3, 20))
        assert rows < 12 * 48 - 40, "the job ended before it was disturbed enough"
        if number in COORDINATOR:
            orphans += [*children(run.process.pid), *run.workers()]
            run.kill()
            num_restarts += run.num_restarts
            run = Run(site.folder, folder)
        else:
            workers = run.workers()
            assert workers
            os.kill(draw.choice(workers), signal.SIGKILL)
    assert run.close() == 0
    assert not [pid for pid in orphans if Path(f"/proc/{pid}").exists()]
    assert is_same(read_adapter(folder / "adapter"), alone)
    events = read_events(folder)
    crashes = sum(event["type"] == "worker_crashed" for event in events)
    # Some were preempted at that moment, and some were the reducer.
    num_restarts += run.num_restarts
    assert crashes + num_restarts >= KILLS - len(COORDINATOR) - 4
    assert num_restarts > 0
    assert any(event["type"] == "preempted" for event in events)
    slots = [event["observation"]["slot"] for event in events if event["type"] == "slot"]
    assert slots == sorted(set(slots)), "a slot is paid once"
