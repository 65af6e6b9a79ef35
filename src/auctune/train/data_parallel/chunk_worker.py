"""A worker at a site: gradients of micro-batches of the chunks that it holds.

Only gradients, losses and counts leave it, and in the end the adapter.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from auctune.domain.dataset import DataSet
from auctune.train.base import Base
from auctune.train.data_parallel.batches import ChunkRows, Contribution, Floats
from auctune.train.data_parallel.gradients import NAME, AdapterGradients
from auctune.train.export import export_adapter
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import load_start
from auctune.train.multilora.batching import BatchRow
from auctune.train.multilora.dropout import row_key
from auctune.train.rows import TokenizedRow, tokenize, tokenize_chunk

# Places of rows in a job: chunks and epochs have so many each.
_MOST_ROWS = 2**32
_NO_ROWS = (TokenizedRow(np.arange(4), np.arange(4)),)


class ChunkWorker:
    """Computes gradients of one job on chunks of rows.

    Args:
        base: the model that is adapted.
        job: settings of the adapter; its data are the chunks.
        threads, gradient_checkpointing: as of `AdapterGradients`.

    Attributes:
        first_weights: of the adapter, before the first step; of a new one unless `start_from` was
            called.

    Raises:
        InputError: if the base has no such modules.
    """

    def __init__(
        self, base: Base, job: LoraJob, *, threads: int = 1, gradient_checkpointing: bool = False
    ) -> None:
        self._base, self._job = base, job
        self._adapter = AdapterGradients(
            base, job, threads=threads, gradient_checkpointing=gradient_checkpointing
        )
        self.first_weights: Floats = self._adapter.weights.values.to("cpu", copy=True).numpy()
        self._chunks: dict[int, Sequence[TokenizedRow]] = {}
        self._validation: Sequence[TokenizedRow] = ()

    def start_from(self, adapter: Path) -> None:
        """Have `first_weights` be those of the adapter that the job starts from.

        Args:
            adapter: its folder, or a zip archive of one.

        Raises:
            InputError: if it is not the adapter that the job names, or not one of the base.
        """
        weights, job = self._adapter.weights, replace(self._job, start_from=adapter)
        load_start(weights, job, self._base.digest)
        self.first_weights = weights.values.to("cpu", copy=True).numpy()

    @property
    def base_digest(self) -> str:
        """Digest of the base model."""
        return self._base.digest

    def set_weights(self, values: Floats) -> None:
        """Take over weights, float32 [num_parameters]; they are copied."""
        self._adapter.set_weights(values)

    def load(
        self, chunks: Mapping[int, DataSet], validation: DataSet | None = None
    ) -> dict[int, int]:
        """Tokenize the chunks of a slot, and rows to measure by; those that it held before go.

        Returns:
            Rows by chunk. Rows that have nothing to learn are not among them.

        Raises:
            InputError: if a row does not fit the tokenizer's chat template, or no row to measure
                by has anything to learn.
        """
        tokenizer, max_length = self._base.tokenizer, self._adapter.max_length
        self._validation = (
            () if validation is None else tokenize(validation, tokenizer, max_length).rows
        )
        self._chunks = {
            number: tokenize_chunk(chunk, tokenizer, max_length).rows
            for number, chunk in chunks.items()
        }
        return {number: len(rows) for number, rows in self._chunks.items()}

    def compute(self, part: ChunkRows) -> Contribution:
        """Return the gradient of a micro-batch at the weights last taken over: a sum over tokens.

        Raises:
            MemoryError: if it does not fit into memory.
        """
        chunk = self._chunks[part.chunk]
        picked = [chunk[index] for index in part.indices(self._job.seed, len(chunk))]
        # Each row has a key of its own in each epoch, whoever computes it.
        place = (part.chunk * self._job.epochs + part.epoch) * _MOST_ROWS + part.first
        rows = [self._planned(row, place + offset) for offset, row in enumerate(picked)]
        num_targets = sum(row.num_trained_tokens for row in picked)
        return Contribution(*self._adapter.compute(rows), num_targets)

    @property
    def num_validation_rows(self) -> int:
        """Rows to measure by."""
        return len(self._validation)

    def validate(self, first: int, count: int) -> Contribution:
        """Return the loss and hits of some of the rows to measure by, and their trained tokens.

        Raises:
            MemoryError: if they do not fit into memory.
        """
        picked = self._validation[first : first + count]
        sums = self._adapter.evaluate([self._planned(row, 0) for row in picked])
        num_targets = sum(row.num_trained_tokens for row in picked)
        return Contribution(np.zeros(0, np.float32), *sums, num_targets)

    def export(self) -> dict[str, bytes]:
        """Return the files of the adapter in PEFT's format, by name.

        It is loaded back by PEFT and compared on rows of a chunk; of chunks that have none, on
        the first tokens of the vocabulary.

        Raises:
            ExportError: if what was written is not the adapter of the weights last taken over.
        """
        weights, adapted = self._adapter.weights, self._adapter.adapted
        with tempfile.TemporaryDirectory(prefix="auctune-adapter-") as space:
            folder = Path(space) / "adapter"
            export_adapter(
                self._base,
                adapted.config(NAME),
                weights.named(weights.values),
                folder,
                rows=next((rows for rows in self._chunks.values() if rows), _NO_ROWS),
                trained_logits=lambda row: self._adapter.step.logits(NAME, row),
            )
            return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def _planned(self, row: TokenizedRow, place: int) -> BatchRow:
        return BatchRow(NAME, row_key(self._job.seed, place), row.input_ids, row.labels, 1.0)
