"""The process of one node: loads the base once, then does slot after slot what it is told.

It speaks the protocol of auctune.run.executor.messages. A slot is: tokenize the tasks' data, take
up each task from its newest checkpoint, train all of them together to their targets, or as far as
time allows, write their checkpoints, and let go of them. What is wrong with one task is told of
that task alone.

Half of a slot at most goes into tokenizing, in equal shares: a task whose data need more of it
trains in a later slot, in which tokenizing continues, and the others train in this one. The tokens
are kept from one slot to the next.
"""

import json
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import CheckpointError, OutOfMemoryError
from auctune.run.child import Message
from auctune.run.child.messages import error_record
from auctune.run.child.parent import Parent
from auctune.run.executor.messages import NodeSettings, TaskOrder, TaskResult, read_order
from auctune.run.unix_time import unix_time
from auctune.train.time_budget import NO_TIME_LIMIT, ThroughputEstimator, TimeBudget

# Progress is for people: a few lines a second are enough.
_REPORT_SECONDS = 0.2
# Of the time that is left of a slot.
_READING_SHARE = 0.5
_UNREAD = "its data take longer to tokenize than its share of a slot; it trains once that is done"


class StopAskedError(Exception):
    """The market wants the node to put its tasks away and end."""


class WhileWanted:
    """The time left to train, until the market wants the node to end.

    Args:
        time_budget: until then.
        stop: set when it does; the next round does not begin then, and `StopAskedError` is raised.
    """

    def __init__(self, time_budget: TimeBudget, stop: threading.Event) -> None:
        self._time_budget = time_budget
        self._stop = stop

    def max_rows(self) -> int | None:
        """Rows of the round that begins now."""
        if self._stop.is_set():
            raise StopAskedError
        return self._time_budget.max_rows()

    def record(self, rows: int) -> None:
        """The round is over."""
        self._time_budget.record(rows)


@contextmanager
def enough_memory(what: str) -> Iterator[None]:
    """A block whose want of memory is one task's, and not the end of its node.

    Raises:
        OutOfMemoryError: in place of what torch, CUDA or Python say.
    """
    from auctune.train.multilora.train_loop import free_cache, is_out_of_memory

    try:
        yield
        return
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
    # Only now are the frames gone that held on to memory.
    free_cache()
    raise OutOfMemoryError(f"out of memory while {what}")


