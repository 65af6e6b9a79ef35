import random
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.files.device_profile import Mix, SweepPoint
from auctune.train.cost_model import (
    LINE_ERROR,
    MIN_MIXED_ROUNDS,
    Round,
    RoundCost,
    TimedRound,
    choose_budget,
    elementwise_min,
    fastest_rounds,
    fit_line,
    fit_rounds,
    is_faster,
    is_saturated,
    is_slower,
    margin_of,
    predict,
    predict_left_out,
)


def timed(seconds: float, beside: float = 0.0) -> TimedRound:
    return TimedRound(Round(1, 100, 2, 1.0, 1.0), seconds, beside)


def points(seconds: dict[int, float]) -> list[SweepPoint]:
    return [SweepPoint(tokens, time) for tokens, time in seconds.items()]


@given(st.floats(0, 10), st.floats(1e-6, 1))
def test_a_line_is_found_again(a: float, b: float) -> None:
    sweep = points({n: a + b * n for n in (32, 64, 128, 256)})
    assert fit_line(sweep) == pytest.approx((a, b), rel=1e-6, abs=1e-6 * (a + b))


@given(st.lists(st.floats(1e-4, 10), min_size=2, max_size=6))
def test_a_fit_is_never_negative(seconds: list[float]) -> None:
    a, b = fit_line(points({32 * 2**n: time for n, time in enumerate(seconds)}))
    assert a >= 0
    assert b > 0


def test_relative_errors_count_alike_for_short_and_long_passes() -> None:
    # Least squares of the relative errors by hand: a = 0 is forced, and b is then
    # sum(n/t) / sum((n/t)^2) with n/t = 1/2 and 1.
    a, b = fit_line(points({1: 2.0, 100: 100.0}))
    assert (a, b) != (0.0, 1.0)
    assert fit_line(points({1: 1.0, 100: 200.0})) == pytest.approx((0.0, 1.5 / 1.25))


def test_one_pass_alone_gives_a_line_too() -> None:
    a, b = fit_line(points({32: 0.32}))
    assert a + 32 * b == pytest.approx(0.32)


def test_the_budget_is_the_smallest_pass_that_is_about_as_fast_as_the_best() -> None:
    assert choose_budget(points({32: 1.0, 64: 1.1, 128: 1.3, 256: 2.4, 512: 4.8})) == 128
    assert choose_budget(points({32: 1.0, 64: 2.0})) == 32


def test_the_margin_of_a_few_mixes_is_the_worst_shortfall_in_speed() -> None:
    fast, slow, stuck = Mix(2, 10, 1.0, 0.5), Mix(2, 10, 3.0, 4.0), Mix(2, 10, 1.0, 100.0)
    assert margin_of([fast, slow]) == pytest.approx(0.25)
    assert margin_of([fast]) == 0
    assert margin_of([]) == 0
    assert margin_of([stuck]) == 0.9


shares = st.floats(0.0, 0.8)


@given(st.lists(shares, min_size=10, max_size=19), shares, st.integers(0, 9))
def test_one_mix_in_ten_decides_no_margin(lost: list[float], outlier: float, at: int) -> None:
    mixes = [Mix(2, 10, 1 - share, 1.0) for share in lost]
    disturbed = [*mixes[:at], Mix(2, 10, 1 - outlier, 1.0), *mixes[at + 1 :]]
    undisturbed = [*mixes[:at], *mixes[at + 1 :]]
    assert margin_of(disturbed) <= max(margin_of([mix]) for mix in undisturbed)


