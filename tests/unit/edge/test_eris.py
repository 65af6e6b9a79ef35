"""Eris as a mechanism: menus, taking a line, records, snapshots, lost sites, explanations."""

from dataclasses import replace

import numpy as np
import pytest

from auctune.domain import InputError, Reason, read_snapshot, write_snapshot
from auctune.edge import (
    EdgeCommitment,
    EdgeDecision,
    EdgeJob,
    EdgeLedger,
    EdgeMarket,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    Eris,
    ErisParams,
    Logistic,
    Site,
    SiteLost,
    SiteReturned,
    explain,
    first_violation,
)
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.sim.edge.settings import EdgeSetting, make_instance
from support.edge_plans import JOB, MARKET, lose_site

SHARE = ErisParams(worth=2000)
PAPER = ErisParams("paper")


def busy(seed: int = 0) -> EdgeInstance:
    """Six sites that twelve jobs want at about the same time."""
    return make_instance(
        EdgeSetting(num_sites=6, num_jobs=12, slots=24, arrival_slots=12, seed=seed)
    )


def played(eris: Eris, instance: EdgeInstance) -> list[tuple[EdgeJob, EdgeDecision]]:
    return [(job, eris.offer(job, job.arrival)) for job in instance.in_order()]


def ledgers_are_equal(left: EdgeLedger, right: EdgeLedger) -> bool:
    names = ("traffic", "used", "closed")
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in names)


def test_an_empty_market_runs_a_job_at_once() -> None:
    eris = Eris(MARKET)
    decision = eris.offer(JOB, 1)
    assert decision.admitted
    assert decision.payment == 0
    assert decision.utility == JOB.value(decision.finish or 0)
    # Three workers train six of its eight chunks in a slot.
    assert decision.finish == 2


def test_a_job_that_no_site_could_ever_run_is_told_so() -> None:
    decision = Eris(MARKET).offer(replace(JOB, worker={"gpu": 3}), 1)
    assert decision.reason is Reason.NO_FEASIBLE_SCHEDULE


def test_a_job_without_room_and_one_that_is_worth_too_little_are_told_apart() -> None:
    eris = Eris(MARKET)
    eris.ledger.used[:, :, 0] = eris.ledger.capacity[:, 0]
    assert eris.offer(JOB, 1).reason is Reason.NO_CAPACITY
    eris.ledger.used[:, :, 0] = 0
    eris.ledger.used[:, :, 1] = 4
    assert eris.offer(replace(JOB, utility=Logistic(0, 1)), 1).reason is Reason.UNPROFITABLE


def test_the_choice_is_the_line_of_the_menu_that_gains_most() -> None:
    for params in (PAPER, None, SHARE):
        eris = Eris(busy().market, params)
        for job in busy().in_order():
            menu = eris.quote(job, job.arrival).lines
            decision = eris.offer(job, job.arrival)
            gains = [job.value(line.finish) - float(line.price) for line in menu]
            if not decision.admitted:
                assert max(gains, default=0.0) <= 0
                continue
            chosen = menu[gains.index(max(gains))]
            assert (decision.finish, decision.payment) == (chosen.finish, chosen.price)
            assert decision.plan == chosen.plan


def test_a_menu_line_can_be_taken_while_nothing_has_changed() -> None:
    instance = busy()
    eris = Eris(instance.market, SHARE)
    job, other = instance.in_order()[:2]
    line = eris.quote(job, job.arrival).lines[0]
    taken = Eris(instance.market, SHARE).take(job, line, job.arrival)
    assert taken is not None
    assert taken.payment == line.price
    assert eris.offer(other, job.arrival).admitted
    while eris.offer(replace(other, id="again", arrival=job.arrival), job.arrival).admitted:
        pass
    assert eris.take(job, line, job.arrival) is None


def test_a_line_above_the_jobs_worth_is_refused() -> None:
    eris = Eris(MARKET, SHARE)
    line = eris.quote(JOB, 1).lines[0]
    assert line.price > 0
    with pytest.raises(InputError, match="at least the line's price"):
        eris.take(replace(JOB, utility=Logistic(0, 1)), line, 1)


