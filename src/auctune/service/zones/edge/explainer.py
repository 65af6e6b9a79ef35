"""Why a bid got its answer: the market is rebuilt as it was just before, and asked.

Decisions follow from the log alone: the newest snapshot before one and the events between are
folded into a market of their own.
"""

import math
from collections.abc import Callable, Sequence

from auctune.domain import Cell, Explanation, PricedCell, PricedPlan, Schedule
from auctune.edge import EdgeDecision, EdgeJob, EdgeMenuLine, Eris
from auctune.edge.explain import plan_costs
from auctune.run.edge.plain import read_decision, read_job
from auctune.service.storage import EventLog, Snapshots
from auctune.service.zones.core.events import ZoneEvent
from auctune.service.zones.core.gateway import DecisionExplanation
from auctune.service.zones.core.loader import replay_until
from auctune.service.zones.edge.projection import PROJECTION
from auctune.service.zones.edge.state import EdgeModel


class EdgeExplainer:
    """Of one zone.

    Args:
        fresh: makes an empty market.
        log: of events.
        snapshots: of zones.
    """

    def __init__(self, fresh: Callable[[], EdgeModel], log: EventLog, snapshots: Snapshots) -> None:
        self._fresh, self._log, self._snapshots = fresh, log, snapshots

    def explain(self, decided: ZoneEvent) -> DecisionExplanation:
        """Why, by the market as it was just before."""
        until = decided.seq - 1
        memory, _ = replay_until(decided.zone, self._fresh, self._log, self._snapshots, until)
        job, answer = read_job(decided.body["job"]), read_decision(decided.body["answer"])
        slot, last = memory.state.slot, int(decided.body["last"])
        found = _explanation(memory.mechanism, job, answer, slot, last)
        why = None if answer.admitted else PROJECTION.rejection_reason(decided.body)
        return DecisionExplanation(decided, why, found)


def _explanation(
    eris: Eris, job: EdgeJob, answer: EdgeDecision, slot: int, last: int
) -> Explanation:
    """As zones of all kinds explain: a plan, and what others would have cost."""
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
    """A plan: what stands at sites as compute, and what crosses them as traffic."""
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
