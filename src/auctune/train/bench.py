"""Made-up jobs on a node's trainer, and how long their rounds take.

All rows of a job have the same number of tokens, and its data are one optimizer batch, so a round
is one optimizer step of each job and the tokens in it are known beforehand.
"""

import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from auctune.domain.errors import AuctuneError
from auctune.train.base import Base
from auctune.train.device_facts import default_modules, linear_features
from auctune.train.job import LoraJob
from auctune.train.node import NodeTrainer
from auctune.train.progress import Progress
from auctune.train.tiny_text import texts

ENDLESS = 100_000


class MeasurementError(AuctuneError):
    """A measurement could not be made on this device."""


@dataclass
class Bench:
    """Where measurements are made.

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
        with data.open("w", encoding="utf-8") as file:
            for _ in range(num_rows):
                file.write(json.dumps({"text": self._text(source, row_tokens)}) + "\n")
        return LoraJob(
            id=f"bench-{self._num_jobs}",
            data=data,
            epochs=ENDLESS,
            rank=rank,
            target_modules=self._modules(),
            batch_size=num_rows,
            max_length=row_tokens,
        )

    def load(self, trainer: NodeTrainer, jobs: Sequence[LoraJob]) -> None:
        """Load jobs, each in a folder of its own."""
        for job in jobs:
            trainer.load(job, self.folder / job.id)

    def unload(self, trainer: NodeTrainer, jobs: Sequence[LoraJob]) -> None:
        """Let go of jobs."""
        for job in jobs:
            trainer.unload(job.id)

    def rounds(
        self, trainer: NodeTrainer, jobs: Sequence[LoraJob], count: int, until: float = math.inf
    ) -> list[float]:
        """Seconds of each of the next rounds of loaded jobs.

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
            ended = trainer.train(targets, _unheard)
            seconds.append(self.now() - started)
            for progress in ended.values():
                if progress.state == "failed":
                    raise MeasurementError(f"a made-up job failed: {progress.note}")
        return seconds

    def now(self) -> float:
        """Seconds on a steady clock, once the device has done all that it was given."""
        if self.base.device.type == "cuda":
            torch.cuda.synchronize(self.base.device)
        return time.perf_counter()

    def _text(self, source: Iterator[str], num_tokens: int) -> str:
        """A text of `num_tokens` tokens or a few more, which are cut off."""
        text = next(source)
        while len(self.base.tokenizer(text)["input_ids"]) < num_tokens:
            text += f" {next(source)}"
        return text

    def _modules(self) -> tuple[str, ...]:
        """PEFT's choice; of an architecture that it does not know, all inside the layers."""
        if default_modules(self.base.model):
            return ()
        inside = [name for name in linear_features(self.base.model) if "*" in name]
        return tuple(sorted({name.rpartition(".")[2] for name in inside}))


def _unheard(progress: Progress) -> None:
    """A report that nobody hears."""


def random_mix(bench: Bench, source: random.Random, row_tokens: int) -> list[LoraJob]:
    """Two to four jobs of random rank, batch size and row length."""
    return [
        bench.job(
            num_rows=source.choice((1, 2, 4, 8)),
            row_tokens=source.choice((row_tokens // 2, row_tokens)),
            rank=source.choice((4, 8, 16)),
        )
        for _ in range(source.randint(2, 4))
    ]


def round_tokens(jobs: Sequence[LoraJob]) -> int:
    """Tokens of one round of these jobs."""
    return sum(job.batch_size * job.max_length for job in jobs)
