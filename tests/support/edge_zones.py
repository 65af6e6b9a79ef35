"""Edge zones over simulated sites, with a clock that is set; and files of rows."""

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from auctune.domain import Money, write_snapshot
from auctune.domain.data_size import DataSize
from auctune.edge import EdgeMenu
from auctune.engine.edge.edge_folder import OUTCOME, SlotOutcome
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.storage import assign_chunks
from auctune.engine.messages.sites import SITES_MESSAGES, TrainSlot
from auctune.engine.runtime.channel import decode, encode
from auctune.engine.unix_time import SlotClock
from auctune.files.device_profile import Profile
from auctune.numerics.rng import stream
from auctune.service.config import edge as edge_config
from auctune.service.config.edge import EdgeConfig, PricingConfig, SiteConfig
from auctune.service.jobs.training import Training
from auctune.service.zones.edge import supply as edge_supply
from auctune.service.zones.edge.kind import build_supply, edge_record
from auctune.service.zones.edge.state import EdgeModel, SiteDatasets, empty_model
from auctune.service.zones.edge.supply import EdgeBid
from auctune.service.zones.edge.worker import SlotScheduler
from auctune.service.zones.edge.zone import EdgeZone
from support.zones import EPOCH, MemoryLog, SetClock, made_up_profile

SITES = {"a": 2.0, "b": 2.0, "c": 1.0}
SLOT_SECONDS = 10.0
TOKENS = 18.0
# Of rows of 18 tokens: four a chunk.
CHUNK_MB = 4 * 4 * TOKENS / 1e6


