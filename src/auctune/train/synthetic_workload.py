"""Synthetic jobs of known tokens and the times of their rounds, by which a device is measured."""

import itertools
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from auctune.domain.errors import AuctuneError
from auctune.files.device_profile import REFERENCE_RANK
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.tiny_text import texts
from auctune.train.trainer import MultiLoraTrainer

MANY_EPOCHS = 100_000
DIFFERENT_ROWS = 32
# Tokens of the smallest pass, and of the shortest row of a mixed load.
MIN_TOKENS = 32
# Tasks of mixed loads, at most.
MIX_TASKS = 8
# Draws of a mixed load until it is of the size that it should be of.
DRAWS = 1000


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

    def job(self, num_rows: int, row_tokens: int, rank: int = REFERENCE_RANK) -> LoraJob:
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
    source: random.Random, row_tokens: int, max_tokens: float
) -> list[tuple[int, int]]:
    """Return the numbers and lengths of the rows of random jobs that share a node.

    Args:
        source: of the draws.
        row_tokens: of a row, at most; the shortest has `MIN_TOKENS`.
        max_tokens: of a job, unless even one row of the shortest has more.

    Returns:
        One pair for each of `MIX_TASKS` jobs.
    """
    lengths = [min(MIN_TOKENS, row_tokens)]
    while 2 * lengths[-1] <= row_tokens:
        lengths.append(2 * lengths[-1])
    shapes = [
        (rows, length) for rows in (1, 2, 4, 8) for length in lengths if rows * length <= max_tokens
    ]
    return [source.choice(shapes or [(1, lengths[0])]) for _ in range(MIX_TASKS)]


def random_mix(
    source: random.Random, jobs: Sequence[LoraJob], min_tokens: float, max_tokens: float
) -> list[LoraJob]:
    """Return some of the jobs, of `min_tokens` to `max_tokens` a round if many draws find such."""

    def miss(mixed: list[LoraJob]) -> float:
        total = round_tokens(mixed)
        return max(min_tokens - total, total - max_tokens, 0.0)

    draws = (source.sample(jobs, source.randint(1, len(jobs))) for _ in range(DRAWS))
    return min(draws, key=miss)


def round_tokens(jobs: Sequence[LoraJob]) -> int:
    """Return the tokens of one round of jobs."""
    return sum(job.batch_size * job.max_length for job in jobs)
