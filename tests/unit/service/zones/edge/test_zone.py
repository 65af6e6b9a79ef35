"""An edge zone's decisions and its plans, and that its log alone makes it again."""

import math
from dataclasses import replace

import numpy as np
import pytest

from auctune.domain import InputError, Money
from auctune.domain.data_size import DataSize
from auctune.edge import Eris, first_violation
from auctune.edge.ledger import EdgeLedger
from auctune.engine.edge.records import read_decision
from auctune.numerics.rng import stream
from auctune.service.config.edge import PricingConfig, read_supply
from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.job import Phase
from auctune.service.zones.edge.state import SiteDatasets, empty_model
from auctune.sim.edge.instance_file import parse_edge_job
from auctune.train.data_parallel.batches import slot_batches
from support.edge_zones import SLOT_SECONDS, TOKENS, MadeUpEdge, edge_entry, slow_profile


def busy_market(seed: int = 0, jobs: int = 10) -> MadeUpEdge:
    """Bids in the course of some slots, of which some are too low or too late."""
    made, draw = MadeUpEdge(), stream(seed, "edge zone")
    for number in range(jobs):
        samples = {site: int(draw.integers(4, 30)) for site in "abc"}
        bid, slots = f"{draw.uniform(0.5, 20):.2f}", int(draw.integers(1, 7))
        made.decide(f"job-{number}", bid, slots, samples=samples)
        if draw.random() < 0.5:
            made.train(made.zone.state.slot)
            made.pass_slots()
            made.train(made.zone.state.slot)
    return made


@pytest.mark.parametrize("seed", [0, 1])
def test_decisions_are_those_of_a_simulation_of_the_same_jobs(seed: int) -> None:
    made = busy_market(seed)
    market, params = read_supply(made.record)
    still = Eris(replace(market, slots=60), params)
    decided = [event for event in made.log.read() if event.type == EventType.DECIDED]
    for event in decided:
        job, answer = parse_edge_job(event.body["job"]), read_decision(event.body["answer"])
        expected = still.offer(job, event.slot)
        assert (answer.admitted, answer.payment, answer.plan) == (
            expected.admitted,
            expected.payment,
            expected.plan,
        )
    assert {event.body["decision"]["admitted"] for event in decided} == {True, False}


def test_the_log_makes_the_same_zone_again_to_the_last_bit() -> None:
    made = busy_market()
    made.hear(kind="site_lost", site="b")
    made.pass_slots()
    live = made.snapshot
    folded = made.folded()
    assert folded.state == made.zone.state
    np.testing.assert_array_equal(folded.mechanism.ledger.used, made.zone.eris.ledger.used)
    np.testing.assert_array_equal(folded.mechanism.ledger.traffic, made.zone.eris.ledger.traffic)
    loaded = empty_model(made.record)
    loaded.restore(live)
    assert loaded.state == made.zone.state
    np.testing.assert_array_equal(loaded.mechanism.ledger.used, made.zone.eris.ledger.used)
    bid = made.bid("next", "30", 5)
    made.restart()
    again = made.zone.preview(bid)
    assert again.body["decision"] == made.zone.decide(bid).body["decision"]


def test_each_admitted_plan_keeps_all_constraints_with_all_others() -> None:
    made = busy_market(1)
    ledger = EdgeLedger(made.zone.eris.market)
    for job in made.zone.state.jobs.values():
        ledger.advance(made.zone.state.slot)
        rest = job.plan.since(made.zone.state.slot)
        left = dict.fromkeys(job.job.chunks, 0)
        for part in rest.slots:
            for move in part.moves:
                left[move.origin] += move.chunks
        if rest.slots:
            one = replace(job.job, chunks=left)
            assert first_violation(one, rest, ledger) is None
            ledger.take(job.job, rest)
    np.testing.assert_allclose(made.zone.eris.ledger.used, ledger.used, atol=1e-9)


