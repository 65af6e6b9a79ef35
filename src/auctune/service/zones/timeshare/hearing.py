"""What the pool says, taken over into its zone: each event of its journal once, by its number."""

import math
from collections.abc import Mapping
from typing import Any

from auctune.domain import Money
from auctune.service.zones.event import Kind
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.timeshare.deciding import unit_charge
from auctune.service.zones.timeshare.event import TimeshareKind
from auctune.service.zones.timeshare.open_job import TargetJob
from auctune.service.zones.timeshare.zone import TimeshareZone

NODE = "pool"
"""Where all jobs of such a zone are trained."""

Views = Mapping[str, Mapping[str, Any]]


class Hearing:
    """Of one zone's pool.

    Args:
        price: of a second of it.
    """

    def __init__(self, price: Money) -> None:
        self._price = price

    def on_event(
        self, zone: TimeshareZone, number: int, event: Mapping[str, Any], views: Views
    ) -> None:
        """Take over an event of the pool's journal, unless it is on record.

        Args:
            zone: whose pool it is.
            number: of the event.
            event: as `auctune.run.open_pool.state` says.
            views: of a unit's jobs; none where it is told again.
        """
        if number <= zone.state.journal_offset:
            return
        kind, job = event["type"], event.get("id")
        if kind == "unit":
            with zone.atomic():
                self._unit(zone, number, event, views)
        elif kind == "joined" and zone.state.charged_job(event["id"]) is not None:
            with zone.atomic():
                self._joined(zone, number, event)
        elif job not in zone.state.jobs:
            # Its owner ended it meanwhile.
            return
        elif kind == "left":
            best = event["best"]
            loss = None if best is None else best["loss"]
            body = {"how": event["how"], "why": event["why"], "best": loss}
            zone.record(TimeshareKind.LEFT, job, {"number": number, **body})
        elif kind == "refused":
            why = f"{event['place']} {event['found']}".strip()
            zone.fail(job, "training_failed", why, None)
        elif kind == "noted":
            zone.record(Kind.JOB_NOTED, job, {"number": number, "text": event["text"]})

    def _joined(self, zone: TimeshareZone, number: int, event: Mapping[str, Any]) -> None:
        """A job was loaded, which takes the pool's time as training does."""
        job, unit, seconds = zone.state.charged_job(event["id"]), event["time"], event["seconds"]
        assert job is not None
        body = {"unit": unit, "rate": event["rate"], "memory": event["memory"]}
        zone.record(TimeshareKind.JOINED, job.id, {"number": number, **body})
        if job.left is None and seconds:
            row = {"seconds": seconds, "batches": 0, "losses": math.nan}
            self._meter(zone, job, unit, row, 0.0, {})

    def _unit(
        self, zone: TimeshareZone, number: int, event: Mapping[str, Any], views: Views
    ) -> None:
        shares = dict(zip(event["names"], event["shares"], strict=True))
        unit = {"number": number, "unit": event["time"], "span": event["span"]}
        zone.record(TimeshareKind.UNIT, None, {**unit, "shares": shares})
        for place, name in enumerate(event["names"]):
            job = zone.state.charged_job(name)
            if job is not None and job.left is None and event["seconds"][place]:
                row = {
                    key: event[key][place] for key in ("batches", "losses", "seconds", "learned")
                }
                self._trained(zone, job, event["time"], row, shares[name], views.get(name, {}))

    def _trained(
        self,
        zone: TimeshareZone,
        job: TargetJob,
        unit: int,
        row: Mapping[str, Any],
        share: float,
        view: Mapping[str, Any],
    ) -> None:
        loss = self._meter(zone, job, unit, row, share, view)
        if not row["batches"] or job.id in zone.state.cancelled:
            return
        steps = job.progress.steps + row["batches"]
        rows, tokens = row["learned"]
        result = {
            "rows": rows,
            "total_rows": 0,
            "tokens": tokens,
            "steps": steps,
            "state": "training",
            "losses": [] if loss is None else [[steps, rows, tokens, loss]],
            "validation": [],
            "note": "",
        }
        trained = {"node": NODE, "slot": unit, "seconds": row["seconds"], "result": result}
        zone.record(Kind.TRAINED, job.id, trained)

    def _meter(
        self,
        zone: TimeshareZone,
        job: TargetJob,
        unit: int,
        row: Mapping[str, Any],
        share: float,
        view: Mapping[str, Any],
    ) -> float | None:
        """Charge a job for seconds of the pool; returns its loss in them."""
        loss = row["losses"] if math.isfinite(row["losses"]) else None
        body = {
            "slot": job.meter.next_slot,
            "amount": str(unit_charge(row["seconds"], self._price, job.meter.remaining)),
            "cost": "0",
            "unit": unit,
            "seconds": row["seconds"],
            "batches": row["batches"],
            "loss": loss,
            "share": share,
            "finish": view.get("finish"),
            "verdict": view.get("verdict"),
        }
        zone.record(MeteredKind.METERED, job.id, body)
        return loss
