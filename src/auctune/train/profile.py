"""Measurement of a device with a base; auctune.device_profile describes the result.

In this order, all on the trainer that will do the work:

1. A sweep over the tokens of a pass, doubled until that makes it no faster, or memory runs out; its
   sizes are timed in turn, again and again. t = a + b n is the line of least relative squares,
   without passes so small that launches take their time.
2. The token budget m: the smallest of the sweep at 90% of the best speed, or what the caller sets.
3. Peak memory of a pass at the budget, and memory of a task next to it.
4. Time to load a task, to write its checkpoint and to unload it.
5. Mixed loads: random tasks together; the 90% quantile of their errors becomes the margin.
6. If mixed loads ran much slower or much faster than predicted, something else may have been at
   work: passes and loads are measured again, and the fastest times count. If passes are slower now
   than they were, the device is busy: loads are compared with passes of the same time, and the
   margin is between `LEAST_MARGIN` and `UNMEASURED_MARGIN`.

All of it has a time limit; part 6 may exceed it by half. A slow device gets fewer rounds and
smaller mixes, then shorter sweeps and fewer mixes; what is left out is replaced by what sells too
little rather than too much, and is named in the profile. Each part runs once at least, so that a
very slow device exceeds the limit.
"""

import gc
import itertools
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from auctune.device_profile import (
    LARGE_MARGIN,
    Mix,
    Origin,
    Profile,
    SweepPoint,
    read_profile,
    write_profile,
)
from auctune.domain.errors import AuctuneError, InputError
from auctune.train.base import Base, default_modules, linear_features, num_weight_bytes
from auctune.train.cost_model import (
    choose_budget,
    elementwise_min,
    fastest_mixes,
    fit_line,
    is_disturbed,
    is_noisy,
    is_saturated,
    is_slower,
    margin_of,
    predict,
    predict_mixes,
)
from auctune.train.host import device_name, library_versions, usable_bytes
from auctune.train.job import LoraJob
from auctune.train.multilora.device_group import DeviceGroup
from auctune.train.peak_memory import held_bytes, peak_bytes
from auctune.train.tiny_text import texts
from auctune.train.trainer import MultiLoraTrainer

__all__ = ["Effort", "Profile", "measure_profile", "read_profile", "write_profile"]

TASKS_PER_SLOT = 4
MANY_EPOCHS = 100_000
MAX_REPEATS = 3
DIFFERENT_ROWS = 32
# Tokens of the smallest pass, and of the shortest row of a mixed load.
SMALLEST = 32
# Mixed loads of the same tasks: to load one takes as long as a pass.
MIXES_A_LOAD = 5
# Draws of a mixed load until it is of the size that it should be of.
DRAWS = 1000
# Margins where mixed loads were not measured, or too few of them.
UNMEASURED_MARGIN = 0.5
LEAST_MARGIN = 0.25
FEWEST_MIXES = 5
# Shares of the time limit by which parts end.
SWEEP_END, MEMORY_END, SWITCHES_END, MIXES_END, REPEATS_END = 0.33, 0.42, 0.5, 1.0, 1.5
BUSY = "mixed loads while nothing else was at work"
_AGAIN = " once more, as something else may be at work"

Report = Callable[[str, float], None]
"""Called with what is being measured, and the share done of all, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Extent of a measurement.

    Attributes:
        seconds: time limit of all of it, without loading the base.
        row_tokens: of a row, at most.
        sweep_tokens: of the largest pass, by kind of device.
        timed: rounds of each size that count.
        switches: of a task that count.
        mixes: how many.
        mix_timed: rounds of each, whose median counts; one of each if the time is short.
        load_rows: of the data of the task that is loaded and unloaded.
    """

    seconds: float = 60.0
    row_tokens: int = 256
    sweep_tokens: tuple[tuple[str, int], ...] = (("cpu", 2048), ("cuda", 2**16))
    timed: int = 10
    switches: int = 3
    mixes: int = 10
    mix_timed: int = 3
    load_rows: int = 100


