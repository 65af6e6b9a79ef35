"""The zone of a market file and the scheduler of its slots, with nodes that a test answers for."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from auctune.domain import InputError, Reason, Task
from auctune.domain.data_size import DataSize
from auctune.engine.messages.base import ErrorRecord
from auctune.engine.messages.node import (
    Ended,
    Lost,
    NodeMessage,
    NotCompleted,
    Recovered,
    RequestFailed,
    TaskResult,
)
from auctune.engine.runtime.nodes import NodeError
from auctune.registry.mechanisms import build
from auctune.replay.auction import AuctionVerifier
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import EventType
from auctune.service.zones.auction.state import AuctionModel, AuctionState
from auctune.service.zones.auction.zone import Bid
from auctune.standalone.folder import RunFolder
from auctune.standalone.market_zone import MarketScheduler, MarketZone
from auctune.standalone.zone import LogicalClock
from support.scripted_node import trained_slot
from support.zones import EPOCH, SLOT_SECONDS, SLOTS, MemoryLog, OrdersKept, made_up_supply

NOT_COMPLETED = NotCompleted(request="", slot=0, tasks=(), why="it is lost", begun=False)


class MadeUpMarket:
    """A zone of a market file of two nodes, its log in memory, and its scheduler."""

    def __init__(self, folder: Path, jobs: dict[str, tuple[str, int, int]]) -> None:
        """`jobs` are bid, rows and deadline by name; all arrive in slot 0."""
        self.supply = made_up_supply()
        self.clock = LogicalClock(EPOCH, SLOT_SECONDS)
        self.bids = {name: self._bid(name, *job) for name, job in jobs.items()}
        self.tasks = {name: self._task(name, bid) for name, bid in self.bids.items()}
        self.log, self.executor = MemoryLog(), OrdersKept()
        self.zone = MarketZone(self.tasks, self.supply, self.model(), self.clock.slots, self.log)
        (folder / "state" / "inputs").mkdir(parents=True)
        (folder / "state" / "inputs" / "names.json").write_text('{"rows.jsonl": "rows.jsonl"}')
        self.scheduler = MarketScheduler(RunFolder(folder), self.executor)
        self.zone.record_created({"version": 1, "rolls": False})
        for bid in self.bids.values():
            self.zone.decide(bid)
        self.begun = self.scheduler.begin_slot(self.zone)

    def model(self) -> AuctionModel:
        cluster = self.supply.cluster
        return AuctionModel(AuctionState(cluster=cluster), build("eft", cluster))

    def _bid(self, name: str, amount: str, rows: int, deadline: int) -> Bid:
        return Bid(
            job=name,
            owner="local",
            training=Training("rows.jsonl", rank=8, share=0.9),
            size=DataSize(rows, 40.0),
            bid=Decimal(amount),
            deadline=self.clock.slots.slot_end(deadline),
            request={"bid": amount},
        )

    def _task(self, name: str, bid: Bid) -> Task:
        return self.supply.task(bid, self.clock.slots, 0, SLOTS - 1)

    def send(self, node: str, message: NodeMessage) -> None:
        """Have a message of a node handled."""
        self.scheduler.on_message(self.zone, node, message)

    def trained(self, node: str, *, out_of_memory: bool = False) -> None:
        """Have a node answer its order, with all of it or nothing."""
        (slot, _), order = next(one for one in self.executor.orders.items() if one[0][1] == node)
        del self.executor.orders[slot, node]
        error = ErrorRecord("", "out of memory", "", out_of_memory=True)
        results = {
            one.job.id: TaskResult(one.target, 300, 0, 0, "training", (), (), "", exported=False)
            for one in order
        }
        refused = {one.job.id: error for one in order} if out_of_memory else {}
        results = {} if out_of_memory else results
        self.send(node, trained_slot(slot, results=results, refused=refused))

    def nodes(self) -> dict[str, str]:
        """Jobs of the first slot, by the node that trains them."""
        return {node: job for slot, node, job in self.executor.given if slot == 0}

    def notes(self) -> list[str]:
        events = (event for event, _ in self.zone.pop_events())
        return [event.body["text"] for event in events if event.type == EventType.NOTE_ADDED]


@pytest.fixture
def market(tmp_path: Path) -> MadeUpMarket:
    """Two jobs that each need most of a node, and begin at once on one each."""
    made = MadeUpMarket(tmp_path, {"a": ("90", 300, 9), "b": ("90", 300, 9)})
    assert sorted(made.nodes()) == ["n0", "n1"]
    assert made.scheduler.waiting == {"n0", "n1"}
    assert [job.id for job in made.begun] == ["a", "b"]
    return made


def test_a_rejection_is_not_searched_for_a_later_deadline_and_the_log_verifies(
    tmp_path: Path,
) -> None:
    made = MadeUpMarket(tmp_path, {"late": ("90", 400, 0), "a": ("90", 40, 5)})
    made.log.record(made.zone.pop_events(), lambda _: None)
    late, admitted = (e.body for e in made.log.read() if e.type == EventType.DECIDED)

    assert late["decision"]["reason"] == Reason.NO_FEASIBLE_SCHEDULE
    assert late["earliest"] is None
    assert admitted["decision"]["admitted"]
    verifier = AuctionVerifier(made.model(), rolls=False)
    assert verifier.verify_log(made.log.read()).differences == ()
    assert AuctionVerifier(made.model()).verify_log(made.log.read()).differences != ()


def test_a_node_that_recovers_gets_its_slot_again_and_no_other_node_does(
    market: MadeUpMarket,
) -> None:
    jobs = market.nodes()
    market.trained("n0", out_of_memory=True)
    assert market.scheduler.waiting == {"n1"}
    market.send("n1", Ended(how="exit code 1", exits=1, backoff=1.0))

    market.send("n1", Recovered())

    assert market.scheduler.waiting == {"n1"}
    assert market.executor.given[2:] == [(0, "n1", jobs["n1"])]
    refusal, end = market.notes()
    assert refusal == "slot 0: out of memory; its next slot trains what is left"
    assert end == "slot 0: node n1 ended (exit code 1)"
    market.trained("n1")
    assert market.scheduler.waiting == set()
    assert market.zone.state.jobs[jobs["n1"]].progress.rows > 0


def test_a_node_without_a_slot_to_train_recovers_without_one(market: MadeUpMarket) -> None:
    market.trained("n1")
    market.send("n1", Recovered())
    assert market.executor.given[2:] == []


def test_a_lost_machine_is_waited_for(market: MadeUpMarket) -> None:
    market.send("n0", Ended(how="is gone", exits=1, backoff=1.0))
    market.send("n0", Lost(how="its machine is gone", missing=True))
    market.send("n0", NOT_COMPLETED)

    assert market.scheduler.waiting == {"n0", "n1"}
    assert market.notes()[-1] == "node n0 is lost (its machine is gone), and is waited for"
    market.send("n0", Recovered())
    assert [node for _, node, _ in market.executor.given[2:]] == ["n0"]


def test_a_worker_that_exits_again_and_again_ends_the_run(market: MadeUpMarket) -> None:
    market.send("n0", Ended(how="exit code 1", exits=3, backoff=1.0))
    market.send("n0", Lost(how="exit code 1", missing=False))

    with pytest.raises(NodeError, match=r"node n0 ended 3 times in a row: exit code 1"):
        market.send("n0", NOT_COMPLETED)


def test_a_request_that_fails_ends_the_run_with_its_reason(market: MadeUpMarket) -> None:
    failed = RequestFailed(
        error=ErrorRecord("task a: data", "is gone", "a file"), request="0/n0/1", slot=0
    )
    with pytest.raises(InputError, match="node n0: task a: data: is gone; expected a file"):
        market.send("n0", failed)
    market.send("n0", replace(failed, stale=True))
    with pytest.raises(NodeError, match="node n0: no base"):
        market.send("n0", RequestFailed(error=ErrorRecord("", "no base", ""), stale=True))
