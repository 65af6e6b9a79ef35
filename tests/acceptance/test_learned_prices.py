"""What learned prices come to beside the bound and hand-set prices, on days of their own."""

from collections.abc import Mapping, Sequence

import pytest

from auctune.auction.dual import lagrangian_bound
from auctune.domain import Task
from auctune.registry import mechanisms
from auctune.sim.engine import simulate
from auctune.sim.instance import Instance
from auctune.sim.metrics import measure
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance


def welfare(
    instance: Instance, settings: Mapping[str, str], history: Sequence[Sequence[Task]] = ()
) -> float:
    made = mechanisms.build("pdftsp", instance.cluster, settings, history=history)
    return measure(simulate(instance, made)).welfare


PARAMS = SyntheticParams(nodes={"a100": 20}, rate=32.0, seed=11)


@pytest.mark.slow
def test_a_day_of_history_comes_near_the_bound() -> None:
    day = make_instance(PARAMS)
    before = make_instance(SyntheticParams(nodes={"a100": 20}, rate=32.0, seed=12))
    bound = lagrangian_bound(day.cluster, day.tasks).value
    assert 0.909 * bound <= welfare(day, {}, [before.tasks]) <= bound


@pytest.mark.slow
def test_a_first_day_beats_hand_set_prices() -> None:
    day, median = make_instance(PARAMS), PARAMS.value_median
    best = max(
        welfare(
            day,
            {
                "aggregate": aggregate,
                "compute_low": str(0.1 * scale * median),
                "compute_high": str(2 * scale * median),
                "memory_low": "0.0001",
                "memory_high": "0.01",
            },
        )
        for scale in (0.5, 1, 2)
        for aggregate in ("max", "sum")
    )
    assert welfare(day, {}) >= 0.97 * best