@contextmanager
def edge_constants(*, chunk_mb: float = CHUNK_MB, step_seconds: float = 0.0) -> Iterator[None]:
    """Other constants of edge zones, for a block: small chunks, and steps that take no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_config, "CHUNK_MB", chunk_mb)
        patch.setattr(edge_supply, "CHUNK_MB", chunk_mb)
        patch.setattr(edge_supply, "STEP_SECONDS", step_seconds)
        yield


def edge_entry(name: str = "edge", **more: Any) -> EdgeConfig:
    """A zone of three sites; with `edge_constants` a worker trains eight rows in a slot."""
    chosen: dict[str, Any] = {
        "slot_seconds": SLOT_SECONDS,
        "slots": 10,
        "sites": [SiteConfig(id=site, capacity={"cpu": units}) for site, units in SITES.items()],
        "server": {"cpu": 0.25},
        "traffic_mb_per_slot": 10.0,
        "rows_move": True,
        "headroom": 0.6,
        "pricing": PricingConfig(reserve_value=20.0),
        **more,
    }
    return EdgeConfig(name=name, **chosen)


@dataclass
class KeptSites:
    """Sites that keep what they are told."""

    slots: list[tuple[int, list[SlotRequest]]] = field(default_factory=list)
    coming: list[list[str]] = field(default_factory=list)
    ahead: list[list[str]] = field(default_factory=list)

    def train(self, slot: int, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        # By way of a frame, as to a process.
        request = TrainSlot(slot=slot, open=tuple(jobs), requests=tuple(requests))
        sent = decode(encode(request, SITES_MESSAGES.requests), SITES_MESSAGES.requests)
        self.slots.append((slot, list(sent.requests)))

    def expect(self, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        self.coming.append([one.job.id for one in requests])

    def prefetch(self, requests: Iterable[SlotRequest]) -> None:
        self.ahead.append([one.job.id for one in requests])


class MadeUpEdge:
    """A zone, its log in memory, and sites that a test speaks for."""

    def __init__(self, entry: EdgeConfig | None = None) -> None:
        self.entry = entry or edge_entry()
        self.clock, self.log = SetClock(), MemoryLog()
        self.record = edge_record(self.entry, EPOCH)
        self.kept: dict[tuple[str, int, int], SlotOutcome] = {}
        self._open(empty_model(self.record))
        self.zone.record_created(self.record)
        self.zone.begin_slots()
        self.keep()
        self.hear(kind="ready", lost=[])

    def _open(self, memory: EdgeModel) -> None:
        supply = build_supply(
            self.entry, self.record, SlotClock(EPOCH, SLOT_SECONDS, self.clock), slow_profile()
        )
        self.zone = EdgeZone("edge", supply, memory, self.log)
        self.sites = KeptSites()
        self.scheduler = SlotScheduler(
            Path,
            lambda job, slot, steps: self.kept.get((job, slot, steps)),
        )

    def keep(self) -> None:
        """Put what happened on record."""
        self.log.record(self.zone.pop_events(), lambda error: None)

    def folded(self) -> EdgeModel:
        """What the log makes of an empty memory."""
        memory = empty_model(self.record)
        for event in self.log.read():
            memory.apply(event)
        return memory

    def restart(self) -> None:
        """As after a kill: memory from the log alone, and a process that is started anew."""
        self._open(self.folded())
        self.zone.begin_slots()
        self.hear(kind="ready", lost=sorted(self.zone.state.lost))

    def pass_slots(self, count: int = 1) -> None:
        self.clock.time += count * SLOT_SECONDS
        self.scheduler.run_slot(self.zone)
        self.keep()

    def hear(self, **values: Any) -> None:
        """Handle a message of the sites' process."""
        record = {"type": values.pop("kind"), **values}
        if "job" in record:
            record = {"type": "slot_ended", "slot": record.pop("slot", 0), "end": record}
        message, sites = SITES_MESSAGES.replies.validate_python(record), cast(Any, self.sites)
        self.scheduler.on_message(self.zone, sites, message)
        self.keep()

    def bid(self, job: str, bid: str = "10", slots: int = 6, **more: Any) -> EdgeBid:
        samples = more.pop("samples", {"a": 16, "b": 16})
        left = more.pop("remaining_budget", lambda: None)
        return EdgeBid(
            job=job,
            owner=more.pop("owner", "ada"),
            training=Training("file-a", epochs=1, batch_size=8, seed=3),
            facts=SiteDatasets(samples, DataSize(sum(samples.values()), TOKENS)),
            bid=Money(bid),
            deadline=self.zone.clock.slot_end(self.zone.clock.slot() + slots),
            request={
                "bid": bid,
                "sites": {site: f"file-{site}" for site in samples},
                "model": "tiny",
            },
            remaining_budget=left,
        )

    def menu(self, bid: EdgeBid) -> EdgeMenu:
        return self.zone.question(bid).answer()

    def decide(self, job: str, bid: str = "10", slots: int = 6, **more: Any) -> Any:
        row = self.zone.decide(self.bid(job, bid, slots, **more))
        self.keep()
        self.scheduler.run_slot(self.zone)
        self.keep()
        return row

    def answer(self, job: str, slot: int, loss: float = 0.5) -> None:
        """A job's slot is trained."""
        order = next(
            one for number, orders in self.sites.slots for one in orders
            if number == slot and one.job.id == job
        )  # fmt: skip
        outcome = outcome_of(order, loss)
        plain = OUTCOME.dump_python(outcome)
        self.hear(kind="slot_trained", job=job, slot=slot, outcome=plain)

    def train(self, slot: int) -> None:
        """All that was given out of a slot is trained."""
        for number, orders in self.sites.slots:
            for order in orders if number == slot else ():
                self.answer(order.job.id, slot)
        self.hear(kind="slot_done", slot=slot)

    @property
    def snapshot(self) -> bytes:
        return write_snapshot(self.zone.model.save())


def outcome_of(order: SlotRequest, loss: float = 0.5) -> SlotOutcome:
    """Outcome of a slot of four rows a chunk."""
    samples = 4 * order.part.chunks * order.job.epochs
    steps = order.steps + order.part.chunks
    assigned = assign_chunks(order.job, order.part, order.taken)
    return SlotOutcome(
        before=order.steps,
        steps=steps,
        chunks=tuple(sorted(number for numbers in assigned.values() for number in numbers)),
        samples=samples,
        tokens=100 * steps,
        losses=((order.steps + 1, 0, 100, 2 * loss, 0.2), (steps, samples, 100 * steps, loss, 0.4)),
        first_loss=2 * loss,
        loss=loss,
        validation_loss=None,
        validation_accuracy=None,
        seconds=1.0,
        workers_away=0,
        chunks_crossed=0,
        chunk_bytes=0,
        parameter_bytes=1000,
    )


def slow_profile() -> Profile:
    """A device that trains two rows of 18 tokens a second."""
    return replace(made_up_profile(), step_seconds=0.0, token_seconds=1 / (2 * TOKENS), margin=0.0)


def rows_file(seed: int = 0, rows: int = 16) -> bytes:
    """A file of rows, drawn by a seed: 18 words each."""
    draw = stream(seed, "rows")
    lines = [
        {"text": " ".join(f"word{word}" for word in draw.integers(0, 60, 18))} for _ in range(rows)
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()
