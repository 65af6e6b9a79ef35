"""A plan that was not searched for: whether a task could run by it, and what it costs now.

Its cost is that of the search (search/total_order.py), the same sums in the same order, so that the
price of a plan is the same number to the last bit whoever asks.
"""

from typing import NamedTuple

from auctune.auction.ledger import CapacityLedger
from auctune.domain import Decision, PricedCell, PricedPlan, Quote, Schedule, Task
from auctune.numerics.arrays import FIT, Floats, Ints


class Plan(NamedTuple):
    """A schedule as arrays."""

    rows: Ints  # of the ledger, in slot order
    nodes: Ints  # indices
    quote: Quote | None


def read_plan(ledger: CapacityLedger, task: Task, schedule: Schedule, now: int) -> Plan | None:
    """`schedule` as arrays; None if the task could not run by it from slot `now` on.

    That is: its vendor is none of the task's, or is not ready by its first slot; it ends after
    the deadline; a node is unknown or of a type that cannot run the task; or the work is not done.
    """
    quotes = {quote.vendor: quote for quote in task.quotes}
    quote = quotes.get(schedule.vendor or "")
    if (quote is None) != (schedule.vendor is None) or (quote is None and task.quotes):
        return None
    ready = max(now, task.arrival, ledger.horizon.first) + (0 if quote is None else quote.delay)
    known = all(cell.node in ledger.node_index for cell in schedule.cells)
    if schedule.start < ready or schedule.finish > task.deadline or not known:
        return None
    rows, nodes = ledger.indices(schedule.cells)
    samples = ledger.throughput(task)[ledger.capacity.type_of[nodes]]
    if samples.min() <= 0 or float(samples.sum()) < task.work * (1 - FIT):
        return None
    return Plan(rows, nodes, quote)


def price_plan(
    ledger: CapacityLedger, task: Task, plan: Plan, lam: Floats, phi: Floats, *, at_dearest: bool
) -> PricedPlan:
    """Return what a plan costs; the `price` is left to the mechanism.

    Args:
        ledger: the cells.
        task: the task.
        plan: of the task.
        lam, phi: [T, N] prices.
        at_dearest: all cells pay the dearest prices among them, else each its own.
    """
    throughput = ledger.throughput(task)
    types = ledger.capacity.type_of[plan.nodes]
    own_lam, own_phi = lam[plan.rows, plan.nodes].tolist(), phi[plan.rows, plan.nodes].tolist()
    samples = throughput[types].tolist()
    costs = ledger.operating_cost(task, throughput)[types, plan.rows].tolist()
    paid_lam = [max(own_lam)] * len(own_lam) if at_dearest else own_lam
    paid_phi = [max(own_phi)] * len(own_phi) if at_dearest else own_phi
    schedule = Schedule(
        ledger.cells(plan.rows, plan.nodes), None if plan.quote is None else plan.quote.vendor
    )
    rows = zip(schedule.cells, own_lam, own_phi, paid_lam, paid_phi, samples, costs, strict=True)
    cells = tuple(
        PricedCell(slot, node, lam_, phi_, paid_lam_ * s, paid_phi_ * task.memory_gb, operating)
        for (slot, node), lam_, phi_, paid_lam_, paid_phi_, s, operating in rows
    )
    if at_dearest:
        memory_gb = _added([task.memory_gb] * len(cells))
        compute, memory = paid_lam[0] * _added(samples), paid_phi[0] * memory_gb
    else:
        compute = _added([cell.compute for cell in cells])
        memory = _added([cell.memory for cell in cells])
    vendor = 0.0 if plan.quote is None else float(plan.quote.price)
    return PricedPlan(schedule, cells, vendor, _added(costs), compute, memory, None)


def sell_for_bid(
    ledger: CapacityLedger, task: Task, quote: Quote | None, slots: Ints, nodes: Ints
) -> Decision:
    """Allocate these cells to `task`, which pays its bid.

    Args:
        ledger: the cells, with room.
        task: the task.
        quote: of the vendor that it takes.
        slots, nodes: its cells in slot order, rows of the ledger and indices.
    """
    throughput = ledger.throughput(task)
    ledger.allocate(slots, nodes, throughput, task.memory_gb)
    types = ledger.capacity.type_of[nodes]
    operating = ledger.operating_cost(task, throughput)[types, slots]
    vendor_price = 0.0 if quote is None else float(quote.price)
    value = float(task.bid) - vendor_price - float(sum(operating.tolist()))
    return Decision(
        task.id,
        admitted=True,
        payment=task.bid,
        schedule=Schedule(ledger.cells(slots, nodes), None if quote is None else quote.vendor),
        value=value,
        surplus=value,
    )


def _added(numbers: list[float]) -> float:
    """From left to right, as the search adds; `sum` corrects its rounding from Python 3.12 on."""
    total = 0.0
    for number in numbers:
        total += number
    return total
