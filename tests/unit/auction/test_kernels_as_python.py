"""Kernels as plain Python: the same answers, so that nothing hangs on how numba compiles them."""

import numpy as np
import pytest

from auctune.auction.candidates import list_candidates
from auctune.auction.ledger import CapacityLedger
from auctune.auction.pricing.exponential import _price
from auctune.auction.search.cells import could_ever_run, fits
from auctune.auction.search.lower_bound import dual_price
from auctune.auction.search.schedule_search import ScheduleSearch
from support.kernels import plain
from support.random_states import random_state


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(22)


def test_fits_allows_for_rounding_only() -> None:
    for function in (fits, plain(fits)):
        assert function(0.1 + 0.2, 0.7, 1.0)
        assert not function(0.3, 0.7 + 1e-8, 1.0)


def test_exponential_price_runs_from_low_to_high() -> None:
    for function in (_price, plain(_price)):
        assert function(0.5, 2.0, 0.0) == 0.5
        assert function(0.5, 2.0, 0.5) == pytest.approx(1.0)
        assert function(0.5, 2.0, 1.0) == pytest.approx(2.0)
        assert function(0.0, 0.0, 0.7) == 0.0


def test_candidates_are_the_nodes_undominated_by_use(rng: np.random.Generator) -> None:
    for _ in range(40):
        ledger, _, _, _ = random_state(rng, 1, slots=3, nodes=6)
        ledger.usage.compute[:] = np.round(ledger.usage.compute * 2) / 2  # ties
        compute, memory = ledger.usage.compute[0].tolist(), ledger.usage.memory[0].tolist()
        expected = [
            n
            for n in range(6)
            if not any(
                compute[m] <= compute[n]
                and memory[m] <= memory[n]
                and ((compute[m], memory[m]) != (compute[n], memory[n]) or m < n)
                for m in range(6)
            )
        ]
        for function in (list_candidates, plain(list_candidates)):
            listed = np.zeros(6, dtype=np.int64)
            usage = ledger.usage
            count = function(usage.compute[0], usage.memory[0], ledger.capacity.nodes_of, listed)
            assert sorted(listed[:count].tolist()) == expected


def test_dual_price_is_a_lower_bound_and_tight_where_cells_divide(
    rng: np.random.Generator,
) -> None:
    samples = np.array([1], dtype=np.int64)
    for _ in range(20):
        weight = rng.uniform(0, 1, 6)
        exact = float(np.sort(weight)[:3].sum())
        for function in (dual_price, plain(dual_price)):
            mu, bound, feasible = function(weight, samples, 3, 0, 6, 0.0, np.inf)
            assert bound == pytest.approx(exact)
            assert feasible == pytest.approx(exact)
            assert mu > 0
    for function in (dual_price, plain(dual_price)):
        assert function(weight, samples, 7, 0, 6, 0.0, np.inf) == (np.inf, np.inf, np.inf)


def test_could_ever_run_agrees(rng: np.random.Generator) -> None:
    answers = []
    for _ in range(40):
        ledger, task, lam, phi = random_state(rng, 2)
        search = ScheduleSearch(ledger, lam, phi, aggregate="max", masked=True)
        request = search.request(task, task.arrival)._replace(work=float(rng.uniform(1, 25)))
        answers.append(could_ever_run(ledger.capacity, request))
        assert plain(could_ever_run)(ledger.capacity, request) == answers[-1]
    assert 0 < sum(answers) < 40


def test_an_empty_ledger_shows_one_node_of_each_type(rng: np.random.Generator) -> None:
    ledger, _, _, _ = random_state(rng, 2)
    assert CapacityLedger(ledger.cluster, prune=True).usage.num_candidates.tolist() == [[1, 1]] * 5
