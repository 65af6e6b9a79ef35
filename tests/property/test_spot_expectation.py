"""Planning under uncertainty equals the best of all ways to react to every course of events."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.spot import SpotJob
from auctune.spot.account import can_be_held, job_constants, state_of
from auctune.spot.window.expectation import (
    Multipliers,
    Scenarios,
    choose,
    fill_expected,
    make_expectation_scratch,
)
from auctune.spot.window.table import lowest_column, units_done
from support.spot_cases import even_jobs, prices, starts
from support.spot_oracle import Held, all_held, best_expected, exact, on_grid, slot_work
from support.thorough import drawn

cells = st.tuples(prices, st.integers(0, 2))


@given(st.data())
@drawn(60)
def test_the_expected_value_is_the_best_of_all_reactions(data: st.DataObject) -> None:
    job = data.draw(even_jobs(max_deadline=4, max_gpus=2))
    if data.draw(st.booleans()):
        job = replace(job, overhead=data.draw(starts))
    num_left = data.draw(st.integers(1, min(job.deadline, 3)))
    rows = [[data.draw(cells)] * 2]
    rows += [[data.draw(cells), data.draw(cells)] for _ in range(num_left - 1)]
    chances = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    rows_of = [(chance, 1.0 - chance) for chance in (data.draw(chances) for _ in range(3))]
    present = data.draw(st.integers(0, 2))
    late, dear = data.draw(st.sampled_from([0.0, 5.0])), data.draw(st.sampled_from([0.0, 0.5]))
    last = data.draw(st.sampled_from(all_held(job, job.n_max)))
    on_demand = data.draw(st.sampled_from([0.75, 1.0]))
    terms = job_constants(job, on_demand)
    done = data.draw(st.integers(0, units_done(terms, job.workload)))

    scenarios = Scenarios(
        np.array([[price for price, _ in row] for row in rows]),
        np.array([[count for _, count in row] for row in rows]),
        np.array(rows_of),
        present,
        np.array(rows_of),
    )
    most_kept = data.draw(st.integers(1, 3))
    scratch = make_expectation_scratch(terms, 3, 2, most_kept)
    multipliers, state = Multipliers(late, dear), state_of(terms, *last)
    fill_expected(terms, scratch, scenarios, multipliers, done)
    low = lowest_column(terms, done)
    price, available = rows[0][0]
    count, value = choose(
        terms, scratch, multipliers, scratch.ahead[0, present], price, available, done, low, state
    )

    best = max(
        best_expected(
            job,
            rows[1:],
            [[exact(chance) for chance in row] for row in rows_of],
            present,
            on_demand,
            exact(late),
            exact(dear),
            progress=on_grid(terms, done) + work,
            last=held,
        )
        - (1 + exact(dear)) * cost
        for held, work, cost in _first_slot(job, rows[0][0], on_demand, last)
    )
    assert value == pytest.approx(float(best), abs=1e-9)
    assert can_be_held(terms, count)


def _first_slot(
    job: SpotJob, cell: tuple[float, int], on_demand: float, last: Held
) -> list[tuple[Held, Fraction, Fraction]]:
    """Allocations, work and cost of all that can be held in the slot that is seen."""
    price, available = cell
    return [
        (
            (dear, cheap),
            slot_work(job, (dear, cheap), last),
            dear * exact(on_demand) + cheap * exact(price),
        )
        for dear, cheap in all_held(job, available)
    ]
