"""The trainer beside PEFT, TRL and the frozen base alone, in one run; its memory and suspension.

    python benchmarks/training.py [--base FOLDER] [--device cpu|cuda] [--threads N] [--repeats N]

The base is a folder, such as `auctune base smollm2` makes, or GPT-2 small with random weights.

| what | how |
| --- | --- |
| entries | of `benchmarks/entries.py`, on one copy of the base's weights: each takes one step in turn, again and again, after one step of each, on a GPU two, to warm up. A ratio is the median of those within a turn; speeds are medians |
| time | elapsed; on a CPU with one thread CPU seconds, which other work on the machine does not change |
| rows | equal lengths, and lengths from 16 tokens on, drawn evenly; tokens of padding do not count |
| MFU | share of the peak: 4 operations a weight of the base and token: adapters are not counted. The peak is the data sheet's, else that of one large product of matrices in the same turn |
| memory of 8 tasks | peak while 8 tasks train, against base + 8 x (adapter + optimizer) + activations of one task's micro-batch at the token budget |
| activations | peak of a pass of 512 tokens beyond the task's own state, by `gradient_checkpointing` |
| suspend and resume | checkpoint, unload, load of one task |

On AVX-512 CPUs the trainer uses oneDNN where PEFT and TRL use MKL; the ratio to itself, one adapter
after the other, is what fusing alone is worth; that one is left out on a GPU.
"""  # noqa: E501

import argparse
import gc
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from auctune.train.base import load_base, num_weight_bytes
from auctune.train.job import LoraJob
from auctune.train.peak_memory import peak_bytes
from auctune.train.trainer import MultiLoraTrainer
from entries import (
    BUDGETS,
    Entry,
    Fixture,
    FrozenLoop,
    FusedLoop,
    Peak,
    PeftLoop,
    Step,
    TrlLoop,
    flops_per_token,
    synchronize,
)
from random_bases import random_gpt2_small

NUM_ADAPTERS = 8
WARM_UP = {"cpu": 1, "cuda": 2}
SHORTEST = 16
FUSED, FROZEN, PEFT, BATCH, TRL, ALONE = (
    "fused",
    "the frozen base alone",
    "PEFT one after the other",
    "one PEFT adapter with the rows of all",
    "TRL's SFTTrainer with the rows of all",
    "this trainer one after the other",
)


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    name: str
    value: str
    goal: str = ""
    reached: bool = True


@dataclass(frozen=True)
class Case:
    """Work of a step: rows of each adapter, their tokens, and whether lengths are mixed."""

    adapters: int
    rows: int
    tokens: int
    rank: int = 16
    mixed: bool = False

    def __str__(self) -> str:
        plural = "s" if self.adapters > 1 else ""
        lengths = f"{SHORTEST} to {self.tokens}" if self.mixed else f"{self.tokens}"
        return f"{self.adapters} adapter{plural}, {self.rows} x {lengths}"

    def jobs(self, fixture: Fixture, adapters: int, rows: int) -> list[LoraJob]:
        shortest = SHORTEST if self.mixed else None
        return [
            fixture.job(rows, self.tokens, shortest=shortest, rank=self.rank)
            for _ in range(adapters)
        ]


# At least so many times as fast as others; at most so many times the time of the frozen base.
Goals = dict[str, float]


def entries(fixture: Fixture, case: Case, found: list[Figure]) -> Iterator[tuple[str, Entry]]:
    """Yield the entries by name; add what cannot run here to `found`."""
    jobs = case.jobs(fixture, case.adapters, case.rows)
    yield FUSED, FusedLoop(fixture, jobs)
    if case.adapters > 1:
        rows = [row for job in jobs for row in fixture.rows(job)[: case.rows]]
        yield FROZEN, FrozenLoop(fixture, rows)
        if fixture.device.type == "cpu":
            yield ALONE, FusedLoop(fixture, jobs, fused=False)
    yield PEFT, PeftLoop(fixture, jobs)
    if case.adapters == 1:
        return
    (together,) = case.jobs(fixture, 1, case.adapters * case.rows)
    yield BATCH, PeftLoop(fixture, [together])
    # Whatever keeps it from training here keeps none of the others.
    try:
        trl = TrlLoop(fixture, together)
        trl.step()
    except Exception as error:
        why = f"did not run: {type(error).__name__}: {str(error)[:200]}"
        found.append(Figure(f"{Path(fixture.base.name).name}, {case}: {TRL}", why))
    else:
        yield TRL, trl


def speed(
    fixture: Fixture, case: Case, goals: Goals, repeats: int, *, others: bool = True
) -> list[Figure]:
    """Return the speeds of all entries, and the ratios of the fused trainer to the others.

    Without `others` only the speed of the fused trainer.
    """
    missing: list[Figure] = []
    loops = dict(islice(entries(fixture, case, missing), None if others else 1))
    for _ in range(WARM_UP[fixture.device.type]):
        for loop in loops.values():
            loop.step()
    peak = Peak(fixture.device, fixture.base.dtype)
    turns, peaks = [], []
    for _ in range(repeats):
        turns.append({name: loop.step() for name, loop in loops.items()})
        peaks.append(peak.flops())
    title = f"{Path(fixture.base.name).name}, {case}"
    figures = []
    for name in loops:
        flops = flops_per_token(fixture.base.model, has_head=name != FROZEN)
        value = _speed([turn[name] for turn in turns], [flops / one for one in peaks])
        if name == TRL:
            trl = loops[name]
            assert isinstance(trl, TrlLoop)
            value += f"; packing {trl.strategy!r}{', Liger' if trl.uses_liger else ''}"
            trl.close()
        figures.append(Figure(f"{title}: {name}", value))
    ratios = [_ratio(title, name, turns, goals.get(name)) for name in loops if name != FUSED]
    return [*figures, *ratios, *missing]