@given(st.lists(st.floats(1.0, 1.2), min_size=20, max_size=40), st.floats(1.0, 5.0))
def test_a_slowdown_of_all_mixes_decides_the_margin(noise: list[float], factor: float) -> None:
    slower = [Mix(2, 10, 1.0, factor * one) for one in noise]
    assert margin_of(slower) >= 1 - 1 / factor - 1e-9
    # So does one of every fifth mix, however fast the others are.
    some = [*slower[: len(slower) // 5], *[Mix(2, 10, 1.0, 0.5)] * (len(slower) * 4 // 5)]
    assert margin_of(some) >= 1 - 1 / factor - 1e-9


def test_of_loads_that_were_measured_twice_the_quicker_times_count() -> None:
    first = [timed(5.0), timed(2.0)]
    again = [timed(1.0), timed(9.0), timed(3.0)]
    assert fastest_rounds(first, again) == [again[0], first[1], again[2]]
    assert fastest_rounds(first, []) == first


def test_a_device_is_busy_while_passes_next_to_most_loads_take_longer_than_in_the_sweep() -> None:
    loads = [timed(9.0, beside) for beside in (1.1, 3.0, 3.0, 0.9, 3.0)]
    assert is_slower(loads, 1.0)
    assert not is_slower(loads[:2], 2.0)
    assert not is_slower([], 1.0)


def test_a_sweep_was_disturbed_if_passes_next_to_most_loads_are_faster() -> None:
    loads = [timed(9.0, beside) for beside in (0.5, 0.5, 9.0)]
    assert is_faster(loads, 1.0)
    assert not is_faster(loads, 0.55)
    assert not is_faster([], 1.0)


def test_a_load_on_a_busy_device_is_as_much_faster_on_an_idle_one_as_the_pass_next_to_it() -> None:
    assert timed(6.0, 3.0).at_speed_of(1.0) == timed(2.0, 1.0)
    assert timed(6.0, 0.5).at_speed_of(1.0) == timed(6.0, 1.0)


def test_of_two_sweeps_the_quicker_passes_count() -> None:
    first, again = points({32: 9.0, 64: 2.0}), points({32: 1.0, 64: 8.0})
    assert elementwise_min(first, again) == points({32: 1.0, 64: 2.0})


FEATURES = 40_000
ROW_TOKENS = 256
# Passes of up to 512 tokens.
BUDGET = 512


def sweep_of(cost: RoundCost) -> list[TimedRound]:
    rounds = [
        Round(1, n, 1, 8 * FEATURES * n, n * min(n, ROW_TOKENS))
        for n in (32, 64, 128, 256, 512, 1024, 2048)
    ]
    return [TimedRound(one, cost.seconds(one)) for one in rounds]


def load_of(adapters: list[tuple[int, int, int]]) -> Round:
    """A round of adapters: rank, rows, tokens of a row."""
    tokens = sum(rows * length for _, rows, length in adapters)
    return Round(
        -(-tokens // BUDGET),
        tokens,
        len(adapters),
        FEATURES * sum(rank * rows * length for rank, rows, length in adapters),
        sum(rows * length**2 for _, rows, length in adapters),
    )


random_loads = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from((4, 8, 16, 32, 64)),
            st.sampled_from((1, 2, 4, 8)),
            st.sampled_from((32, 64, 128, 256)),
        ),
        min_size=1,
        max_size=8,
    ).map(load_of),
    min_size=MIN_MIXED_ROUNDS + 1,
    max_size=12,
)
# Seconds; b is a tenth of the time of a token at least, as of any base that is not smaller than its
# adapters.
costs = st.builds(
    RoundCost,
    st.floats(0, 0.05),
    st.floats(3e-4, 1e-2),
    st.floats(0, 0.02),
    st.floats(0, 1e-10),
    st.floats(0, 1e-7),
)


@given(costs, random_loads)
def test_the_cost_of_rounds_is_found_again(cost: RoundCost, rounds: list[Round]) -> None:
    loads = [TimedRound(one, cost.seconds(one)) for one in rounds]
    found = fit_rounds(sweep_of(cost), loads)
    assert all(term >= 0 for term in astuple(found))
    for one in loads:
        assert found.seconds(one.round) == pytest.approx(one.seconds, rel=1e-6)


