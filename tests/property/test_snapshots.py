"""A mechanism that takes over what another one saved goes on as that one, to the last bit."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from auctune.auction import Pdftsp, PdftspParams, Titan, make_eft, make_ntm
from auctune.domain import Admission, InputError, read_snapshot, write_snapshot
from support.endless import ENDLESS, days_of_six_slots
from support.markets import random_market
from support.mechanisms import MECHANISMS
from support.recording import Recorder, assert_alike, assert_same_state, play_day
from support.thorough import rotated, times
from support.windows import in_window


def restored(made: Admission, saved: Admission) -> Admission:
    """`made` with all that the other one remembers, by way of bytes."""
    made.load(read_snapshot(write_snapshot(saved.save())))
    return made


@pytest.mark.parametrize("name", rotated(MECHANISMS))
def test_a_restored_mechanism_goes_on_identically(name: str) -> None:
    rng = np.random.default_rng(31)
    for _ in range(times(6)):
        market = random_market(rng, num_tasks=40)
        nodes = [node.id for node in market.cluster.nodes]
        first = MECHANISMS[name](market.cluster)
        moment = int(rng.integers(0, 30))
        play_day(Recorder(first, market.cluster), market.tasks[:moment], nodes, rng)
        second = restored(MECHANISMS[name](market.cluster), first)
        assert_alike(first, second, market.tasks[moment:])


@pytest.mark.parametrize("name", rotated(ENDLESS))
def test_it_does_so_for_days_without_an_end(name: str) -> None:
    rng = np.random.default_rng(32)
    for seed in range(times(4)):
        market = days_of_six_slots(seed + 10)
        tasks = [in_window(task) for task in market.tasks]
        nodes = [node.id for node in market.cluster.nodes]
        moment = int(rng.integers(0, 80))
        first = ENDLESS[name](market, seed)
        play_day(Recorder(first, market.cluster), tasks[:moment], nodes, rng)
        second = restored(ENDLESS[name](market, seed), first)
        assert_alike(first, second, tasks[moment : moment + 40])


def test_what_was_saved_does_not_change_with_the_market() -> None:
    market = random_market(np.random.default_rng(33), num_tasks=40)
    mechanism = MECHANISMS["critical-masked-sum-learned"](market.cluster)
    for task in market.tasks[:20]:
        mechanism.offer(task, task.arrival)
    saved, then = mechanism.save(), mechanism.state()
    data = write_snapshot(saved)
    for task in market.tasks[20:]:
        mechanism.offer(task, task.arrival)
    assert write_snapshot(saved) == data
    other = MECHANISMS["critical-masked-sum-learned"](market.cluster)
    other.load(saved)
    assert_same_state(other.state(), then)


MARKET = random_market(np.random.default_rng(34), max_types=1)
FEWER = replace(MARKET.cluster, nodes=MARKET.cluster.nodes[:-1])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (lambda: Pdftsp(MARKET.cluster), lambda: make_eft(MARKET.cluster), "another mechanism"),
        (lambda: make_eft(MARKET.cluster), lambda: Pdftsp(MARKET.cluster), "another mechanism"),
        (lambda: make_eft(MARKET.cluster), lambda: make_ntm(MARKET.cluster, 1), "another mech"),
        (lambda: Titan(MARKET.cluster), lambda: make_eft(MARKET.cluster), "another mechanism"),
        (
            lambda: Pdftsp(MARKET.cluster),
            lambda: Pdftsp(MARKET.cluster, PdftspParams(capacity="checked")),
            "another mechanism",
        ),
        (lambda: Pdftsp(MARKET.cluster), lambda: Pdftsp(FEWER), "nodes: are others"),
        (
            lambda: Pdftsp(MARKET.cluster),
            lambda: Pdftsp(MARKET.cluster, energy=lambda _type, _slot: 0.0),
            "rolls: is of another market",
        ),
    ],
)
def test_what_another_mechanism_saved_is_refused(
    first: Callable[[], Admission], second: Callable[[], Admission], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        second().load(first().save())
