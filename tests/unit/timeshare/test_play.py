"""Bundles over recorded curves: what is learned, seen and counted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import (
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    Allocator,
    Exploration,
    InfeasibleSharesError,
    Laira,
    LearningThread,
    LossCurve,
    Ls,
    Mixture,
    Observation,
    Planner,
    Rollout,
    RoundRobin,
    Shares,
    ShortestFirst,
    SuccessiveHalving,
    Thompson,
    Ucb,
    Uniform,
    clairvoyant_optimum,
    lara,
    play,
    true_needs,
)
from auctune.timeshare.allocator import count_switches
from support.loss_curves import made_up_bundle

ALLOCATORS: list[Allocator] = [
    Uniform(),
    ShortestFirst(),
    lara(),
    Rollout(),
    Planner(rule=LEAST_RESOURCES_FIRST),
    Planner(rule=EASIEST_FIRST),
    Planner(Ls(), Ucb()),
    Planner(Mixture(), Thompson()),
    Rollout(Ls(), draws=8),
    Laira(),
    Laira(look_ahead=False),
    RoundRobin(3),
    SuccessiveHalving(),
]


@dataclass(frozen=True)
class Scripted:
    """Shares that are given, and what was observed."""

    script: Sequence[Sequence[float]]
    seen: list[Observation]
    name: str = "scripted"

    def start(self, threads: Sequence[LearningThread]) -> "Scripted":
        return self

    def allocate(self, observation: Observation) -> Shares:
        self.seen.append(observation)
        return Shares(np.array(self.script[observation.time]))


LINE = LossCurve(np.arange(1.0, 101.0), np.linspace(1.0, 0.01, 100))


def test_a_unit_learns_whole_batches_and_keeps_the_rest() -> None:
    threads = [LearningThread("a", 0, 4, 0.5), LearningThread("b", 0, 4, 1e-9)]
    seen: list[Observation] = []
    script = [[0.5, 0.25], [0.5, 0.25], [0.0, 0.25], [0.0, 0.25]]
    outcome = play(Scripted(script, seen), threads, [LINE, LINE], [5.0, 2.0])
    assert [o.samples.tolist() for o in seen] == [[0, 0], [2, 0], [5, 1], [5, 1]]
    assert outcome.samples.tolist() == [5.0, 2.0]
    assert [o.fresh.tolist() for o in seen][1:] == [[True, False], [True, True], [False, False]]
    assert seen[1].loss[0] == pytest.approx(np.mean(LINE.loss[:2]))
    assert seen[2].loss[0] == pytest.approx(np.mean(LINE.loss[2:5]))
    assert np.isnan(seen[1].loss[1])
    assert seen[3].received.tolist() == [1.0, 0.75]
    assert outcome.switches == 2


def test_a_thread_is_done_by_its_units_mean_and_not_by_a_batch_in_it() -> None:
    curve = LossCurve(np.array([10.0, 20.0, 30.0]), np.array([3.0, 1.0, 0.9]))
    thread = LearningThread("a", 0, 9, 1.5)
    outcome = play(Uniform(), [thread], [curve], [15.0])
    assert outcome.finish.tolist() == [2.0]
    assert outcome.losses[:, 0].tolist() == pytest.approx([(30 + 5) / 15, (5 + 9) / 15])
    assert play(Uniform(), [thread], [curve], [20.0]).finish.tolist() == [2.0]


def test_with_windows_a_thread_is_done_by_the_mean_of_its_last_batches() -> None:
    random = np.random.default_rng(7)
    losses = np.linspace(2.0, 0.5, 200) * np.exp(0.3 * random.standard_normal(200))
    curve = LossCurve(np.arange(1.0, 201.0), losses)
    thread = LearningThread("a", 0, 150, 1.0)
    for window in (1.0, 7.0, 30.0):
        means = [losses[max(0, s - int(window)) : s].mean() for s in range(1, 201)]
        first = int(np.argmax(np.array(means) <= 1.0)) + 1
        assert curve.need(1.0, window) == first
        # A batch in a unit, whose own loss says nothing: the window decides.
        outcome = play(Uniform(), [thread], [curve], [1.0], [window])
        assert outcome.finish.tolist() == [float(first)]
    with pytest.raises(InputError, match="windows"):
        play(Uniform(), [thread], [curve], [1.0], [2.5])


def test_a_turn_to_another_thread_is_a_switch() -> None:
    learned = [[1, 0, 0], [1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0]]
    # The first thread, the second, two more of three, none, the first again.
    assert count_switches(np.array(learned, dtype=np.bool_)) == 1 + 0 + 1 + 2 + 0 + 1


def test_a_curve_stays_what_it_was_beyond_its_end() -> None:
    curve = LossCurve(np.array([10.0]), np.array([2.0]))
    outcome = play(Uniform(), [LearningThread("a", 0, 3, 1.0)], [curve], [8.0])
    assert outcome.losses[:, 0].tolist() == pytest.approx([2.0, 2.0, 2.0])
    assert not outcome.done[0]


def test_a_thread_learns_between_its_start_and_its_deadline_only() -> None:
    threads = [LearningThread("a", 2, 5, 1e-9), LearningThread("b", 0, 3, 1e-9)]
    outcome = play(Uniform(), threads, [LINE, LINE], [10.0, 10.0])
    assert outcome.shares.tolist() == [[0, 1], [0, 1], [0.5, 0.5], [1, 0], [1, 0]]


def test_shares_for_who_is_not_active_are_refused() -> None:
    threads = [LearningThread("a", 1, 5, 0.1), LearningThread("b", 0, 3, 0.1)]
    with pytest.raises(InfeasibleSharesError, match="unit 0"):
        play(Scripted([[0.5, 0.5]], []), threads, [LINE, LINE], [1.0, 1.0])


@pytest.mark.parametrize(
    ("curves", "rates", "place"),
    [([LINE], [1.0, 1.0], "curves"), ([LINE, LINE], [1.0, 0.0], "batches_per_unit")],
)
def test_wrong_bundles_are_named(curves: list[LossCurve], rates: list[float], place: str) -> None:
    threads = [LearningThread("a", 0, 5, 0.1), LearningThread("b", 0, 3, 0.1)]
    with pytest.raises(InputError) as raised:
        play(Uniform(), threads, curves, rates)
    assert raised.value.place == place


@pytest.mark.parametrize("allocator", ALLOCATORS, ids=lambda allocator: allocator.name)
def test_every_allocator_gives_what_there_is_and_never_beats_the_clairvoyant(
    allocator: Allocator,
) -> None:
    for seed in range(6):
        threads, curves, rates = made_up_bundle(seed, 3 + seed, starts=5 * (seed % 2))
        outcome = play(allocator, threads, curves, rates)
        best = clairvoyant_optimum(threads, true_needs(threads, curves, rates))
        assert outcome.num_done <= best.num_done
        assert (outcome.shares.sum(axis=1) <= 1 + 1e-9).all()
        busy = [
            any(
                t.start <= time < min(t.deadline, finish)
                for t, finish in zip(threads, outcome.finish, strict=True)
            )
            for time in range(len(outcome.shares))
        ]
        assert outcome.shares.sum(axis=1)[busy] == pytest.approx(1.0), "no time is wasted"
        again = play(allocator, threads, curves, rates)
        assert np.array_equal(again.shares, outcome.shares)


def test_an_unknown_future_changes_nothing_before_it() -> None:
    threads, curves, rates = made_up_bundle(3, 6)
    for allocator in ALLOCATORS:
        whole = play(allocator, threads, curves, rates)
        half = int(whole.samples.max() // 4)
        cut = [
            LossCurve(curve.batches, np.where(curve.batches <= half, curve.loss, 9.0))
            for curve in curves
        ]
        other = play(allocator, threads, cut, rates)
        reached = np.cumsum(whole.shares, axis=0) * np.array(rates)
        same = int((reached <= half - 5).all(axis=1).sum())
        assert same > 0
        assert np.array_equal(whole.shares[:same], other.shares[:same])


def test_a_hopeless_thread_with_the_nearest_deadline_is_given_up() -> None:
    easy = LossCurve(np.arange(10.0, 2001.0, 10.0), 3.0 * np.arange(10.0, 2001.0, 10.0) ** -0.5)
    threads = [LearningThread("hard", 0, 40, 1e-3)]
    threads += [LearningThread(f"easy{k}", 0, 50 + k, 0.12) for k in range(3)]
    curves, rates = [easy] * 4, [60.0] * 4
    done = {a.name: play(a, threads, curves, rates).num_done for a in (ShortestFirst(), Rollout())}
    assert done["stf"] == 0
    assert done[Rollout().name] == 3


def test_no_time_goes_to_seeing_other_threads_that_the_one_that_is_due_needs() -> None:
    """Each needs 28 units; slices for both to begin with would make the first one late."""
    easy = LossCurve(np.arange(10.0, 2001.0, 10.0), 3.0 * np.arange(10.0, 2001.0, 10.0) ** -0.5)
    threads = [LearningThread("due", 0, 30, 0.12), LearningThread("later", 0, 59, 0.12)]
    curves, rates = [easy] * 2, [23.0] * 2
    assert play(Rollout(), threads, curves, rates).num_done == 2
    assert play(Laira(), threads, curves, rates).num_done == 1


def test_lara_explores_all_before_it_plans() -> None:
    threads, curves, rates = made_up_bundle(5, 4)
    outcome = play(lara(Exploration(batches=30.0)), threads, curves, rates)
    first = np.cumsum(outcome.shares, axis=0) * np.array(rates)
    planned = int(np.argmax((first > 30.0).all(axis=1)))
    for time in range(planned):
        given = outcome.shares[time][outcome.shares[time] > 0]
        assert np.allclose(given, 1.0 / len(given))
