"""The process of one node: loads the base once, then does slot after slot what it is told.

It speaks the protocol of auctune.run.executor.messages over standard input and output. A slot is:
take up each task from its newest checkpoint, train all of them together to their targets, write
their checkpoints, and let go of them. If the market goes away, its end of the pipe closes and the
node ends at once: all that counts is in checkpoints.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import CheckpointError
from auctune.run.executor.messages import (
    Message,
    NodeSettings,
    TaskOrder,
    TaskResult,
    encode,
    read_order,
)

# Progress is for people: a few lines a second are enough.
_REPORT_SECONDS = 0.2


class StopAskedError(Exception):
    """The market wants the node to put its tasks away and end."""


class Worker:
    """One node at work.

    Args:
        settings: the base and how it computes.
        out: where messages go.
    """

    def __init__(self, settings: NodeSettings, out: BinaryIO) -> None:
        # torch takes seconds to import; only node processes do.
        import torch

        from auctune.train.base import load_base
        from auctune.train.multilora.batches import OVERHEAD_TOKENS
        from auctune.train.node import NodeTrainer

        torch.set_num_threads(settings.threads)
        self._out = out
        self._orders: queue.Queue[Message] = queue.Queue()
        self._stop = threading.Event()
        self._reported = 0.0
        self.base = load_base(
            settings.base,
            cache=Path(settings.cache),
            device=settings.device,
            dtype=settings.dtype,
        )
        self._trainer = NodeTrainer(
            self.base,
            mode="exact" if settings.mode == "exact" else "fused",
            token_budget=settings.token_budget,
            overhead_tokens=(
                OVERHEAD_TOKENS if settings.overhead_tokens is None else settings.overhead_tokens
            ),
        )

    def run(self) -> None:
        """Take orders until told to stop, or until the market is gone."""
        threading.Thread(target=self._listen, daemon=True).start()
        self._say("ready", base_digest=self.base.digest)
        while True:
            order = self._orders.get()
            try:
                if order["do"] == "stop":
                    return
                if order["do"] == "measure":
                    self._measure(order)
                else:
                    self._train(order)
            except StopAskedError:
                return
            except AuctuneError as error:
                self._fail(error)

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            message: Message = json.loads(line)
            if message["do"] == "stop":
                self._stop.set()
            self._orders.put(message)
        os._exit(1)

    def _measure(self, order: Message) -> None:
        from auctune.train.profile import FULL, QUICK, measure_profile

        profile = measure_profile(
            self.base,
            effort=QUICK if order["effort"] == "quick" else FULL,
            report=lambda what, share: self._say("measuring", what=what, share=share),
        )
        self._say("measured", profile=profile.to_json())

    def _train(self, order: Message) -> None:
        started = time.monotonic()
        orders = [read_order(record) for record in order["tasks"]]
        loaded_steps: dict[str, int] = {}
        try:
            for task in orders:
                for text in self._load(task):
                    self._say("noted", task=task.job.id, text=text)
                loaded_steps[task.job.id] = self._trainer.progress(task.job.id).steps
            try:
                self._trainer.train({task.job.id: task.target for task in orders}, self._report)
            except StopAskedError:
                self._save(orders)
                raise
            self._save(orders)
            results = {
                task.job.id: asdict(self._result(task, loaded_steps[task.job.id]))
                for task in orders
            }
        finally:
            for name in loaded_steps:
                self._trainer.unload(name)
        seconds = time.monotonic() - started
        self._say("trained", slot=order["slot"], seconds=seconds, results=results)

    def _load(self, task: TaskOrder) -> tuple[str, ...]:
        """Take up a task; from its first row, if all that it has is damaged."""
        from auctune.train.checkpoint import load_latest
        from auctune.train.folders import drop_folder
        from auctune.train.node import CHECKPOINTS

        try:
            return self._trainer.load(task.job, task.folder).warnings
        except CheckpointError:
            checkpoints = task.folder / CHECKPOINTS
            try:
                load_latest(checkpoints)
            except CheckpointError as damaged:
                drop_folder(checkpoints)
                again = self._trainer.load(task.job, task.folder).warnings
                return (f"{damaged}; trained again from its first row", *again)
            # What is whole, but of another base or data set, is not ours to throw away.
            raise

    def _save(self, orders: list[TaskOrder]) -> None:
        for task in orders:
            self._trainer.save(task.job.id, task.number)

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

    def _report(self, progress: object) -> None:
        from auctune.train.progress import Progress

        assert isinstance(progress, Progress)
        if self._stop.is_set():
            raise StopAskedError
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS and progress.state == "training":
            return
        self._reported = now
        self._say(
            "progress",
            task=progress.job,
            rows=progress.rows,
            total_rows=progress.total_rows,
            tokens=progress.tokens,
            loss=progress.loss,
            tokens_per_second=progress.tokens_per_second,
            memory_gb=progress.memory_gb,
        )

    def _fail(self, error: AuctuneError) -> None:
        if isinstance(error, InputError):
            self._say("failed", place=error.place, found=error.found, expected=error.expected)
        else:
            self._say("failed", place="", found=str(error), expected="")

    def _say(self, kind: str, **values: object) -> None:
        self._out.write(encode({"kind": kind, **values}))
        self._out.flush()


def main() -> None:
    """Start a node process; its settings are the only argument, as JSON."""
    # Ctrl-C reaches all processes of a terminal; the market tells its nodes what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not end up among the messages.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        worker = Worker(NodeSettings(**json.loads(sys.argv[1])), out)
    except InputError as error:
        out.write(
            encode(
                {
                    "kind": "failed",
                    "place": error.place,
                    "found": error.found,
                    "expected": error.expected,
                }
            )
        )
        out.flush()
        sys.exit(1)
    worker.run()
    out.flush()
    # Interpreter shutdown with a thread that blocks on standard input may hang or complain.
    os._exit(0)


if __name__ == "__main__":
    main()