def _speed(steps: list[Step], at_peak: list[float]) -> str:
    """Return the medians of an entry; `at_peak`: seconds a token at the device's peak."""
    taken = statistics.median(step.seconds for step in steps)
    paces = [step.tokens / step.seconds for step in steps]
    mfu = statistics.median(pace * least for pace, least in zip(paces, at_peak, strict=True))
    pace = statistics.median(paces)
    return f"{1e3 * taken:,.0f} ms, {pace:,.0f} tokens/s, MFU {mfu:.0%}"


def _ratio(title: str, name: str, turns: list[dict[str, Step]], goal: float | None) -> Figure:
    def pace(step: Step) -> float:
        return step.tokens / step.seconds

    ratio = statistics.median(pace(turn[FUSED]) / pace(turn[name]) for turn in turns)
    if name == FROZEN:
        what, ratio = f"time over that of {name}", 1 / ratio
        reached = goal is None or ratio <= goal
    else:
        what = f"speed over that of {name}"
        reached = goal is None or ratio >= goal
    text = "" if goal is None else f"{'<=' if name == FROZEN else '>='} {goal}x"
    return Figure(f"{title}: {what}", f"{ratio:.2f}x", text, reached)


def memory(fixture: Fixture) -> Figure:
    """Compare the peak of 8 tasks that share a micro-batch with the formula."""
    budget = BUDGETS[fixture.device.type]
    tokens = 64
    together = [fixture.job(budget // tokens // NUM_ADAPTERS, tokens) for _ in range(NUM_ADAPTERS)]
    peaks, states = [], []
    for jobs in (together, [fixture.job(budget // tokens, tokens)]):
        loops: list[FusedLoop] = []

        def work(jobs: list[LoraJob] = jobs, loops: list[FusedLoop] = loops) -> None:
            loops.append(FusedLoop(fixture, jobs))
            loops[0].step()

        peaks.append(peak_bytes(work, fixture.device) / 1e6)
        states.append(1e3 * loops[0].trainer.progress(jobs[0].id).memory_gb)
    base = num_weight_bytes(fixture.base.model) / 1e6
    micro_batch = peaks[1] - states[1]
    formula = base + NUM_ADAPTERS * states[0] + micro_batch
    total = base + peaks[0]
    return Figure(
        f"memory of {NUM_ADAPTERS} tasks",
        f"{total:,.0f} MB; {base:,.0f} + {NUM_ADAPTERS} x {states[0]:.1f} + {micro_batch:,.0f} "
        f"= {formula:,.0f} MB: {total / formula - 1:+.1%}",
        "<= + 10%",
        total <= 1.1 * formula,
    )


def activations(fixture: Fixture) -> Iterator[Figure]:
    """Yield the peak of a pass in which activations of every n-th layer are recomputed."""
    for every in (0, 4, 2, 1):
        job = fixture.job(512 // 64, 64)
        trainer = MultiLoraTrainer(fixture.base, token_budget=512, checkpointing=every)
        trainer.load(job, fixture.folder / job.id)
        step = partial(trainer.train, {job.id: job.batch_size}, lambda _: None)
        peak = peak_bytes(step, fixture.device) / 1e6
        name = f"activations of 512 tokens, gradient_checkpointing = {every}"
        yield Figure(name, f"{peak:,.0f} MB")


def suspend_and_resume(fixture: Fixture, repeats: int) -> Figure:
    """Measure checkpoint, unload and load of one task."""
    job = fixture.job(1, 32)
    loop = FusedLoop(fixture, [job])
    loop.step()
    times = []
    for number in range(repeats):
        started = time.perf_counter()
        loop.trainer.save(job.id, number)
        loop.trainer.unload(job.id)
        loop.trainer.load(job, fixture.folder / job.id)
        synchronize(fixture.device)
        times.append(time.perf_counter() - started)
    median = statistics.median(times)
    return Figure("suspend + resume of a task", f"{median:.2f} s", "<= 2 s", median <= 2)


def measure(fixture: Fixture, repeats: int) -> Iterator[Figure]:
    """Yield all figures of a base."""
    yield Figure("peak", Peak(fixture.device, fixture.base.dtype).source)
    cases = {
        Case(8, 1, 64): {PEFT: 1.5},
        Case(8, 1, 128): {PEFT: 1.5},
        Case(8, 1, 256, mixed=True): {PEFT: 1.5},
        Case(1, 1, 64): {},
        Case(1, 8, 256, mixed=True): {},
    }
    for case, goals in cases.items():
        yield from speed(fixture, case, goals, repeats)
        gc.collect()
    yield memory(fixture)
    yield from activations(fixture)
    yield suspend_and_resume(fixture, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=default)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU; 1")
    parser.add_argument("--base", help="folder of a base, in place of GPT-2 small")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.filterwarnings("ignore", category=FutureWarning)
    is_gpu = arguments.device == "cuda"
    device = torch.cuda.get_device_name() if is_gpu else f"a CPU, {arguments.threads} threads"
    table = Table("measurement", "value", "goal", "reached", title=f"Training on {device}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.base:
            dtype = "bfloat16" if is_gpu else "float32"
            base = load_base(
                arguments.base, cache=Path(folder), device=arguments.device, dtype=dtype
            )
        else:
            base = random_gpt2_small(Path(folder), arguments.device)
        for figure in measure(Fixture(Path(folder), base), arguments.repeats):
            print(f"{time.monotonic() - started:5.0f} s  {figure.name}: {figure.value}", flush=True)
            reached = ("yes" if figure.reached else "no") if figure.goal else ""
            table.add_row(figure.name, figure.value, figure.goal, reached)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
