"""A run that is killed by SIGKILL at any batch, again and again, comes to the same end."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.numerics.rng import stream
from auctune.run.journal import Journal
from auctune.run.timeshare.job import run_pool
from auctune.run.timeshare.order import PoolOrder, PoolThread
from auctune.timeshare.balancing.exploration import Exploration
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import Planner
from auctune.timeshare.thread import LearningThread
from auctune.train.timeshare.module_thread import ModuleThread
from support.pool_threads import make_line


class Fuse:
    """Kills its process at the n-th turn of any thread."""

    def __init__(self, turns: int) -> None:
        self.left = turns

    def burn(self) -> None:
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _fused(seed: int, fuse: Fuse) -> ModuleThread:
    thread = make_line(seed)
    step = thread.step

    def burning(batches: int) -> float:
        fuse.burn()
        return step(batches)

    thread.step = burning  # type: ignore[method-assign]
    return thread


def _maker(seed: int, fuse: Fuse) -> Callable[[], ModuleThread]:
    return lambda: _fused(seed, fuse)


def _order(fuse: Fuse) -> PoolOrder:
    return PoolOrder(
        threads=[
            PoolThread(
                LearningThread(f"line{seed}", 0, 10 + seed, 0.4 / seed),
                _maker(seed, fuse),
                {"seed": seed},
                8.0,
            )
            for seed in (1, 2, 3)
        ],
        allocator=Planner(balancing=Exploration(batches=8)),
        estimator=Wls(),
    )


def _run_in_child(folder: Path, turns: int) -> bool:
    """Whether a run in a process of its own came to its end before the fuse burnt down."""
    begun = (folder / "state" / "journal.jsonl").exists()
    child = os.fork()
    if child == 0:
        try:
            run_pool(_order(Fuse(turns)), folder, resume=begun, saved_every=0.0)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path, seed: int) -> None:
    torch.set_num_threads(1)
    whole = run_pool(_order(Fuse(10**9)), tmp_path / "whole")
    draw = stream(seed, "kills")
    folder = tmp_path / "run"
    kills = 0
    while not _run_in_child(folder, int(draw.integers(15, 60))):
        kills += 1
    assert kills >= 2
    again = run_pool(_order(Fuse(10**9)), folder, resume=True)
    for field in ("done", "finish", "samples", "shares", "losses"):
        one, two = getattr(again.outcome, field), getattr(whole.outcome, field)
        assert np.array_equal(one, two, equal_nan=field == "losses"), field
    assert again.figures["notes"] == []
    journal = Journal(folder / "state" / "journal.jsonl")
    times = [event["time"] for event in journal.events if event["type"] == "unit"]
    journal.close()
    # No unit is on record twice.
    assert times == list(range(len(times)))