def test_a_record_replays_to_the_same_market() -> None:
    instance = busy()
    eris, replica = Eris(instance.market), Eris(instance.market)
    for job, decision in played(eris, instance):
        replica.apply(EdgeOffered(job, decision, job.arrival))
    assert ledgers_are_equal(eris.ledger, replica.ledger)
    assert write_snapshot(eris.save()) == write_snapshot(replica.save())


def test_a_snapshot_goes_on_to_the_last_bit() -> None:
    instance = busy()
    jobs = instance.in_order()
    eris = Eris(instance.market, SHARE)
    for job in jobs[:6]:
        eris.offer(job, job.arrival)
    restored = Eris(instance.market, SHARE)
    restored.load(read_snapshot(write_snapshot(eris.save())))
    for job in jobs[6:]:
        assert restored.offer(job, job.arrival) == eris.offer(job, job.arrival)


def test_a_snapshot_of_another_mechanism_is_refused() -> None:
    saved = Eris(MARKET).save()
    with pytest.raises(InputError, match="eris with"):
        Eris(MARKET, SHARE).load(saved)
    with pytest.raises(InputError, match=r"snapshot\.sites"):
        Eris(busy().market).load(saved)


def test_jobs_of_a_lost_site_go_on_elsewhere_or_are_refunded() -> None:
    replanned = refunded = 0
    for seed in range(4):
        instance = busy(seed)
        eris = Eris(instance.market, SHARE)
        replica = Eris(instance.market, SHARE)
        pairs = played(eris, instance)
        for job, decision in pairs:
            replica.apply(EdgeOffered(job, decision, job.arrival))
        now, site = 6, instance.market.site_ids[0]
        running = [
            EdgeCommitment(job, decision.plan)
            for job, decision in pairs
            if decision.plan is not None and decision.plan.finish >= now
        ]
        outcome = lose_site(eris, site, now, running)
        replica.apply(SiteLost(site, now))
        for change in outcome:
            replica.apply(change)
            replanned += change.found is not None
            refunded += change.found is None
        # Given back and taken in another order, sums differ by rounding.
        assert np.allclose(eris.ledger.used, replica.ledger.used)
        assert np.allclose(eris.ledger.traffic, replica.ledger.traffic)
        check_after_loss(instance, running, outcome, site, now)
    assert replanned > 0


def check_after_loss(
    instance: EdgeInstance,
    running: list[EdgeCommitment],
    outcome: list[EdgeReplanned],
    site: str,
    now: int,
) -> None:
    """What is left to run fits together, trains each chunk once, and leaves the site alone."""
    ledger = EdgeLedger(instance.market)
    ledger.lose(site, now)
    changed = {change.job.id: change for change in outcome}
    for one in running:
        change = changed.get(one.job.id)
        rest = one.plan.since(now) if change is None else change.found
        if rest is None:
            continue
        left = dict(one.job.chunks)
        for part in one.plan.before(now).slots:
            for move in part.moves:
                left[move.origin] -= move.chunks
        rest_of_job = replace(one.job, chunks=left)
        broken = first_violation(rest_of_job, rest, ledger)
        assert broken is None, str(broken)
        ledger.take(rest_of_job, rest)


def test_a_job_whose_only_slot_came_to_nothing_is_planned_anew_from_its_start() -> None:
    small = replace(JOB, chunks={"a": 2})
    eris = Eris(MARKET)
    decision = eris.offer(small, 1)
    assert decision.plan is not None
    assert len(decision.plan.slots) == 1
    (change,) = lose_site(eris, "a", 2, [EdgeCommitment(small, EdgePlan(()))])
    assert change.found is not None
    assert sum(part.chunks for part in change.found.slots) == 2
    assert change.found.slots[0].slot >= 2


def test_a_site_that_returns_is_used_again() -> None:
    eris = Eris(MARKET)
    lose_site(eris, "a", 0, [])
    assert eris.preview(JOB, 1).finish != 2
    with pytest.raises(InputError, match="lost already"):
        eris.apply(SiteLost("a", 0))
    eris.apply(SiteReturned("a", 0))
    assert eris.preview(JOB, 1).finish == 2
    with pytest.raises(InputError, match="is not lost"):
        eris.apply(SiteReturned("a", 0))
    with pytest.raises(InputError, match="is no site"):
        eris.apply(SiteLost("c", 0))


