import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.device_profile import Mix, SweepPoint
from auctune.train.cost_model import (
    LINE_ERROR,
    choose_budget,
    elementwise_min,
    fastest_mixes,
    fit_line,
    is_disturbed,
    is_noisy,
    is_saturated,
    is_slower,
    margin_of,
    predict_mixes,
)


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


def test_a_sweep_is_disturbed_if_every_mix_runs_in_less_than_half_of_its_time() -> None:
    slower, quicker = Mix(2, 10, 3.0, 4.0), Mix(2, 10, 100.0, 1.0)
    assert is_noisy([quicker, quicker])
    assert not is_noisy([quicker, slower])
    assert not is_noisy([])


def test_of_loads_that_were_measured_twice_the_quicker_times_count() -> None:
    first = [Mix(2, 10, 1.0, 5.0), Mix(3, 20, 2.0, 2.0)]
    again = [Mix(2, 10, 1.0, 1.0), Mix(3, 20, 2.0, 9.0), Mix(2, 30, 3.0, 3.0)]
    assert fastest_mixes(first, again) == [again[0], first[1], again[2]]
    assert fastest_mixes(first, []) == first


def test_loads_are_doubted_if_they_are_far_from_their_prediction() -> None:
    assert is_disturbed([Mix(2, 10, 1.0, 2.0)])
    assert is_disturbed([Mix(2, 10, 3.0, 1.0)])
    assert not is_disturbed([Mix(2, 10, 1.0, 1.2)])
    assert not is_disturbed([])


def test_a_device_is_busy_while_most_passes_take_longer_than_before() -> None:
    best = points({32: 1.0, 64: 2.0, 128: 4.0})
    assert not is_slower(best, points({32: 1.1, 64: 2.0, 128: 40.0}))
    assert is_slower(best, points({32: 1.0, 64: 3.0, 128: 6.0}))


def test_of_two_sweeps_the_quicker_passes_count() -> None:
    first, again = points({32: 9.0, 64: 2.0}), points({32: 1.0, 64: 8.0})
    assert elementwise_min(first, again) == points({32: 1.0, 64: 2.0})


def test_another_line_predicts_the_same_mixes_anew() -> None:
    # Two passes of 64 tokens at most: 2 * 0.5 + 100 * 0.01.
    assert predict_mixes([Mix(3, 100, 50.0, 2.0)], 64, 0.5, 0.01) == [Mix(3, 100, 2.0, 2.0)]


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
