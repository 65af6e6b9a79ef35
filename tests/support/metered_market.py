"""A market of a rented zone and a pool, whose processes' words a test says; with a log of both."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from auctune.engine.messages.spot import CapReached
from auctune.engine.pool.events import ExitReason, JobLeft, PoolEvent
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.job import Phase
from auctune.service.zones.spot.gateway import SpotGateway
from auctune.service.zones.spot.state import SpotJobState
from auctune.service.zones.spot.worker import on_message
from auctune.service.zones.spot.zone import SpotZone
from auctune.service.zones.timeshare.gateway import TimeshareGateway
from auctune.service.zones.timeshare.worker import record_event
from auctune.service.zones.timeshare.zone import TimeshareZone
from support import run_events
from support.pool_events import joined, quantum
from support.serving import SLOT_SECONDS, Served

JOBS = "/v1/fine_tuning/jobs"
PRICE = "0.0100"
ON_DEMAND_PRICE = 60.0


def write_settings(folder: Path, market: Path) -> Path:
    file = folder / "auctune.toml"
    file.write_text(
        f"""
[[zones]]
kind = "spot"
name = "rented"
slot_seconds = {SLOT_SECONDS}
market = "{market}"
on_demand_price = {ON_DEMAND_PRICE}
start = 100

[[zones]]
kind = "timeshare"
name = "pool"
slot_seconds = {SLOT_SECONDS}
"""
    )
    return file


def ask(served: Served, file: str, **market: Any) -> str:
    with served.http() as http:
        body = {"model": "tiny", "training_file": file, "market": market}
        answer = http.post(JOBS, json=body)
        assert answer.status_code == 200, answer.text
        name: str = answer.json()["id"]
    return name


def cancel(served: Served, job: str) -> None:
    with served.http() as http:
        http.post(f"{JOBS}/{job}/cancel").raise_for_status()


class Renter:
    """Says what the processes of rented jobs would: one instance, spot where there is any.

    Args:
        served: with a zone `rented`.
    """

    def __init__(self, served: Served) -> None:
        zone = served.service.zones["rented"]
        assert isinstance(zone, SpotGateway)
        self.actor: ZoneActor[SpotZone] = zone.actor

    def rent(self, job: str) -> None:
        """A slot of a job, if its first one has begun and it is not over."""
        self.actor.submit(lambda zone: _rent(zone, zone.state.jobs.get(job))).result(600)

    def end(self, job: str, finish: float) -> None:
        message = run_events.ended(finish)
        self.actor.submit(lambda zone: on_message(zone, job, message)).result(600)

    def hold_late(self, job: str, since: float, until: float) -> None:
        def held(zone: SpotZone) -> None:
            rows = zone.state.jobs[job].progress.rows
            on_message(zone, job, run_events.overtime(since, until, rows))

        self.actor.submit(held).result(600)

    def cap(self, job: str) -> None:
        message = CapReached(rate=1.0)
        self.actor.submit(lambda zone: on_message(zone, job, message)).result(600)


def _rent(zone: SpotZone, job: SpotJobState | None) -> None:
    zone.begin_slots()
    if job is None or job.first > zone.state.slot or job.phase is Phase.TRAINED:
        return
    number = job.meter.next_slot
    seen = zone.rental.market.slot_starts(job.first + number, 1)
    price, available = float(seen.price[0]), int(seen.available[0])
    spot = min(1, available)
    held: dict[str, Any] = {"on_demand": 1 - spot, "spot": spot}
    held["spot_before"] = job.count - job.on_demand
    on_message(zone, job.id, run_events.slot(number, price=price, **held))
    rows, step = 5 * (number + 1), number + 1
    losses = [[step, rows, rows * 8, 2.0 / step, 0.5]]
    # So that the rows are not compared with those sold.
    on_message(zone, job.id, run_events.slot_done(rows, steps=step, losses=losses, preempted=1))


def _forget_profile(zone: TimeshareZone) -> None:
    """Charge seconds as they are: batches that a test makes up have no speed."""
    zone.profile = None


class Pool:
    """Says what the process of a pool would.

    Args:
        served: with a zone `pool`.
    """

    def __init__(self, served: Served) -> None:
        zone = served.service.zones["pool"]
        assert isinstance(zone, TimeshareGateway)
        self.actor: ZoneActor[TimeshareZone] = zone.actor
        self.actor.submit(_forget_profile).result(60)
        self._learned: dict[str, int] = {}

    def join(self, job: str) -> None:
        self._send(lambda time: joined(job, time, rate=12.0))

    def train(self, **losses: float) -> None:
        names = list(losses)
        for name in names:
            self._learned[name] = self._learned.get(name, 0) + 5
        event = partial(
            quantum,
            shares={name: 1 / len(names) for name in names},
            batches=[5] * len(names),
            losses=list(losses.values()),
            seconds=[SLOT_SECONDS / len(names)] * len(names),
            read=[(self._learned[name] * 4, self._learned[name] * 64) for name in names],
        )
        self._send(event)

    def leave(self, job: str, how: str) -> None:
        self._send(lambda _: JobLeft(job, ExitReason(how), "", (5, 0.4)))
        self.actor.submit(lambda zone: zone.finish(job, ["file-a"])).result(600)

    def _send(self, make: Callable[[int], PoolEvent]) -> None:
        """Send the event that `make` returns for the quantum of now."""
        self.actor.submit(lambda zone: record_event(zone, make(zone.clock.slot()))).result(60)
