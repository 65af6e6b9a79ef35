"""A mechanism that takes over what another one saved goes on as that one, to the last bit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auctune.auction import Pdftsp, PdftspParams, Titan, make_eft, make_ntm
from auctune.domain import Admission, InputError, read_snapshot, write_snapshot
from support.endless import ENDLESS, days_of_six_slots
from support.markets import random_market
from support.mechanisms import MECHANISMS
from support.playing import offer_all
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


@pytest.mark.parametrize("resource", ["compute", "memory_gb"])
def test_a_snapshot_that_sold_more_than_nodes_hold_is_refused(resource: str) -> None:
    sold = Pdftsp(MARKET.cluster)
    offer_all(sold, MARKET.tasks)
    kinds = MARKET.cluster.node_types
    least = {"compute": 1e-3, "memory_gb": MARKET.cluster.base_memory_gb + 1e-3}[resource]
    change: dict[str, Any] = {resource: least}
    smaller = {name: replace(kind, **change) for name, kind in kinds.items()}
    with pytest.raises(InputError, match="which is what it holds"):
        Pdftsp(replace(MARKET.cluster, node_types=smaller)).load(sold.save())


LEARNED_MARKET = days_of_six_slots(35)
DAMAGES: Mapping[str, tuple[tuple[str | int, ...], Any]] = {
    "nodes": (("ledger", "nodes"), ["others"]),
    "no use": (("ledger", "compute"), np.zeros((1, 1))),
    "use that is no array": (("ledger", "tasks"), "none"),
    "a horizon beside": (("ledger", "first"), None),
    "no prices": (("pricing", "lam"), np.zeros((6, 6))),
    "prices of one slot": (("pricing", "phi"), np.zeros((8, 1, 1))),
    "counts of another day": (("pricing", "history", "counts"), np.zeros(3, dtype=np.int64)),
    "a chunk too few": (("pricing", "history", "slots"), []),
    "a day without slots": (("pricing", "days", 0, "slot"), np.zeros(0, dtype=np.int64)),
    "a day of another length": (("pricing", "days", 0, "counts"), np.zeros(3, dtype=np.int64)),
    "bids of other types": (("pricing", "days", 0, "columns", "throughput"), np.zeros((1, 9))),
    "sums of five numbers": (("evidence", "sums"), [[0, "ada", 1, 1, 1]]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_snapshot_that_is_refused_changes_nothing(damage: str) -> None:
    tasks = [in_window(task) for task in LEARNED_MARKET.tasks]
    other, mechanism = (ENDLESS["learned"](LEARNED_MARKET, 0) for _ in range(2))
    offer_all(other, tasks[:90])
    offer_all(mechanism, tasks[:40])
    before = write_snapshot(mechanism.save())
    damaged = read_snapshot(write_snapshot(other.save()))
    *path, name = DAMAGES[damage][0]
    place: Any = damaged
    for part in path:
        place = place[part]
    place[name] = DAMAGES[damage][1]
    with pytest.raises(InputError, match="snapshot"):
        mechanism.load(damaged)
    assert write_snapshot(mechanism.save()) == before
