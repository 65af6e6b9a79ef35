"""Runs a pool in a process that is killed by SIGKILL at its n-th turn, again and again.

    python -m support.pool_killer FOLDER SEED

Every run is a fork of this process, which has loaded everything and trained nothing: a process that
has trained cannot be forked.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from auctune.engine.pool.bundle import Bundle, BundleJob
from auctune.engine.pool.epoch import PoolParams
from auctune.numerics.rng import stream
from auctune.standalone.timeshare import BundleFolder
from auctune.timeshare.balancing import Exploration
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import Planner
from auctune.timeshare.play import play
from auctune.timeshare.thread import LearningThread, LossCurve
from lara_tasks.module_job import ModuleJob
from support.bundle_runs import resume_bundle, run_bundle
from support.pool_threads import make_line

UNHARMED = 10**9


class Fuse:
    """Kills its process at the n-th turn of any thread."""

    def __init__(self, turns: int) -> None:
        self.left = turns

    def burn(self) -> None:
        """One turn less."""
        self.left -= 1
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def killed_bundle(turns: int = UNHARMED) -> Bundle:
    """A bundle of three, whose process dies at a turn."""
    fuse = Fuse(turns)
    return Bundle(
        jobs=[
            BundleJob(
                LearningThread(f"line{seed}", 0, 10 + seed, 0.4 / seed),
                _maker(seed, fuse),
                {"seed": seed},
                8.0,
            )
            for seed in (1, 2, 3)
        ],
        params=PoolParams(
            allocator=Planner(balancing=Exploration(batches=8)),
            estimator=Wls(),
            # Room for one at work and little beside it: jobs leave within quanta.
            memory_bytes=140,
            saved_every=0.0,
        ),
    )


def _maker(seed: int, fuse: Fuse) -> Callable[[], ModuleJob]:
    def make() -> ModuleJob:
        thread = make_line(seed)
        step = thread.step

        def burning(batches: int) -> float:
            fuse.burn()
            return step(batches)

        thread.step = burning  # type: ignore[method-assign]
        return thread

    return make


def _run_in_child(folder: Path, turns: int) -> bool:
    """Whether a run came to its end before the fuse burnt down."""
    run = resume_bundle if BundleFolder(folder).exists() else run_bundle
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        run(killed_bundle(turns), folder)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0
    return True


def _load_kernels() -> None:
    """Once, instead of in each fork."""
    bundle, curve = killed_bundle(), LossCurve(np.array([1.0, 500.0]), np.array([9.0, 0.5]))
    play(bundle.params.allocator, bundle.threads, [curve] * 3, [8.0] * 3)


def main() -> None:
    """Kill until the run has come to its end; prints how often."""
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    _load_kernels()
    draw = stream(seed, "kills")
    kills = 0
    while not _run_in_child(folder, int(draw.integers(25, 60))):
        kills += 1
    print(kills)


if __name__ == "__main__":
    main()
