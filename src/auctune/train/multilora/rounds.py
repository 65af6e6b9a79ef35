"""Rounds of training: rows in, passes through the model, steps of the optimizers out.

In a round each job that is short of its target gives rows of its current optimizer batch, so many
that all jobs would finish together; the rows of all jobs are cut into micro-batches and run; a job
whose batch is full takes its own step. What goes wrong with one job ends that job alone, and memory
that runs out makes micro-batches smaller.
"""

import math
import re
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from auctune.train.multilora.batches import MicroBatch, PlannedRow, Planner
from auctune.train.multilora.step import Step
from auctune.train.multilora.task import TrainingTask

# What is said in a plain RuntimeError when memory runs out: by torch of a CPU, by CUDA's runtime
# (torch.AcceleratorError), and by cuBLAS, cuDNN and their like, which allocate for themselves.
OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|CUDA error: out of memory|(CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_"
    r"(ALLOC_FAILED|INTERNAL_ERROR_\w*ALLOCATION_FAILED)"
)


class Rounds:
    """Runs rounds.

    Attributes:
        step: runs micro-batches.
        planner: cuts rows into micro-batches.
        padding: (padding, all) tokens computed so far.
    """

    def __init__(self, step: Step, planner: Planner) -> None:
        self.step = step
        self.planner = planner
        self.padding = (0, 0)

    def run(
        self, targets: Sequence[tuple[TrainingTask, int]], most_rows: int | None = None
    ) -> list[TrainingTask] | None:
        """One round towards each task's cumulative number of rows.

        Args:
            targets: rows by task.
            most_rows: of the round, >= 1; none: as many as suit the tasks.

        Returns:
            The tasks that took a step, or ended; none once all targets are reached.
        """
        shares = cut_down(share_out(targets), most_rows)
        if not shares:
            return None
        starts = [task.batch_start for task, _ in shares]
        rows = [task.next_rows(count) for task, count in shares]
        failed = self._train([row for part in rows for row in part], [task for task, _ in shares])
        if failed is not None:
            # Some gradients of the failed pass have been added, others not.
            for (task, _), start in zip(shares, starts, strict=True):
                task.restart_batch(start)
            return self._make_room(failed, [task for task, _ in shares])
        targets_of = {id(task): task.num_batch_targets for task, _ in shares}
        full = [task for (task, _), part in zip(shares, rows, strict=True) if task.advance(part)]
        self.finish(full, [targets_of[id(task)] for task in full])
        return full

    def _train(self, rows: list[PlannedRow], tasks: list[TrainingTask]) -> MicroBatch | None:
        """Run all rows; returns the micro-batch that did not fit into memory, if one did not."""
        losses = {task.weights.name: task.batch_loss for task in tasks}
        for batch in self.planner.plan(rows):
            sums = attempt(self.step.train, batch)
            if sums is None:
                return batch
            for name, loss in sums.items():
                losses[name] += loss
            padding, total = self.padding
            added = batch.num_tokens - batch.num_real_tokens
            self.padding = (padding + added, total + batch.num_tokens)
        return None

    def finish(self, full: Sequence[TrainingTask], num_targets: Sequence[int]) -> None:
        """Let tasks whose batch is full take their step, unless it would not be finite.

        Args:
            full: the tasks.
            num_targets: trained tokens of each one's batch.
        """
        if not full:
            return
        # One transfer for all: on a GPU each would wait for the device.
        parts = [(task.batch_loss, task.optimizer.clip()) for task in full]
        numbers = torch.stack([number for pair in parts for number in pair]).tolist()
        results = zip(full, num_targets, numbers[::2], numbers[1::2], strict=True)
        for task, targets, loss, norm in results:
            if not (math.isfinite(loss) and math.isfinite(norm)):
                what = f"gradient norm {norm}" if math.isfinite(loss) else f"loss {loss}"
                task.fail(f"{what} in step {task.steps + 1}")
                continue
            task.take_step(loss / targets)
            if task.validation_data is not None and task.cursor.done % len(task.data) == 0:
                self._validate(task)

    def _validate(self, task: TrainingTask) -> None:
        assert task.validation_data is not None
        total, waiting = 0.0, self.planner.plan(task.validation_rows())
        while waiting:
            batch = waiting.pop()
            sums = attempt(self.step.evaluate, batch)
            if sums is not None:
                total += sum(loss.item() for loss in sums.values())
            elif self._make_room(batch, [task]):
                return
            else:
                waiting += self.planner.plan(batch.rows)
        task.note_validation(total / task.validation_data.num_trained_tokens)

    def _make_room(self, failed: MicroBatch, tasks: Sequence[TrainingTask]) -> list[TrainingTask]:
        """Answer memory that ran out; returns the task that cannot go on, if there is one."""
        free_cache()
        if len(failed.rows) > 1:
            self.planner.shrink(failed)
            return []
        (task,) = (task for task in tasks if task.weights.name == failed.rows[0].adapter)
        task.fail(f"out of memory with a single row of {failed.width} tokens")
        return [task]


def attempt(
    run: Callable[[MicroBatch], dict[str, Tensor]], batch: MicroBatch
) -> dict[str, Tensor] | None:
    """What a pass returns; none if memory ran out in it."""
    try:
        return run(batch)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, of a device or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None


def free_cache() -> None:
    """Give back what torch holds of a GPU's memory without using it."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def share_out(targets: Sequence[tuple[TrainingTask, int]]) -> list[tuple[TrainingTask, int]]:
    """How many rows each unfinished task gives to the next round.

    The busiest task, with the most optimizer steps to go, gives whole batches; the others spread
    their rows over as many rounds, so that passes stay full to the end.
    """
    left = [(task, task.rows_left(target)) for task, target in targets]
    unfinished = [(task, rows) for task, rows in left if rows]
    rounds = max((-(-rows // task.job.batch_size) for task, rows in unfinished), default=0)
    return [(task, min(-(-rows // rounds), task.batch_left, rows)) for task, rows in unfinished]


def cut_down(
    shares: list[tuple[TrainingTask, int]], most_rows: int | None
) -> list[tuple[TrainingTask, int]]:
    """The same shares in proportion, with `most_rows` rows in all at most, and one at least."""
    total = sum(rows for _, rows in shares)
    if most_rows is None or total <= most_rows:
        return shares
    smaller = [(task, rows * most_rows // total) for task, rows in shares]
    return [(task, rows) for task, rows in smaller if rows] or [(shares[0][0], 1)]