def test_each_term_is_told_from_the_others_by_loads_that_differ() -> None:
    draw = random.Random(0)
    rounds = [
        load_of(
            [
                (draw.choice((4, 16, 64)), draw.choice((1, 4)), draw.choice((32, 256)))
                for _ in range(draw.randint(1, 8))
            ]
        )
        for _ in range(12)
    ]
    cost = RoundCost(0.03, 1e-3, 0.004, 5e-11, 5e-8)
    loads = [TimedRound(one, cost.seconds(one)) for one in rounds]
    assert astuple(fit_rounds(sweep_of(cost), loads)) == pytest.approx(astuple(cost), rel=1e-6)
    # A load that was not fitted is predicted too: nothing is left for the margin.
    assert margin_of(predict_left_out(sweep_of(cost), loads)) == pytest.approx(0, abs=1e-6)


@given(
    st.lists(st.floats(1e-4, 10), min_size=7, max_size=7),
    random_loads,
    st.lists(st.floats(1e-4, 10), min_size=12, max_size=12),
)
def test_nothing_is_ever_predicted_to_take_less_than_no_time(
    passes: list[float], rounds: list[Round], seconds: list[float]
) -> None:
    sweep = [
        replace(one, seconds=time)
        for one, time in zip(sweep_of(RoundCost(1, 1)), passes, strict=True)
    ]
    loads = [TimedRound(one, time) for one, time in zip(rounds, seconds, strict=False)]
    found = fit_rounds(sweep, loads)
    assert min(astuple(found)) >= 0
    # What is sold by the token has a price.
    assert found.token_seconds > 0
    assert all(mix.predicted_seconds > 0 for mix in predict_left_out(sweep, loads))


def test_fewer_loads_than_terms_leave_the_line_of_the_sweep() -> None:
    cost = RoundCost(0.01, 1e-3)
    slow = TimedRound(load_of([(64, 4, 256)]), 100.0)
    found = fit_rounds(sweep_of(cost), [slow] * (MIN_MIXED_ROUNDS - 1))
    assert astuple(found) == pytest.approx((0.01, 1e-3, 0, 0, 0), abs=1e-9)


@given(costs, random_loads)
def test_a_model_of_ranks_and_rows_keeps_back_no_more_than_the_line(
    cost: RoundCost, rounds: list[Round]
) -> None:
    sweep, loads = sweep_of(cost), [TimedRound(one, cost.seconds(one)) for one in rounds]
    a, b = fit_line([SweepPoint(one.round.tokens, one.seconds) for one in sweep])
    by_line = [
        Mix(1, one.round.tokens, predict(one.round.tokens, BUDGET, a, b), one.seconds)
        for one in loads
    ]
    assert margin_of(predict_left_out(sweep, loads)) <= margin_of(by_line) + 0.05


@given(st.floats(1e-3, 1), st.floats(1e-6, 1e-4))
def test_passes_that_launches_take_up_do_not_bend_the_line(floor: float, b: float) -> None:
    sizes = [256 * 2**n for n in range(8)]
    a, slope = fit_line(points({n: max(floor, b * n) for n in sizes}))
    largest = max(floor, b * sizes[-1])
    # What is sold are full passes.
    assert a + slope * sizes[-1] == pytest.approx(largest, rel=LINE_ERROR)


def test_a_sweep_without_a_slope_sells_the_speed_of_its_largest_pass() -> None:
    a, b = fit_line(points({256: 0.052, 512: 0.051, 1024: 0.05, 2048: 0.05}))
    assert a + 2048 * b == pytest.approx(0.05)
    assert a + 256 * b == pytest.approx(0.05, rel=0.1)


def test_a_device_is_saturated_once_a_doubling_makes_it_no_faster() -> None:
    sweep = points({n: max(0.05, 2e-5 * n) for n in (256, 512, 1024, 2048, 4096, 8192)})
    assert [is_saturated(sweep[:count]) for count in range(1, 7)] == [False] * 5 + [True]
