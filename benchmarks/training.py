"""The trainer: speed, memory, padding and suspension, on the first GPU or on one CPU core.

    python benchmarks/training.py [--device cpu|cuda] [--repeats N] [--base FOLDER]

| what | how |
| --- | --- |
| fused / sequential | 8 adapters on GPT-2 small (random weights); `MultiLoraTrainer` and a plain PEFT loop (AdamW over the adapter's parameters; the time of `set_adapter` is not counted) take the same steps alternately; median of the ratios of adjacent measurements. With `--base` on that base instead, one row of 64 tokens each, and nothing else. On AVX-512 CPUs the trainer uses oneDNN where PEFT uses MKL; the second ratio compares the trainer with itself |
| memory of 8 tasks | peak while 8 tasks train, against base + 8 x (adapter + optimizer) + activations of one task's micro-batch at the token budget |
| padding | share of padding in computed tokens, rows of 16 to 128 tokens |
| activations | peak of a pass of 512 tokens beyond the task's own state, by `gradient_checkpointing` |
| suspend and resume | checkpoint, unload, load of one task |
"""  # noqa: E501

import argparse
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from peft import PeftModel, get_peft_model
from rich.console import Console
from rich.table import Table

from auctune.train.base import Base, load_base, num_weight_bytes
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import lora_config
from auctune.train.peak_memory import peak_bytes
from auctune.train.trainer import MultiLoraTrainer
from random_gpt2 import random_gpt2_small

NUM_ADAPTERS = 8
BUDGETS = {"cpu": 512, "cuda": 4096}


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    name: str
    value: str
    goal: str
    reached: bool


class Fixture:
    """Base, jobs and data of all measurements."""

    def __init__(self, folder: Path, base: Base) -> None:
        self.folder = folder
        self.device = base.device
        self.base = base
        self.num_jobs = 0

    def job(
        self, rows: int, tokens: int, lengths: list[int] | None = None, rank: int = 8
    ) -> LoraJob:
        """Return a job with batches of `rows` rows of `tokens` tokens, or of `lengths` words."""
        self.num_jobs += 1
        path = self.folder / f"data-{self.num_jobs}.jsonl"
        generator = np.random.default_rng(self.num_jobs)
        words = np.array(["market", "price", "node", "task", "slot", "bid", "cost", "value"])
        texts = [
            " ".join(generator.choice(words, size=length))
            for length in lengths or [2 * tokens] * 64
        ]
        path.write_text("\n".join(json.dumps({"text": text}) for text in texts))
        return LoraJob(
            f"job-{self.num_jobs}",
            path,
            epochs=10_000,
            rank=rank,
            batch_size=rows,
            max_length=tokens,
            schedule="constant",
            seed=self.num_jobs,
        )


