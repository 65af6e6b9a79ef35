"""Measuring a device with a base: see auctune.device_profile for what is measured.

In this order, all on the trainer that will do the work:

1. A sweep over the tokens of a pass; t = a + b n is the line of least relative squares.
2. The token budget m: the smallest of the sweep at 90% of the best speed, or what is asked for.
3. The largest micro-batch. On a GPU until memory runs out, 90% of it kept; on a CPU, where running
   out of memory would end more than this process, only up to a cap.
4. Peak memory of a pass at the budget, and memory of a task next to it.
5. Time to take up a task, to write its checkpoint and to let go of it.
6. Mixed loads: random tasks together; the 95% quantile of their errors becomes the margin.

All of it has a time limit. A slow device gets fewer rounds, then shorter sweeps and fewer mixes;
what is left out is replaced by what sells too little rather than too much, and is named in the
profile. Each part runs once at least, so that a very slow device exceeds the limit.
"""

import gc
import math
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
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
from auctune.train.job import LoraJob
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
# Margins where mixed loads were not measured, or not all of them.
UNMEASURED_MARGIN = 0.5
LEAST_MARGIN = 0.25
# Shares of the time limit by which parts end: what is done by then, and how it is called.
SWEEP_END, LARGEST_END, MEMORY_END, SWITCHES_END, MIXES_END = 0.35, 0.5, 0.6, 0.7, 0.95

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
        mix_warm_ups, mix_timed: rounds of each that do not count, and whose median does.
        load_rows: of the data of the task that is taken up and put away.
        cap_tokens: where the search for the largest micro-batch ends, by kind of device.
        seconds: time limit of all of it, without loading the base.
    """

    row_tokens: int = 64
    sweep_tokens: int = 2048
    warm_ups: int = 3
    timed: int = 10
    mixes: int = 20
    mix_warm_ups: int = 1
    mix_timed: int = 3
    load_rows: int = 500
    cap_tokens: tuple[tuple[str, int], ...] = (("cpu", 4096), ("cuda", 2**20))
    seconds: float = 600.0


FULL = Effort()
QUICK = Effort(
    row_tokens=32,
    sweep_tokens=512,
    load_rows=100,
    cap_tokens=(("cpu", 1024), ("cuda", 2**14)),
    seconds=90.0,
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
        effort: `FULL`, or `QUICK` for a rough profile.
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
        self.started = self.bench.now()
        self.not_measured: list[str] = []
        self._share = 0.0

    def run(self, token_budget: int | None) -> Profile:
        sweep = self.sweep()
        a, b = fit_line(sweep)
        largest, bounded_by = self.largest(sweep[-1].tokens)
        if token_budget is not None and not 1 <= token_budget <= largest:
            raise InputError("token_budget", f"{token_budget}", f"1 to {largest} tokens")
        budget = token_budget or min(choose_budget(sweep), largest)
        self.tell("memory", LARGEST_END)
        activations, per_parameter = self.activations(budget), self.bytes_per_parameter()
        load, checkpoint, suspend = self.suspending()
        mixes = self.mixes(budget, a, b)
        for _ in range(MORE_SWEEPS):
            if not is_disturbed(mixes) or self.is_over(MIXES_END):
                break
            known = len(self.not_measured)
            again = self.sweep("speed of passes once more, as something else was at work", 1.0)
            # What it was too late for, the first one has measured.
            del self.not_measured[known:]
            sweep = [*quickest(sweep, again), *sweep[len(again) :]]
            a, b = fit_line(sweep)
            mixes = predict_again(mixes, budget, a, b)
        self.tell("done", 1.0)
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
            margin=self.margin(mixes),
            sweep=tuple(sweep),
            mixes=tuple(mixes),
            not_measured=tuple(dict.fromkeys(self.not_measured)),
        )

    def tell(self, what: str, share: float) -> None:
        """Report progress, which never goes back."""
        self._share = max(self._share, share)
        self.report(what, self._share)

    def until(self, share: float) -> float:
        """When a share of the time limit is over, on the bench's clock."""
        return self.started + share * self.effort.seconds

    def is_over(self, share: float) -> bool:
        """Whether a share of the time limit is over."""
        return self.bench.now() >= self.until(share)

    def warm_up(
        self, trainer: NodeTrainer, jobs: Sequence[LoraJob], count: int, until: float
    ) -> None:
        """Run rounds that do not count; none where the time is over already."""
        if count and self.bench.now() < until:
            self.bench.rounds(trainer, jobs, count, until)

    def margin(self, mixes: Sequence[Mix]) -> float:
        """The margin of what was measured; where that is less than it should be, a large one."""
        if not mixes:
            return UNMEASURED_MARGIN
        least = LEAST_MARGIN if len(mixes) < self.effort.mixes else 0.0
        return max(least, margin_of(mixes))

    def sweep(self, what: str = "speed of passes", end: float = SWEEP_END) -> list[SweepPoint]:
        """Median times of passes of doubling size, each in its share of the time.

        Args:
            what: it is called in reports.
            end: share of the time limit by which it is over.
        """
        sizes = [self.row_tokens]
        while 2 * sizes[-1] <= self.effort.sweep_tokens:
            sizes.append(2 * sizes[-1])
        points: list[SweepPoint] = []
        begin = self.bench.now()
        available = max(0.0, self.until(end) - begin)
        for index, tokens in enumerate(sizes):
            self.tell(what, SWEEP_END * sum(sizes[:index]) / sum(sizes))
            if points and self.bench.now() >= begin + available:
                self.not_measured.append(f"passes of more than {points[-1].tokens} tokens")
                break
            until = begin + available * sum(sizes[: index + 1]) / sum(sizes)
            times = self.time_passes(tokens, self.effort.warm_ups, self.effort.timed, until)
            if times is None:
                break
            points.append(SweepPoint(tokens, statistics.median(times)))
        return points

    def time_passes(
        self, tokens: int, warm_ups: int, timed: int, until: float = math.inf
    ) -> list[float] | None:
        """Seconds of passes of one task over `tokens` tokens; none if memory ran out.

        Raises:
            MeasurementError: if not even a single row fits.
        """
        trainer = self.trainer(tokens)
        jobs = [self.bench.job(tokens // self.row_tokens, self.row_tokens)]
        self.bench.load(trainer, jobs)
        self.warm_up(trainer, jobs, warm_ups, until)
        times = self.bench.rounds(trainer, jobs, timed, until)
        # The trainer answers memory that runs out with smaller passes.
        return times if trainer.budget == tokens else None

    def largest(self, fits: int) -> tuple[int, Literal["memory", "cap"]]:
        """The largest micro-batch to be used, and what bounds it.

        Args:
            fits: tokens of a pass that is known to fit.
        """
        tokens = 2 * fits
        while tokens <= self.cap:
            self.tell("largest micro-batch", SWEEP_END)
            if self.is_over(LARGEST_END):
                self.not_measured.append(f"micro-batches of more than {fits} tokens")
                break
            if self.time_passes(tokens, 0, 1) is None:
                return max(self.row_tokens, int(KEPT * self.bisect(fits, tokens))), "memory"
            fits, tokens = tokens, 2 * tokens
        return fits, "cap"

    def bisect(self, fits: int, fails: int) -> int:
        """The largest pass found to fit between one that does and one that does not."""
        for _ in range(BISECTIONS):
            tokens = (fits + fails) // 2 // self.row_tokens * self.row_tokens
            if tokens == fits or self.is_over(LARGEST_END):
                break
            if self.time_passes(tokens, 0, 1) is not None:
                fits = tokens
            else:
                fails = tokens
        return fits

    def activations(self, budget: int) -> int:
        """Peak bytes of a pass at the budget, shared by as many tasks as a slot is."""
        trainer = self.trainer(budget)
        rows = max(1, budget // self.row_tokens)
        shares = np.diff(np.linspace(0, rows, min(rows, TASKS_PER_SLOT) + 1).astype(int))
        jobs = [self.bench.job(int(share), self.row_tokens) for share in shares]
        self.bench.load(trainer, jobs)
        self.warm_up(trainer, jobs, self.effort.warm_ups, self.until(MEMORY_END))
        return peak_bytes(lambda: self.bench.rounds(trainer, jobs, 1), self.base.device)

    def bytes_per_parameter(self) -> float:
        """Bytes that a task adds to a node, for each parameter of its adapter."""
        trainer = self.trainer(self.row_tokens)
        first, second = (self.bench.job(1, self.row_tokens) for _ in range(2))
        if self.base.device.type == "cpu":
            self.bench.load(trainer, [second])
            added = round(trainer.progress(second.id).memory_gb * 1e9)
        else:
            # The first task warms up what the device keeps for all.
            self.bench.load(trainer, [first])
            self.bench.rounds(trainer, [first], 1)
            before = held_bytes(self.base.device)
            self.bench.load(trainer, [second])
            self.bench.rounds(trainer, [first, second], 1)
            added = held_bytes(self.base.device) - before
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
        count = self.effort.warm_ups + self.effort.timed
        for number in range(count):
            done = number / count
            self.tell("task switches", MEMORY_END + (SWITCHES_END - MEMORY_END) * done)
            if number and self.is_over(SWITCHES_END):
                self.not_measured.append(f"task switches but {number} of {count}")
                break
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
        if len(loads) < count:
            return max(loads), max(saves), max(suspends)
        skipped = self.effort.warm_ups
        load, save, suspend = (statistics.median(t[skipped:]) for t in (loads, saves, suspends))
        return load, save, suspend

    def mixes(self, budget: int, a: float, b: float) -> list[Mix]:
        source = random.Random(self.seed)
        trainer, mixes = self.trainer(budget), []
        begin = self.bench.now()
        available = max(0.0, self.until(MIXES_END) - begin)
        for number in range(self.effort.mixes):
            done = number / self.effort.mixes
            self.tell("mixed loads", SWITCHES_END + (MIXES_END - SWITCHES_END) * done)
            if self.bench.now() >= begin + available:
                self.not_measured.append(
                    f"mixed loads but {number} of {self.effort.mixes}" if number else "mixed loads"
                )
                break
            until = begin + available * (number + 1) / self.effort.mixes
            jobs = random_mix(self.bench, source, self.row_tokens)
            self.bench.load(trainer, jobs)
            self.warm_up(trainer, jobs, self.effort.mix_warm_ups, until)
            rounds = self.bench.rounds(trainer, jobs, self.effort.mix_timed, until)
            self.bench.unload(trainer, jobs)
            measured = statistics.median(rounds)
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
