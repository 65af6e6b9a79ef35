"""Virtual times of users: whoever has used least goes first."""

import random
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain.fair_share import FairShare


def serve(
    share: FairShare,
    users: list[str],
    costs: list[float],
    estimate: float,
    weights: Mapping[str, float] = MappingProxyType({}),
) -> list[str]:
    """Serve users who always have work waiting, one piece after another; whose pieces came next."""
    for user in users:
        share.enter(user, weights.get(user, 1.0))
    served = []
    for cost in costs:
        user = share.next(users)
        share.begin(user, estimate)
        share.charge(user, cost - estimate)
        served.append(user)
    return served


@given(
    st.dictionaries(st.sampled_from("abcde"), st.floats(0.1, 10.0), min_size=2),
    st.lists(st.floats(0.0, 100.0), min_size=1, max_size=200),
    st.floats(0.0, 100.0),
    st.floats(0.0, 100.0),
)
def test_users_with_work_get_shares_that_differ_by_one_piece_each(
    weights: dict[str, float], costs: list[float], estimate: float, credit: float
) -> None:
    # Theorem 1 of Goyal, Vin and Cheng, for any two users and any interval.
    share = FairShare(credit)
    served = serve(share, list(weights), costs, estimate, weights)
    largest = max(costs)
    for one in weights:
        for other in weights:
            ahead = lowest = 0.0
            for user, cost in zip(served, costs, strict=True):
                ahead += cost / weights[one] if user == one else 0.0
                ahead -= cost / weights[other] if user == other else 0.0
                lowest = min(lowest, ahead)
                bound = largest / weights[one] + largest / weights[other]
                assert ahead - lowest <= bound * (1 + 1e-9)


def test_a_user_who_comes_goes_before_the_next_piece_of_one_who_has_been_served_all_the_time() -> (
    None
):
    share = FairShare()
    served = serve(share, ["a"], [5.0] * 100, 5.0)
    assert served == ["a"] * 100
    share.enter("b")
    # Not for 99 pieces: there is no credit for having been away.
    assert [piece(share) for _ in range(4)] == ["b", "a", "b", "a"]


def test_who_has_used_less_than_others_goes_first_as_long_as_its_credit_lasts() -> None:
    share = FairShare(credit=20.0)
    served = serve(share, ["a"], [5.0] * 100, 5.0)
    assert served == ["a"] * 100
    share.enter("b")
    assert [piece(share) for _ in range(9)] == [*"bbbb", *"babab"]


def test_who_asks_for_little_waits_for_one_piece_of_others_though_all_is_done_in_between() -> None:
    share = FairShare(credit=20.0)
    for round_ in range(20):
        for user in "abc":
            share.enter(user)
            share.begin(user, 5.0)
            share.leave(user)
        share.enter("a")
        share.begin("a", 5.0)
        share.enter("b")
        share.enter("little")
        if round_ > 4:
            assert share.next(["b", "little"]) == "little"
        share.begin("little", 1.0)
        share.begin("b", 5.0)
        for user in ("a", "b", "little"):
            share.leave(user)


def test_what_was_used_while_nobody_else_wanted_it_is_at_most_a_credit() -> None:
    share = FairShare(credit=20.0)
    serve(share, ["a"], [5.0] * 100, 5.0)
    share.leave("a")
    share.charge("a", 1000.0)
    share.enter("b")
    share.leave("b")
    for user in "ab":
        share.enter(user)
    assert share.time("a") - share.time("b") == 20.0


@given(st.lists(st.floats(0.0, 1000.0), min_size=1), st.floats(0.1, 1.0))
def test_who_has_used_much_waits_for_a_bounded_part_of_what_others_use(
    costs: list[float], cost: float
) -> None:
    share = FairShare(max_debt=20.0)
    share.enter("b")
    for one in costs:
        share.enter("a")
        share.begin("a", 0.0)
        share.leave("a")
        # Such as a stream, whose use counts at its end.
        share.charge("a", one)
        assert share.next("b") == "b"
        share.begin("b", cost)
    share.enter("a")
    used = 0.0
    while share.next("ba") == "b":
        share.begin("b", cost)
        used += cost
    assert min(sum(costs), 20.0) - (len(costs) + 1) * cost <= used <= 20.0 + cost


def test_an_estimate_beyond_the_bound_of_debt_is_corrected_by_what_it_added() -> None:
    share = FairShare(max_debt=5.0)
    share.enter("b")
    share.enter("a")
    share.charge("a", 100.0)
    for _ in range(10):
        added = share.begin("a", 2.0)
        share.charge("a", 0.1 - added)
        assert share.time("a") == 5.0


def piece(share: FairShare) -> str:
    user = share.next(["a", "b"])
    share.begin(user, 5.0)
    return user


def test_use_while_nobody_else_wanted_it_is_no_debt() -> None:
    share = FairShare()
    serve(share, ["a"], [1.0] * 1000, 1.0)
    share.leave("a")
    share.enter("b")
    share.begin("b", 1.0)
    share.enter("a")
    assert share.time("a") <= share.time("b")


def test_who_leaves_for_a_moment_loses_no_debt_while_others_are_active() -> None:
    share = FairShare()
    share.enter("b")
    share.enter("a")
    share.begin("a", 50.0)
    share.leave("a")
    share.enter("a")
    assert share.time("a") == 50.0
    assert share.next(["a", "b"]) == "b"


def test_who_returns_does_not_begin_as_early_as_a_long_piece_that_has_ended() -> None:
    share = FairShare()
    share.enter("a")
    share.enter("a")
    share.begin("a", 10.0)
    share.enter("b")
    for _ in range(9):
        share.begin("b", 1.0)
    share.leave("a")
    share.enter("c")
    assert share.time("c") >= 8.0


def test_a_piece_that_was_charged_wrongly_is_corrected() -> None:
    share = FairShare()
    share.enter("a", 2.0)
    share.begin("a", 10.0)
    share.charge("a", -4.0)
    assert share.time("a") == pytest.approx(3.0)


def test_users_who_are_gone_are_forgotten() -> None:
    share, draw = FairShare(), random.Random(1)
    share.enter("always")
    for number in range(5000):
        share.begin("always", 1.0)
        user = f"user {number}"
        share.enter(user)
        share.begin(user, draw.random())
        share.leave(user)
    assert len(share._times) < 1200


def test_what_is_known_only_after_the_end_of_work_counts() -> None:
    share = FairShare()
    share.enter("b")
    share.enter("a")
    share.begin("a", 1.0)
    share.leave("a")
    share.charge("a", 9.0)
    share.enter("a")
    assert share.time("a") == 10.0
