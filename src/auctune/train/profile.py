"""Measurement of a device with a base; auctune.files.device_profile describes the result.

In this order, all on the trainer that will do the work:

1. A sweep over the tokens of a pass, doubled until that makes it no faster, or memory runs out; its
   sizes are timed in turn, again and again.
2. The token budget m: the smallest of the sweep at 90% of the best speed, or what the caller sets.
3. Peak memory of a pass at the budget, and memory of a task next to it.
4. Time to load a task, to write its checkpoint and to unload it, and what a checkpoint takes from
   training that goes on meanwhile.
5. Mixed loads: random tasks together, a pass of the sweep next to each. `auctune.train.cost_model`
   is fitted to passes and mixed loads; the 90% quantile of its errors becomes the margin.
6. If passes next to mixed loads were much slower or faster than in the sweep, or these much slower
   than predicted, something else may have been at work: both are measured again, and the fastest
   times count. If passes stay slower than they were, the device is busy: mixed loads are taken to
   be slower by as much as the passes next to them, and the margin is between `MIN_MARGIN` and
   `UNMEASURED_MARGIN`.

All of it has a time limit; part 6 may exceed it by half. A slow device gets fewer rounds and
smaller mixes, then shorter sweeps and fewer mixes; what is left out is replaced by what sells too
little rather than too much, and is named in the profile. Each part runs once at least, so that a
very slow device exceeds the limit.
"""

import gc
import math
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from auctune.domain.errors import InputError
from auctune.files.device_profile import (
    LARGE_MARGIN,
    REFERENCE_RANK,
    Mix,
    Origin,
    Profile,
    SweepPoint,
    adapted_features,
    read_profile,
    write_profile,
)
from auctune.train.base import Base, default_modules, linear_features, num_weight_bytes
from auctune.train.cost_model import (
    MIN_MIXED_ROUNDS,
    Round,
    TimedRound,
    choose_budget,
    elementwise_min,
    fastest_rounds,
    fit_line,
    fit_rounds,
    is_faster,
    is_saturated,
    is_slower,
    margin_of,
    predict,
    predict_left_out,
)
from auctune.train.host import device_name, library_versions, usable_bytes
from auctune.train.job import LoraJob
from auctune.train.multilora.body import MAX_GRAPH_TOKENS, USES_BEFORE_CAPTURE
from auctune.train.multilora.device_group import DeviceGroup
from auctune.train.peak_memory import held_bytes, peak_bytes, reserved_bytes
from auctune.train.synthetic_workload import (
    MANY_EPOCHS,
    MIN_TOKENS,
    MIX_TASKS,
    MeasurementError,
    SyntheticWorkload,
    random_mix,
    random_shapes,
    round_tokens,
)
from auctune.train.trainer import MultiLoraTrainer

__all__ = ["Effort", "Profile", "measure_profile", "read_profile", "write_profile"]

