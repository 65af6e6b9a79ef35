"""Plays at random what can happen to a zone, and checks after each step that all is of one mind."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import orjson

from auctune.domain import InputError, write_snapshot
from auctune.domain.data_size import DataSize
from auctune.engine.messages.base import ErrorRecord
from auctune.engine.messages.node import Lost, NotCompleted, Recovered
from auctune.service.datasets.repairer import VendorOffer
from auctune.service.ledger import HELD
from auctune.service.storage.event_log import EventType
from auctune.service.storage.queries import JobReadModel
from auctune.service.zones.auction.state import AuctionJob
from auctune.service.zones.auction.zone import Bid
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.state import SnapshotWriter
from support.scripted_node import trained_slot
from support.zones import MadeUpZone

TINY = 1e-9


class ZonePlayer:
    """Draws commands."""

    def __init__(self, made: MadeUpZone, rng: np.random.Generator) -> None:
        self.made = made
        self.rng = rng
        self.payments: dict[str, Decimal] = {}
        self.saver = SnapshotWriter()
        self.snapshots: list[tuple[int, bytes]] = []
        self.seen: Counter[str] = Counter()
        self._count = 0
        self._waiting: list[str] = []

    def step(self) -> None:
        """One command, drawn; what it did is on record then."""
        commands = {
            self.bid: 10,
            self.receive: 2,
            self.decide_received: 3,
            self.accept: 4,
            self.preview: 1,
            self.cancel: 2,
            self.pause: 3,
            self.resume: 3,
            self.repair: 3,
            self.change_vendor: 2,
            self.answer: 10,
            self.repeat_nothing: 1,
            self.unanswered: 2,
            self.pass_slots: 6,
            self.lose: 2,
            self.back: 2,
            self.drain: 1,
            self.give_back: 1,
            self.finish: 4,
            self.snapshot: 1,
            self.restart: 1,
        }
        weights = np.array(list(commands.values()), dtype=float)
        command = list(commands)[self.rng.choice(len(weights), p=weights / weights.sum())]
        try:
            command()
            self.seen[command.__name__] += 1
        except InputError:
            self.seen["refused"] += 1
        self.made.keep()
        assert not self.made.zone.has_unrecorded_change

    def _new_bid(self) -> Bid:
        self._count += 1
        offers: tuple[VendorOffer, ...] = ()
        if self.rng.random() < 0.3:
            offers = (
                VendorOffer("v0", Decimal("0.5"), float(self.rng.integers(0, 30))),
                VendorOffer("v1", Decimal(str(round(self.rng.uniform(0, 2), 4))), 5.0),
            )
        return self.made.bid(
            f"job{self._count}",
            str(round(float(self.rng.choice([0.001, 0.5, 3.0, 30.0])) * self.rng.random(), 4)),
            rows=int(self.rng.integers(5, 500)),
            slots=int(self.rng.integers(1, 12)),
            rank=int(self.rng.choice([2, 8, 16])),
            share=float(self.rng.choice([0.25, 0.5, 1.0])),
            offers=offers,
            owner=str(self.rng.choice(["ann", "bob"])),
        )

    def _some(self, jobs: list[str]) -> str:
        if not jobs:
            raise InputError("", "there is none", "")
        return str(self.rng.choice(jobs))

    def _open(self) -> str:
        return self._some(list(self.made.zone.state.jobs))

    def bid(self) -> None:
        bid = self._new_bid()
        if self.rng.random() < 0.1:
            left = Decimal(str(round(self.rng.random() * 0.1, 4)))
            bid = replace(bid, remaining_budget=lambda: left)
        self.made.zone.decide(bid)

    def receive(self) -> None:
        bid = self._new_bid()
        self.made.zone.receive(bid.job, bid.owner, bid.request, bid.training, None)
        self._waiting.append(bid.job)

    def decide_received(self) -> None:
        job = self._some(self._waiting)
        received = self.made.zone.state.received.get(job)
        bid = self._new_bid()
        bid = replace(bid, job=job, owner=bid.owner if received is None else received.owner)
        try:
            row = self.made.zone.decide_received(bid)
        except InputError as error:
            self.made.zone.reject_pending(job, error)
        else:
            assert (row is not None) == (received is not None)

    def accept(self) -> None:
        bid = self._new_bid()
        menu = self.made.zone.quote(bid)
        if not menu.lines:
            raise InputError("", "no line", "")
        for _ in range(int(self.rng.integers(0, 3))):
            self.bid()
        line = menu.lines[int(self.rng.integers(len(menu.lines)))]
        self.made.zone.accept(replace(bid, bid=line.price), line)

    def preview(self) -> None:
        before = len(self.made.log.events)
        self.made.zone.preview(self._new_bid())
        self.made.keep()
        assert all(e.type != EventType.DECIDED for e, _ in self.made.log.events[before:])

    def cancel(self) -> None:
        self.made.zone.cancel(self._some([*self.made.zone.state.jobs, *self._waiting]))

    def pause(self) -> None:
        self.made.zone.pause(self._open())

    def resume(self) -> None:
        self.made.zone.resume(self._open())

    def repair(self) -> None:
        job = self._raw()
        rows = max(1, job.size.rows - int(self.rng.integers(0, 3)))
        assert job.repair is not None
        size, file = DataSize(rows, 41.0), f"file-{job.id}"
        assert self.made.zone.complete_repair(job.id, job.repair, file, size, {})

    def change_vendor(self) -> None:
        job = self._raw()
        failed, before = job.repair, job.decision.payment
        assert failed is not None
        offers = [
            VendorOffer(f"w{number}", Decimal(int(self.rng.integers(0, 9))), float(seconds), "ref")
            for number, seconds in enumerate(self.rng.integers(0, 60, self.rng.integers(0, 3)))
        ]
        self.made.zone.switch_vendor(job.id, failed, "it failed", offers)
        assert not self.made.zone.waits_for(job.id, failed)
        self.made.keep()
        self._check_changed(job.id, failed.vendor, {offer.vendor for offer in offers}, before)

    def _check_changed(self, name: str, failed: str, offered: set[str], payment: Decimal) -> None:
        job = self.made.zone.state.jobs.get(name)
        if job is None:
            assert self.made.log.rows[name].body["refunded"]
            return
        assert job.repair is not None
        assert job.repair.vendor in offered
        assert job.failed_repairs[-1].vendor == failed
        assert job.decision.payment == payment
        if job.phase is not Phase.PAUSED:
            left = job.cells_from(self.made.zone.state.slot + 1)
            assert all(cell.slot >= job.repair.ready for cell in left)

    def _raw(self) -> AuctionJob:
        jobs = self.made.zone.state.jobs
        return jobs[self._some([job.id for job in jobs.values() if job.needs_repair])]

    def answer(self) -> None:
        orders = list(self.made.executor.orders)
        if not orders:
            raise InputError("", "no order", "")
        slot, node = orders[int(self.rng.integers(len(orders)))]
        share = float(self.rng.choice([0.0, 0.5, 0.95, 1.0, 1.0]))
        state = str(self.rng.choice(["training"] * 9 + ["failed"]))
        if share == 0.0 and slot % 2:
            self._run_out(slot, node)
        else:
            self.made.answer(slot, node, share, state)

    def repeat_nothing(self) -> None:
        """A message about a slot that is on record already."""
        job = self._open()
        known = self.made.zone.state.jobs[job]
        if known.last_reported_slot < 0:
            return
        message: Any = {
            "kind": "trained",
            "slot": known.last_reported_slot,
            "seconds": 1.0,
            "refused": {},
        }
        result = {"rows": 0, "state": "training", "note": ""}
        before = len(self.made.log.events)
        message["results"] = {job: result}
        self.made.scheduler.on_message(self.made.zone, "n0", message)
        self.made.keep()
        assert len(self.made.log.events) == before

    def unanswered(self) -> None:
        orders = list(self.made.executor.orders)
        if not orders:
            raise InputError("", "no order", "")
        slot, node = orders[int(self.rng.integers(len(orders)))]
        self.made.executor.orders.pop((slot, node))
        self._not_completed(slot, node, "the node crashed")

    def _not_completed(self, slot: int, node: str, why: str) -> None:
        message = NotCompleted(request="", slot=slot, tasks=(), why=why, begun=True)
        self.made.scheduler.on_message(self.made.zone, node, message)

    def _run_out(self, slot: int, node: str) -> None:
        """Memory runs out for each task of an order."""
        tasks = self.made.executor.orders.pop((slot, node))
        error = ErrorRecord("", "out of memory", "", out_of_memory=True)
        message = trained_slot(slot, refused={task.job.id: error for task in tasks})
        self.made.scheduler.on_message(self.made.zone, node, message)
        self.seen["run_out"] += 1

    def pass_slots(self) -> None:
        self.made.pass_slots(int(self.rng.choice([1, 1, 1, 2, 5, 20])))

    def _node(self) -> str:
        return str(self.rng.choice([node.id for node in self.made.supply.cluster.nodes]))

    def lose(self) -> None:
        node = self._node()
        slots = [slot for slot, name in self.made.executor.orders if name == node]
        for slot in slots:
            del self.made.executor.orders[slot, node]
        lost = Lost(how="crashed", missing=False)
        self.made.scheduler.on_message(self.made.zone, node, lost)
        for slot in slots:
            self._not_completed(slot, node, "the node is lost")

    def back(self) -> None:
        self.made.scheduler.on_message(self.made.zone, self._node(), Recovered())

    def drain(self) -> None:
        self.made.zone.drain_node(self._node(), "drained")

    def give_back(self) -> None:
        self.made.zone.return_node(self._node())

    def finish(self) -> None:
        jobs = self.made.zone.state.jobs.values()
        self.made.finish(self._some([job.id for job in jobs if job.phase is Phase.TRAINED]))

    def snapshot(self) -> None:
        zone = self.made.zone
        self.saver.prepare(zone.state, 2)
        saved = self.saver.write(zone.model)
        self.snapshots.append((zone.state.seq, write_snapshot(saved)))

    def restart(self) -> None:
        self.made.restart()

    def check(self) -> None:
        self._check_money()
        self._check_capacity()
        events = [event for event, _ in self.made.log.events if event.type == EventType.TRAINED]
        trained = [(event.job, event.body["slot"]) for event in events]
        assert len(trained) == len(set(trained)), "a slot of a job is on record twice"

    def _check_money(self) -> None:
        log, jobs = self.made.log, self.made.zone.state.jobs
        assert all(sum(entry.amount for entry in entries) == 0 for _, entries in log.entries)
        open_payments = sum((job.decision.payment for job in jobs.values()), Decimal(0))
        assert log.balances().get(HELD, Decimal(0)) == -open_payments
        for row in log.rows.values():
            decision = row.body["decision"]
            if decision is not None and decision["admitted"]:
                paid = self.payments.setdefault(row.id, Decimal(decision["payment"]))
                assert Decimal(decision["payment"]) == paid
                assert paid <= Decimal(row.body["task"]["bid"])
        owed: Counter[str] = Counter()
        for name, paid in self.payments.items():
            if not log.rows[name].body["refunded"]:
                owed[f"user:{log.rows[name].owner}"] += paid  # type: ignore[assignment]
        for user in ("user:ann", "user:bob"):
            assert log.balances().get(user, Decimal(0)) == owed[user]

    def _check_capacity(self) -> None:
        zone = self.made.zone
        kind = self.made.supply.cluster.node_types["kind"]
        room = kind.memory_gb - self.made.supply.cluster.base_memory_gb
        state, first = zone.mechanism.state(), zone.state.slot + 1
        compute, memory = np.zeros_like(state.compute_used), np.zeros_like(state.memory_used)
        index = {node.id: n for n, node in enumerate(self.made.supply.cluster.nodes)}
        for job in zone.state.jobs.values():
            slots = [cell.slot for cell in job.cells]
            assert len(set(slots)) == len(slots)
            assert all(slot <= job.task.deadline for slot in slots)
            assert not (job.phase in (Phase.PAUSED, Phase.TRAINED) and job.cells_from(first))
            for cell in job.cells_from(first):
                assert cell.node not in zone.state.lost
                place = cell.slot - state.first_slot, index[cell.node]
                compute[place] += job.task.throughput["kind"] / kind.compute
                memory[place] += job.task.memory_gb / room
        assert compute.max() <= 1 + 1e-6
        assert memory.max() <= 1 + 1e-6
        up = [n for node, n in index.items() if node not in zone.state.lost]
        ahead = slice(first - state.first_slot, None)
        np.testing.assert_allclose(state.compute_used[ahead, up], compute[ahead, up], atol=TINY)
        np.testing.assert_allclose(state.memory_used[ahead, up], memory[ahead, up], atol=TINY)

    def check_fold(self) -> None:
        """The log alone gives state, mechanism, rows and entries; so do snapshots and the rest."""
        zone, log = self.made.zone, self.made.log
        model = self.made.fresh()
        rows, entries = {}, []
        for event in log.read():
            change = model.apply(event)
            rows.update({row.id: row for row in change.rows})
            entries.append(change.entries)
        assert _as_stored(rows) == _as_stored(log.rows)
        assert entries == [made for _, made in log.entries]
        assert model.state == zone.state
        assert_same(model.mechanism.save(), zone.mechanism.save())
        for seq, body in self.snapshots[-2:]:
            later = self.made.fresh()
            later.restore(body)
            for event in log.read(after=seq):
                later.apply(event)
            assert later.state == zone.state
            assert_same(later.mechanism.save(), zone.mechanism.save())


def _as_stored(rows: dict[str, JobReadModel]) -> dict[str, bytes]:
    return {name: orjson.dumps([row.seq, row.status, row.body]) for name, row in rows.items()}


def assert_same(found: Any, expected: Any, place: str = "saved") -> None:
    """What two mechanisms remember is the same, to the last bit of each number."""
    if isinstance(found, np.ndarray):
        assert np.array_equal(found, expected, equal_nan=True), place
    elif isinstance(found, Mapping):
        assert found.keys() == expected.keys(), place
        for name, part in found.items():
            assert_same(part, expected[name], f"{place}.{name}")
    elif isinstance(found, list | tuple):
        assert len(found) == len(expected), place
        for index, part in enumerate(found):
            assert_same(part, expected[index], f"{place}[{index}]")
    else:
        assert found == expected, place
