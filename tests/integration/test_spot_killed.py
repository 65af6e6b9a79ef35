"""kill -9 at random moments, twenty times: the same weights as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support import spot_coordinator
from support.elastic import is_same
from support.one_fork_server import PLACE
from support.spot_runs import make_site, read_adapter, read_events

pytestmark = pytest.mark.slow

KILLS = 20
# Which of them hit the coordinator; the others hit a worker.
COORDINATOR = (6, 13)


class Run:
    """A coordinator's process."""

    def __init__(self, site: Path, folder: Path) -> None:
        self._errors = (folder.parent / "errors.txt").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(Path(spot_coordinator.__file__)), str(site), str(folder)],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # It has a fork server of its own, as everywhere but in tests.
            env={name: value for name, value in os.environ.items() if name != PLACE},
        )

    def wait_for(self, count: int) -> int:
        """Wait until it has said so many lines more; returns the rows of the last."""
        assert self.process.stdout is not None
        for _ in range(count):
            line = self.process.stdout.readline()
            assert line, f"the job ended early; see {self._errors.name}"
        return int(json.loads(line)["rows"])

    def workers(self) -> list[int]:
        """Processes whose parent's parent is the coordinator."""
        return [worker for child in children(self.process.pid) for worker in children(child)]

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> int:
        assert self.process.stdout is not None
        for _ in self.process.stdout:
            pass
        self.process.stdout.close()
        self._errors.close()
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
    for number in range(KILLS):
        rows = run.wait_for(draw.randrange(3, 20))
        assert rows < 12 * 48 - 40, "the job ended before it was disturbed enough"
        if number in COORDINATOR:
            orphans += [*children(run.process.pid), *run.workers()]
            run.kill()
            run = Run(site.folder, folder)
        else:
            workers = run.workers()
            assert workers
            os.kill(draw.choice(workers), signal.SIGKILL)
    assert run.close() == 0
    assert not [pid for pid in orphans if Path(f"/proc/{pid}").exists()]
    assert is_same(read_adapter(folder / "adapter"), alone)
    events = read_events(folder)
    assert (
        sum(event["type"] == "worker_crashed" for event in events) >= KILLS - len(COORDINATOR) - 4
    )
    assert any(event["type"] == "preempted" for event in events)
    slots = [event["observation"]["slot"] for event in events if event["type"] == "slot"]
    assert slots == sorted(set(slots)), "a slot is paid once"