@pytest.mark.parametrize("rows", [1, 3, 4, 7, 20])
def test_the_time_that_is_sold_is_enough_for_the_batches_of_short_chunks(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.service.config.edge.CHUNK_MB", rows * 4 * TOKENS / 1e6)
    monkeypatch.setattr("auctune.service.zones.edge.supply.STEP_SECONDS", step_seconds := 0.3)
    made = MadeUpEdge()
    supply = replace(made.zone.supply, profile=replace(slow_profile(), step_seconds=0.2))
    samples = {"a": 6 * rows + 1, "b": rows}
    job, _ = supply.job(made.bid("job", samples=samples), made.zone.state.slot)
    training, slot_seconds = made.bid("job").training, SLOT_SECONDS * (1 - made.entry.headroom)
    for count in range(1, 7):
        # The last batch of an epoch may have few rows.
        seconds = -step_seconds
        sizes = dict.fromkeys(range(count), math.ceil(samples["a"] / job.chunks["a"]))
        for batch in slot_batches(1, training.batch_size, 4, sizes, 1):
            size = made.bid("job").facts.size
            parts = [supply.profile.batch(training, size, part.num_rows) for part in batch]
            passes = [supply.profile.batch_seconds(part) for part in parts]
            seconds += step_seconds + sum(passes)
        assert seconds <= count / job.chunks_per_worker_slot * slot_seconds * (1 + 1e-9)


def test_a_price_is_paid_at_admission_and_earned_at_the_end() -> None:
    made = MadeUpEdge()
    row = made.decide("job", "50")
    paid = Money(row.body["decision"]["payment"])
    assert 0 < paid < 50
    assert made.log.balances() == {"user:ada": paid, "held": -paid}
    made.zone.cancel("job")
    made.keep()
    balances = {name: amount for name, amount in made.log.balances().items() if amount}
    assert balances == {"user:ada": paid, "revenue": -paid}
    assert not made.zone.eris.ledger.used.any()


def test_a_bid_that_is_too_low_hears_what_would_have_done() -> None:
    made = MadeUpEdge()
    low = made.zone.preview(made.bid("job", "0.01"))
    assert low.body["decision"]["reason"] == "unprofitable"
    price = Money(low.body["decision"]["price"])
    assert not made.zone.preview(made.bid("job", str(price))).body["decision"]["admitted"]
    enough = made.zone.preview(made.bid("job", str(price + Money("0.0001"))))
    assert enough.body["decision"]["payment"] == str(price)


def test_a_deadline_that_is_too_early_hears_which_could_be_met() -> None:
    made = MadeUpEdge()
    samples = {"a": 64, "b": 64}
    early = made.zone.preview(made.bid("job", "100", 1, samples=samples))
    assert early.body["decision"]["reason"] == "no_capacity"
    slots = early.body["earliest"] - made.zone.state.slot
    met = made.zone.preview(made.bid("job", "100", slots, samples=samples))
    assert met.body["decision"]["admitted"]
    before = made.zone.preview(made.bid("job", "100", slots - 1, samples=samples))
    assert not before.body["decision"]["admitted"]


def test_a_line_of_a_menu_is_taken_as_shown_or_not_at_all() -> None:
    made = MadeUpEdge()
    lines = made.menu(made.bid("job", "0", 8, samples={"a": 30, "b": 30})).lines
    assert [line.finish for line in lines] == sorted({line.finish for line in lines})
    line = lines[-1]
    bid = made.bid("job", str(line.price), 8, samples={"a": 30, "b": 30})
    row = made.zone.accept(bid, line)
    assert row is not None
    assert row.body["decision"]["payment"] == str(line.price)
    assert made.zone.state.jobs["job"].plan == line.plan
    other = made.bid("other", str(line.price), 8, samples={"a": 30, "b": 30})
    for _ in range(5):
        again = made.zone.accept(other, line)
        if again is None:
            break
    assert again is None
    made.pass_slots(line.plan.slots[0].slot - made.zone.state.slot)
    assert made.zone.accept(other, line) is None


def test_a_menu_is_of_the_moment_at_which_it_was_asked_for_and_taken_as_it_is_now() -> None:
    made = MadeUpEdge()
    bid = made.bid("job", "0", 8, samples={"a": 30, "b": 30})
    expected, question = made.menu(bid), made.zone.question(bid)
    for number in range(3):
        made.decide(f"other-{number}", "9000", 8, samples={"a": 30, "b": 30})
    assert question.answer() == expected
    assert made.menu(bid) != expected
    line = expected.lines[0]
    assert made.zone.accept(replace(bid, bid=line.price), line) is None


def test_a_price_above_the_budget_is_refused_and_changes_nothing_but_the_log() -> None:
    made = MadeUpEdge()
    row = made.zone.decide(made.bid("job", "50", remaining_budget=lambda: Money("0.0001")))
    assert row.body["decision"]["reason"] == "over_budget"
    assert row.body["budget_remaining"] == "0.0001"
    assert not made.zone.eris.ledger.used.any()


def test_a_paused_job_gives_its_slots_up_and_gets_others_without_a_charge() -> None:
    made = MadeUpEdge()
    made.decide("job", "50", 8)
    with pytest.raises(InputError, match="is not paused"):
        made.zone.resume("job")
    made.zone.pause("job")
    assert not made.zone.eris.ledger.used.any()
    made.pass_slots(3)
    assert made.zone.resume("job")
    job = made.zone.state.jobs["job"]
    assert (job.phase, job.chunks_left) == (Phase.PLANNED, 0)
    assert job.plan.slots[0].slot > made.zone.state.slot
    made.zone.pause("job")
    made.pass_slots(7)
    assert "job" not in made.zone.state.jobs
    assert made.log.balances()["user:ada"] > 0


def test_a_bid_that_is_refused_changes_nobodys_prices() -> None:
    made = MadeUpEdge(edge_entry(pricing=PricingConfig()))
    before = made.menu(made.bid("mine", "0", 9)).lines
    assert before[-1].price > 0
    assert made.decide("high", "900000", 1, samples={"a": 96, "b": 96}).status == "failed"
    assert made.menu(made.bid("mine", "0", 9)).lines == before


def test_an_adapter_that_is_larger_than_its_base_is_refused() -> None:
    made = MadeUpEdge()
    bid = made.bid("wide")
    wide = replace(bid, training=replace(bid.training, rank=4096))
    for ask in (made.menu, made.zone.preview, made.zone.decide):
        with pytest.raises(InputError, match=r"market\.lora\.rank: 4096 "):
            ask(wide)


def test_rows_that_do_not_move_are_trained_at_their_sites_alone() -> None:
    """Where they may move, a plan for the same job moves some."""
    moved = {}
    for rows_move in (False, True):
        made = MadeUpEdge(edge_entry(rows_move=rows_move))
        made.decide("job", "900", 9, samples={"c": 64})
        plan = made.zone.state.jobs["job"].plan if made.zone.state.jobs else None
        moves = [] if plan is None else [move for part in plan.slots for move in part.moves]
        moved[rows_move] = {move.origin != move.destination for move in moves}
    assert moved[False] <= {False}
    assert True in moved[True]


def test_what_is_more_than_a_zone_takes_is_named_as_its_owner_named_it() -> None:
    made = MadeUpEdge()
    asked = made.bid("much")
    for bid, place in (
        (
            replace(asked, training=replace(asked.training, epochs=10**7)),
            "hyperparameters.n_epochs",
        ),
        (replace(asked, bid=Money("999999999999")), "market.bid"),
        (replace(asked, facts=SiteDatasets({"a": 10**8}, DataSize(10**8, TOKENS))), "market.sites"),
    ):
        with pytest.raises(InputError) as refused:
            made.menu(bid)
        assert refused.value.place == place


def test_a_deadline_that_leaves_no_slot_is_refused_by_name() -> None:
    made = MadeUpEdge()
    with pytest.raises(InputError, match=r"market\.deadline"):
        made.zone.decide(made.bid("job", "50", 0))


def test_what_cannot_be_planned_anew_is_refunded_in_full() -> None:
    made = MadeUpEdge()
    made.decide("job", "50", 2)
    for site in "abc":
        made.zone.lose_site(site, ())
    made.keep()
    made.pass_slots()
    assert not made.zone.state.jobs
    assert not any(made.log.balances().values())
