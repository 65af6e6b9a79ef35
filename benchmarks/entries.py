"""Entries of `benchmarks/training.py`: each takes one step of the same work at a time."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from peft import get_peft_model
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, TrainerCallback
from transformers.utils import is_flash_attn_2_available

from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import lora_config
from auctune.train.multilora.frozen import choose_linear
from auctune.train.rows import IGNORE_INDEX, TokenizedRow
from auctune.train.tokenized_file import read_rows
from auctune.train.trainer import MultiLoraTrainer

BUDGETS = {"cpu": 512, "cuda": 4096}
"""Tokens of a micro-batch."""
_WORDS = ("market", "price", "node", "task", "slot", "bid", "cost", "value")
_LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Step:
    """Seconds of a step, as of `seconds`, and tokens without padding."""

    seconds: float
    tokens: int


class Entry(Protocol):
    """Takes a step of the work when it is its turn."""

    def step(self) -> Step: ...


def seconds(action: Callable[[], object], device: torch.device) -> float:
    """Return the time of an action, with its work on the device.

    On a CPU with one thread in CPU seconds, which other work on the machine does not change; else
    as elapsed.
    """
    is_alone = device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if is_alone else time.perf_counter
    synchronize(device)
    started = clock()
    action()
    synchronize(device)
    return clock() - started


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Fixture:
    """Base, jobs and data of all measurements."""

    def __init__(self, folder: Path, base: Base) -> None:
        self.folder = folder
        self.device = base.device
        self.base = base
        self.num_jobs = 0
        words = base.tokenizer(" ".join(_WORDS), add_special_tokens=False)["input_ids"]
        self._tokens_per_word = len(words) / len(_WORDS)

    def job(
        self,
        rows: int,
        tokens: int,
        *,
        shortest: int | None = None,
        rank: int = 8,
        num_rows: int = 64,
    ) -> LoraJob:
        """Return a job with batches of `rows` rows.

        Args:
            rows: of a batch.
            tokens: of each row; of the longest, if there is a shortest.
            shortest: tokens of the shortest row, about; lengths are drawn evenly.
            rank: of the adapter.
            num_rows: of its data.
        """
        self.num_jobs += 1
        path = self.folder / f"data-{self.num_jobs}.jsonl"
        generator = np.random.default_rng(self.num_jobs)
        if shortest is None:
            lengths = np.full(num_rows, 2 * tokens)
        else:
            lengths = generator.integers(shortest, tokens, size=num_rows, endpoint=True)
        with path.open("w") as file:
            for length in np.maximum(2, lengths / self._tokens_per_word).astype(int):
                text = " ".join(generator.choice(_WORDS, size=length))
                file.write(json.dumps({"text": text}) + "\n")
        return LoraJob(
            f"job-{self.num_jobs}",
            path,
            epochs=10_000,
            rank=rank,
            batch_size=rows,
            max_length=tokens,
            learning_rate=_LEARNING_RATE,
            schedule="constant",
            seed=self.num_jobs,
        )

    def rows(self, job: LoraJob) -> Sequence[TokenizedRow]:
        """Return the rows of a job, as its trainer reads them."""
        base = self.base
        return read_rows(job.data, base.tokenizer, job.max_length, base.context_tokens).rows


class FusedLoop:
    """`MultiLoraTrainer`: all jobs together, or one after the other."""

    def __init__(self, fixture: Fixture, jobs: Sequence[LoraJob], *, fused: bool = True) -> None:
        self.jobs = jobs
        self.fused = fused
        budget = BUDGETS[fixture.device.type]
        self.trainer = MultiLoraTrainer(fixture.base, token_budget=budget)
        self.rows = 0
        for job in jobs:
            self.trainer.load(job, fixture.folder / job.id)

    def step(self) -> Step:
        before = self._num_tokens()
        taken = seconds(self._step, self.trainer.base.device)
        return Step(taken, self._num_tokens() - before)

    def _step(self) -> None:
        self.rows += self.jobs[0].batch_size
        for jobs in [self.jobs] if self.fused else [[job] for job in self.jobs]:
            self.trainer.train({job.id: self.rows for job in jobs}, lambda _: None)

    def _num_tokens(self) -> int:
        return sum(self.trainer.progress(job.id).tokens for job in self.jobs)


class PeftLoop:
    """A plain loop with PEFT, adapter after adapter; the time of `set_adapter` is not counted.

    On a GPU under autocast where that is faster.
    """

    def __init__(self, fixture: Fixture, jobs: Sequence[LoraJob]) -> None:
        self.device = fixture.device
        model = fixture.base.fresh_model()
        self.model = get_peft_model(model, lora_config(jobs[0], model), adapter_name="a0")
        for index, job in enumerate(jobs[1:], start=1):
            self.model.add_adapter(f"a{index}", lora_config(job, model))
        self.model.train()
        self.optimizers = [self._optimizer(index) for index in range(len(jobs))]
        self.batches = [batches(fixture.rows(job), job.batch_size, self.device) for job in jobs]
        self.autocasts = False
        if self.device.type == "cuda":
            self.autocasts = self._seconds(autocasts=True) < self._seconds(autocasts=False)

    def step(self) -> Step:
        steps = [self._step_of(index) for index in range(len(self.optimizers))]
        return Step(sum(one.seconds for one in steps), sum(one.tokens for one in steps))

    def _step_of(self, index: int) -> Step:
        self.model.set_adapter(f"a{index}")
        batch = next(self.batches[index])
        taken = seconds(partial(self._step, self.optimizers[index], batch), self.device)
        return Step(taken, int((batch["labels"] != IGNORE_INDEX).sum()))

    def _optimizer(self, index: int) -> torch.optim.AdamW:
        self.model.set_adapter(f"a{index}")
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        return torch.optim.AdamW(parameters, lr=_LEARNING_RATE)

    def _step(self, optimizer: torch.optim.AdamW, batch: dict[str, Tensor]) -> None:
        with torch.autocast("cuda", torch.bfloat16) if self.autocasts else nullcontext():
            loss = self.model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()
        optimizer.zero_grad()

    def _seconds(self, *, autocasts: bool) -> float:
        self.autocasts = autocasts
        return min(self._step_of(0).seconds for _ in range(3))


def batches(
    rows: Sequence[TokenizedRow], size: int, device: torch.device
) -> Iterator[dict[str, Tensor]]:
    """Yield batches in the rows' order without end, padded where rows are not of one length."""
    endless = (row for _ in iter(int, 1) for row in rows)
    while batch := list(islice(endless, size)):
        ids = [torch.as_tensor(row.input_ids) for row in batch]
        labels = pad_sequence(ids, batch_first=True, padding_value=IGNORE_INDEX).to(device)
        found = {"input_ids": pad_sequence(ids, batch_first=True).to(device), "labels": labels}
        if len({len(row) for row in batch}) > 1:
            found["attention_mask"] = (labels != IGNORE_INDEX).long()
        yield found


