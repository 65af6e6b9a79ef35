"""A coordinator as a process: `spot_coordinator.py SITE RUN`, resumed where RUN is there.

It says a line whenever rows have been trained, and another whenever it is warned.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.engine.spot.clock import ModelClock
from auctune.engine.spot.coordinator import no_forecast
from auctune.engine.spot.job import SpotRunConfig
from auctune.engine.spot.provider import LocalProvider
from auctune.engine.spot.state import RowsTrained, SpotEvent, Warned
from auctune.engine.spot.traces import MarketTrace
from auctune.service.zones.spot.state import StrategyLabels
from auctune.spot import SpotFirst, SpotJob
from auctune.standalone.spot import SpotRunFolder
from auctune.standalone.spot_inputs import PreparedJob
from auctune.train.job import LoraJob
from support.spot_runs import run_prepared


def make_order(site: Path) -> SpotRunConfig:
    """A job long enough to be killed twenty times."""
    training = LoraJob(
        id="job",
        data=site / "data.jsonl",
        epochs=12,
        rank=4,
        dropout=0.1,
        learning_rate=3e-3,
        batch_size=8,
        max_length=24,
        seed=5,
    )
    job = SpotJob(workload=24.0, deadline=8, n_max=4)
    workers = WorkerSettings(base=str(site / "base"), cache=str(site), job=training)
    return SpotRunConfig(job=job, workers=workers, micro_batch=1)


def make_trace() -> MarketTrace:
    """Instances go in the middle of slots, too."""
    return MarketTrace(
        np.array([0.0, 0.4, 1.0, 1.6, 2.0, 3.0, 3.3, 4.0, 5.0, 6.0, 7.0]),
        np.full(11, 0.3),
        np.array([3, 2, 4, 1, 3, 4, 2, 3, 4, 3, 4]),
    )


def print_event(event: SpotEvent) -> None:
    """Print a line whenever rows were trained, and warnings."""
    match event:
        case RowsTrained(_, num_workers, progress):
            print(json.dumps({"rows": progress.rows, "workers": num_workers}), flush=True)
        case Warned(text):
            print(json.dumps({"warning": text}), flush=True)


def main(site: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    order, policy = make_order(site), SpotFirst()
    job = PreparedJob(
        config=order,
        policy=policy,
        factory=LocalProvider(make_trace(), warm=True),
        forecast=no_forecast,
        labels=StrategyLabels(policy.name, "none"),
        slot_seconds=1.0,
        make_clock=lambda rows: ModelClock(order.job, rows),
    )
    place = SpotRunFolder(folder)
    run_prepared(job, place, resume=place.exists(), on_event=print_event, saved_every=0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
