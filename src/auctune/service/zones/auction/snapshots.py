"""Model of an auction zone (state and mechanism) and its snapshots."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from auctune.domain import Admission, EnergyForecast, RepeatedEnergy, read_snapshot
from auctune.domain.data_size import DataSize
from auctune.registry import build
from auctune.run.records import decision_record, read_decision
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.job import (
    AuctionJob,
    Repair,
    cell_records,
    read_cells,
    read_cluster,
    read_task,
    task_record,
)
from auctune.service.zones.auction.mechanism_events import to_mechanism_event
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.events import ZoneEvent
from auctune.service.zones.core.job import PendingJob, Phase, Progress
from auctune.service.zones.core.read_model import Effects
from auctune.service.zones.core.zone import GivenUp

Fresh = Callable[[], tuple[AuctionState, Admission]]
"""Makes an empty state and a mechanism over an empty cluster."""


@dataclass(frozen=True, slots=True)
class AuctionModel:
    """State and mechanism, of the same events."""

    state: AuctionState
    mechanism: Admission

    @property
    def seq(self) -> int:
        """Of the newest event applied."""
        return self.state.seq

    def load(self, body: bytes) -> None:
        """Take over a snapshot; see `load_zone`."""
        restore(body, self.state, self.mechanism)

    def apply(self, event: ZoneEvent) -> Effects:
        """Take over one event."""
        return fold(event, self.state, self.mechanism)


def fresh_zone(
    opened: Mapping[str, Any], energy: EnergyForecast | None = None
) -> tuple[AuctionState, Admission]:
    """A zone of which nothing is sold, as the event with which it opened says.

    Args:
        opened: the event's body.
        energy: what slots cost that are on no record yet; none: as the first window, again.
    """
    cluster = read_cluster(opened["cluster"])
    forecast = RepeatedEnergy(cluster) if energy is None else energy
    return AuctionState(cluster), build(
        opened["mechanism"], cluster, opened["settings"], energy=forecast
    )


def fold(event: ZoneEvent, state: AuctionState, mechanism: Admission) -> Effects:
    """Apply one event to both; what it changes for readers."""
    told = to_mechanism_event(event, state)
    if told is not None:
        mechanism.apply(told)
    return state.apply(event)


def empty_model(opened: Mapping[str, Any], energy: EnergyForecast | None = None) -> AuctionModel:
    """The same as a memory."""
    return AuctionModel(*fresh_zone(opened, energy))


# Snapshots as bytes.

# Jobs serialized in one command: some milliseconds.
_BATCH = 100


class ZoneSnapshotWriter:
    """Saves a zone again and again; what did not change since is not written anew."""

    def __init__(self) -> None:
        # By job: the newest event about it, and its record as JSON.
        self._written: dict[str, tuple[int, bytes]] = {}

    def prepare(self, state: AuctionState, most: int = _BATCH) -> bool:
        """Put some jobs into words ahead of `save`; whether all are. Bids go on in between."""
        for job in state.jobs.values():
            known = self._written.get(job.id)
            if known is None or known[0] != job.last_event_seq:
                if most == 0:
                    return False
                self._written[job.id] = self._write(job)
                most -= 1
        return True

    def save(self, state: AuctionState, mechanism: Admission) -> dict[str, Any]:
        """All that a zone remembers; nothing of it changes when the zone goes on."""
        self._written = {job.id: self._write(job) for job in state.jobs.values()}
        record = {
            "seq": state.seq,
            "slot": state.slot,
            "received": [one.to_record() for one in state.received.values()],
            "jobs": [orjson.Fragment(body) for _, body in self._written.values()],
            "lost": sorted(state.lost),
            "drained": sorted(state.drained),
            "energy": state.energy,
            "energy_first": state.energy_first,
        }
        # As bytes: names that users chose stand for nothing in it.
        text = np.frombuffer(orjson.dumps(record), dtype=np.uint8)
        return {"state": text, "mechanism": mechanism.save()}

    def _write(self, job: AuctionJob) -> tuple[int, bytes]:
        known = self._written.get(job.id)
        if known is not None and known[0] == job.last_event_seq:
            return known
        return job.last_event_seq, orjson.dumps(_job_record(job))


def restore(body: bytes, state: AuctionState, mechanism: Admission) -> None:
    """Take over what was kept, into a new state and a new mechanism.

    Raises:
        ValueError: if it cannot be read, or is of another mechanism.
    """
    saved = read_snapshot(body)
    mechanism.load(saved["mechanism"])
    record = orjson.loads(saved["state"].tobytes())
    state.seq, state.slot = record["seq"], record["slot"]
    for one in record["received"]:
        waiting = PendingJob.from_record(one)
        state.received[waiting.id] = waiting
    for one in record["jobs"]:
        job = _read_job(one)
        state.jobs[job.id] = job
    state.lost, state.drained = set(record["lost"]), set(record["drained"])
    state.energy, state.energy_first = record["energy"], record["energy_first"]


def _job_record(job: AuctionJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "seq": job.seq,
        "newest": job.last_event_seq,
        "owner": job.owner,
        "training": job.training.to_record(),
        "task": task_record(job.task),
        "decision": decision_record(job.decision),
        "cells": cell_records(job.cells),
        "size": job.size.to_record(),
        "created_at": job.created_at,
        "phase": job.phase.value,
        "repair": None if job.repair is None else job.repair.to_record(),
        "failed_vendors": list(job.failed_vendors),
        "repaired": job.repaired,
        "progress": job.progress.to_record(),
        "answered": job.last_reported_slot,
        "request": job.request,
        "notes": list(job.notes),
        "out_of_memory": list(job.out_of_memory),
        "given_up": None if job.given_up is None else job.given_up.to_record(),
    }


def _read_job(record: dict[str, Any]) -> AuctionJob:
    return AuctionJob(
        id=record["id"],
        seq=record["seq"],
        last_event_seq=record["newest"],
        owner=record["owner"],
        training=Training.from_record(record["training"]),
        task=read_task(record["task"]),
        decision=read_decision(record["decision"]),
        cells=read_cells(record["cells"]),
        size=DataSize.from_record(record["size"]),
        created_at=record["created_at"],
        phase=Phase(record["phase"]),
        repair=None if record["repair"] is None else Repair.from_record(record["repair"]),
        failed_vendors=tuple(record["failed_vendors"]),
        repaired=record["repaired"],
        progress=Progress(**record["progress"]),
        last_reported_slot=record["answered"],
        request=record["request"],
        notes=list(record["notes"]),
        out_of_memory=list(record["out_of_memory"]),
        given_up=GivenUp.from_record(record["given_up"]),
    )


# The source of snapshots.


class AuctionSaver:
    """Of one zone."""

    def __init__(self) -> None:
        self._saver = ZoneSnapshotWriter()

    def seq(self, zone: AuctionZone) -> int:
        """Of the newest event that the memory knows."""
        return zone.state.seq

    def prepare(self, zone: AuctionZone) -> bool:
        """Put some jobs into words ahead of `save`; whether all are."""
        return self._saver.prepare(zone.state)

    def save(self, zone: AuctionZone) -> dict[str, Any]:
        """All that the zone remembers."""
        return self._saver.save(zone.state, zone.mechanism)