def measure_profile(
    base: Base,
    *,
    effort: Effort = Effort(),
    token_budget: int | None = None,
    seed: int = 0,
    backend: str = "auto",
    gradient_checkpointing: int = 0,
    devices: DeviceGroup | None = None,
    report: Report = lambda _what, _share: None,
) -> Profile:
    """Measure the device that `base` is on, or all devices of its node together.

    Args:
        base: nothing else should run on its device now.
        effort: how much to measure, and for how long.
        token_budget: tokens of a micro-batch; `None`: chosen by the measurement.
        seed: of the synthetic tasks.
        backend, gradient_checkpointing: as the trainer that does the work has them.
        devices: as of `MultiLoraTrainer`.
        report: called with the progress.

    Raises:
        InputError: if the token budget does not fit into memory.
        MeasurementError: if not even the smallest pass can be run.
    """
    with tempfile.TemporaryDirectory(prefix="auctune-profile-") as folder:
        workload = SyntheticWorkload(base, Path(folder), seed)
        return _Measurement(
            base,
            effort,
            workload,
            seed,
            report,
            backend,
            gradient_checkpointing,
            devices or DeviceGroup(),
        ).run(token_budget)


class MeasurementError(AuctuneError):
    """A measurement could not be made on this device."""


@dataclass
class SyntheticWorkload:
    """Synthetic jobs on a base, and the times of their rounds.

    All rows of a job have the same number of tokens, and its data are one optimizer batch, so a
    round is one optimizer step of each job and its tokens are known.

    Attributes:
        base: what is measured.
        folder: for the made-up data and checkpoints.
        seed: of the texts.
    """

    base: Base
    folder: Path
    seed: int
    _num_jobs: int = field(init=False, default=0)

    def job(self, num_rows: int, row_tokens: int, rank: int = 8) -> LoraJob:
        """A job of `num_rows` rows, each of `row_tokens` tokens, in one optimizer batch."""
        self._num_jobs += 1
        data = self.folder / f"{self._num_jobs}.jsonl"
        source = texts(self.seed + self._num_jobs)
        # Passes over the same rows take as long, and to find thousands takes longer than they do.
        num_texts = min(num_rows, DIFFERENT_ROWS)
        rows = itertools.cycle([self._text(source, row_tokens) for _ in range(num_texts)])
        with data.open("w", encoding="utf-8") as file:
            for _ in range(num_rows):
                file.write(json.dumps({"text": next(rows)}) + "\n")
        return LoraJob(
            id=f"bench-{self._num_jobs}",
            data=data,
            epochs=MANY_EPOCHS,
            rank=rank,
            batch_size=num_rows,
            max_length=row_tokens,
        )

    def load(self, trainer: MultiLoraTrainer, jobs: Sequence[LoraJob]) -> None:
        """Load jobs, each in a folder of its own."""
        for job in jobs:
            trainer.load(job, self.folder / job.id)

    def unload(self, trainer: MultiLoraTrainer, jobs: Sequence[LoraJob]) -> None:
        """Unload jobs."""
        for job in jobs:
            trainer.unload(job.id)

    def rounds(
        self,
        trainer: MultiLoraTrainer,
        jobs: Sequence[LoraJob],
        count: int,
        until: float = math.inf,
    ) -> list[float]:
        """Return the seconds of each of the next rounds of loaded jobs.

        Args:
            trainer, jobs: which has them loaded.
            count: of rounds.
            until: no round but the first begins after that, on the clock of `now`.

        Raises:
            MeasurementError: if a job fails.
        """
        seconds: list[float] = []
        while len(seconds) < count and (not seconds or self.now() < until):
            targets = {job.id: trainer.progress(job.id).rows + job.batch_size for job in jobs}
            started = self.now()
            ended = trainer.train(targets, lambda _: None)
            seconds.append(self.now() - started)
            for progress in ended.values():
                if progress.state == "failed":
                    raise MeasurementError(f"a synthetic job failed: {progress.note}")
        return seconds

    def now(self) -> float:
        """Return seconds on a monotonic clock, after waiting for the device."""
        if self.base.device.type == "cuda":
            torch.cuda.synchronize(self.base.device)
        return time.perf_counter()

    def _text(self, source: Iterator[str], num_tokens: int) -> str:
        """Return a text of `num_tokens` tokens or a few more, which are cut off."""
        text = next(source)
        while len(self.base.tokenizer(text)["input_ids"]) < num_tokens:
            text += f" {next(source)}"
        return text


