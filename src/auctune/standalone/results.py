"""Results of a market run, by the events of its zone: decisions, receipts, curves, report."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from auctune.domain import Decision, MarketState, Schedule, Task, round_money
from auctune.domain.money import ZERO
from auctune.engine.market.report import write_report
from auctune.engine.market.report_data import (
    LossPoint,
    MarketReport,
    ReportNode,
    ReportTask,
    Resources,
    TaskState,
    ValidationPoint,
)
from auctune.engine.records import Record, read_decision, schedule_record
from auctune.engine.vendors import RepairReport
from auctune.files.atomic import write_atomically
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.auction.state import AuctionEventType
from auctune.sim.result_file import decision_json
from auctune.standalone.folder import RunFolder, write_json
from auctune.standalone.preparation import Prepared, auction_settings
from auctune.train.adapter_files import publish_epochs

Events = Sequence[ZoneEvent]


def write_decisions(folder: RunFolder, by_job: Mapping[str, Events]) -> None:
    """Write decisions.jsonl: a line a task, in the order of decisions."""
    lines = (json.dumps(decision_json(decision_of(events))) for events in by_job.values())
    text = "".join(f"{line}\n" for line in lines)
    write_atomically(folder.root / "decisions.jsonl", text.encode())


def write_task(folder: RunFolder, task: ReportTask) -> None:
    """Write a finished task's receipt, loss curve and vendor's report beside its adapters."""
    place = folder.result(task.id)
    write_json(place / "receipt.json", receipt_record(task))
    publish_epochs(folder.work / task.id, place)
    points = [json.dumps(asdict(point), allow_nan=False) for point in task.losses]
    write_atomically(place / "losses.jsonl", "".join(f"{x}\n" for x in points).encode())
    if task.repair is not None:
        write_json(place / "repair.json", task.repair.to_json())


def receipt_record(task: ReportTask) -> Record:
    """Return the account of a finished task, as its owner gets it; money as text."""
    return {
        "task": task.id,
        "payment": str(task.payment),
        "vendor_price": str(task.vendor_price),
        "operating_cost": str(task.operating_cost),
        "schedule": schedule_record(Schedule(task.schedule, task.vendor)),
        "outcome": task.state,
        "rows": task.rows,
        "tokens": task.tokens,
        "steps": task.steps,
        "first_loss": task.losses[0].loss if task.losses else None,
        "last_loss": task.losses[-1].loss if task.losses else None,
    }


def write_outcome(
    folder: RunFolder,
    prepared: Prepared,
    market: MarketState,
    by_job: Mapping[str, Events],
    notes: Sequence[str],
) -> MarketReport:
    """Write all results, also those that exist: the run may have been killed while it wrote.

    Args:
        folder: of the run.
        prepared: its market.
        market: prices and utilization at its end.
        by_job: events about each job, in the order of decisions.
        notes: for the operator.
    """
    write_decisions(folder, by_job)
    tasks = [
        report_task(bid.task, by_job[bid.task.id])
        for bid in sorted(prepared.bids, key=lambda bid: bid.task.arrival)
        if bid.task.id in by_job
    ]
    for task in tasks:
        if task.finished_slot is not None:
            write_task(folder, task)
    cluster, kinds = prepared.cluster, prepared.cluster.node_types
    name, settings = auction_settings(prepared.market)
    options = ", ".join(f"{key} {value}" for key, value in settings.items())
    slow = _slow_nodes(prepared, (event for events in by_job.values() for event in events))
    report = MarketReport(
        title=prepared.market.title,
        base=prepared.market.base,
        mechanism=f"{name}, {options}" if options else name,
        slots=cluster.slots,
        slot_seconds=cluster.slot_seconds,
        nodes=tuple(
            ReportNode(
                node.id,
                node.type,
                kinds[node.type].compute,
                kinds[node.type].memory_gb - cluster.base_memory_gb,
            )
            for node in cluster.nodes
        ),
        tasks=tuple(tasks),
        prices=Resources(market.compute_price, market.memory_price),
        utilization=Resources(market.compute_used, market.memory_used),
        notes=(*prepared.notes, *notes, *slow),
    )
    write_json(folder.root / "report.json", report.to_json())
    write_report(report, folder.root / "report.html")
    return report


def report_task(task: Task, events: Events) -> ReportTask:
    """Return a task, its decision and its training, by the events about it."""
    decision = decision_of(events)
    vendor = None if decision.schedule is None else decision.schedule.vendor
    quote = next((quote for quote in task.quotes if quote.vendor == vendor), None)
    trained = [event for event in events if event.type == EventType.TRAINED]
    results = [event.body["result"] for event in trained]
    last = results[-1] if results else None
    # A task that fell back to an older checkpoint has trained some steps again.
    losses = {point[0]: point for result in results for point in result["losses"]}
    repaired = (event.body for event in events if event.type == AuctionEventType.REPAIRED)
    repair = next((RepairReport.from_json(body["report"]) for body in repaired), None)
    if last is None:
        state = TaskState.PLANNED if decision.admitted else TaskState.REJECTED
    else:
        state = TaskState(last["state"])
    return ReportTask(
        id=task.id,
        state=state,
        arrival=task.arrival,
        deadline=task.deadline,
        bid=task.bid,
        reason=decision.reason,
        payment=decision.payment,
        price=decision.price,
        min_bid=decision.min_bid,
        value=decision.value,
        surplus=decision.surplus,
        schedule=() if decision.schedule is None else decision.schedule.cells,
        vendor=vendor,
        vendor_price=ZERO if quote is None else quote.price,
        vendor_delay=0 if quote is None else quote.delay,
        operating_cost=_operating_cost(task, decision, ZERO if quote is None else quote.price),
        finished_slot=trained[-1].slot if state in (TaskState.DONE, TaskState.FAILED) else None,
        rows=0 if last is None else last["rows"],
        tokens=0 if last is None else last["tokens"],
        steps=0 if last is None else last["steps"],
        losses=tuple(LossPoint(*losses[step]) for step in sorted(losses)),
        validation=()
        if last is None
        else tuple(ValidationPoint(*_numbers(point)) for point in last["validation"]),
        adapter=f"tasks/{task.id}/adapter" if last is not None and last["exported"] else None,
        repair=repair,
        notes=tuple(event.body["text"] for event in events if event.type == EventType.NOTE_ADDED),
    )


def decision_of(events: Events) -> Decision:
    """Return the decision on a job, its first event."""
    return read_decision(events[0].body["decision"])


def _operating_cost(task: Task, decision: Decision, vendor_price: Decimal) -> Decimal:
    """Return what running a plan costs: the bid less vendor's price and value."""
    if decision.value is None:
        return ZERO
    return round_money(float(task.bid - vendor_price) - decision.value)


def _slow_nodes(prepared: Prepared, events: Iterator[ZoneEvent]) -> Iterator[str]:
    """Yield a note for each node whose slots lasted longer than they were sold as."""
    limit = prepared.cluster.slot_seconds
    trained = [event.body for event in events if event.type == EventType.TRAINED]
    for node in prepared.cluster.nodes:
        seconds = {one["slot"]: one["seconds"] for one in trained if one["node"] == node.id}
        slow = sum(taken > limit for taken in seconds.values())
        if slow:
            yield (
                f"{slow} of {len(seconds)} slots on {node.id} lasted longer than the {limit:g} s "
                f"that they were sold as, up to {max(seconds.values()):.1f} s"
            )


def _numbers(point: Sequence[Any]) -> Iterator[Any]:
    """Yield the numbers of a validation; JSON has null for a loss that is not finite.

    Training fails before a step with such a loss.
    """
    return (math.nan if number is None else number for number in point)
