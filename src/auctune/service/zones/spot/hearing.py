"""What a job's process tells, taken over into the log: each slot once, by its number.

It tells what its journal holds, and after every start all of it again; what is on record already is
passed over. All of it runs on the desk's thread.
"""

from collections.abc import Mapping
from typing import Any

from auctune.domain import round_money
from auctune.service.zones.event import Kind
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.phase import Phase
from auctune.service.zones.spot.deciding import slot_charge, worth_at
from auctune.service.zones.spot.event import CAP_REACHED, SpotKind
from auctune.service.zones.spot.rented_job import RentedJob
from auctune.service.zones.spot.zone import SpotZone

Message = Mapping[str, Any]


def hear(zone: SpotZone, name: str, message: Message) -> None:
    """Take over a message; one of a job that is over says nothing any more."""
    zone.begin_slots()
    job = zone.state.jobs.get(name)
    if job is None:
        return
    match message["kind"]:
        case "ready":
            zone.record(SpotKind.READY, name, {"seconds": message["seconds"]})
        case "slot":
            _meter(zone, job, message)
        case "held":
            _meter(zone, job, {**message, "spot": 0, "missed": False, "price": None})
            _train(zone, job, message)
        case "slot_done":
            _train(zone, job, message)
        case "ended":
            _end(zone, job, message)
        case "capped":
            next_slot, left = round_money(message["rate"] * job.unit_price), job.meter.remaining
            why = (
                f"the cap of {job.meter.cap} is reached: {left} of it is left, "
                f"and the next slot would cost {next_slot}"
            )
            zone.fail(name, CAP_REACHED, why, "market.max_cost", refund=False)
        case "failed":
            why = " ".join(str(message[part]) for part in ("place", "found") if message[part])
            zone.fail(name, "training_failed", why, None)
        case "noted" if message["text"] not in job.notes:
            zone.record(Kind.JOB_NOTED, name, {"text": message["text"]})


def _meter(zone: SpotZone, job: RentedJob, message: Message) -> None:
    number = message["slot"]
    if job.meter.is_charged(number):
        return
    amount = slot_charge(message["paid"], job.unit_price, job.meter.remaining)
    at, share = job.first + number, 1.0
    if "since" in message:
        at = job.first + int(message["since"])
        share = message["until"] - message["since"]
    body = {
        "slot": number,
        "amount": str(amount),
        "cost": str(round_money(message["paid"] * job.unit_cost)),
        "at": at,
        "share": share,
        "price": message["price"],
        "on_demand": message["on_demand"],
        "spot": message["spot"],
        "missed": message["missed"],
    }
    zone.record(MeteredKind.METERED, job.id, body)


def _train(zone: SpotZone, job: RentedJob, message: Message) -> None:
    number = message["slot"]
    # A slot in which nothing was trained left nothing to go on from.
    if number < job.next_trained or message["rows"] in (None, job.progress.rows):
        return
    result = {
        "rows": message["rows"],
        "total_rows": job.total_rows,
        "tokens": message["tokens"],
        "steps": message["steps"],
        "losses": [[step, rows, rows, loss] for step, rows, loss in message["losses"]],
        "validation": [],
        "state": "suspended",
        "note": "",
    }
    body = {
        "node": zone.name,
        "slot": zone.state.slot,
        "seconds": zone.clock.slot_seconds,
        "number": number,
        "result": result,
    }
    zone.record(Kind.TRAINED, job.id, body)


def _end(zone: SpotZone, job: RentedJob, message: Message) -> None:
    if job.phase is Phase.TRAINED:
        return
    if message["state"] != "done":
        # Settings that let the weights go astray are not the market's failure.
        zone.fail(job.id, "training_failed", message["note"], None, refund=False)
        return
    done = zone.clock.slot_start(job.first) + message["finish"] * zone.clock.slot_seconds
    worth = worth_at(job.worth, done)
    body = {name: message[name] for name in ("state", "note", "finish")}
    zone.record(SpotKind.ENDED, job.id, body | {"worth": None if worth is None else str(worth)})
