"""Kernels as plain Python: the same answers, so that nothing hangs on how numba compiles them."""

import numpy as np
import pytest

from auctune.auction.baselines.charging import earliest_cells
from auctune.auction.candidates import list_candidates
from auctune.auction.ledger import CapacityLedger
from auctune.auction.pricing.exponential import _price
from auctune.auction.search.cells import _insert, could_ever_run, fits
from auctune.auction.search.covering import _sift_down, _sift_up, dual_price, fill_rest
from auctune.auction.search.schedule_search import ScheduleSearch
from auctune.auction.search.thresholds import only_type, sort_phis
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


def test_earliest_cells(rng: np.random.Generator) -> None:
    found = 0
    for _ in range(40):
        book, task, _, _ = random_state(rng, 2)
        answers = []
        for function in (earliest_cells, plain(earliest_cells)):
            nodes = np.full(5, -1, dtype=np.int64)
            done = function(
                book.capacity,
                book.usage,
                0,
                4,
                task.work,
                book.throughput(task),
                task.memory_gb,
                False,
                nodes,
            )
            answers.append((done, nodes.tolist() if done else None))
        assert answers[0] == answers[1]
        found += answers[0][0]
    assert 5 < found < 40


def test_candidates_are_the_nodes_undominated_by_use(rng: np.random.Generator) -> None:
    for _ in range(40):
        book, _, _, _ = random_state(rng, 1, slots=3, nodes=6)
        book.usage.compute[:] = np.round(book.usage.compute * 2) / 2  # ties
        compute, memory = book.usage.compute[0].tolist(), book.usage.memory[0].tolist()
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
            usage = book.usage
            count = function(usage.compute[0], usage.memory[0], book.capacity.nodes_of, listed)
            assert sorted(listed[:count].tolist()) == expected


def test_entries_are_the_undominated_prices(rng: np.random.Generator) -> None:
    for _ in range(60):
        pairs = [tuple(pair) for pair in (rng.integers(0, 5, (8, 2)) / 4).tolist()]
        expected = sorted(
            {p for p in pairs if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in pairs)}
        )
        for function in (_insert, plain(_insert)):
            lams, phis, count = np.zeros(10), np.zeros(10), 1
            for lam, phi in pairs:
                count = function(lams, phis, 1, count, lam, phi)
            got = list(zip(lams[1:count].tolist(), phis[1:count].tolist(), strict=True))
            assert got == expected


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


def test_rest_sums_what_later_slots_can_gain() -> None:
    weight = np.array([0.5, np.inf, 0.2, 2.0])
    samples = np.array([1, 3], dtype=np.int64)
    for function in (fill_rest, plain(fill_rest)):
        rest = np.zeros(3)
        function(weight, samples, 0, 2, 1.0, rest)
        assert rest.tolist() == pytest.approx([0.5 + 1.0, 1.0, 0.0])


def test_a_heap_keeps_the_least(rng: np.random.Generator) -> None:
    for _ in range(20):
        weights = rng.integers(0, 6, 12) / 2
        for up, down in ((_sift_up, _sift_down), (plain(_sift_up), plain(_sift_down))):
            key = np.zeros(5)
            for place, w in enumerate(weights[:5].tolist()):
                up(key, place, w)
            for w in weights[5:].tolist():
                if w < key[0]:
                    down(key, 5, w)
            assert sorted(key.tolist()) == sorted(weights.tolist())[:5]
            assert key[0] == max(key)


def test_phis_are_listed_once_in_order() -> None:
    phis = np.array([0.5, 0.1, 0.5, 0.9, 0.3, 0.1])
    for function in (sort_phis, plain(sort_phis)):
        out = np.zeros(6)
        count = function(phis, 0, 5, 0.2, 0.9, out)
        assert out[:count].tolist() == [0.3, 0.5]


def test_only_type_is_one_or_none() -> None:
    for function in (only_type, plain(only_type)):
        assert [function(np.array(units)) for units in ([0, 3], [2, 3], [0, 0])] == [1, -1, -1]


def test_could_ever_run_agrees(rng: np.random.Generator) -> None:
    answers = []
    for _ in range(40):
        book, task, lam, phi = random_state(rng, 2)
        search = ScheduleSearch(book, lam, phi, aggregate="max", masked=True)
        request = search.request(task, task.arrival)._replace(work=float(rng.uniform(1, 25)))
        answers.append(could_ever_run(book.capacity, request))
        assert plain(could_ever_run)(book.capacity, request) == answers[-1]
    assert 0 < sum(answers) < 40


def test_an_empty_book_shows_one_node_of_each_type(rng: np.random.Generator) -> None:
    book, _, _, _ = random_state(rng, 2)
    assert CapacityLedger(book.cluster, prune=True).usage.num_candidates.tolist() == [[1, 1]] * 5
