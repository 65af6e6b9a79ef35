"""Lemma 1 and Theorem 1 of LARA: Algorithm 1 against brute force, its plans against the clock."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from auctune.timeshare import MOORE_HODGSON, moore_hodgson
from auctune.timeshare.allocation import Demand, Rule
from auctune.timeshare.allocation.moore_hodgson import choose
from auctune.timeshare.allocation.rule import relative_shares
from auctune.timeshare.rollout import threads_done
from support.thorough import drawn

Floats = NDArray[np.float64]
SLACK = 1e-7


def fits(need: Floats, slack: Floats) -> bool:
    """Whether jobs done one after another by due date are all in time."""
    order = np.argsort(slack, kind="stable")
    return bool((np.cumsum(need[order]) <= slack[order] + SLACK).all())


def most_by_subsets(need: Floats, slack: Floats) -> int:
    finite = [k for k in range(len(need)) if math.isfinite(need[k])]
    for size in range(len(finite), 0, -1):
        for chosen in itertools.combinations(finite, size):
            if fits(need[list(chosen)], slack[list(chosen)]):
                return size
    return 0


def most_by_masks(need: Floats, slack: Floats) -> int:
    """The same for all subsets at once."""
    order = np.argsort(slack, kind="stable")
    masks = np.arange(2 ** len(need))
    taken = (masks[:, None] >> np.arange(len(need))) & 1
    spent = np.cumsum(taken * np.where(np.isfinite(need[order]), need[order], 1e9), axis=1)
    late = (taken == 1) & (spent > slack[order] + SLACK)
    return int(taken.sum(axis=1)[~late.any(axis=1)].max())


@drawn(300)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(1, 24).map(lambda n: n / 4), st.just(math.inf)),
            st.integers(1, 30).map(float),
        ),
        min_size=1,
        max_size=7,
    )
)
def test_theorem_1_no_subset_that_can_be_done_is_larger_than_the_choice(
    jobs: list[tuple[float, float]],
) -> None:
    need, slack = (np.array(part) for part in zip(*jobs, strict=True))
    kept = moore_hodgson(need, slack)
    assert kept.sum() == most_by_subsets(need, slack)
    assert fits(need[kept], slack[kept])


def test_theorem_1_in_thousands_of_cases_of_up_to_twelve_threads() -> None:
    random = np.random.default_rng(11)
    for _ in range(3000):
        num = int(random.integers(1, 13))
        need = random.uniform(0.1, 10.0, num)
        need[random.random(num) < 0.1] = np.inf
        slack = np.ceil(random.uniform(1, 4 * num, num))
        kept = moore_hodgson(need, slack)
        assert fits(need[kept], slack[kept])
        assert kept.sum() == most_by_masks(need, slack)


def follow(need: Floats, slack: Floats, kept: NDArray[np.bool_]) -> Floats:
    """What each thread of C has got at its due date, by (3.8) kept from due date to due date."""
    order = np.argsort(slack, kind="stable").astype(np.int64)
    relative, eta, got = np.zeros(len(need)), np.zeros(len(need)), np.zeros(len(need))
    relative_shares(order, kept, need, slack, relative, eta)
    members = [k for k in order if kept[k]]
    now = 0.0
    for index, due in enumerate(members):
        rest = 1.0
        for k in members[index:]:
            got[k] += relative[k] * rest * (slack[due] - now)
            rest *= 1.0 - relative[k]
        now = slack[due]
    return got


@drawn(200)
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_lemma_1_constant_relative_shares_end_every_set_that_can_be_done_just_in_time(
    seed: int, num: int
) -> None:
    random = np.random.default_rng(seed)
    need, slack = random.uniform(0.1, 10.0, num), np.ceil(random.uniform(1, 4 * num, num))
    for members in itertools.product([False, True], repeat=num):
        chosen = np.array(members)
        if fits(need[chosen], slack[chosen]):
            got = follow(need, slack, chosen)
            assert np.allclose(got[chosen], need[chosen])
            assert (got[~chosen] == 0).all()


def run_unit_by_unit(rule: Rule, need: Floats, slack: Floats) -> set[int]:
    """Threads that are done in time if needs are what they are said to be."""
    rest, done = need.copy(), set[int]()
    order = np.argsort(slack, kind="stable").astype(np.int64)
    for time in range(int(slack.max())):
        active = (rest > SLACK) & (slack > time)
        if not active.any():
            break
        eta = np.zeros(len(need))
        said = np.where(np.isfinite(rest), np.maximum(rest, 1e-9), np.inf)
        rule.share(Demand(order, active, said, np.ones(len(need)), slack - time, slack), eta)
        assert eta.sum() <= 1 + 1e-9
        assert (eta[~active] == 0).all()
        rest -= eta
        done |= {int(k) for k in np.flatnonzero((rest <= SLACK) & active)}
    return done


@drawn(150)
@given(st.integers(0, 10**6), st.integers(1, 10), st.integers(1, 5))
def test_an_order_does_the_threads_that_a_pool_which_follows_it_does(
    seed: int, num: int, draws: int
) -> None:
    random = np.random.default_rng(seed)
    slack = random.integers(1, 4 * num + 1, num).astype(np.float64)
    needs = random.integers(1, 10, (num, draws)).astype(np.float64)
    order = random.permutation(num)[: int(random.integers(1, num + 1))]
    expected = 0
    for needed in needs.T:
        rest = needed.copy()
        for time in range(int(slack.max())):
            unfinished = [k for k in order if rest[k] > 0 and slack[k] > time]
            if unfinished:
                rest[unfinished[0]] -= 1
        expected += int((rest[order] <= 0).sum())
    assert threads_done(order, needs, slack, np.empty(draws)) == expected


@drawn(100)
@given(st.integers(0, 10**6), st.integers(1, 10))
def test_the_papers_rule_loses_no_thread_of_the_choice_but_to_whole_units(
    seed: int, num: int
) -> None:
    random = np.random.default_rng(seed)
    need = random.integers(1, 8, num).astype(np.float64)
    slack = np.ceil(random.uniform(1, 4 * num, num))
    # A thread that ends within a unit keeps its share to the unit's end: a unit for each is spare.
    most = int(moore_hodgson(need + 1.0, slack).sum())
    assert len(run_unit_by_unit(MOORE_HODGSON, need, slack)) >= most


def test_the_kernel_as_plain_python_chooses_the_same() -> None:
    random = np.random.default_rng(5)
    plain = choose.py_func  # type: ignore[attr-defined]
    for _ in range(50):
        num = int(random.integers(1, 20))
        need, slack = random.uniform(0.1, 10.0, num), random.uniform(1, 3 * num, num)
        order = np.argsort(slack, kind="stable").astype(np.int64)
        found = []
        for kernel in (choose, plain):
            kept = np.zeros(num, dtype=np.bool_)
            count = kernel(order, need, slack, kept)
            assert count == kept.sum()
            found.append(kept.tolist())
        assert found[0] == found[1]
