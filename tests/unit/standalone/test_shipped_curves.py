"""A real run of the recorded tasks is what the simulation of the shipped curves says."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.engine.pool.bundle import Bundle, BundleJob
from auctune.engine.pool.epoch import PoolParams
from auctune.sim.timeshare.recorded import of_kind, read_curves
from auctune.timeshare import LearningThread, Wls, lara, play
from lara_tasks.tasks import make_task
from support.bundle_runs import outcome_of, run_bundle

BUNDLE = (
    ("pure-cnn", "cnn", 2.0, 12),
    ("pure-lstm", "lstm", 2.1, 14),
    ("pure-vit", "vit", 0.5, 13),
)
RATES = (40.0, 30.0, 20.0)


@pytest.mark.slow
def test_a_real_run_is_what_the_shipped_curves_foretell(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    threads = [
        BundleJob(
            LearningThread(name, 0, deadline, threshold),
            partial(make_task, kind, 1),
            {"kind": kind},
            rate,
        )
        for (name, kind, threshold, deadline), rate in zip(BUNDLE, RATES, strict=True)
    ]
    bundle = Bundle(threads, PoolParams(lara(), Wls()))
    found = outcome_of(run_bundle(bundle, tmp_path / "run"))
    curves = [of_kind(read_curves(), name).curve for name, *_ in BUNDLE]
    expected = play(bundle.params.allocator, bundle.threads, curves, RATES)
    assert np.array_equal(found.done, expected.done)
    assert found.done.tolist() == [True, True, False]
    # Another processor or release rounds otherwise; here it is the file's five digits.
    finish = found.finish[found.done], expected.finish[found.done]
    assert np.abs(finish[0] - finish[1]).max() <= 1
    both = min(len(found.losses), len(expected.losses), 5)
    assert np.allclose(found.losses[:both], expected.losses[:both], rtol=0.02, equal_nan=True)
