"""What one bidder can do with several bids where prices learn from bids, and what it cannot.

Guaranteed: each bid by itself, given all that came before, is best at its value. Not guaranteed:
that an early bid at its value is best for what its bidder bids later, since prices learned later
take the early bid for a sample of what is to come. Both are shown here on the same markets.

Guaranteed where owners are known: bids that their owner could not have paid move no price, and
one owner alone raises prices no faster than by what it pays.
"""

from dataclasses import replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from auctune.auction import Pdftsp, PdftspParams
from auctune.auction.pricing import BidEvidence
from auctune.domain import Cell, Decision, Reason, Schedule, Task
from auctune.domain.money import STEP
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance
from support.playing import offer_all, utility
from support.thorough import drawn
from support.zone_player import assert_same
from support.zones import MadeUpZone

# One node, so that a single bid weighs much; the gains shrink as markets grow.
MARKETS = {
    seed: make_instance(SyntheticParams(nodes={"a100": 1}, rate=6.0, slots=24, seed=seed))
    for seed in (1, 2, 4)
}
EARLY, LATE = 2, 4


@cache
def play(seed: int, liar: str | None = None) -> tuple[list[Task], dict[str, Decision]]:
    """The first slots with true values, and the decisions when one bids next to nothing."""
    market = MARKETS[seed]
    tasks = [task for task in market.in_order() if task.arrival < LATE]
    mechanism = Pdftsp(market.cluster, PdftspParams(pricing="learned"))
    bids = [replace(task, bid=STEP) if task.id == liar else task for task in tasks]
    return tasks, {found.task: found for found in offer_all(mechanism, bids)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", MARKETS)
def test_a_low_early_bid_never_gains_by_itself(seed: int) -> None:
    tasks, honest = play(seed)
    for task in [t for t in tasks if t.arrival < EARLY]:
        _, lying = play(seed, task.id)
        assert utility(lying[task.id], task.bid) <= utility(honest[task.id], task.bid)


def test_a_low_early_bid_can_gain_for_a_later_bid_of_the_same_bidder() -> None:
    """The instance behind the warning in docs/explanation/learned-prices.md."""
    gains = []
    for seed in MARKETS:
        tasks, honest = play(seed)
        losing = [t for t in tasks if t.arrival < EARLY and not honest[t.id].admitted]
        for early in losing:
            _, lying = play(seed, early.id)
            gains += [
                utility(lying[late.id], late.bid) - utility(honest[late.id], late.bid)
                for late in tasks
                if late.arrival >= EARLY and not lying[early.id].admitted
            ]
    assert max(gains) > 0


def quoted(made: MadeUpZone, rows: int = 40) -> list[Decimal]:
    """The menu that somebody else is shown."""
    bid = made.bid("quote", "0", rows=rows, slots=8, owner="carol")
    return [line.price for line in made.zone.quote(bid).lines]


def busy_zone(pricing: str, seed: int) -> MadeUpZone:
    """A zone in which three owners have bid for some slots."""
    made, rng = MadeUpZone("pdftsp", {"pricing": pricing}), np.random.default_rng(seed)
    for number in range(24):
        amount = str(round(float(rng.uniform(0.01, 2)), 4))
        owner, rows = str(rng.choice(["ann", "bob", "cid"])), int(rng.integers(20, 200))
        made.zone.decide(made.bid(f"{number}", amount, owner=owner, rows=rows))
        if number % 5 == 4:
            made.pass_slots()
    return made


fakes = st.lists(
    st.tuples(
        # At least two steps: one could be paid.
        st.integers(2, 10**9).map(lambda units: str(units * STEP)),
        st.integers(40, 400),
        st.integers(1, 10),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@pytest.mark.parametrize("pricing", ["learned", "exponential"])
@drawn(10)
@given(seed=st.integers(0, 9), bids=fakes, budget=st.sampled_from([Decimal(0), STEP]))
@example(seed=0, bids=[("5000", 40, 6)] * 40, budget=STEP)
def test_bids_that_could_not_have_been_paid_move_nobodys_price(
    pricing: str, seed: int, bids: list[tuple[str, int, int]], budget: Decimal
) -> None:
    made = busy_zone(pricing, seed)
    before = quoted(made), quoted(made, 150)
    for number, (amount, rows, slots) in enumerate(bids):
        bid = made.bid(f"fake{number}", amount, rows=rows, slots=slots, owner="mallory")
        row = made.zone.decide(replace(bid, remaining_budget=lambda: budget))
        assert row.body["state"] == "rejected"
        assert (quoted(made), quoted(made, 150)) == before
    # From the log alone the same is learned.
    made.keep()
    assert_same(made.folded().mechanism.save(), made.zone.mechanism.save())


@drawn(10)
@given(
    amount=st.integers(1, 10**6),
    num_bids=st.integers(8, 50),
    a_slot=st.sampled_from([4, 10, 50]),
    others=st.booleans(),
)
@example(amount=5000, num_bids=40, a_slot=50, others=False)
def test_one_owner_raises_a_quote_no_further_than_twice_what_it_pays_or_what_another_bid(
    amount: int, num_bids: int, a_slot: int, others: bool
) -> None:
    made = MadeUpZone()
    # Of one cell at most: a quarter of a node, in the slots in which energy costs most.
    energy = Decimal("0.005")
    highest = Decimal(0)
    for number in range(3 * others):
        highest = Decimal("0.05")
        made.zone.decide(made.bid(f"other{number}", f"{highest}", owner="bob"))
        made.pass_slots()
    bound = max(*quoted(made), highest)
    for number in range(num_bids):
        name = f"fake{number}"
        made.zone.decide(made.bid(name, f"{amount}", slots=8, owner="mallory"))
        job = made.zone.state.jobs.get(name)
        if job is not None:
            bound = max(bound, 2 * job.decision.payment)
        assert all(price <= bound + energy for price in quoted(made))
        if number % a_slot == a_slot - 1:
            made.pass_slots()


def test_rejected_bids_of_one_owner_weigh_no_more_than_all_others() -> None:
    evidence = BidEvidence(window=12)
    task = MARKETS[1].tasks[0]
    rejected = Decision(task.id, admitted=False, price=task.bid, reason=Reason.UNPROFITABLE)

    def counts(owner: str, now: int, times: int) -> int:
        told = replace(task, owner=owner)
        return sum(evidence.record(told, rejected, now) is not None for _ in range(times))

    assert counts("mallory", 0, 5) == 0
    paid = replace(rejected, admitted=True, schedule=Schedule((Cell(1, "n"),)), reason=None)
    for _ in range(3):
        assert evidence.record(replace(task, owner="bob"), paid, 0) is not None
    assert counts("mallory", 1, 50) == 3
    # What bob bid is of late no more.
    assert counts("mallory", 20, 5) == 0