TASKS_PER_SLOT = 4
MAX_REPEATS = 3
# Mixed loads of the same tasks, as to load a task takes as long as a pass.
MIXES_OF_SAME_TASKS = 5
# Ranks of the tasks of mixed loads.
MIX_RANKS = (4, 8, 16, 32, 64)
# Of the memory that base and activations leave, for the adapters of mixed loads.
MIX_MEMORY_SHARE = 0.25
# Margins where mixed loads were not measured, or too few of them.
UNMEASURED_MARGIN = 0.5
MIN_MARGIN = 0.25
# To time a row of the task that is switched.
ROUNDS_A_ROW = 4
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
        mix_row_tokens: of a row of mixed loads, at most, by kind of device.
        timed: rounds of each size that count.
        switches: of a task that count.
        mixes: how many.
        mix_timed: rounds of each, whose median counts; one of each if the time is short.
        load_rows: of the data of the task that is loaded and unloaded.
    """

    seconds: float = 60.0
    row_tokens: int = 256
    sweep_tokens: tuple[tuple[str, int], ...] = (("cpu", 2048), ("cuda", 2**16))
    mix_row_tokens: tuple[tuple[str, int], ...] = (("cpu", 256), ("cuda", 4096))
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
        self.features = linear_features(self.base.fresh_model())
        self.default_modules = default_modules(self.base.model)
        self.started = self.workload.now()
        self.not_measured: list[str] = []
        self._share = 0.0
        # Tokens of a round of mixed loads, at most.
        self._max_round_tokens = 0.0

    def run(self, token_budget: int | None) -> Profile:
        sweep = self.sweep()
        largest = sweep[-1].tokens
        if token_budget is not None and not 1 <= token_budget <= largest:
            raise InputError("token_budget", f"{token_budget}", f"1 to {largest} tokens")
        budget = token_budget or choose_budget(sweep)
        self.report_progress("memory", SWEEP_END)
        activations, per_parameter = self.activations(budget), self.bytes_per_parameter()
        load, checkpoint, suspend, resident = self.swap_seconds()
        ranks = self.mix_ranks(activations, per_parameter)
        sweep, mixed = self.undisturbed_rounds(sweep, budget, ranks)
        if len(mixed) < self.effort.mixes:
            counted = f" but {len(mixed)} of {self.effort.mixes}" if mixed else ""
            self.not_measured.append(f"mixed loads{counted}")
        mixes = predict_left_out(self.passes(sweep), mixed)
        margin = self.margin(mixes)
        _, pass_seconds = self.budget_pass(sweep, budget)
        if is_slower(mixed, pass_seconds):
            self.not_measured.append(BUSY)
            mixed = [one.at_speed_of(pass_seconds) for one in mixed]
            lost = margin_of(predict_left_out(self.passes(sweep), mixed))
            margin = min(UNMEASURED_MARGIN, max(MIN_MARGIN, lost))
        cost = fit_rounds(self.passes(sweep), mixed)
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
            features=self.features,
            default_modules=self.default_modules,
            bytes_per_parameter=per_parameter,
            step_seconds=cost.step_seconds,
            token_seconds=cost.token_seconds,
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
            adapter_seconds=cost.adapter_seconds,
            parameter_seconds=cost.parameter_seconds,
            square_seconds=cost.square_seconds,
            row_tokens=self.row_tokens,
            resident_seconds=resident,
        )

    def undisturbed_rounds(
        self, sweep: list[SweepPoint], budget: int, ranks: Sequence[int]
    ) -> tuple[list[SweepPoint], list[TimedRound]]:
        """Return the times of passes and of mixed loads, measured again if they were disturbed.

        Arguments as of `mixed_rounds`.
        """
        mixed = self.mixed_rounds(sweep, budget, ranks)
        for _ in range(MAX_REPEATS):
            is_far_off = self.margin(predict_left_out(self.passes(sweep), mixed)) > LARGE_MARGIN
            is_as_before = self.is_as_in_sweep(mixed, sweep, budget)
            if (is_as_before and not is_far_off) or self.is_over(REPEATS_END):
                break
            known = len(self.not_measured)
            again = self.sweep(f"speed of passes{_AGAIN}", REPEATS_END)
            sweep = [*elementwise_min(sweep, again), *sweep[len(again) :]]
            mixed = fastest_rounds(mixed, self.mixed_rounds(sweep, budget, ranks, REPEATS_END))
            # What it was too late for, the first ones have measured.
            del self.not_measured[known:]
            if self.is_as_in_sweep(mixed, sweep, budget):
                # It is the device that slows mixed loads down.
                break
        return sweep, mixed

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
        floor = MIN_MARGIN if len(mixes) <= min(MIN_MIXED_ROUNDS, self.effort.mixes - 1) else 0.0
        return max(floor, margin_of(mixes))

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
        tokens = self.devices.num_devices * min(MIN_TOKENS, self.row_tokens)
        while tokens <= self.sweep_tokens:
            row_tokens = self.sweep_row_tokens(tokens)
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

    def sweep_row_tokens(self, tokens: int) -> int:
        """Return the tokens of the rows of a pass of the sweep, of which each device has one."""
        return max(1, min(tokens // self.devices.num_devices, self.row_tokens))

    def activations(self, budget: int) -> int:
        """Return the bytes that passes of at most the budget take, beside base and adapters.

        They are those of a pass at its peak, and those that CUDA graphs keep from all others.
        """
        return self.peak(budget) + self.graph_bytes(budget)

    def peak(self, budget: int) -> int:
        """Return the peak bytes of a pass at the budget."""
        trainer, jobs = self.full_pass(budget)
        return peak_bytes(lambda: self.workload.rounds(trainer, jobs, 1), self.base.device)

    def graph_bytes(self, budget: int) -> int:
        """Return the bytes that CUDA graphs keep, of passes as large as any that is captured."""
        if self.base.device.type == "cpu":
            return 0
        trainer, jobs = self.full_pass(min(budget, self.devices.num_devices * MAX_GRAPH_TOKENS))
        self.workload.rounds(trainer, jobs, 1)
        before = reserved_bytes(self.base.device)
        self.workload.rounds(trainer, jobs, USES_BEFORE_CAPTURE)
        return max(0, reserved_bytes(self.base.device) - before)

    def full_pass(self, budget: int) -> tuple[MultiLoraTrainer, list[LoraJob]]:
        """Return a trainer and jobs that fill its passes together, as many as a slot has."""
        trainer = self.trainer(budget)
        rows = max(1, budget // self.row_tokens)
        shares = np.diff(np.linspace(0, rows, min(rows, TASKS_PER_SLOT) + 1).astype(int))
        jobs = [self.workload.job(int(share), self.row_tokens) for share in shares]
        self.workload.load(trainer, jobs)
        return trainer, jobs

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

    def swap_seconds(self) -> tuple[float, float, float, float]:
        """Return median seconds to load a task, to save it, to save and unload it, and to keep it.

        A task that is kept trains while its checkpoint is written: the last one is what that takes.
        """
        trainer = self.trainer(self.row_tokens)
        job = replace(self.workload.job(self.effort.load_rows, self.row_tokens), batch_size=1)
        folder = self.workload.folder / job.id
        trainer.load(job, folder)
        row_seconds = statistics.median(self.workload.rounds(trainer, [job], ROUNDS_A_ROW))
        loads, saves, suspends, stays = [], [], [], []
        # The first switch warms up what it needs.
        count = 1 + self.effort.switches
        for number in range(count):
            done = number / count
            self.report_progress("task switches", MEMORY_END + (SWITCHES_END - MEMORY_END) * done)
            if number and self.is_over(SWITCHES_END):
                self.not_measured.append(f"task switches but {number} of {count}")
                break
            stays.append(self.resident_seconds(trainer, job, 2 * number, row_seconds))
            times = [self.workload.now()]
            trainer.save(job.id, 2 * number + 1)
            times.append(self.workload.now())
            trainer.unload(job.id)
            times.append(self.workload.now())
            trainer.load(job, folder)
            times.append(self.workload.now())
            saves.append(times[1] - times[0])
            suspends.append(times[2] - times[0])
            loads.append(times[3] - times[2])
        measured = (loads, saves, suspends, stays)
        if len(loads) < count:
            load, save, suspend, stay = map(max, measured)
        else:
            load, save, suspend, stay = (statistics.median(times[1:]) for times in measured)
        return load, save, suspend, stay

    def resident_seconds(
        self, trainer: MultiLoraTrainer, job: LoraJob, number: int, row_seconds: float
    ) -> float:
        """Return the seconds that a checkpoint takes from training that goes on meanwhile.

        As a node does it: training waits until the state is copied, and a thread writes the copy.

        Args:
            trainer, job: which has it loaded; it has optimizer batches of one row.
            number: of the checkpoint.
            row_seconds: of a row.
        """
        before, begin = trainer.progress(job.id).rows, self.workload.now()
        trainer.holds(job, self.workload.folder / job.id)
        write = trainer.snapshot(job.id, number)
        copied = self.workload.now() - begin
        with ThreadPoolExecutor(1) as threads:
            writing = threads.submit(write)
            trainer.train({job.id: before + MANY_EPOCHS}, lambda _: None, _WhileWriting(writing))
        writing.result()
        trained = trainer.progress(job.id).rows - before
        return max(copied, self.workload.now() - begin - trained * row_seconds)

    def passes(self, sweep: Sequence[SweepPoint]) -> list[TimedRound]:
        """Return the rounds of a sweep."""
        features = adapted_features(self.features, self.default_modules)
        return [
            TimedRound(
                Round(
                    passes=1,
                    tokens=point.tokens,
                    adapters=1,
                    token_parameters=point.tokens * REFERENCE_RANK * features,
                    square_tokens=point.tokens * self.sweep_row_tokens(point.tokens),
                ),
                point.seconds,
            )
            for point in sweep
        ]

    def round(self, jobs: Sequence[LoraJob], budget: int) -> Round:
        """Return a round of jobs, in passes of `budget` tokens."""
        features = adapted_features(self.features, self.default_modules)
        tokens = [job.batch_size * job.max_length for job in jobs]
        return Round(
            passes=math.ceil(sum(tokens) / budget),
            tokens=sum(tokens),
            adapters=len(jobs),
            token_parameters=features * sum(n * j.rank for n, j in zip(tokens, jobs, strict=True)),
            square_tokens=sum(n * j.max_length for n, j in zip(tokens, jobs, strict=True)),
        )

    def budget_pass(
        self, sweep: Sequence[SweepPoint], budget: int
    ) -> tuple[tuple[int, int], float]:
        """Return the rows of a pass at the budget and their tokens, and its time in the sweep."""
        row_tokens = self.sweep_row_tokens(budget)
        rows = budget // row_tokens
        points = [point.tokens for point in sweep], [point.seconds for point in sweep]
        return (rows, row_tokens), float(np.interp(rows * row_tokens, *points))

    def is_as_in_sweep(
        self, mixed: Sequence[TimedRound], sweep: Sequence[SweepPoint], budget: int
    ) -> bool:
        """Return whether passes next to mixed loads took as long as in the sweep."""
        _, seconds = self.budget_pass(sweep, budget)
        return not is_slower(mixed, seconds) and not is_faster(mixed, seconds)

    def mix_ranks(self, activations: int, bytes_per_parameter: float) -> tuple[int, ...]:
        """Return the ranks of mixed loads: those that memory has room for."""
        weights = num_weight_bytes(self.base.model)
        room = MIX_MEMORY_SHARE * (self.device_bytes(weights) - weights - activations)
        features = adapted_features(self.features, self.default_modules)
        max_rank = room / (MIX_TASKS * bytes_per_parameter * features)
        return tuple(rank for rank in MIX_RANKS if rank <= max_rank) or MIX_RANKS[:1]

    def mixed_rounds(
        self,
        sweep: Sequence[SweepPoint],
        budget: int,
        ranks: Sequence[int],
        end: float = MIXES_END,
    ) -> list[TimedRound]:
        """Return the times of mixed loads; they are the same each time.

        Args:
            sweep: as measured.
            budget: tokens of a pass.
            ranks: of the tasks.
            end: share of the time limit by which they are measured.
        """
        source = random.Random(self.seed)
        trainer, rounds = self.trainer(budget), []
        a, b = fit_line(sweep)
        begin = self.workload.now()
        until = max(self.until(end), begin)
        # A round of each if there is no time for more, of as many tokens as there is time for.
        repeats, count = self.effort.mix_timed, self.effort.mixes
        if until - begin < count * (repeats + 1) * predict(4 * budget, budget, a, b):
            repeats = 1
        affordable = (until - begin) / (count * (repeats + 1)) / (a / budget + b)
        self._max_round_tokens = self._max_round_tokens or max(1.5 * budget, affordable)
        max_tokens = self._max_round_tokens
        longest = dict(self.effort.mix_row_tokens)[self.base.device.type]
        longest = min(longest, budget, self.base.context_tokens or longest)
        (num_rows, row_tokens), _ = self.budget_pass(sweep, budget)
        one_pass = self.workload.job(num_rows, row_tokens)
        self.workload.load(trainer, [one_pass])
        self.workload.rounds(trainer, [one_pass], 1)
        jobs: list[LoraJob] = []
        for number in range(count):
            share = number / count
            what = "mixed loads" if end == MIXES_END else f"mixed loads{_AGAIN}"
            self.report_progress(what, SWITCHES_END + (MIXES_END - SWITCHES_END) * share)
            if number % MIXES_OF_SAME_TASKS == 0:
                self.workload.unload(trainer, jobs)
                shapes = random_shapes(source, longest, max_tokens / 2)
                jobs = [self.workload.job(*shape, rank=source.choice(ranks)) for shape in shapes]
                self.workload.load(trainer, jobs)
            mixed = random_mix(source, jobs, budget / 2, max_tokens)
            if self.workload.now() + predict(round_tokens(mixed), budget, a, b) > until:
                break
            times = self.workload.rounds(trainer, mixed, repeats, until)
            (pass_seconds,) = self.workload.rounds(trainer, [one_pass], 1)
            measured = statistics.median(times)
            rounds.append(TimedRound(self.round(mixed, budget), measured, pass_seconds))
        return rounds


@dataclass(frozen=True, slots=True)
class _WhileWriting:
    """Time budget of a row after the other, until a checkpoint is written."""

    writing: "Future[Path]"

    def max_rows(self) -> int:
        return 0 if self.writing.done() else 1

    def record(self, rows: float) -> None:
        pass


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
