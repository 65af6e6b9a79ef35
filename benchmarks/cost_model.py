"""How well the time of mixed loads is predicted: by a line in tokens alone, and by the cost model.

    python benchmarks/cost_model.py [--base FOLDER] [--device cpu|cuda] [--loads N] [--seconds S]

Both are fitted to what `auctune profile` measures: passes of one adapter and ten mixed loads of 1 to
8 adapters of ranks 4 to 64, in rows from 32 tokens on, a CPU's in its own time. The table is over
other loads, which neither has seen: predicted over measured time, by quantile, and the margin that
each would keep back.
"""  # noqa: E501

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from auctune.files.device_profile import Mix
from auctune.train.base import Base, load_base
from auctune.train.cost_model import (
    RoundCost,
    choose_budget,
    fit_line,
    fit_rounds,
    margin_of,
    predict_left_out,
)
from auctune.train.profile import Effort, _Measurement
from auctune.train.synthetic_workload import SyntheticWorkload
from random_bases import random_gpt2_small

QUANTILES = (0.0, 0.1, 0.5, 0.9, 1.0)


class CpuTimed(SyntheticWorkload):
    """Workload that counts a CPU's time for this process: others may use the machine meanwhile."""

    def now(self) -> float:
        return time.process_time() if self.base.device.type == "cpu" else super().now()


def measure(base: Base, folder: Path, seconds: float, num_loads: int) -> tuple[Table, float]:
    """Return the table, and the margin by loads that were left out of the fit."""
    effort = Effort(seconds=seconds)
    workload = CpuTimed(base, folder, 0)
    measurement = _Measurement(base, effort, workload, 0, lambda *_: None)
    sweep = measurement.sweep()
    budget = choose_budget(sweep)
    ranks = measurement.mix_ranks(0, 16.0)
    fitted = measurement.mixed_rounds(sweep, budget, ranks)
    others = replace(measurement, effort=replace(effort, mixes=num_loads, seconds=1e6), seed=1)
    others._max_round_tokens = measurement._max_round_tokens
    seen = others.mixed_rounds(sweep, budget, ranks)
    passes = measurement.passes(sweep)
    costs = {
        "line in tokens": RoundCost(*fit_line(sweep)),
        "cost model": fit_rounds(passes, fitted),
    }
    title = f"{base.name}, budget {budget}, {len(fitted)} loads fitted, {len(seen)} predicted"
    table = Table("predicted / measured", *(f"{q:.0%}" for q in QUANTILES), "margin", title=title)
    for name, cost in costs.items():
        mixes = [
            Mix(one.round.adapters, one.round.tokens, cost.seconds(one.round), one.seconds)
            for one in seen
        ]
        ratios = [mix.predicted_seconds / mix.measured_seconds for mix in mixes]
        shown = [f"{value:.2f}" for value in np.quantile(ratios, QUANTILES)]
        table.add_row(name, *shown, f"{margin_of(mixes):.0%}")
        print(cost)
    return table, margin_of(predict_left_out(passes, fitted))


def main() -> None:
    """Measure, and show the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--base", help="a folder; without it GPT-2 small with random weights")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--loads", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.base:
            base = load_base(options.base, cache=folder, device=options.device)
        else:
            base = random_gpt2_small(folder, options.device)
        table, margin = measure(base, folder, options.seconds, options.loads)
    Console().print(table)
    print(f"margin of the profile, by loads left out one after the other: {margin:.0%}")


if __name__ == "__main__":
    main()