class PeftLoop:
    """Sequential training of adapters with PEFT, as in its documentation."""

    def __init__(self, fixture: Fixture, jobs: list[LoraJob], tokens: int) -> None:
        self.jobs = jobs
        self.device = fixture.device
        model = fixture.base.fresh_model()
        for index, job in enumerate(jobs):
            config = lora_config(job, model)
            if index == 0:
                self.model = get_peft_model(model, config, adapter_name="a0")
                assert isinstance(self.model, PeftModel)
            else:
                self.model.add_adapter(f"a{index}", config)
        self.optimizers = [self._optimizer(index) for index in range(len(jobs))]
        self.ids = torch.randint(0, 500, (jobs[0].batch_size, tokens), device=self.device)

    def _optimizer(self, index: int) -> torch.optim.AdamW:
        self.model.set_adapter(f"a{index}")
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        return torch.optim.AdamW(parameters, lr=1e-3)

    def step(self) -> float:
        """Take an optimizer step of each adapter; return its seconds, switching not counted."""
        self.model.train()
        total = 0.0
        for index, optimizer in enumerate(self.optimizers):
            self.model.set_adapter(f"a{index}")
            total += seconds(partial(self._step, optimizer), self.device)
        return total

    def _step(self, optimizer: torch.optim.AdamW) -> None:
        self.model(input_ids=self.ids, labels=self.ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()
        optimizer.zero_grad()


class FusedLoop:
    """Training with `MultiLoraTrainer`, fused or sequential."""

    def __init__(self, fixture: Fixture, jobs: list[LoraJob], *, fused: bool = True) -> None:
        self.jobs = jobs
        self.fused = fused
        budget = BUDGETS[fixture.device.type]
        self.trainer = MultiLoraTrainer(fixture.base, token_budget=budget)
        self.rows = 0
        for job in jobs:
            self.trainer.load(job, fixture.folder / job.id)

    def step(self) -> float:
        """Take an optimizer step of each adapter; return its seconds."""
        return seconds(self._step, self.trainer.base.device)

    def _step(self) -> None:
        self.rows += self.jobs[0].batch_size
        for jobs in [self.jobs] if self.fused else [[job] for job in self.jobs]:
            self.trainer.train({job.id: self.rows for job in jobs}, lambda _: None)


def seconds(action: Callable[[], None], device: torch.device) -> float:
    """Return the wall-clock time of an action, with its work on the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def speed(
    fixture: Fixture,
    rows: int,
    tokens: int,
    goal: float,
    repeats: int,
    ranks: tuple[int, ...] = (8,) * NUM_ADAPTERS,
) -> list[Figure]:
    """Compare fused with sequential training, by PEFT and by this trainer, in tokens per second."""
    jobs = [fixture.job(rows, tokens, rank=rank) for rank in ranks]
    loops = (
        FusedLoop(fixture, jobs),
        PeftLoop(fixture, jobs, tokens),
        FusedLoop(fixture, jobs, fused=False),
    )
    for loop in loops:
        loop.step()
    times = [[loop.step() for loop in loops] for _ in range(repeats)]
    count = len(ranks) * rows * tokens
    fused, peft, alone = (count / statistics.median(column) for column in zip(*times, strict=True))
    against_peft = statistics.median(line[1] / line[0] for line in times)
    against_own = statistics.median(line[2] / line[0] for line in times)
    plural = "s" if len(ranks) > 1 else ""
    case = f"{len(ranks)} adapter{plural}, batch {rows} x {tokens}"
    return [
        Figure(
            f"fused / sequential with PEFT, {case}",
            f"{against_peft:.2f} x ({fused:,.0f} / {peft:,.0f} tokens/s)",
            f">= {goal} x",
            against_peft >= goal,
        ),
        Figure(
            f"fused / sequential with this trainer, {case}",
            f"{against_own:.2f} x ({fused:,.0f} / {alone:,.0f} tokens/s)",
            "",
            True,
        ),
    ]


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


def activations(fixture: Fixture) -> list[Figure]:
    """Return the peak of a pass in which activations of every n-th layer are recomputed."""
    found = []
    for every in (0, 4, 2, 1):
        job = fixture.job(512 // 64, 64)
        trainer = MultiLoraTrainer(fixture.base, token_budget=512, checkpointing=every)
        trainer.load(job, fixture.folder / job.id)
        step = partial(trainer.train, {job.id: job.batch_size}, lambda _: None)
        peak = peak_bytes(step, fixture.device) / 1e6
        name = f"activations of 512 tokens, gradient_checkpointing = {every}"
        found.append(Figure(name, f"{peak:,.0f} MB", "", True))
    return found


def padding(fixture: Fixture) -> Figure:
    """Return the share of padding in computed tokens, with rows of 16 to 128 tokens."""
    generator = np.random.default_rng(0)
    base = load_base("tiny", cache=fixture.folder, device=str(fixture.device))
    trainer = MultiLoraTrainer(base, token_budget=512)
    for _ in range(NUM_ADAPTERS):
        # A word has about 2.8 tokens.
        job = fixture.job(8, 128, generator.integers(6, 46, size=64).tolist())
        trainer.load(job, fixture.folder / job.id)
    trainer.train({f"job-{fixture.num_jobs - n}": 64 for n in range(NUM_ADAPTERS)}, lambda _: None)
    padded, total = trainer.loop.padding
    return Figure(
        "padding, 8 tasks of batch 8, mixed lengths",
        f"{padded / total:.1%} of tokens",
        "<= 10%",
        padded <= 0.1 * total,
    )


def suspend_and_resume(fixture: Fixture, repeats: int) -> Figure:
    """Measure checkpoint, unload and load of one task."""
    job = fixture.job(1, 32)
    loop = FusedLoop(fixture, [job])
    loop.step()
    times = []
    for number in range(repeats):

        def suspend(number: int = number) -> None:
            loop.trainer.save(job.id, number)
            loop.trainer.unload(job.id)
            loop.trainer.load(job, fixture.folder / job.id)

        times.append(seconds(suspend, fixture.device))
    median = statistics.median(times)
    return Figure("suspend + resume of a task", f"{median:.2f} s", "<= 2 s", median <= 2)


def measure(device: torch.device, repeats: int) -> list[Figure]:
    """Return all figures for a device."""
    goals = {"cpu": ((1, 32, 1.6), (4, 128, 1.0)), "cuda": ((4, 128, 2.5), (1, 32, 1.0))}
    with tempfile.TemporaryDirectory() as folder:
        fixture = Fixture(Path(folder), random_gpt2_small(Path(folder), str(device)))
        figures = []
        for rows, tokens, goal in goals[device.type]:
            figures += speed(fixture, rows, tokens, goal, repeats)
        return [
            *figures,
            memory(fixture),
            *activations(fixture),
            padding(fixture),
            suspend_and_resume(fixture, repeats),
        ]


def measure_base(folder: str, device: torch.device, repeats: int) -> list[Figure]:
    """Return the speed on a base of the caller's."""
    with tempfile.TemporaryDirectory() as cache:
        base = load_base(folder, cache=Path(cache), device=str(device))
        return speed(Fixture(Path(cache), base), 1, 64, 1.5, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Speed, memory, padding and suspension of the trainer."
    )
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=default)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--base", help="folder of a base, in place of GPT-2 small")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
    device = torch.device(arguments.device)
    if arguments.base:
        figures = measure_base(arguments.base, device, arguments.repeats)
    else:
        figures = measure(device, arguments.repeats)
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "one CPU core"
    table = Table("measurement", "value", "goal", "reached", title=f"Training on {name}")
    for figure in figures:
        table.add_row(
            figure.name,
            figure.value,
            figure.goal,
            ("yes" if figure.reached else "no") if figure.goal else "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
