"""The gradient of a micro-batch of rows at given weights: what a worker computes.

A worker keeps nothing from one micro-batch to the next but the weights that it was last given, so
nothing is lost with it but what it is at. Only gradients, losses and counts leave it, and in the
end the adapter. Its rows are those of the job's file, or chunks of rows that it was sent.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from auctune.domain.dataset import DataSet
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.errors import InputError
from auctune.train.base import Base
from auctune.train.data_parallel.batches import (
    NO_GRADIENT,
    ChunkRows,
    Contribution,
    Floats,
    RowRange,
)
from auctune.train.export import export_adapter, write_adapter
from auctune.train.job import LoraJob
from auctune.train.multilora.adapters import AdaptedModel, lora_config
from auctune.train.multilora.backends import choose_backend
from auctune.train.multilora.batching import BatchRow, MicroBatch, units_of
from auctune.train.multilora.device_group import DeviceGroup
from auctune.train.multilora.step import ForwardBackward
from auctune.train.multilora.task import BatchRowFactory, TaskRows, count_data, data_size
from auctune.train.multilora.train_loop import compute_references
from auctune.train.out_of_memory import run_or_out_of_memory
from auctune.train.reproducible import deterministic, prepare_deterministic
from auctune.train.row_cursor import RowCursor
from auctune.train.rows import TokenizedRow, tokenize, tokenize_chunk
from auctune.train.tokenized_file import read_rows

NAME = "job0"
# Places of rows in a job: chunks and epochs have so many each.
_MOST_ROWS = 2**32
_NO_ROWS = (TokenizedRow(np.arange(4), np.arange(4)),)


class GradientWorker:
    """Computes micro-batches of one job in exact mode.

    Args:
        base: the model that is adapted; its weights are shared, not copied.
        job: settings of the adapter; `batch_size` is the global batch.
        threads: of torch on a CPU; the same for all workers, as sums depend on them.
        gradient_checkpointing: as of `ForwardBackward`'s `checkpointing`.

    Attributes:
        step, weights: the passes, and the adapter's parameters.
        first_weights: float32 [num_parameters], of the adapter before the first step: of a new one
            unless `start_from` was called.

    Raises:
        InputError: if the base has no such modules, or the job's loss needs whole batches.
    """

    def __init__(
        self, base: Base, job: LoraJob, *, threads: int = 1, gradient_checkpointing: int = 0
    ) -> None:
        if job.method == "kto":
            expected = "'supervised' or 'dpo' where workers have parts of a batch"
            raise InputError("method", f"{job.method!r}", expected)
        prepare_deterministic()
        self._base, self._job, self._threads = base, job, threads
        self._adapted = AdaptedModel(
            base.fresh_model(), choose_backend("auto", base.device, base.dtype)
        )
        self.step = ForwardBackward(self._adapted, checkpointing=gradient_checkpointing)
        self.weights = self._adapted.add(NAME, lora_config(job, self._adapted.model), job.seed)
        self._factory = BatchRowFactory(job, self.weights)
        self.first_weights = self._copy_weights()
        self._max_length = min(job.max_length, base.context_tokens or job.max_length)
        self._file: TaskRows | None = None
        self._chunks: dict[int, Sequence[TokenizedRow]] = {}
        self._validation: Sequence[TokenizedRow] = ()

    @property
    def base_digest(self) -> str:
        """Digest of the base model."""
        return self._base.digest

    def start_from(self, adapter: Path) -> None:
        """Have `first_weights` be those of the adapter that the job starts from.

        The references of a job's pairs, too, are computed with that adapter.

        Args:
            adapter: its folder, or a zip archive of one.

        Raises:
            InputError: if it is not the adapter that the job names, or not one of the base.
        """
        self._factory.load_start(self._base.digest, adapter)
        self.first_weights = self._copy_weights()

    @torch.no_grad()
    def load_file(self) -> TaskRows:
        """Read the job's rows, unless that was done.

        Raises:
            InputError: if they cannot be used, or the adapter that a job with pairs starts from.
        """
        if self._file is None:
            job, base = self._job, self._base
            limits = self._max_length, base.context_tokens
            data, validation = read_rows(job.data, base.tokenizer, *limits), None
            if job.validation is not None:
                validation = read_rows(job.validation, base.tokenizer, *limits)
            for name, rows in (("data", data), ("validation", validation)):
                if rows is not None:
                    rows.size(None).check_method(name, job.method)
            cursor = RowCursor(job, count_data(job, data, validation))
            self._file = TaskRows(cursor, self._factory, data, validation)
            if self._file.has_preferences:
                # Their references are those of the adapter that the job starts from.
                current = self.weights.values.clone()
                self._factory.load_start(base.digest, job.start_from)
                self.weights.values.copy_(current)
        return self._file

    def notes(self) -> tuple[str, ...]:
        """Return sentences on rows of the file that are truncated or left out."""
        file = self.load_file()
        size = data_size(file.data, file.validation, self._base.context_tokens)
        return tuple(size.notes(self._job.max_length))

    def load_chunks(
        self, chunks: Mapping[int, DataSet], validation: DataSet | None = None
    ) -> dict[int, int]:
        """Tokenize the chunks of a slot, and rows to measure by; those that it held before go.

        Returns:
            Rows by chunk. Rows that have nothing to learn are not among them.

        Raises:
            InputError: if a row does not fit the tokenizer's chat template, or no row to measure
                by has anything to learn.
        """
        tokenizer, max_length = self._base.tokenizer, self._max_length
        self._validation = (
            () if validation is None else tokenize(validation, tokenizer, max_length).rows
        )
        self._chunks = {
            number: tokenize_chunk(chunk, tokenizer, max_length).rows
            for number, chunk in chunks.items()
        }
        return {number: len(rows) for number, rows in self._chunks.items()}

    @property
    def num_validation_rows(self) -> int:
        """Rows to measure by that came with the chunks."""
        return len(self._validation)

    @torch.no_grad()
    def set_weights(self, values: Floats) -> None:
        """Take over weights, float32 [num_parameters]; they are copied."""
        # What comes out of an object store may not be written to, of which torch warns.
        self.weights.values.copy_(torch.tensor(values))

    def compute(self, part: RowRange | ChunkRows) -> Contribution:
        """Return the gradient of a micro-batch at the weights last taken over: a sum over tokens.

        Rows of the file are weighted by 1/T of their whole batch, rows of chunks by 1, as no worker
        knows all chunks. Rows of the validation data have no gradient. The shape of a pass is that
        of its rows, and does not depend on who computes it.

        Raises:
            InputError: if a micro-batch of the file does not fit into memory.
            MemoryError: if one of a chunk does not.
        """
        return self._compute(part) if isinstance(part, RowRange) else self._compute_chunk(part)

    def _compute(self, part: RowRange) -> Contribution:
        file, count = self.load_file(), part.num_rows
        file.cursor.seek(part.first)
        try:
            self._compute_references(file.next_preferences(count))
            rows = file.take(count)
            if file.cursor.is_validating:
                return self._evaluate(rows, 0)
            return self._train(rows, file.num_batch_targets, file.num_tokens(count))
        except MemoryError as error:
            expected = "fewer rows" if count > 1 else "shorter rows: a smaller max_length"
            raise InputError("micro_batch", str(error), expected) from None

    def _compute_references(self, pairs: Mapping[int, TokenizedRow]) -> None:
        """Compute the references of a micro-batch's pairs, in the shape in which they train.

        They are not kept: an epoch takes the same work, and comes to the same bits, for a worker
        that has seen its pairs and for one that has not.
        """
        self._factory.references.clear()
        with deterministic(self._threads):
            failed = compute_references(
                [(self._factory, pairs)],
                self.step,
                lambda rows: [[self._together(rows)]],
                DeviceGroup(),
            )
        if failed is not None:
            raise _too_large(failed.rows)

    def _compute_chunk(self, part: ChunkRows) -> Contribution:
        chunk = self._chunks[part.chunk]
        picked = [chunk[index] for index in part.indices(self._job.seed, len(chunk))]
        # Each row has a key of its own in each epoch, whoever computes it.
        place = (part.chunk * self._job.epochs + part.epoch) * _MOST_ROWS + part.first
        rows = self._unweighted(picked, place)
        return self._train(rows, self._num_targets(picked), sum(map(len, picked)))

    def validate(self, first: int, count: int) -> Contribution:
        """Return the sums over some of the rows to measure by that came with the chunks.

        Raises:
            MemoryError: if they do not fit into memory.
        """
        picked = self._validation[first : first + count]
        return self._evaluate(self._unweighted(picked, 0), self._num_targets(picked))

    def _unweighted(self, picked: Sequence[TokenizedRow], place: int) -> list[BatchRow]:
        """Return the rows of a micro-batch from a place in the job on, with their references."""
        if self._factory.has_preferences:
            self._compute_references(dict(enumerate(picked)))
        return [
            one
            for index, row in enumerate(picked)
            for one in self._factory.batch_rows(index, row, place + index, 1.0)
        ]

    def _num_targets(self, picked: Sequence[TokenizedRow]) -> int:
        if self._factory.has_preferences:
            return len(picked)
        return sum(row.num_trained_tokens for row in picked)

    def export(self, metrics: EpochMetrics | None = None) -> dict[str, bytes]:
        """Return the files of the adapter in PEFT's format, by name.

        That of the whole job is loaded back by PEFT and compared on rows of the job; if the worker
        has none, on the first tokens of the vocabulary.

        Args:
            metrics: of the epoch whose adapter it is; `None`: of the whole job.

        Raises:
            ExportError: if what was written is not the adapter of the weights last taken over.
        """
        config, weights = self.weights.config, self.weights.named(self.weights.values)
        with tempfile.TemporaryDirectory(prefix="auctune-adapter-") as space:
            folder = Path(space) / "adapter"
            if metrics is not None:
                folder.mkdir()
                write_adapter(self._base, config, weights, folder, metrics)
            else:
                export_adapter(
                    self._base,
                    config,
                    weights,
                    folder,
                    rows=self._samples(),
                    trained_logits=lambda row: self.step.logits(NAME, row),
                )
            return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def _samples(self) -> Sequence[TokenizedRow]:
        if self._file is not None:
            return self._file.data.rows
        return next((rows for rows in self._chunks.values() if rows), _NO_ROWS)

    def _copy_weights(self) -> Floats:
        copied: Floats = self.weights.values.to("cpu", copy=True).numpy()
        return copied

    def _train(self, rows: Sequence[BatchRow], num_targets: int, num_tokens: int) -> Contribution:
        self.weights.gradients.zero_()
        loss, hits = self._run(self.step.train, rows)
        gradient: Floats = self.weights.gradients.to("cpu", copy=True).numpy()
        return Contribution(gradient, loss, hits, num_targets, num_tokens)

    def _evaluate(self, rows: Sequence[BatchRow], num_targets: int) -> Contribution:
        sums = self._run(self.step.evaluate, rows)
        return Contribution(NO_GRADIENT, *sums, num_targets)

    def _run(
        self, run: Callable[[MicroBatch], dict[str, Tensor]], rows: Sequence[BatchRow]
    ) -> tuple[float, int]:
        with deterministic(self._threads):
            sums = run_or_out_of_memory(run, self._together(rows))
        if sums is None:
            raise _too_large(rows)
        loss, hits = sums[NAME].tolist()
        return loss, int(hits)

    def _together(self, rows: Sequence[BatchRow]) -> MicroBatch:
        return MicroBatch(tuple(rows), self.step.is_packed)


def _too_large(rows: Sequence[BatchRow]) -> MemoryError:
    count, what = len(units_of(rows)), "pair" if rows[0].beta else "row"
    does = f"{count} {what}s do" if count > 1 else f"a single {what} does"
    return MemoryError(f"{does} not fit into memory")
