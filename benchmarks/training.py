"""The trainer's figures to reach, measured on this machine's first GPU, or on one CPU core.

    python benchmarks/training.py [--device cpu|cuda] [--repeats N]

| what | how |
| --- | --- |
| fused against one after the other | 8 adapters on GPT-2 small (random weights); `MultiLoraTrainer` and a plain PEFT loop (`set_adapter`, AdamW over the adapter's parameters) take the same steps in turn; median of the ratios of neighbouring measurements. On AVX-512 CPUs the trainer also multiplies through oneDNN where PEFT gets MKL; the second ratio leaves that out |
| memory of 8 tasks | peak while 8 tasks train, against base + 8 x (adapter + optimizer) + what one task's micro-batch at the budget takes on top |
| padding | tokens computed that are no row's own, rows of 16 to 128 tokens |
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
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from rich.console import Console
from rich.table import Table
from transformers import GPT2Config, GPT2LMHeadModel

from auctune.train.base import Base, load_base, num_weight_bytes
from auctune.train.job import LoraJob, Progress
from auctune.train.peak_memory import peak_bytes
from auctune.train.tokenizer import quiet_transformers
from auctune.train.trainer import MultiLoraTrainer

NUM_ADAPTERS = 8
BUDGETS = {"cpu": 512, "cuda": 4096}


@dataclass(frozen=True)
class Figure:
    """One row of the table."""

    what: str
    measured: str
    goal: str
    reached: bool


class Workshop:
    """The base, the jobs and their data that all measurements share."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.folder = folder
        self.device = device
        self.base = random_gpt2_small(folder, device)
        self.num_jobs = 0

    def job(self, rows: int, tokens: int, lengths: list[int] | None = None) -> LoraJob:
        """A new job with batches of `rows` rows of `tokens` tokens, or of `lengths` in turn."""
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
            batch_size=rows,
            max_length=tokens,
            schedule="constant",
            seed=self.num_jobs,
        )


def random_gpt2_small(folder: Path, device: torch.device) -> Base:
    """GPT-2 small from its configuration, with the tiny base's tokenizer."""
    torch.manual_seed(0)
    place = folder / "gpt2-small"
    with quiet_transformers():
        GPT2LMHeadModel(GPT2Config()).save_pretrained(place)
    load_base("tiny", cache=folder).tokenizer.save_pretrained(str(place))
    dtype = "bfloat16" if device.type == "cuda" else "float32"
    return load_base(str(place), cache=folder, device=str(device), dtype=dtype)


class PeftLoop:
    """One adapter after the other, with PEFT as its documentation shows it."""

    def __init__(self, worker: Workshop, jobs: list[LoraJob], tokens: int) -> None:
        self.jobs = jobs
        self.device = worker.device
        model = worker.base.fresh_model()
        for index, job in enumerate(jobs):
            config = LoraConfig(
                r=job.rank,
                lora_alpha=int(job.alpha),
                lora_dropout=job.dropout,
                fan_in_fan_out=True,
                task_type="CAUSAL_LM",
            )
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

    def step(self) -> None:
        """One optimizer step of each adapter."""
        self.model.train()
        for index, optimizer in enumerate(self.optimizers):
            self.model.set_adapter(f"a{index}")
            self.model(input_ids=self.ids, labels=self.ids).loss.backward()
            torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
            optimizer.step()
            optimizer.zero_grad()


class FusedLoop:
    """The same with this trainer, all adapters together or one after the other."""

    def __init__(self, worker: Workshop, jobs: list[LoraJob], *, together: bool = True) -> None:
        self.jobs = jobs
        self.together = together
        budget = BUDGETS[worker.device.type]
        self.trainer = MultiLoraTrainer(worker.base, token_budget=budget)
        self.rows = 0
        for job in jobs:
            self.trainer.load(job, worker.folder / job.id)

    def step(self) -> None:
        """One optimizer step of each adapter."""
        self.rows += self.jobs[0].batch_size
        for jobs in [self.jobs] if self.together else [[job] for job in self.jobs]:
            self.trainer.train({job.id: self.rows for job in jobs}, print_nothing)


