"""A market run: decide on bids as they arrive, repair data, train by the plan, export adapters.

The clock is logical. Slot by slot:
 1. offer the bids that arrive in it, in file order;
 2. let the vendors that were chosen repair data;
 3. let every node train what the plan puts on it, up to the plan's cumulative quota;
 4. export what is finished, and release the cells that it did not need.
A slot lasts as long as its quotas take. Each step is in the event log before it counts, and is
repeated from the checkpoints if the log does not have it: a run that was killed resumes with the
same decisions and payments.
"""

import queue
from collections.abc import Callable, Iterable
from dataclasses import replace

from auctune.domain import InputError, Offered, Released
from auctune.domain.data_size import DataSize
from auctune.engine.console import RunConsole
from auctune.engine.event_log import EventLog
from auctune.engine.market.directory import MarketDirectory
from auctune.engine.market.report_data import MarketReport
from auctune.engine.outcome import write_decisions, write_outcome, write_task
from auctune.engine.prepared import Prepared
from auctune.engine.records import decision_record
from auctune.engine.runtime.channel import ErrorRecord
from auctune.engine.runtime.messages import NodeError, NodeMessage, TaskQuota, Trained
from auctune.engine.runtime.supervisor import Executor, OnNodeMessage
from auctune.engine.state import RunState, TaskRecord

MakeExecutor = Callable[[OnNodeMessage], Executor]
"""Makes the executor of the nodes, given the callback for their messages."""


