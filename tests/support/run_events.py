"""Messages of a rented job's process, as `auctune.engine.spot.state` describes its events."""

from typing import Any

from auctune.engine.messages.spot import RunEvent
from auctune.engine.spot.state import to_record
from auctune.spot import SpotAllocation, SpotObservation


def slot(
    number: int,
    *,
    price: float = 0.3,
    on_demand: int = 0,
    spot: int = 0,
    spot_before: int = 0,
    paid: float | None = None,
    skipped: bool = False,
) -> RunEvent:
    """A slot begins, or has passed while no process ran."""
    seen = SpotObservation(
        slot=number,
        price=price,
        available=4,
        available_before=4,
        on_demand_price=1.0,
        progress=0.0,
        cost=0.0,
        last=SpotAllocation(0, spot_before),
        forecast=None,
    )
    observation = to_record(seen)
    if skipped:
        return _event("slot_skipped", observation=observation)
    allocation = {"on_demand": on_demand, "spot": spot}
    paid = on_demand + spot * price if paid is None else paid
    return _event("slot", observation=observation, allocation=allocation, paid=paid)


def slot_done(
    rows: int, *, steps: int = 1, losses: Any = (), paid: float = 0.6, preempted: int = 0
) -> RunEvent:
    """The newest slot ends."""
    trained = _trained(rows, steps, losses)
    return _event("slot_done", overhead=None, paid=paid, preempted=preempted, **trained)


def overtime(since: float, until: float, rows: int, *, steps: int = 1) -> RunEvent:
    """Instances were held after the deadline."""
    return _event("overtime", time=until, since=since, **_trained(rows, steps, ()))


def ended(finish: float, state: str = "done") -> RunEvent:
    """All is done."""
    return _event("ended", finish=finish, state=state, note="")


def _trained(rows: int, steps: int, losses: Any) -> dict[str, Any]:
    trained = {"steps": steps, "tokens": rows * 7, "losses": list(losses)}
    return {"rows": rows, "trained": trained}


def _event(kind: str, **values: Any) -> RunEvent:
    return RunEvent(event={"type": kind, "time": 0.0, **values})
