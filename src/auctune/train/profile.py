"""Measuring a device with a base: see auctune.device_profile for what is measured.

In this order, all on the trainer that will do the work:

1. A sweep over the tokens of a pass; t = a + b n is the line of least relative squares.
2. The token budget m: the smallest of the sweep at 90% of the best speed, or what is asked for.
3. The largest micro-batch. On a GPU until memory runs out, 90% of it kept; on a CPU, where running
   out of memory would end more than this process, only up to a cap.
4. Peak memory of a pass at the budget, and memory of a task next to it.
5. Time to take up a task, to write its checkpoint and to let go of it.
6. Random mixes of tasks, whose worst error becomes the margin.
"""

import gc
import random
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from auctune.device_profile import (
    Mix,
    Origin,
    Profile,
    SweepPoint,
    read_profile,
    write_profile,
)
from auctune.domain.errors import InputError
from auctune.train.base import Base, num_weight_bytes
from auctune.train.bench import Bench, random_mix, round_tokens
from auctune.train.device_facts import (
    default_modules,
    device_name,
    linear_features,
    usable_bytes,
)
from auctune.train.machine import library_versions
from auctune.train.node import NodeTrainer
from auctune.train.pass_time import (
    choose_budget,
    fit_line,
    is_disturbed,
    margin_of,
    predict,
    predict_again,
    quickest,
)
from auctune.train.peak_memory import held_bytes, peak_bytes

__all__ = ["FULL", "QUICK", "Effort", "Profile", "measure_profile", "read_profile", "write_profile"]

TASKS_PER_SLOT = 4
KEPT = 0.9
BISECTIONS = 4
MORE_SWEEPS = 3

Report = Callable[[str, float], None]
"""Told what is being measured, and the share done of all, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        row_tokens: of a row, at most.
        sweep_tokens: the largest pass of the sweep; it starts at one row and doubles.
        warm_ups, timed: rounds of each measurement that do not count, and that do.
        mixes: how many.
        load_rows: of the data of the task that is taken up and put away.
        cap_tokens: where the search for the largest micro-batch ends, by kind of device.
    """

    row_tokens: int = 64
    sweep_tokens: int = 2048
    warm_ups: int = 3
    timed: int = 10
    mixes: int = 5
    load_rows: int = 500
    cap_tokens: tuple[tuple[str, int], ...] = (("cpu", 4096), ("cuda", 2**20))


FULL = Effort()
QUICK = Effort(
    row_tokens=32,
    sweep_tokens=512,
    load_rows=100,
    cap_tokens=(("cpu", 1024), ("cuda", 2**14)),
)


def _unheard(what: str, share: float) -> None:
    """A report that nobody hears."""


def measure_profile(
    base: Base,
    *,
    effort: Effort = FULL,
    token_budget: int | None = None,
    seed: int = 0,
    report: Report = _unheard,
) -> Profile:
    """Measure the device that `base` is on.

    Args:
        base: nothing else should run on its device now.
        effort: `FULL`, or `QUICK` for a rough profile in seconds.
        token_budget: tokens of a micro-batch; none: chosen by what is measured.
        seed: of the made-up tasks.
        report: told how far it is.

    Raises:
        InputError: if the token budget does not fit into memory.
        MeasurementError: if not even the smallest pass can be run.
    """
    with tempfile.TemporaryDirectory(prefix="auctune-profile-") as folder:
        return _Measurement(base, effort, Bench(base, Path(folder), seed), seed, report).run(
            token_budget
        )


