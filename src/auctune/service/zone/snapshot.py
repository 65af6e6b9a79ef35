"""A zone's memory as bytes, so that a restart folds only what came later."""

from dataclasses import asdict
from typing import Any

import orjson

from auctune.domain import Admission, read_snapshot, write_snapshot
from auctune.run.records import decision_record, read_decision
from auctune.service.jobs.size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.zone.open_job import OpenJob, Phase, Progress, cell_records, read_cells
from auctune.service.zone.records import read_task, task_record
from auctune.service.zone.state import Received, ZoneState


def save_zone(state: ZoneState, mechanism: Admission) -> dict[str, Any]:
    """All that a zone remembers; nothing of it changes when the zone goes on."""
    record = {
        "seq": state.seq,
        "slot": state.slot,
        "received": [
            {**asdict(one), "training": one.training.to_record()} for one in state.received.values()
        ],
        "jobs": [_job_record(job) for job in state.jobs.values()],
        "lost": sorted(state.lost),
        "energy": state.energy,
        "energy_first": state.energy_first,
    }
    # As text: names that users chose stand for nothing in it.
    return {"state": orjson.dumps(record).decode(), "mechanism": mechanism.save()}


def to_bytes(saved: dict[str, Any]) -> bytes:
    """What `save_zone` gave, as it is kept."""
    return write_snapshot(saved)


def load_zone(body: bytes, state: ZoneState, mechanism: Admission) -> None:
    """Take over what was kept, into a new state and a new mechanism.

    Raises:
        ValueError: if it cannot be read, or is of another mechanism.
    """
    saved = read_snapshot(body)
    mechanism.load(saved["mechanism"])
    record = orjson.loads(saved["state"])
    state.seq, state.slot = record["seq"], record["slot"]
    for one in record["received"]:
        waiting = Received(**{**one, "training": Training.from_record(one["training"])})
        state.received[waiting.id] = waiting
    for one in record["jobs"]:
        job = _read_job(one)
        state.jobs[job.id] = job
    state.lost = set(record["lost"])
    state.energy, state.energy_first = record["energy"], record["energy_first"]


def _job_record(job: OpenJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "seq": job.seq,
        "owner": job.owner,
        "training": job.training.to_record(),
        "task": task_record(job.task),
        "decision": decision_record(job.decision),
        "cells": cell_records(job.cells),
        "size": asdict(job.size),
        "created_at": job.created_at,
        "phase": job.phase.value,
        "repaired": job.repaired,
        "progress": asdict(job.progress),
        "request": job.request,
        "notes": list(job.notes),
    }


def _read_job(record: dict[str, Any]) -> OpenJob:
    return OpenJob(
        id=record["id"],
        seq=record["seq"],
        owner=record["owner"],
        training=Training.from_record(record["training"]),
        task=read_task(record["task"]),
        decision=read_decision(record["decision"]),
        cells=read_cells(record["cells"]),
        size=DataSize(**record["size"]),
        created_at=record["created_at"],
        phase=Phase(record["phase"]),
        repaired=record["repaired"],
        progress=Progress(**record["progress"]),
        request=record["request"],
        notes=list(record["notes"]),
    )
