"""A market of an auction, a zone that rents and a pool, and what their processes would say."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auctune.engine.pool.events import PoolEvent
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.spot.worker import on_message
from auctune.service.zones.timeshare.gateway import TimeshareGateway
from auctune.service.zones.timeshare.worker import record_event
from support import run_events
from support.pool_events import joined, quantum
from support.serving import Served, make_file, make_pool, make_zone, serving
from support.spot_zones import spot_zone

OWNED, RENTED, POOL = "owned", "rented", "pool"


@contextmanager
def metered_market(folder: Path) -> Iterator[Served]:
    """The three of them, open until the end of the block; nobody trains."""
    zones = [make_zone(OWNED, energy_cost=8.0), spot_zone(folder), make_pool(POOL)]
    with serving(folder / "data", make_file(zones)) as opened:
        opened.key("ada")
        yield opened


def ask(served: Served, file: str, market: dict[str, Any], key: str | None = None) -> Any:
    body = {"model": "tiny", "training_file": file, "market": market}
    with served.http(key) as http:
        answer = http.post("/v1/fine_tuning/jobs", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["market"]["decision"] == "admitted"
    return answer.json()


def rented_slot(served: Served, job: str, number: int, on_demand: int, spot: int) -> None:
    """A slot of a rented job, as its process would tell of it."""
    zone = served.service.zones[RENTED]
    assert isinstance(zone, SpotGateway)
    begun = run_events.slot(number, price=0.25, on_demand=on_demand, spot=spot)
    zone.actor.submit(lambda actor: on_message(actor, job, begun)).result(600)


class Pool:
    """What the pool says."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._num_events = 0

    def join(self, job: str) -> None:
        self._send(joined(job, self._unit()))

    def train(self, shares: dict[str, float], loss: float, seconds: float = 40.0) -> None:
        count = len(shares)
        event = quantum(
            self._unit(),
            shares,
            batches=[round(10 * seconds)] * count,
            losses=[loss] * count,
            seconds=[seconds] * count,
            read=[(32 * self._num_events, 320 * self._num_events)] * count,
        )
        self._send(event)

    def _unit(self) -> int:
        return self._served.service.zones[POOL].clock.slot()

    def _send(self, event: PoolEvent) -> None:
        zone = self._served.service.zones[POOL]
        assert isinstance(zone, TimeshareGateway)
        self._num_events += 1
        zone.actor.submit(lambda actor: record_event(actor, event)).result(600)