@dataclass
class _Measurement:
    base: Base
    effort: Effort
    bench: Bench
    seed: int
    report: Report

    def __post_init__(self) -> None:
        limit = self.base.context_tokens or self.effort.row_tokens
        self.row_tokens = min(self.effort.row_tokens, limit)
        self.cap = dict(self.effort.cap_tokens)[self.base.device.type]

    def run(self, token_budget: int | None) -> Profile:
        self.report("speed of passes", 0.0)
        sweep = self.sweep()
        a, b = fit_line(sweep)
        self.report("largest micro-batch", 0.35)
        largest, bounded_by = self.largest()
        if token_budget is not None and not 1 <= token_budget <= largest:
            raise InputError("token_budget", f"{token_budget}", f"1 to {largest} tokens")
        budget = token_budget or min(choose_budget(sweep), largest)
        self.report("memory", 0.5)
        activations, per_parameter = self.activations(budget), self.bytes_per_parameter()
        self.report("taking up and putting away", 0.6)
        load, checkpoint, suspend = self.suspending()
        self.report("mixes of tasks", 0.7)
        mixes = self.mixes(budget, a, b)
        for _ in range(MORE_SWEEPS):
            if not is_disturbed(mixes):
                break
            self.report("speed of passes once more, as something else was at work", 0.9)
            sweep = quickest(sweep, self.sweep())
            a, b = fit_line(sweep)
            mixes = predict_again(mixes, budget, a, b)
        self.report("done", 1.0)
        weights = num_weight_bytes(self.base.model)
        return Profile(
            origin=origin_of(self.base),
            memory_gb=usable_bytes(self.base.device, weights) / 1e9,
            base_weights_gb=weights / 1e9,
            activations_gb=activations / 1e9,
            features=linear_features(self.base.fresh_model()),
            default_modules=default_modules(self.base.model),
            bytes_per_parameter=per_parameter,
            step_seconds=a,
            token_seconds=b,
            micro_batch_tokens=budget,
            largest_micro_batch_tokens=largest,
            bounded_by=bounded_by,
            base_load_seconds=self.base.load_seconds,
            task_load_seconds=load,
            checkpoint_seconds=checkpoint,
            suspend_seconds=suspend,
            tasks_per_slot=TASKS_PER_SLOT,
            margin=margin_of(mixes),
            sweep=tuple(sweep),
            mixes=tuple(mixes),
        )

    def sweep(self) -> list[SweepPoint]:
        points: list[SweepPoint] = []
        tokens = self.row_tokens
        while tokens <= self.effort.sweep_tokens:
            times = self.time_passes(tokens, self.effort.warm_ups, self.effort.timed)
            if times is None:
                break
            points.append(SweepPoint(tokens, statistics.median(times)))
            tokens *= 2
        return points

    def time_passes(self, tokens: int, warm_ups: int, timed: int) -> list[float] | None:
        """Seconds of passes of one task over `tokens` tokens; none if memory ran out.

        Raises:
            MeasurementError: if not even a single row fits.
        """
        trainer = self.trainer(tokens)
        jobs = [self.bench.job(tokens // self.row_tokens, self.row_tokens)]
        self.bench.load(trainer, jobs)
        self.bench.rounds(trainer, jobs, warm_ups)
        times = self.bench.rounds(trainer, jobs, timed)
        # The trainer answers memory that runs out with smaller passes.
        return times if trainer.budget == tokens else None

    def largest(self) -> tuple[int, Literal["memory", "cap"]]:
        """The largest micro-batch to be used, and what bounds it."""
        fits, tokens = self.row_tokens, 2 * self.row_tokens
        while tokens <= self.cap and self.time_passes(tokens, 0, 1) is not None:
            fits, tokens = tokens, 2 * tokens
        if tokens > self.cap:
            return fits, "cap"
        fails = tokens
        for _ in range(BISECTIONS):
            tokens = (fits + fails) // 2 // self.row_tokens * self.row_tokens
            if tokens == fits:
                break
            if self.time_passes(tokens, 0, 1) is not None:
                fits = tokens
            else:
                fails = tokens
        return max(self.row_tokens, int(KEPT * fits)), "memory"

    def activations(self, budget: int) -> int:
        """Peak bytes of a pass at the budget, shared by as many tasks as a slot is."""
        trainer = self.trainer(budget)
        rows = max(1, budget // self.row_tokens)
        shares = np.diff(np.linspace(0, rows, min(rows, TASKS_PER_SLOT) + 1).astype(int))
        jobs = [self.bench.job(int(share), self.row_tokens) for share in shares]
        self.bench.load(trainer, jobs)
        self.bench.rounds(trainer, jobs, self.effort.warm_ups)
        return peak_bytes(lambda: self.bench.rounds(trainer, jobs, 1), self.base.device)

    def bytes_per_parameter(self) -> float:
        """Bytes that a task adds to a node, for each parameter of its adapter."""
        trainer = self.trainer(self.row_tokens)
        first, second = (self.bench.job(1, self.row_tokens) for _ in range(2))
        # The first task warms up what the device keeps for all.
        self.bench.load(trainer, [first])
        self.bench.rounds(trainer, [first], 1)
        before = held_bytes(self.base.device)
        self.bench.load(trainer, [second])
        self.bench.rounds(trainer, [first, second], 1)
        added = held_bytes(self.base.device) - before
        if self.base.device.type == "cpu":
            added = round(trainer.progress(second.id).memory_gb * 1e9)
        parameters = list(trainer.adapted.adapters.values())[-1].values.numel()
        return added / parameters

    def trainer(self, budget: int) -> NodeTrainer:
        # A trainer refers to itself, and its memory would stay until Python looks for such.
        gc.collect()
        return NodeTrainer(self.base, token_budget=budget)

    def suspending(self) -> tuple[float, float, float]:
        """Median seconds to take up a task, to write its checkpoint, and to do that and let go."""
        trainer = self.trainer(self.row_tokens)
        job = replace(self.bench.job(self.effort.load_rows, self.row_tokens), batch_size=1)
        folder = self.bench.folder / job.id
        trainer.load(job, folder)
        self.bench.rounds(trainer, [job], 1)
        loads, saves, suspends = [], [], []
        for number in range(self.effort.warm_ups + self.effort.timed):
            times = [self.bench.now()]
            trainer.save(job.id, number)
            times.append(self.bench.now())
            trainer.unload(job.id)
            times.append(self.bench.now())
            trainer.load(job, folder)
            times.append(self.bench.now())
            saves.append(times[1] - times[0])
            suspends.append(times[2] - times[0])
            loads.append(times[3] - times[2])
        skipped = self.effort.warm_ups
        load, save, suspend = (statistics.median(t[skipped:]) for t in (loads, saves, suspends))
        return load, save, suspend

    def mixes(self, budget: int, a: float, b: float) -> list[Mix]:
        source = random.Random(self.seed)
        mixes = []
        for _ in range(self.effort.mixes):
            jobs = random_mix(self.bench, source, self.row_tokens)
            trainer = self.trainer(budget)
            self.bench.load(trainer, jobs)
            self.bench.rounds(trainer, jobs, self.effort.warm_ups)
            measured = statistics.median(self.bench.rounds(trainer, jobs, self.effort.timed))
            tokens = round_tokens(jobs)
            predicted = predict(tokens, budget, a, b)
            mixes.append(Mix(len(jobs), tokens, predicted, measured))
        return mixes


def origin_of(base: Base) -> Origin:
    """What a profile of this base would be of, if it were measured now."""
    return Origin(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        device="cuda" if base.device.type == "cuda" else "cpu",
        device_name=device_name(base.device),
        num_threads=torch.get_num_threads(),
        base_name=base.name,
        architecture=base.architecture,
        dtype=str(base.dtype).removeprefix("torch."),
        attention=base.attention,
        versions=library_versions(),
    )