def seconds(action: Callable[[], None], device: torch.device) -> float:
    """Wall time of an action, its work on the device included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    action()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def speed(worker: Workshop, rows: int, tokens: int, goal: float, repeats: int) -> list[Figure]:
    """Fused against one after the other, with PEFT and with this trainer, in tokens a second."""
    jobs = [worker.job(rows, tokens) for _ in range(NUM_ADAPTERS)]
    loops = (
        FusedLoop(worker, jobs),
        PeftLoop(worker, jobs, tokens),
        FusedLoop(worker, jobs, together=False),
    )
    for loop in loops:
        loop.step()
    times = [[seconds(loop.step, worker.device) for loop in loops] for _ in range(repeats)]
    count = NUM_ADAPTERS * rows * tokens
    fused, peft, alone = (count / statistics.median(column) for column in zip(*times, strict=True))
    against_peft = statistics.median(line[1] / line[0] for line in times)
    against_own = statistics.median(line[2] / line[0] for line in times)
    what = f"{NUM_ADAPTERS} adapters, batch {rows} x {tokens}"
    return [
        Figure(
            f"fused / one after the other with PEFT, {what}",
            f"{against_peft:.2f} x ({fused:,.0f} / {peft:,.0f} tokens/s)",
            f">= {goal} x",
            against_peft >= goal,
        ),
        Figure(
            f"fused / one after the other with this trainer, {what}",
            f"{against_own:.2f} x ({fused:,.0f} / {alone:,.0f} tokens/s)",
            "",
            True,
        ),
    ]


def memory(worker: Workshop) -> Figure:
    """Peak of 8 tasks that share a micro-batch, against the formula."""
    budget = BUDGETS[worker.device.type]
    tokens = 64
    together = [worker.job(budget // tokens // NUM_ADAPTERS, tokens) for _ in range(NUM_ADAPTERS)]
    peaks, states = [], []
    for jobs in (together, [worker.job(budget // tokens, tokens)]):
        loops: list[FusedLoop] = []

        def work(jobs: list[LoraJob] = jobs, loops: list[FusedLoop] = loops) -> None:
            loops.append(FusedLoop(worker, jobs))
            loops[0].step()

        peaks.append(peak_bytes(work, worker.device) / 1e6)
        states.append(1e3 * loops[0].trainer.progress(jobs[0].id).memory_gb)
    base = num_weight_bytes(worker.base.model) / 1e6
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


def padding(worker: Workshop) -> Figure:
    """Share of the computed tokens that are no row's own, rows of 16 to 128 tokens."""
    generator = np.random.default_rng(0)
    base = load_base("tiny", cache=worker.folder, device=str(worker.device))
    trainer = MultiLoraTrainer(base, token_budget=512)
    for _ in range(NUM_ADAPTERS):
        # Words of the texts are about 2.8 tokens each.
        job = worker.job(8, 128, generator.integers(6, 46, size=64).tolist())
        trainer.load(job, worker.folder / job.id)
    trainer.train({f"job-{worker.num_jobs - n}": 64 for n in range(NUM_ADAPTERS)}, print_nothing)
    padded, total = trainer.loop.padding
    return Figure(
        "padding, 8 tasks of batch 8, mixed lengths",
        f"{padded / total:.1%} of tokens",
        "<= 10%",
        padded <= 0.1 * total,
    )


def suspend_and_resume(worker: Workshop, repeats: int) -> Figure:
    """Checkpoint, unload and load of one task."""
    job = worker.job(1, 32)
    loop = FusedLoop(worker, [job])
    loop.step()
    times = []
    for number in range(repeats):

        def rest(number: int = number) -> None:
            loop.trainer.save(job.id, number)
            loop.trainer.unload(job.id)
            loop.trainer.load(job, worker.folder / job.id)

        times.append(seconds(rest, worker.device))
    median = statistics.median(times)
    return Figure("suspend + resume of a task", f"{median:.2f} s", "<= 2 s", median <= 2)


def print_nothing(progress: Progress) -> None:
    """A report that nobody reads."""


def measure(device: torch.device, repeats: int) -> list[Figure]:
    """All figures, on one device."""
    goals = {"cpu": ((1, 32, 1.6), (4, 128, 1.0)), "cuda": ((4, 128, 2.5), (1, 32, 1.0))}
    with tempfile.TemporaryDirectory() as folder:
        worker = Workshop(Path(folder), device)
        figures = []
        for rows, tokens, goal in goals[device.type]:
            figures += speed(worker, rows, tokens, goal, repeats)
        return [
            *figures,
            memory(worker),
            padding(worker),
            suspend_and_resume(worker, repeats),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description="The trainer's figures on this machine.")
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=default)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
    figures = measure(torch.device(arguments.device), arguments.repeats)
    place = torch.cuda.get_device_name() if arguments.device == "cuda" else "one CPU core"
    table = Table("what", "measured", "goal", "reached", title=f"Training on {place}")
    for figure in figures:
        table.add_row(
            figure.what,
            figure.measured,
            figure.goal,
            ("yes" if figure.reached else "no") if figure.goal else "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
