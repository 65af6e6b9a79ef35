"""Results of a market run: decisions, receipts and loss curves beside adapters, the report."""

import json
from collections.abc import Iterator
from decimal import Decimal

from auctune.atomic_files import write_atomically
from auctune.domain import Decision, Receipt, Task, round_money
from auctune.domain.money import ZERO
from auctune.engine.market.demand import Bid
from auctune.engine.market.directory import MarketDirectory
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
from auctune.engine.prepared import Prepared
from auctune.engine.records import loss_record, receipt_record
from auctune.engine.state import RunState, TaskRecord
from auctune.engine.vendors import RepairReport
from auctune.sim.result_file import decision_json
from auctune.train.adapter_files import publish_epochs


def write_decisions(folder: MarketDirectory, state: RunState) -> None:
    """Write decisions.jsonl: a line a task, in the order of decisions."""
    lines = [json.dumps(decision_json(record.decision)) for record in state.tasks.values()]
    write_atomically(folder.root / "decisions.jsonl", "".join(f"{x}\n" for x in lines).encode())


def write_task(folder: MarketDirectory, bid: Bid, record: TaskRecord) -> None:
    """Write a finished task's receipt, loss curve and vendor's report beside its adapters."""
    place = folder.result(bid.task.id)
    folder.write_json(place / "receipt.json", receipt_record(make_receipt(bid, record)))
    publish_epochs(folder.work(bid.task.id), folder.result(bid.task.id))
    points = [json.dumps(loss_record(point), allow_nan=False) for point in record.losses]
    write_atomically(place / "losses.jsonl", "".join(f"{x}\n" for x in points).encode())
    if record.repair is not None:
        folder.write_json(place / "repair.json", record.repair)


def write_outcome(folder: MarketDirectory, prepared: Prepared, state: RunState) -> MarketReport:
    """Write all results, also those that exist: the run may have been killed while it wrote."""
    write_decisions(folder, state)
    for bid in prepared.bids:
        record = state.tasks.get(bid.task.id)
        if record is not None and record.finished_slot is not None:
            write_task(folder, bid, record)
    report = make_report(folder, prepared, state)
    folder.write_json(folder.root / "report.json", report.to_json())
    write_report(report, folder.root / "report.html")
    return report


def make_receipt(bid: Bid, record: TaskRecord) -> Receipt:
    """Return the receipt of a task whose training has ended."""
    schedule, result = record.decision.schedule, record.result
    assert schedule is not None
    assert result is not None
    return Receipt(
        task=bid.task.id,
        payment=record.decision.payment,
        vendor_price=vendor_price(bid.task, record.decision),
        operating_cost=operating_cost(bid.task, record.decision),
        schedule=schedule,
        outcome=result.state,
        rows=result.rows,
        tokens=result.tokens,
        steps=result.steps,
        first_loss=record.losses[0][3] if record.losses else None,
        last_loss=record.losses[-1][3] if record.losses else None,
    )


def vendor_price(task: Task, decision: Decision) -> Decimal:
    """Return the price of the vendor in a plan, 0 without one."""
    vendor = None if decision.schedule is None else decision.schedule.vendor
    return next((quote.price for quote in task.quotes if quote.vendor == vendor), ZERO)


def operating_cost(task: Task, decision: Decision) -> Decimal:
    """Return what running a plan costs: the bid less vendor's price and value."""
    if decision.value is None:
        return ZERO
    return round_money(float(task.bid - vendor_price(task, decision)) - decision.value)


def make_report(folder: MarketDirectory, prepared: Prepared, state: RunState) -> MarketReport:
    """Return the report of a run, finished or interrupted."""
    cluster, market = prepared.cluster, prepared.market
    cells = prepared.mechanism.state()
    kinds = cluster.node_types
    settings = dict(market.auction)
    name = settings.pop("mechanism", "pdftsp")
    options = ", ".join(f"{key} {value}" for key, value in settings.items())
    return MarketReport(
        title=market.title,
        base=market.base,
        mechanism=f"{name}, {options}" if options else str(name),
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
        tasks=tuple(
            _report_task(folder, bid, state.tasks[bid.task.id])
            for bid in sorted(prepared.bids, key=lambda bid: bid.task.arrival)
            if bid.task.id in state.tasks
        ),
        prices=Resources(cells.compute_price, cells.memory_price),
        utilization=Resources(cells.compute_used, cells.memory_used),
        notes=(*prepared.notes, *state.notes, *_slow_nodes(prepared, state)),
    )


def _slow_nodes(prepared: Prepared, state: RunState) -> Iterator[str]:
    """Yield a note for each node whose slots lasted longer than they were sold as."""
    limit = prepared.cluster.slot_seconds
    for node in prepared.cluster.nodes:
        seconds = [taken for (_, name), taken in state.trained.items() if name == node.id]
        slow = sum(taken > limit for taken in seconds)
        if slow:
            yield (
                f"{slow} of {len(seconds)} slots on {node.id} lasted longer than the {limit:g} s "
                f"that they were sold as, up to {max(seconds):.1f} s"
            )


def _report_task(folder: MarketDirectory, bid: Bid, record: TaskRecord) -> ReportTask:
    task, decision, result = bid.task, record.decision, record.result
    schedule = decision.schedule
    vendor = None if schedule is None else schedule.vendor
    adapter = folder.result(task.id) / "adapter"
    return ReportTask(
        id=task.id,
        state=_task_state(record),
        arrival=task.arrival,
        deadline=task.deadline,
        bid=task.bid,
        reason=decision.reason,
        payment=decision.payment,
        price=decision.price,
        min_bid=decision.min_bid,
        value=decision.value,
        surplus=decision.surplus,
        schedule=() if schedule is None else schedule.cells,
        vendor=vendor,
        vendor_price=vendor_price(task, decision),
        vendor_delay=next((q.delay for q in task.quotes if q.vendor == vendor), 0),
        operating_cost=operating_cost(task, decision),
        finished_slot=record.finished_slot,
        rows=0 if result is None else result.rows,
        tokens=0 if result is None else result.tokens,
        steps=0 if result is None else result.steps,
        losses=tuple(LossPoint(*point) for point in record.losses),
        validation=(
            () if result is None else tuple(ValidationPoint(*p) for p in result.validation)
        ),
        adapter=(
            adapter.relative_to(folder.root).as_posix() if result and result.exported else None
        ),
        repair=None if record.repair is None else RepairReport.from_json(record.repair),
        notes=tuple(record.notes),
    )


def _task_state(record: TaskRecord) -> TaskState:
    if not record.decision.admitted:
        return TaskState.REJECTED
    if record.result is None:
        return TaskState.PLANNED
    return TaskState(record.result.state)
