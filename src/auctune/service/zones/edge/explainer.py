"""Explanation of an edge zone's decision."""

import math
from collections.abc import Sequence

from auctune.domain import Cell, Explanation, PricedCell, PricedPlan, Schedule
from auctune.edge import EdgeJob, EdgeMenuLine, Eris
from auctune.edge.explain import plan_costs
from auctune.engine.edge.records import read_decision, read_job
from auctune.service.storage.events import ZoneEvent
from auctune.service.zones.edge.state import EdgeModel


def explain(model: EdgeModel, decided: ZoneEvent) -> Explanation:
    """Explain a decision: the price of its plan, and of plans that finish earlier or later.

    Args:
        model: as it was just before the decision.
        decided: the `job.decided` event.
    """
    eris, slot, last = model.mechanism, model.state.slot, int(decided.body["deadline_slot"])
    job, answer = read_job(decided.body["job"]), read_decision(decided.body["answer"])
    menu = eris.quote(job, slot).lines
    chosen = next((line for line in reversed(menu) if line.finish <= last), None)
    if answer.plan is not None:
        chosen = EdgeMenuLine(answer.plan.finish, answer.payment, answer.plan)
    finish = None if chosen is None else chosen.finish
    sooner = [line for line in menu if finish is not None and line.finish < finish]
    later = [line for line in menu if finish is not None and line.finish > finish]

    def priced(lines: Sequence[EdgeMenuLine]) -> PricedPlan | None:
        return _priced(eris, job, lines[0]) if lines else None

    return Explanation(
        task=job.id,
        chosen=None if chosen is None else _priced(eris, job, chosen),
        by_vendor={},
        by_node_type={},
        earlier=priced(sooner[-1:]),
        later=priced(later),
        earliest=priced(menu),
    )


def _priced(eris: Eris, job: EdgeJob, line: EdgeMenuLine) -> PricedPlan:
    """Price a plan: workers and servers as compute, transfers between sites as traffic."""
    cells = tuple(
        PricedCell(
            slot=part.slot,
            node=part.server,
            compute_price=0.0,
            memory_price=0.0,
            compute=cost.workers + cost.server,
            memory=0.0,
            operating_cost=0.0,
            traffic=cost.parameters + cost.chunks,
        )
        for part, cost in zip(line.plan.slots, plan_costs(eris, job, line.plan), strict=True)
    )
    return PricedPlan(
        schedule=Schedule(tuple(Cell(cell.slot, cell.node) for cell in cells)),
        cells=cells,
        vendor_price=0.0,
        operating_cost=0.0,
        compute=math.fsum(cell.compute for cell in cells),
        memory=0.0,
        price=line.price,
        traffic=math.fsum(cell.traffic for cell in cells),
    )