class Worker:
    """One node at work.

    Args:
        settings: the base and how it computes.
        parent: the market.
    """

    def __init__(self, settings: NodeSettings, parent: Parent) -> None:
        # torch takes seconds to import; only child processes do.
        import torch

        from auctune.train.base import load_base
        from auctune.train.multilora.batching import OVERHEAD_TOKENS
        from auctune.train.tiny import tiny_folder
        from auctune.train.trainer import MultiLoraTrainer

        torch.set_num_threads(settings.threads)
        self._parent, self._settings = parent, settings
        self._reported = 0.0
        cache = Path(settings.cache)
        if settings.base == "tiny":
            what = "building the tiny base (once on this machine)"
            tiny_folder(cache, progress=lambda share: self._say_share("preparing", what, share))
        self.base = load_base(
            settings.base, cache=cache, device=settings.device, dtype=settings.dtype
        )
        self._throughput = ThroughputEstimator(unix_time)
        self._trainer = MultiLoraTrainer(
            self.base,
            mode="exact" if settings.mode == "exact" else "fused",
            token_budget=settings.token_budget,
            overhead_tokens=(
                OVERHEAD_TOKENS if settings.overhead_tokens is None else settings.overhead_tokens
            ),
        )

    def run(self) -> None:
        """Take orders until told to stop."""
        from auctune.train.profile import origin_of

        self._parent.say(
            "ready",
            base_digest=self.base.digest,
            architecture=self.base.architecture,
            context_tokens=self.base.context_tokens,
            origin=origin_of(self.base).key,
        )
        work = {"ping": self._answer, "measure": self._measure, "train": self._train}
        while (message := self._parent.orders.get())["do"] != "stop":
            try:
                work[message["do"]](message)
            except StopAskedError:
                return
            except AuctuneError as error:
                self._parent.say("failed", order=message.get("order", ""), **error_record(error))

    def _answer(self, message: Message) -> None:
        self._parent.say("pong")

    def _measure(self, message: Message) -> None:
        from auctune.train.profile import FULL, QUICK, measure_profile

        effort = QUICK if message["effort"] == "quick" else FULL
        profile = measure_profile(
            self.base,
            effort=replace(effort, seconds=self._settings.measure_seconds),
            report=partial(self._say_share, "measuring"),
        )
        self._parent.say("measured", profile=profile.to_json())

    def _say_share(self, kind: str, what: str, share: float) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS or share in (0.0, 1.0) or kind == "measuring":
            self._reported = now
            self._parent.say(kind, what=what, share=share)

    def _train(self, message: Message) -> None:
        started = time.monotonic()
        order, until = message["order"], message["until"]
        tasks = [read_order(record) for record in message["tasks"]]
        read, unread = self._read_all(order, tasks, until)
        loaded_steps, refused = self._load_all(order, [task for task in tasks if task in read])
        loaded = [task for task in tasks if task.job.id in loaded_steps]
        budget = NO_TIME_LIMIT if until is None else self._throughput.until(until, len(loaded))
        targets = {task.job.id: task.target for task in loaded}
        wanted = WhileWanted(budget, self._parent.stop)
        try:
            try:
                self._trainer.train(targets, partial(self._report, order), wanted)
            except StopAskedError:
                self._save(loaded)
                raise
            unsaved = self._save(loaded)
            saved_at = unix_time()
            results = {}
            for task in loaded:
                name = task.job.id
                if name in unsaved:
                    continue
                try:
                    with enough_memory("writing its adapter"):
                        results[name] = asdict(self._result(task, loaded_steps[name]))
                except OutOfMemoryError as error:
                    # Its checkpoint is whole: whoever takes it up next writes the adapter.
                    unsaved[name] = error_record(error)
        finally:
            for name in loaded_steps:
                self._trainer.unload(name)
        self._parent.say(
            "trained",
            order=order,
            slot=message["slot"],
            seconds=time.monotonic() - started,
            saved_at=saved_at,
            results=results,
            refused=unread | refused | unsaved,
        )

    def _read_all(
        self, order: str, tasks: Sequence[TaskOrder], until: float | None
    ) -> tuple[list[TaskOrder], dict[str, Message]]:
        """Tokenize data: the tasks of which it is done, and the errors of those that cannot be.

        Small files come first, and what they leave of their shares is shared by the others.
        """
        self._trainer.forget_files(task.job for task in tasks)
        began = unix_time()
        end = math.inf if until is None else began + _READING_SHARE * (until - began)
        read: list[TaskOrder] = []
        errors: dict[str, Message] = {}
        for index, task in enumerate(sorted(tasks, key=_num_bytes)):
            now = unix_time()
            share = now + (end - now) / (len(tasks) - index)
            try:
                with enough_memory("tokenizing its data"):
                    is_read = self._trainer.read(task.job, partial(self._has_time, share))
                if is_read:
                    read.append(task)
                else:
                    self._parent.say("noted", order=order, task=task.job.id, text=_UNREAD)
            except AuctuneError as error:
                errors[task.job.id] = error_record(error)
        return read, errors

    def _has_time(self, end: float) -> bool:
        return unix_time() < end and not self._parent.stop.is_set()

    def _load_all(
        self, order: str, tasks: Iterable[TaskOrder]
    ) -> tuple[dict[str, int], dict[str, Message]]:
        """Take up tasks: the steps of those that could be, and the errors of the others."""
        steps: dict[str, int] = {}
        refused: dict[str, Message] = {}
        for task in tasks:
            try:
                with enough_memory("taking up its adapter"):
                    notes = self._load(task)
            except AuctuneError as error:
                refused[task.job.id] = error_record(error)
                continue
            for text in notes:
                self._parent.say("noted", order=order, task=task.job.id, text=text)
            steps[task.job.id] = self._trainer.progress(task.job.id).steps
        return steps, refused

    def _load(self, task: TaskOrder) -> tuple[str, ...]:
        """Take up a task; from its first row, if all that it has is damaged."""
        from auctune.atomic_files import remove_folder
        from auctune.train.checkpoint import load_latest
        from auctune.train.trainer import CHECKPOINTS

        try:
            return self._trainer.load(task.job, task.folder).warnings
        except CheckpointError:
            checkpoints = task.folder / CHECKPOINTS
            try:
                load_latest(checkpoints)
            except CheckpointError as damaged:
                remove_folder(checkpoints)
                again = self._trainer.load(task.job, task.folder).warnings
                return (f"{damaged}; trained again from its first row", *again)
            # What is whole, but of another base or data set, is not ours to throw away.
            raise

    def _save(self, tasks: Iterable[TaskOrder]) -> dict[str, Message]:
        """Write the tasks' checkpoints; returns the errors of those that could not be written."""
        errors = {}
        for task in tasks:
            began = time.monotonic()
            try:
                with enough_memory("writing its checkpoint"):
                    self._trainer.save(task.job.id, task.number)
            except (CheckpointError, OutOfMemoryError) as error:
                errors[task.job.id] = error_record(error)
            self._throughput.record_save(time.monotonic() - began)
        return errors

    def _result(self, order: TaskOrder, loaded: int) -> TaskResult:
        name = order.job.id
        progress = self._trainer.progress(name)
        known = min(order.known_steps, loaded)
        state, note = progress.state, progress.note
        if state == "done" and (trouble := self._export(order)):
            state, note = "failed", trouble
        rows_of_epoch = progress.total_rows // order.job.epochs
        return TaskResult(
            rows=progress.rows,
            total_rows=progress.total_rows,
            tokens=progress.tokens,
            steps=progress.steps,
            state=state,
            losses=tuple(point for point in self._trainer.curve(name) if point[0] > known),
            validation=tuple(
                (epoch, epoch * rows_of_epoch, loss) for epoch, loss in progress.validation
            ),
            note=note,
            exported=state == "done",
        )

    def _export(self, order: TaskOrder) -> str:
        """Write the adapter and check it; says what is wrong with it, if something is.

        Weights that went astray may overflow where the loss did not yet: that ends their task only.
        """
        from auctune.train.export import ExportError

        order.adapter.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._trainer.export(order.job.id, order.adapter)
        except ExportError as error:
            return f"not handed out: {error}"
        return ""

    def _report(self, order: str, progress: object) -> None:
        from auctune.train.job import Progress

        assert isinstance(progress, Progress)
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS and progress.state == "training":
            return
        self._reported = now
        self._parent.say(
            "progress",
            order=order,
            task=progress.job,
            rows=progress.rows,
            total_rows=progress.total_rows,
            tokens=progress.tokens,
            loss=progress.loss,
            tokens_per_second=progress.tokens_per_second,
            memory_gb=progress.memory_gb,
        )


def _num_bytes(task: TaskOrder) -> int:
    """Return the size of a task's data; files that are gone are reported when they are read."""
    paths = [task.job.data] if task.job.validation is None else [task.job.data, task.job.validation]
    return sum(path.stat().st_size for path in paths if path.exists())


def main() -> None:
    """Start a node process; its settings are the only argument, as JSON."""
    parent = Parent()
    try:
        worker = Worker(NodeSettings(**json.loads(sys.argv[1])), parent)
    except InputError as error:
        parent.say("failed", order="", **error_record(error))
        parent.leave(1)
    worker.run()
    parent.leave()


if __name__ == "__main__":
    main()
