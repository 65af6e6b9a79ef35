"""Validation data are work: planned and priced as such, and trained in the job's own slots."""

from dataclasses import replace
from typing import Any

import pytest

from auctune.domain import InputError, Money, Reason
from auctune.domain.data_size import FORWARD_COST, DataSize
from auctune.engine.unix_time import SlotClock
from auctune.service.datasets.repairer import VendorOffer
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.state import AuctionEventType
from auctune.service.zones.auction.zone import Bid
from auctune.service.zones.core.job import Phase
from auctune.service.zones.edge.state import SiteDatasets
from auctune.service.zones.spot.zone import SpotSupply
from auctune.spot.job import InstanceStart
from support.edge_zones import TOKENS, MadeUpEdge, edge_constants
from support.zones import SAMPLE_TOKENS, MadeUpZone, made_up_profile


def validated(bid: Bid, rows: int, tokens: float = 40.0) -> Bid:
    """The bid with validation data."""
    return replace(bid, size=replace(bid.size, validation=DataSize(rows, tokens)))


@pytest.mark.parametrize(("rows", "tokens"), [(80, 40.0), (320, 10.0)])
def test_an_auction_prices_and_plans_the_sum_of_the_work(rows: int, tokens: float) -> None:
    one, other = MadeUpZone(), MadeUpZone()
    # Half of the tokens of the validation data are as many as those of 40 rows.
    one.zone.decide(validated(one.bid("a", "100"), rows, tokens))
    other.zone.decide(other.bid("a", "100", rows=80))
    found, expected = one.zone.state.jobs["a"], other.zone.state.jobs["a"]
    assert found.task == expected.task
    assert found.decision == expected.decision
    assert found.cells == expected.cells


def test_a_deadline_that_leaves_no_time_to_validate_is_not_met() -> None:
    made = MadeUpZone(num_nodes=1)
    assert made.zone.preview(made.bid("a", "100")).body["decision"]["admitted"]
    decision = made.zone.preview(validated(made.bid("a", "100"), 100_000)).body["decision"]
    assert decision["reason"] in (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)


@pytest.mark.parametrize("validation_rows", [0, 30, 700])
def test_a_job_validates_in_its_own_slots_and_others_keep_theirs(validation_rows: int) -> None:
    made = MadeUpZone(num_nodes=1)
    bid = made.bid("a", "100", rows=10, slots=10)
    made.zone.decide(validated(bid, validation_rows) if validation_rows else bid)
    made.zone.decide(made.bid("b", "100", rows=100, slots=10))
    made.keep()
    jobs = {name: made.zone.state.jobs[name] for name in ("a", "b")}
    plans = {name: job.cells for name, job in jobs.items()}
    sold = dict.fromkeys(plans, 0.0)
    while any(job.phase is not Phase.TRAINED for job in jobs.values()):
        made.pass_slots()
        for (slot, node), orders in list(made.executor.orders.items()):
            for order in orders:
                job = jobs[order.job.id]
                sold[job.id] += job.task.throughput[made.zone.state.node_type(node)]
                # No more than was sold so far, but for the last slot, which makes up for rounding.
                tokens = job.size.share_of(order.target, 1) * job.size.samples(1, 1.0)
                if slot != job.cells[-1].slot:
                    assert tokens <= sold[job.id] * SAMPLE_TOKENS * (1 + 1e-9)
                else:
                    assert order.target == job.size.rows + job.size.validation_rows
            made.answer(slot, node)
    events = [event.type for event, _ in made.log.events]
    assert AuctionEventType.REPLANNED not in events
    assert {name: job.cells for name, job in jobs.items()} == plans


def test_a_repaired_job_keeps_its_validation_data() -> None:
    made = MadeUpZone()
    offers = (VendorOffer("v", Money(0), 1.0),)
    made.zone.decide(validated(made.bid("a", "100", offers=offers), 9))
    repair = made.zone.state.jobs["a"].repair
    assert repair is not None
    made.zone.complete_repair("a", repair, "file-b", DataSize(8, 20.0), {})
    job = made.zone.state.jobs["a"]
    assert job.size == DataSize(8, 20.0, validation=DataSize(9, 40.0))
    assert job.progress.total_rows == 17


def spot_supply() -> SpotSupply:
    """As much of a supply as the terms of a job need."""
    unused: Any = None
    return SpotSupply(
        base="made-up",
        profile=made_up_profile(),
        spare=0.1,
        start_seconds=0.0,
        market=unused,
        renting=unused,
        clock=SlotClock(0.0, 60.0, lambda: 0.0),
        num_slots=100,
        max_jobs=1,
        n_max=4,
        table=None,
        overhead=InstanceStart(0.1),
        micro_batch=4,
        unit_cost=1.0,
        unit_price=1.0,
    )


def test_rented_instances_have_the_sum_of_the_work() -> None:
    worth = JobValue(None, 100.0, 100.0)
    training = Training("file-a", epochs=3)

    def workload(size: DataSize) -> float:
        return spot_supply().terms(training, size, worth, range(1, 9), 1.0).workload

    validation = DataSize(30, 10.0)
    found = workload(DataSize(40, 40.0, validation=validation))
    rows = 40 + FORWARD_COST * 30 * 10.0 / 40.0
    assert found == pytest.approx(workload(DataSize(40, 40.0)) * rows / 40)


@edge_constants()
def test_sites_reserve_the_time_of_validation_in_each_slot() -> None:
    made = MadeUpEdge()
    plain = made.bid("a")

    def bid(rows: int) -> Any:
        validation = DataSize(rows, TOKENS)
        size = replace(plain.facts.size, validation=validation)
        return replace(plain, facts=SiteDatasets(plain.facts.samples, size))

    supply, slot = made.zone.supply, made.zone.state.slot
    free, usable = (
        supply.job(plain, slot)[0],
        supply.clock.slot_seconds * (1 - supply.entry.headroom),
    )
    # The device trains two rows a second, so that it evaluates four.
    busy = supply.job(bid(8), slot)[0]
    share = (usable - 8 / 4) / usable
    assert busy.chunks_per_worker_slot == pytest.approx(share * free.chunks_per_worker_slot)
    most = int(0.5 * usable * 4)
    assert supply.job(bid(most), slot)
    with pytest.raises(InputError, match=rf"validation_file: has {most + 1} rows.*{most} rows"):
        supply.job(bid(most + 1), slot)