def random_shapes(
    source: random.Random, row_tokens: int, least: float, most: float
) -> list[tuple[int, int]]:
    """Return the numbers and lengths of the rows of random jobs that share a node.

    Args:
        source: of the draws.
        row_tokens: of a row, at most; the shortest has `SMALLEST`.
        least, most: tokens of a round of all of them, if many draws find such.

    Returns:
        One pair for each of `TASKS_PER_SLOT` jobs.
    """
    lengths = [min(SMALLEST, row_tokens)]
    while 2 * lengths[-1] <= row_tokens:
        lengths.append(2 * lengths[-1])

    def draw() -> list[tuple[int, int]]:
        return [
            (source.choice((1, 2, 4, 8)), source.choice(lengths)) for _ in range(TASKS_PER_SLOT)
        ]

    def miss(shapes: list[tuple[int, int]]) -> float:
        total = sum(rows * tokens for rows, tokens in shapes)
        return max(least - total, total - most, 0.0)

    return min((draw() for _ in range(DRAWS)), key=miss)


def round_tokens(jobs: Sequence[LoraJob]) -> int:
    """Return the tokens of one round of jobs."""
    return sum(job.batch_size * job.max_length for job in jobs)


@dataclass
class _Measurement:
    base: Base
    effort: Effort
    workload: SyntheticWorkload
    seed: int
    report: Report
    backend: str = "auto"
    gradient_checkpointing: int = 0
    devices: DeviceGroup = field(default_factory=DeviceGroup)

    def __post_init__(self) -> None:
        row_tokens = self.effort.row_tokens
        self.row_tokens = min(row_tokens, self.base.context_tokens or row_tokens)
        # Of all devices together, as everywhere here.
        self.sweep_tokens = dict(self.effort.sweep_tokens)[self.base.device.type]
        self.sweep_tokens *= self.devices.num_devices
        self.started = self.workload.now()
        self.not_measured: list[str] = []
        self._share = 0.0
        # Tokens of a round of mixed loads, at most.
        self._most = 0.0

    def run(self, token_budget: int | None) -> Profile:
        sweep = self.sweep()
        a, b = fit_line(sweep)
        largest = sweep[-1].tokens
        if token_budget is not None and not 1 <= token_budget <= largest:
            raise InputError("token_budget", f"{token_budget}", f"1 to {largest} tokens")
        budget = token_budget or choose_budget(sweep)
        self.report_progress("memory", SWEEP_END)
        activations, per_parameter = self.activations(budget), self.bytes_per_parameter()
        load, checkpoint, suspend = self.swap_seconds()
        mixes, is_busy, lost = self.mixes(budget, a, b), False, 0.0
        for _ in range(MAX_REPEATS):
            if not is_disturbed(mixes) or self.is_over(REPEATS_END):
                break
            known = len(self.not_measured)
            again = self.sweep(f"speed of passes{_AGAIN}", REPEATS_END)
            loads = self.mixes(budget, a, b, REPEATS_END)
            # What it was too late for, the first ones have measured.
            del self.not_measured[known:]
            sweep = [*elementwise_min(sweep, again), *sweep[len(again) :]]
            a, b = fit_line(sweep)
            mixes = predict_mixes(fastest_mixes(mixes, loads), budget, a, b)
            is_busy = is_slower(sweep, again)
            # Loads lose as much against passes of the same time, whatever else was at work.
            lost = margin_of(predict_mixes(loads, budget, *fit_line(again)))
            if not is_busy and not is_noisy(mixes):
                # It is the device that slows loads down.
                break
        if len(mixes) < self.effort.mixes:
            known_loads = f" but {len(mixes)} of {self.effort.mixes}" if mixes else ""
            self.not_measured.append(f"mixed loads{known_loads}")
        margin = self.margin(mixes)
        if is_busy and margin > LARGE_MARGIN:
            self.not_measured.append(BUSY)
            margin = min(margin, UNMEASURED_MARGIN, max(LEAST_MARGIN, lost))
        self.report_progress("done", 1.0)
        weights = num_weight_bytes(self.base.model)
        return Profile(
            origin=origin_of(
                self.base,
                self.backend,
                gradient_checkpointing=self.gradient_checkpointing,
                devices=self.devices,
            ),
            memory_gb=self.device_bytes(weights) / 1e9,
            base_weights_gb=weights / 1e9,
            activations_gb=activations / 1e9,
            features=linear_features(self.base.fresh_model()),
            default_modules=default_modules(self.base.model),
            bytes_per_parameter=per_parameter,
            step_seconds=a,
            token_seconds=b,
            micro_batch_tokens=budget,
            base_load_seconds=self.base.load_seconds,
            task_load_seconds=load,
            checkpoint_seconds=checkpoint,
            suspend_seconds=suspend,
            tasks_per_slot=TASKS_PER_SLOT,
            margin=margin,
            sweep=tuple(sweep),
            mixes=tuple(mixes),
            not_measured=tuple(dict.fromkeys(self.not_measured)),
        )

    def device_bytes(self, weights: int) -> float:
        """Return the memory of a device that the base and its tasks can share.

        The processes of a node on a CPU share that of the machine, and each holds the base.
        """
        usable = usable_bytes(self.base.device, weights)
        return usable / (self.devices.num_devices if self.base.device.type == "cpu" else 1)

    def report_progress(self, what: str, share: float) -> None:
        """Report progress, which never goes back."""
        self._share = max(self._share, share)
        self.report(what, self._share)

    def until(self, share: float) -> float:
        """When a share of the time limit is over, on the bench's clock."""
        return self.started + share * self.effort.seconds

    def is_over(self, share: float) -> bool:
        """Return whether a share of the time limit is over."""
        return self.workload.now() >= self.until(share)

    def margin(self, mixes: Sequence[Mix]) -> float:
        """The margin of what was measured; where that is less than it should be, a large one."""
        if not mixes:
            return UNMEASURED_MARGIN
        least = LEAST_MARGIN if len(mixes) < min(FEWEST_MIXES, self.effort.mixes) else 0.0
        return max(least, margin_of(mixes))

    def sweep(self, what: str = "speed of passes", end: float = SWEEP_END) -> list[SweepPoint]:
        """Return median times of passes of doubling size.

        Args:
            what: it is called in reports.
            end: share of the time limit by which it is over.

        Raises:
            MeasurementError: if not even the smallest pass fits into memory.
        """
        trainer, begin = self.trainer(self.sweep_tokens), self.workload.now()
        until = max(self.until(end), begin)
        jobs: list[LoraJob] = []
        times: list[list[float]] = []

        def points() -> list[SweepPoint]:
            pairs = zip(jobs, times, strict=True)
            # The first round of a size warms up what it needs.
            return [
                SweepPoint(round_tokens([job]), statistics.median(seconds[1:] or seconds))
                for job, seconds in pairs
            ]

        def report() -> None:
            share = (self.workload.now() - begin) / (until - begin) if until > begin else 1.0
            self.report_progress(what, SWEEP_END * min(1.0, share))

        self.report_progress(what, 0.0)
        num_devices = self.devices.num_devices
        tokens = num_devices * min(SMALLEST, self.row_tokens)
        while tokens <= self.sweep_tokens:
            row_tokens = min(tokens // num_devices, self.row_tokens)
            job = self.workload.job(tokens // row_tokens, row_tokens)
            self.workload.load(trainer, [job])
            seconds = self.workload.rounds(trainer, [job], 1 if jobs else 2)
            # The trainer answers memory that runs out with smaller passes.
            if trainer.budget != self.sweep_tokens:
                break
            jobs.append(job)
            times.append(seconds)
            if is_saturated(points()):
                break
            # The next pass takes twice as long, at most.
            ends = self.workload.now() + 2 * times[-1][-1]
            if ends > until and 2 * tokens <= self.sweep_tokens:
                self.not_measured.append(f"passes of more than {tokens} tokens")
                break
            report()
            tokens *= 2
        if not jobs:
            raise MeasurementError("memory runs out with the smallest pass")
        for _ in range(self.effort.timed):
            for job, seconds in zip(jobs, times, strict=True):
                if self.workload.now() + seconds[-1] > until:
                    return points()
                report()
                seconds += self.workload.rounds(trainer, [job], 1)
        return points()

    def activations(self, budget: int) -> int:
        """Peak bytes of a pass at the budget, shared by as many tasks as a slot is."""
        trainer = self.trainer(budget)
        rows = max(1, budget // self.row_tokens)
        shares = np.diff(np.linspace(0, rows, min(rows, TASKS_PER_SLOT) + 1).astype(int))
        jobs = [self.workload.job(int(share), self.row_tokens) for share in shares]
        self.workload.load(trainer, jobs)
        return peak_bytes(lambda: self.workload.rounds(trainer, jobs, 1), self.base.device)

    def bytes_per_parameter(self) -> float:
        """Bytes that a task adds to a node, for each parameter of its adapter."""
        trainer = self.trainer(self.row_tokens)
        first, second = (self.workload.job(1, self.row_tokens) for _ in range(2))
        if self.base.device.type == "cpu":
            self.workload.load(trainer, [second])
            added = round(trainer.progress(second.id).memory_gb * 1e9)
        else:
            # The first task warms up what the device keeps for all.
            self.workload.load(trainer, [first])
            self.workload.rounds(trainer, [first], 1)
            before = held_bytes(self.base.device)
            self.workload.load(trainer, [second])
            self.workload.rounds(trainer, [first, second], 1)
            added = held_bytes(self.base.device) - before
        parameters = list(trainer.adapted.adapters.values())[-1].values.numel()
        return added / parameters

    def trainer(self, budget: int) -> MultiLoraTrainer:
        # A trainer refers to itself, and its memory would stay until Python looks for such.
        gc.collect()
        return MultiLoraTrainer(
            self.base,
            backend=self.backend,
            token_budget=budget,
            checkpointing=self.gradient_checkpointing,
            devices=self.devices,
        )

    def swap_seconds(self) -> tuple[float, float, float]:
        """Return median seconds to load a task, to save it, and to save and unload it."""
        trainer = self.trainer(self.row_tokens)
        job = replace(self.workload.job(self.effort.load_rows, self.row_tokens), batch_size=1)
        folder = self.workload.folder / job.id
        trainer.load(job, folder)
        self.workload.rounds(trainer, [job], 1)
        loads, saves, suspends = [], [], []
        # The first switch warms up what it needs.
        count = 1 + self.effort.switches
        for number in range(count):
            done = number / count
            self.report_progress("task switches", MEMORY_END + (SWITCHES_END - MEMORY_END) * done)
            if number and self.is_over(SWITCHES_END):
                self.not_measured.append(f"task switches but {number} of {count}")
                break
            times = [self.workload.now()]
            trainer.save(job.id, number)
            times.append(self.workload.now())
            trainer.unload(job.id)
            times.append(self.workload.now())
            trainer.load(job, folder)
            times.append(self.workload.now())
            saves.append(times[1] - times[0])
            suspends.append(times[2] - times[0])
            loads.append(times[3] - times[2])
        if len(loads) < count:
            return max(loads), max(saves), max(suspends)
        load, save, suspend = (statistics.median(t[1:]) for t in (loads, saves, suspends))
        return load, save, suspend

    def mixes(self, budget: int, a: float, b: float, end: float = MIXES_END) -> list[Mix]:
        """Return mixed loads, as predicted by t = a + b n and as measured; the same each time.

        `end` is the share of the time limit by which they are measured.
        """
        source = random.Random(self.seed)
        trainer, mixes = self.trainer(budget), []
        begin = self.workload.now()
        until = max(self.until(end), begin)
        # A round of each if there is no time for more, of as many tokens as there is time for.
        rounds, count = self.effort.mix_timed, self.effort.mixes
        if until - begin < count * rounds * predict(4 * budget, budget, a, b):
            rounds = 1
        affordable = (until - begin) / (count * rounds) / (a / budget + b)
        self._most = most = self._most or max(1.5 * budget, affordable)
        jobs: list[LoraJob] = []
        for number in range(count):
            share = number / count
            what = "mixed loads" if end == MIXES_END else f"mixed loads{_AGAIN}"
            self.report_progress(what, SWITCHES_END + (MIXES_END - SWITCHES_END) * share)
            if number % MIXES_A_LOAD == 0:
                self.workload.unload(trainer, jobs)
                shapes = random_shapes(source, self.row_tokens, budget, most)
                jobs = [
                    self.workload.job(*shape, rank=source.choice((4, 8, 16))) for shape in shapes
                ]
                self.workload.load(trainer, jobs)
            mixed = source.sample(jobs, source.randint(2, len(jobs)))
            tokens = round_tokens(mixed)
            predicted = predict(tokens, budget, a, b)
            if self.workload.now() + predicted > until:
                break
            times = self.workload.rounds(trainer, mixed, rounds, until)
            mixes.append(Mix(len(mixed), tokens, predicted, statistics.median(times)))
        return mixes


def origin_of(
    base: Base,
    backend: str = "auto",
    *,
    gradient_checkpointing: int = 0,
    devices: DeviceGroup | None = None,
) -> Origin:
    """What a profile of this base would be of, if it were measured now."""
    return Origin(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        device="cuda" if base.device.type == "cuda" else "cpu",
        device_name=device_name(base.device),
        num_threads=torch.get_num_threads(),
        base_name=base.name,
        architecture=base.architecture,
        dtype=base.weight_dtype,
        attention=base.attention,
        versions=library_versions(),
        backend=backend,
        gradient_checkpointing=gradient_checkpointing,
        num_devices=1 if devices is None else devices.num_devices,
    )