class MarketRun:
    """One run, new or resumed.

    Args:
        prepared: the market.
        folder: of the run; its event log is open and has begun.
        journal: its event log.
        console: shows the run.
        make_executor: makes the executor, if any training remains.
    """

    def __init__(
        self,
        prepared: Prepared,
        folder: MarketDirectory,
        journal: EventLog,
        console: RunConsole,
        make_executor: MakeExecutor,
    ) -> None:
        self._prepared = prepared
        self._folder = folder
        self._journal = journal
        self._console = console
        self._make_executor = make_executor
        self._slow: set[str] = set()
        self._bids = {bid.task.id: bid for bid in prepared.bids}
        self._inbox: queue.SimpleQueue[tuple[str, NodeMessage]] = queue.SimpleQueue()
        self._executor: Executor | None = None
        # How nodes exited that have not answered since.
        self._exits: dict[str, str] = {}
        self.state = RunState.fold(journal.events)
        self._rebuild_mechanism()

    def run(self) -> MarketReport:
        """Run what is left of the market, and write its outcome.

        Raises:
            NodeError: if a node's worker exits again and again.
            InputError: if a task cannot be trained as it stands.
        """
        try:
            if self._is_work_left():
                # Workers take seconds to load the base, while bids are decided.
                self._executor = self._make_executor(
                    lambda node, message: self._inbox.put((node, message))
                )
            for slot in range(self.state.next_slot, self._prepared.cluster.slots):
                events = len(self._journal.events)
                self._decide(slot)
                self._repair()
                self._train(slot)
                if len(self._journal.events) > events:
                    self._record({"type": "slot_done", "slot": slot})
        finally:
            if self._executor is not None:
                self._executor.close()
        if not self.state.ended:
            self._record({"type": "ended"})
        return write_outcome(self._folder, self._prepared, self.state)

    def _is_work_left(self) -> bool:
        tasks = self.state.tasks
        return len(tasks) < len(self._bids) or any(
            record.decision.admitted and record.finished_slot is None for record in tasks.values()
        )

    def _rebuild_mechanism(self) -> None:
        mechanism = self._prepared.mechanism
        for event in self._journal.events:
            if event["type"] == "decided":
                record = self.state.tasks[event["decision"]["task"]]
                task = self._bids[record.decision.task].task
                # The log has no learned prices: they are learned again, at the same moments.
                mechanism.advance(event["slot"])
                mechanism.apply(Offered(task, record.decision, event["slot"]))
            elif event["type"] == "released":
                task = self._bids[event["task"]].task
                mechanism.apply(Released(task, self.state.tasks[event["task"]].released))

    def _record(self, event: dict[str, object]) -> None:
        """Append an event to the log, and apply it to the state."""
        self._journal.append(event)
        self.state.apply(event)

    def _decide(self, slot: int) -> None:
        arriving = [bid for bid in self._prepared.bids if bid.task.arrival == slot]
        for bid in arriving:
            if bid.task.id in self.state.tasks:
                continue
            decision = self._prepared.mechanism.offer(bid.task, slot)
            self._record({"type": "decided", "slot": slot, "decision": decision_record(decision)})
            self._console.decided(slot, bid, decision)
        if arriving:
            write_decisions(self._folder, self.state)

    def _repair(self) -> None:
        for name, record in self.state.tasks.items():
            schedule = record.decision.schedule
            if schedule is None or schedule.vendor is None or record.repair is not None:
                continue
            bid, target = self._bids[name], self._folder.repaired(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            report = self._prepared.vendors[schedule.vendor].repair(bid.job.data, target)
            size = self._prepared.appraiser.size(
                target, f"repaired data of {name}", bid.job.max_length
            )
            self._record(
                {
                    "type": "repaired",
                    "task": name,
                    "report": report.to_json(),
                    "rows": size.rows,
                    "mean_tokens": size.mean_tokens,
                }
            )
            self._console.repaired(bid, schedule.vendor, report.rows_in, report.rows_out)
            for note in size.notes(bid.job.max_length):
                self._note(f"{name}: {note}")
            size = replace(size, validation=bid.request.size.validation)
            work = size.samples(bid.job.epochs, self._prepared.market.sample_tokens)
            if work > bid.task.work:
                self._note(f"{name}: repaired, it is more work than was sold; its last slot grows")

    def _train(self, slot: int) -> None:
        """Have all nodes train a slot; a node that cannot be placed is waited for."""
        quotas = self._quotas(slot)
        for node in quotas:
            self._start(slot, node, quotas[node])
        waiting = set(quotas)
        while waiting:
            node, message = self._inbox.get()
            is_current = node in waiting and not message.get("stale")
            match message["kind"]:
                case "trained" if is_current:
                    waiting.discard(node)
                    self._exits.pop(node, None)
                    self._on_trained(slot, node, message)
                case "progress" if is_current:
                    self._console.training(
                        slot,
                        message["task"],
                        message["rows"],
                        message["total_rows"],
                        message["loss"],
                    )
                case "noted":
                    self._note_task(message["task"], message["text"])
                case "failed" if is_current or not message["request"]:
                    raise _node_failure(node, message)
                case "ended":
                    self._exits[node] = f"ended {message['exits']} times in a row: {message['how']}"
                    if node in waiting:
                        self._note(f"slot {slot}: node {node} ended ({message['how']})")
                case "lost" if message["missing"]:
                    # Its worker ended with its machine.
                    self._exits.pop(node, None)
                    self._note(f"node {node} is lost ({message['how']}), and is waited for")
                case "not_completed" if node in waiting and node in self._exits:
                    raise NodeError(f"node {node} {self._exits[node]}")
                case "recovered" if node in waiting:
                    self._start(slot, node, quotas[node])
        # In the order of decisions and not of messages: what is released moves prices.
        for name, record in self.state.tasks.items():
            if record.finished_slot == slot:
                self._finish(slot, name, record)

    def _start(self, slot: int, node: str, quotas: list[TaskQuota]) -> None:
        assert self._executor is not None
        self._executor.train(slot, node, quotas)
        self._show(slot, [quota.job.id for quota in quotas])

    def _on_trained(self, slot: int, node: str, message: Trained) -> None:
        for name, error in message["refused"].items():
            if not error.get("out_of_memory"):
                raise _node_failure(node, error)
            self._run_out(slot, node, name, error["found"])
        self._record_training(slot, node, message)

    def _quotas(self, slot: int) -> dict[str, list[TaskQuota]]:
        """Return what is left to be trained in a slot, by node."""
        quotas: dict[str, list[TaskQuota]] = {}
        for name, record in self.state.tasks.items():
            if record.finished_slot is not None:
                continue
            for cell in record.cells:
                if cell.slot == slot and (slot, cell.node) not in self.state.trained:
                    quotas.setdefault(cell.node, []).append(self._quota(name, record, slot))
        return quotas

    def _quota(self, name: str, record: TaskRecord, slot: int) -> TaskQuota:
        job = self._bids[name].job
        if record.repair is not None:
            job = replace(job, data=self._folder.repaired(name))
        return TaskQuota(
            job=job,
            folder=self._folder.work(name),
            number=slot + 1,
            target=self._target(name, record, slot),
            adapter=self._folder.result(name) / "adapter",
            known_steps=len(record.losses),
        )

    def _size(self, name: str) -> DataSize:
        """Return the size of the data that a task is trained on."""
        record = self.state.tasks[name]
        if record.repair is None:
            return self._bids[name].request.size
        validation = self._bids[name].request.size.validation
        return DataSize(record.repaired_rows, record.repaired_tokens, validation=validation)

    def _target(self, name: str, record: TaskRecord, slot: int) -> int:
        """Return the rows that the plan has sold up to the end of a slot, over all epochs."""
        bid, size = self._bids[name], self._size(name)
        if slot == record.cells[-1].slot:
            return size.total_rows(bid.job.epochs)
        kinds = {node.id: node.type for node in self._prepared.cluster.nodes}
        sold = sum(
            bid.task.throughput[kinds[cell.node]] for cell in record.cells if cell.slot <= slot
        )
        return size.rows_of(sold * self._prepared.market.sample_tokens, bid.job.epochs)

    def _record_training(self, slot: int, node: str, message: Trained) -> None:
        results = message["results"]
        seconds = message["seconds"]
        self._record(
            {
                "type": "trained",
                "slot": slot,
                "node": node,
                "seconds": round(seconds, 3),
                "results": results,
            }
        )
        limit = self._prepared.cluster.slot_seconds
        if seconds > limit and node not in self._slow:
            # Noted once for each node; the report counts all such slots.
            self._slow.add(node)
            self._console.noted(
                f"slot {slot} took {seconds:.1f} s on {node}, sold as {limit:g} s; work goes on "
                "as planned, in longer slots"
            )
        for name in results:
            result = self.state.tasks[name].result
            if result is not None and result.note:
                self._console.noted(f"{name}: {result.note}")
        self._show(slot, results)

    def _show(self, slot: int, names: Iterable[str]) -> None:
        """Report the progress of tasks."""
        for name in names:
            record = self.state.tasks[name]
            rows = 0 if record.result is None else record.result.rows
            total = self._size(name).total_rows(self._bids[name].job.epochs)
            loss = record.losses[-1][3] if record.losses else None
            self._console.training(slot, name, rows, total, loss)

    def _finish(self, slot: int, name: str, record: TaskRecord) -> None:
        left = tuple(cell for cell in record.cells if cell.slot > slot)
        if left:
            cells = [cell._asdict() for cell in left]
            self._prepared.mechanism.release(self._bids[name].task, left)
            self._record({"type": "released", "task": name, "cells": cells})
        write_task(self._folder, self._bids[name], record)
        self._console.finished(slot, self._bids[name], record)

    def _run_out(self, slot: int, node: str, name: str, found: str) -> None:
        """Note a task's slot that was not trained for want of memory; its next one makes up for it.

        Raises:
            NodeError: if there is no next one; a run that is resumed tries the slot again.
        """
        if not any(cell.slot > slot for cell in self.state.tasks[name].cells):
            raise NodeError(f"node {node}: {name}: {found}, in its last slot")
        self._note_task(name, f"slot {slot}: {found}; its next slot trains what is left")

    def _note_task(self, task: str, text: str) -> None:
        if text not in self.state.tasks[task].notes:
            self._record({"type": "task_note", "task": task, "text": text})
            self._console.noted(f"{task}: {text}")

    def _note(self, text: str) -> None:
        self._record({"type": "note", "text": text})
        self._console.noted(text)


def _node_failure(node: str, message: ErrorRecord) -> Exception:
    if not message["place"]:
        return NodeError(f"node {node}: {message['found']}")
    return InputError(f"node {node}: {message['place']}", message["found"], message["expected"])
