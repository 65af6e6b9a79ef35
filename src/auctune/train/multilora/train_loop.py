"""The loop of training: rounds of rows, passes through the model, optimizer steps, validation.

In a round each job that is short of its target gives rows of its current optimizer batch, so many
that all jobs would finish together; the rows of all jobs are cut into micro-batches and run; a job
whose batch is full takes its own step. A job at the end of an epoch gives rows of its validation
data instead, which are evaluated: they count as rows of the job like others, so that validation
goes on in the next call where this one ends. What goes wrong with one job ends that job alone, and
memory that runs out makes micro-batches smaller. On a node of several devices each takes a share of
a round's rows.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

import torch
from torch import Tensor

from auctune.train.multilora.batching import BatchRow, MicroBatch, MicroBatcher, share_out
from auctune.train.multilora.device_group import DeviceGroup, Parts
from auctune.train.multilora.step import ForwardBackward
from auctune.train.multilora.task import BatchRowFactory, TrainingTask, reference_adapters
from auctune.train.rows import TokenizedRow
from auctune.train.task_state import take_steps


class TrainLoop:
    """Runs rounds of training.

    Attributes:
        step: runs micro-batches.
        batcher: splits rows into micro-batches, those of one device.
        devices: of the node; the first one is that of `step`.
        num_estimated: rows of the last round that were computed for an estimate alone.
    """

    def __init__(self, step: ForwardBackward, batcher: MicroBatcher, devices: DeviceGroup) -> None:
        self.step = step
        self.batcher = batcher
        self.devices = devices
        self.num_estimated = 0

    def run(
        self, targets: Sequence[tuple[TrainingTask, int]], max_rows: int | None = None
    ) -> list[TrainingTask] | None:
        """Run one round towards each task's cumulative number of rows.

        Args:
            targets: rows by task.
            max_rows: of the round, >= 1, by their cost; `None`: as many as suit the tasks.

        Returns:
            The tasks that took a step, evaluated rows, or ended; `None` once all targets are
            reached.
        """
        shares = cap_rows(allocate_rows(targets), max_rows)
        if not shares:
            return None
        self.num_estimated = 0
        if not self.batcher.keeps_references:
            for task, _ in shares:
                task.rows.factory.references.clear()
        ready = self._estimate(shares)
        if isinstance(ready, MicroBatch):
            return self._handle_out_of_memory(ready, [task for task, _ in shares])
        failed = compute_references(
            [(task.rows.factory, task.rows.next_preferences(count)) for task, count in ready],
            self.step,
            self._split,
            self.devices,
        )
        if failed is not None:
            return self._handle_out_of_memory(failed, [task for task, _ in ready])
        validating = [(task, count) for task, count in ready if task.is_validating]
        training = [(task, count) for task, count in ready if not task.is_validating]
        return [*self._validate(validating), *self._train_round(training)]

    def _estimate(
        self, shares: Sequence[tuple[TrainingTask, int]]
    ) -> list[tuple[TrainingTask, int]] | MicroBatch:
        """Compute what is missing of the estimates of divergence, within the tasks' shares.

        Returns:
            The shares of tasks that missed nothing: in this round others train no row. Or the
            micro-batch that did not fit into memory.
        """
        estimates = [(task, task.rows.next_estimates(count)) for task, count in shares]
        missing = [one for _, of_task in estimates for one in of_task]
        if not missing:
            return list(shares)
        rows = [row for _, row in missing]
        jobs = [task.rows.factory for task, of_task in estimates if of_task]
        names = {job.weights.name for job in jobs}
        found = log_probabilities(rows, names, self.step, self._split, self.devices)
        if isinstance(found, MicroBatch):
            return found
        with reference_adapters(jobs) as adapters:
            of_base = log_probabilities(rows, adapters, self.step, self._split, self.devices)
        if isinstance(of_base, MicroBatch):
            return of_base
        for (gaps, _), value, reference in zip(missing, found, of_base, strict=True):
            gaps.append(value - reference)
        self.num_estimated = len(missing)
        known = [not of_task for _, of_task in estimates]
        return [share for share, is_known in zip(shares, known, strict=True) if is_known]

    def _train_round(self, shares: Sequence[tuple[TrainingTask, int]]) -> list[TrainingTask]:
        """Train rows of tasks; return the tasks that took a step, or ended."""
        starts = [task.batch_start for task, _ in shares]
        rows = [task.rows.take(count) for task, count in shares]
        failed = self._train([row for part in rows for row in part], [task for task, _ in shares])
        if failed is not None:
            # Some gradients of the failed pass have been added, others not.
            for (task, _), start in zip(shares, starts, strict=True):
                task.restart_batch(start)
            return self._handle_out_of_memory(failed, [task for task, _ in shares])
        targets_of = {id(task): task.rows.num_batch_targets for task, _ in shares}
        full = [
            task for task, count in shares if task.count_trained(count, task.rows.num_tokens(count))
        ]
        take_steps(full, [targets_of[id(task)] for task in full])
        return full

    def _train(self, rows: Sequence[BatchRow], tasks: Sequence[TrainingTask]) -> MicroBatch | None:
        """Run all rows; return the micro-batch that did not fit into memory, or None."""
        totals = {task.weights.name: task.batch_sums for task in tasks}
        parts = self._split(rows)
        found = self.devices.train(self.step, parts)
        if isinstance(found, MicroBatch):
            return found
        for batch, sums in zip(chain(*parts), found, strict=True):
            self.batcher.record_pass(batch)
            for name, added in sums.items():
                totals[name] += added
        return None

    def _split(self, rows: Sequence[BatchRow]) -> Parts:
        """Return the micro-batches of each device."""
        return [self.batcher.split(part) for part in share_out(rows, self.devices.num_devices)]

    def _validate(self, shares: Sequence[tuple[TrainingTask, int]]) -> list[TrainingTask]:
        """Evaluate rows of validation data; return the tasks, or one that has ended."""
        sums = {task.weights.name: (0.0, 0.0) for task, _ in shares}
        rows = [row for task, count in shares for row in task.rows.take(count)]
        found = self.devices.evaluate(self.step, self._split(rows))
        if isinstance(found, MicroBatch):
            return self._handle_out_of_memory(found, [task for task, _ in shares])
        for name, (loss, hits) in _items(found):
            sums[name] = sums[name][0] + loss, sums[name][1] + hits
        for task, count in shares:
            task.count_validated(count, *sums[task.weights.name])
        return [task for task, _ in shares]

    def _handle_out_of_memory(
        self, failed: MicroBatch, tasks: Sequence[TrainingTask]
    ) -> list[TrainingTask]:
        """Reduce the budget after memory ran out; return a task that cannot continue, if any."""
        if self.devices.release(self.step):
            return []
        if failed.num_units > 1:
            self.batcher.reduce_budget(failed)
            return []
        (task,) = (task for task in tasks if task.weights.name == failed.rows[0].adapter)
        unit = "row" if task.job.method == "supervised" else "row of preferences"
        task.fail(f"out of memory with a single {unit} of {failed.width} tokens")
        return [task]


def _items(found: Iterable[Mapping[str, Tensor]]) -> Iterable[tuple[str, list[float]]]:
    return ((name, sums.tolist()) for one in found for name, sums in one.items())


def compute_references(
    rows_of: Sequence[tuple[BatchRowFactory, Mapping[int, TokenizedRow]]],
    step: ForwardBackward,
    split: Callable[[Sequence[BatchRow]], Parts],
    devices: DeviceGroup,
) -> MicroBatch | None:
    """Compute what is missing of the references of rows with preferences.

    Args:
        rows_of: of each job its rows, by number.
        step: runs micro-batches.
        split: into the micro-batches of each device.
        devices: of the node.

    Returns:
        The micro-batch that did not fit into memory, or `None`.
    """
    missing = [
        (job, index, rows)
        for job, of_job in rows_of
        for index, rows in job.without_reference(of_job).items()
    ]
    if not missing:
        return None
    rows = [row for _, _, of_one in missing for row in of_one]
    with reference_adapters({id(job): job for job, _, _ in missing}.values()) as adapters:
        found = log_probabilities(rows, adapters, step, split, devices)
    if isinstance(found, MicroBatch):
        return found
    values = iter(found)
    for job, index, of_one in missing:
        job.references[index] = tuple(next(values) for _ in of_one)
    return None


def log_probabilities(
    rows: Sequence[BatchRow],
    adapters: Collection[str],
    step: ForwardBackward,
    split: Callable[[Sequence[BatchRow]], Parts],
    devices: DeviceGroup,
) -> list[float] | MicroBatch:
    """Return the log-probability of the targets of each row.

    Args:
        rows: of any jobs.
        adapters: those that count; rows of others are computed by the base alone.
        step, split, devices: as of `compute_references`.

    Returns:
        One for each row; or the micro-batch that did not fit into memory.
    """
    parts = split(rows)
    found = devices.log_probabilities(step, parts, adapters)
    if isinstance(found, MicroBatch):
        return found
    order = (row for batch in chain(*parts) for row in batch.rows)
    values = dict(zip(map(id, order), torch.cat(found).tolist(), strict=True))
    return [values[id(row)] for row in rows]


def allocate_rows(targets: Sequence[tuple[TrainingTask, int]]) -> list[tuple[TrainingTask, int]]:
    """Return how many rows each unfinished task contributes to the next round, the busiest first.

    The busiest task, with the most remaining optimizer steps, contributes whole batches; the others
    spread their rows over as many rounds, so that passes stay full to the end.
    """
    unfinished = [
        (task.remaining_rounds(target), task, task.remaining_rows(target))
        for task, target in targets
        if task.remaining_rows(target)
    ]
    unfinished.sort(key=lambda one: -one[0])
    return [
        (task, min(-(-rows // unfinished[0][0]), task.round_remaining, rows))
        for _, task, rows in unfinished
    ]


def cap_rows(
    shares: list[tuple[TrainingTask, int]], max_rows: int | None
) -> list[tuple[TrainingTask, int]]:
    """Return the shares scaled down to the cost of `max_rows` rows in total, and a row at least.

    What rounding leaves goes to tasks whose share is less than a row, the busiest first, so that
    each of them has its turn.
    """
    total = sum(rows * task.row_cost for task, rows in shares)
    if max_rows is None or total <= max_rows:
        return shares
    smaller = [(task, int(rows * max_rows // total)) for task, rows in shares]
    left = max_rows - sum(rows * task.row_cost for task, rows in smaller)
    for index, (task, rows) in enumerate(smaller):
        if not rows and task.row_cost <= left:
            smaller[index] = task, 1
            left -= task.row_cost
    return [(task, rows) for task, rows in smaller if rows] or [(shares[0][0], 1)]