@pytest.mark.slow
def test_a_server_that_occupies_nothing_stands_at_no_lost_site() -> None:
    job = replace(JOB, server={}, parameter_mb=0.0)
    eris = Eris(MARKET)
    running = [EdgeCommitment(job, eris.offer(job, 1).plan or EdgePlan(()))]
    (change,) = lose_site(eris, "a", 2, running)
    assert change.found is not None
    assert {part.server for part in change.found.slots} == {"b"}
    plan = eris.offer(replace(job, id="next"), 2).plan
    assert plan is None or {part.server for part in plan.slots} == {"b"}


def test_a_plan_that_breaks_a_constraint_is_not_offered() -> None:
    # 1e-10 of a unit is within the slack of sums: a hundred of them are not.
    market = EdgeMarket(
        slots=1, sites=(Site("a", {"gpu": 9, "tag": 0}),), traffic_mb_per_slot=1, chunk_mb=0
    )
    eris, ledger = Eris(market), EdgeLedger(market)
    job = replace(JOB, arrival=0, chunks={"a": 1}, worker={"gpu": 0.01}, server={"tag": 1e-10})
    for number in range(40):
        one = replace(job, id=f"{number}")
        decision = eris.offer(one, 0)
        if decision.plan is not None:
            assert first_violation(one, decision.plan, ledger) is None
            ledger.take(one, decision.plan)
    assert 0 < eris.ledger.used[0, 0, 1] <= 1e-9


def test_an_explanation_adds_up_to_the_payment() -> None:
    instance = busy()
    eris = Eris(instance.market, SHARE)
    for job in instance.in_order():
        before = eris.preview(job, job.arrival)
        explained = explain(eris, job, before, job.arrival)
        if before.admitted:
            assert explained.cost == pytest.approx(float(before.payment), abs=1e-4)
            assert explained.chosen is not None
            assert explained.chosen.finish == before.finish
            assert explained.utility == before.utility
        eris.offer(job, job.arrival)


def test_a_plan_of_another_job_is_not_explained() -> None:
    instance = busy()
    eris = Eris(instance.market, SHARE)
    one, other = instance.in_order()[:2]
    decision = replace(eris.preview(one, one.arrival), job=other.id)
    with pytest.raises(InputError, match="a plan for this job"):
        explain(eris, other, decision, other.arrival)


def test_a_decision_needs_a_plan_if_and_only_if_admitted() -> None:
    with pytest.raises(ValueError, match="a plan if and only if admitted"):
        EdgeDecision("j", admitted=True)
    with pytest.raises(ValueError, match="a reason if and only if rejected"):
        EdgeDecision("j", admitted=False)


def test_now_lies_in_the_market() -> None:
    with pytest.raises(InputError, match="now"):
        Eris(MARKET).quote(JOB, 5)


def test_the_reserve_is_a_share_of_what_earlier_bids_were_worth() -> None:
    eris = Eris(MARKET, ErisParams(weight=0.4, rise=1))
    assert eris.offer(JOB, 1).payment == 0
    # JOB is worth 50 at once; two sites of two types: 0.4 * 50 / 4 for all of a type at a site.
    prices = eris.prices()
    assert prices.beta[0].tolist() == [[5 / 2, 5 / 8], [5 / 1, 5 / 8]]
    assert prices.alpha[0] == 5 / 20
    eris.offer(replace(JOB, id="dear", utility=Logistic(300, 1)), 1)
    assert eris.prices().alpha[0] == 10 / 20


def test_who_bids_does_not_set_its_own_reserve() -> None:
    eris = Eris(MARKET)
    eris.offer(JOB, 1)
    rich = replace(JOB, id="rich", utility=Logistic(10_000, 2))
    assert eris.quote(rich, 1).lines == eris.quote(JOB, 1).lines


def test_bids_of_one_slot_are_answered_one_after_the_other() -> None:
    jobs = [replace(JOB, id=name) for name in ("a", "b", "c")]
    together = Eris(MARKET, SHARE)
    alone = Eris(MARKET, SHARE)
    assert together.offer_slot(jobs, 1) == [alone.offer(job, 1) for job in jobs]