class FrozenLoop:
    """The frozen base alone: forward, and backward to its embeddings; no head and no loss."""

    def __init__(self, fixture: Fixture, rows: Sequence[TokenizedRow]) -> None:
        self.device = fixture.device
        self.model = fixture.base.fresh_model()
        self.model.train()
        self.batches = batches(rows, len(rows), self.device)

    def step(self) -> Step:
        batch = next(self.batches)
        labels = batch.pop("labels")
        return Step(
            seconds(partial(self._step, batch), self.device), int((labels != IGNORE_INDEX).sum())
        )

    def _step(self, batch: dict[str, Tensor]) -> None:
        embeddings = self.model.get_input_embeddings()(batch["input_ids"])
        hidden = self.model.base_model(
            inputs_embeds=embeddings.requires_grad_(),
            attention_mask=batch.get("attention_mask"),
            use_cache=False,
        ).last_hidden_state
        hidden.float().mean().backward()


class TrlLoop(TrainerCallback):  # type: ignore[misc]
    """TRL's `SFTTrainer` in its own loop, on a thread that waits between steps.

    Rows are packed to `tokens` tokens, by TRL's default strategy where flash attention keeps them
    apart, else end to end, which is faster than a mask; kernels of liger-kernel on a GPU where that
    is installed; bfloat16 there, no evaluation, nothing saved or logged. A step lasts from the end
    of the one before, loading of data included.

    Raises:
        ImportError: if TRL is not installed, or cannot be imported.
    """

    def __init__(self, fixture: Fixture, job: LoraJob) -> None:
        from datasets import Dataset
        from trl import SFTConfig, SFTTrainer

        self.device = fixture.device
        is_gpu = self.device.type == "cuda"
        model = fixture.base.fresh_model()
        is_flash = is_gpu and is_flash_attn_2_available()
        if is_flash:
            model.set_attn_implementation("flash_attention_2")
        self.uses_liger = is_gpu and find_spec("liger_kernel") is not None
        self.strategy = "bfd" if is_flash else "wrapped"
        arguments = SFTConfig(
            output_dir=str(fixture.folder / "trl"),
            per_device_train_batch_size=job.batch_size,
            max_steps=1_000_000,
            max_length=job.max_length,
            packing=True,
            packing_strategy=self.strategy,
            learning_rate=_LEARNING_RATE,
            lr_scheduler_type="constant",
            activation_checkpointing=False,
            use_liger_kernel=self.uses_liger,
            bf16=is_gpu,
            use_cpu=not is_gpu,
            eval_strategy="no",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        rows = [row.input_ids.tolist() for row in fixture.rows(job)]
        self._trainer = SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({"input_ids": rows * 8}),
            processing_class=fixture.base.tokenizer,
            peft_config=lora_config(job, model),
            callbacks=[self],
        )
        # Liger replaces this function of the model's module, which all entries share.
        self._module = sys.modules[type(model).__module__]
        self._rotary = getattr(self._module, "apply_rotary_pos_emb", None)
        self._patched = self._rotary
        self._may_step, self._has_stepped = threading.Event(), threading.Event()
        self._is_closed = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def step(self) -> Step:
        before = self._trainer._total_train_tokens
        if self._patched is not None:
            self._module.apply_rotary_pos_emb = self._patched  # type: ignore[attr-defined]
        taken = seconds(self._step, self.device)
        if self._patched is not None:
            self._patched = self._module.apply_rotary_pos_emb
            self._module.apply_rotary_pos_emb = self._rotary  # type: ignore[attr-defined]
        return Step(taken, self._trainer._total_train_tokens - before)

    def close(self) -> None:
        """End the loop, with one step more."""
        self._is_closed = True
        self.step()

    def _step(self) -> None:
        self._has_stepped.clear()
        self._may_step.set()
        if self._thread.ident is None:
            self._thread.start()
        self._has_stepped.wait()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._trainer.train()
        except Exception as error:
            self._error = error
        self._has_stepped.set()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Wait before the first step, too: what precedes it is no step."""
        self._may_step.wait()

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
        synchronize(self.device)
        control.should_training_stop = self._is_closed
        self._may_step.clear()
        if not self._is_closed:
            self._has_stepped.set()
            self._may_step.wait()


def flops_per_token(model: PreTrainedModel, *, has_head: bool = True) -> int:
    """Return 4 for each weight of the frozen base that a token is multiplied with.

    2 forward and 2 backward to the inputs; adapters, attention and gradients of weights, which
    there are none of, are not counted.
    """
    embeddings, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    matrices = sum(p.numel() for p in model.parameters())
    if head is not embeddings:
        matrices -= embeddings.numel()
    return 4 * int(matrices if has_head else matrices - head.numel())


class Peak:
    """Operations a second of a device at best: the data sheet's, else of one product of matrices.

    Attributes:
        source: where the number is from.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device = device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
        self._is_known = ("H100" in name and "HBM3" in name) or "H200" in name
        self._size = 8192 if device.type == "cuda" else 2048
        self._dtype = dtype
        number = f"{self.flops() / 1e12:,.3g} TFLOP/s"
        product = f"a product of {self._size} x {self._size} matrices in each turn"
        self.source = f"{number}, {'data sheet' if self._is_known else product}"

    def flops(self) -> float:
        """Return the number, measured now unless it is the data sheet's."""
        if self._is_known:
            return 989e12
        shape = (2, self._size, self._size)
        one, other = torch.rand(shape, device=self._device, dtype=self._dtype)
        linear = choose_linear(self._device, self._dtype)
        best = min(seconds(lambda: linear(one, other, None), self._device) for _ in range(3))
        return 2 * self._size**3 / best
