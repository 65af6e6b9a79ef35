"""Which published series are measured, and what a cell says of its misses."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from auctune.spot import InstanceStart, SpotJob, SpotMarket
from published_traces import (
    DRAWN,
    ROBUST,
    WHOLE,
    WHOLE_RISKY,
    Cell,
    WholeSeries,
    can_start,
    draw_series,
    is_chosen_on,
    print_summary,
    read_all,
    spread_starts,
)

JOB = SpotJob(workload=5.0, deadline=10, n_max=1, overhead=InstanceStart(0.4))


def market(available: Sequence[int]) -> SpotMarket:
    return SpotMarket(np.full(len(available), 0.3), np.array(available, dtype=np.int64), 1.0, 1800)


def cell(robust: float, law: float, free: float, late: int = 0) -> Cell:
    shares = {ROBUST: robust, WHOLE: law, WHOLE_RISKY: free, DRAWN: 1.0}
    return Cell(5, "a", shares, {ROBUST: late, WHOLE: 0}, 12)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("availability/1-node/aws-02-15-2023/us-east-1c_v100_1", True),
        ("availability/1-node/aws-02-15-2023/us-east-2b_v100_1", True),
        ("availability/1-node/aws-10-26-2022/us-west-2a_k80_8", True),
        ("availability/1-node/aws-10-26-2022/us-west-2b_v100_8", True),
        ("availability/1-node/aws-02-15-2023/us-east-2a_v100_1", False),
        ("availability/16-node/aws-08-27-2023/us-east-2b_v100_1", False),
        ("preemption/1-node/aws-04-22-2023/us-east-1c_v100_1", False),
        ("aws2020_us-east-1c_k80-1gpu_joint", False),
    ],
)
def test_series_that_chose_the_constants_are_told_from_others(name: str, chosen: bool) -> None:
    assert is_chosen_on(name) is chosen


def test_all_series_of_a_checkout_are_read_as_one_instance(tmp_path: Path) -> None:
    for name, counts in {
        "availability/16-node/aws/b": [0, 16, 3, 0],
        "preemption/1-node/aws/a": [1, 1, 0, 0],
    }.items():
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"metadata": {"gap_seconds": 1800}, "data": counts}))
    records = tmp_path / "records"
    records.mkdir()
    rows = [f"{1800 * slot},{slot},0.45" for slot in range(4)]
    (records / "zone_joint.csv").write_text("\n".join(["t_s,available,price", *rows, ""]))
    found = read_all(tmp_path, records, 1800.0)
    assert {name: one.available.tolist() for name, one in found.items()} == {
        "availability/16-node/aws/b": [0, 1, 1, 0],
        "preemption/1-node/aws/a": [1, 1, 0, 0],
        "zone_joint": [0, 1, 1, 1],
    }
    # Of the on-demand price of its instance.
    assert found["zone_joint"].price == pytest.approx(0.5)


def test_jobs_start_in_different_slots_after_a_day_of_a_series_that_changes_after_it() -> None:
    day, room = [0, 1] * 24, JOB.deadline + 12
    assert can_start(market([*day, *[0, 1] * (room // 2)]), JOB, 12)
    assert not can_start(market([*day, *[0, 1] * (room // 2)][:-1]), JOB, 12)
    assert not can_start(market([*day, *[1] * room]), JOB, 12)
    starts = list(spread_starts(market([*day, *[0, 1] * (room // 2)]), JOB, 12))
    assert len(set(starts)) == 12
    assert min(starts) >= 48
    assert max(starts) + JOB.deadline <= 48 + room


def test_the_law_of_the_series_is_the_same_in_every_slot() -> None:
    whole = market([0, 0, 1, 1, 1, 0] * 20)
    law = WholeSeries(whole)
    # Also of another series, however long.
    pasts = [*(whole.until(slot) for slot in (1, 50, 119)), market([0, 1] * 300)]
    found = []
    for past in pasts:
        chain = law.forecast(past, 3).chain
        assert chain is not None
        found.append(chain.transition)
    assert all(np.array_equal(transition, found[0]) for transition in found)


def test_a_drawn_series_changes_as_often_as_the_one_that_it_is_drawn_from() -> None:
    random, there, available = np.random.default_rng(0), 0, []
    for chance in random.uniform(size=20_000):
        there ^= int(chance < (0.05 if there else 0.1))
        available.append(there)
    whole, drawn = market(available), draw_series(market(available), 40_000)
    assert drawn.available.mean() == pytest.approx(whole.available.mean(), abs=0.03)
    changes = np.abs(np.diff(drawn.available)).mean()
    assert changes == pytest.approx(np.abs(np.diff(whole.available)).mean(), rel=0.08)


def test_what_a_cell_misses_is_split_into_parts_that_sum_to_it() -> None:
    assert cell(0.95, 0.96, 0.99).misses() == (
        "5 h, a: 95.0%; by the law +1.0, never being late +3.0, the rest +1.0"
    )


def test_a_summary_counts_cells_at_the_goal_and_jobs_late(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_summary([cell(0.95, 0.96, 0.99), cell(0.97, 0.98, 1.0, late=1)])
    out = capsys.readouterr().out
    # 1 of 24 by Clopper and Pearson.
    assert (
        "robust: 1 of 2 cells at 97%, least 95.0%, mean 96.0%; late 1 of 24 (0.11% to 21.12%)"
        in out
    )
    assert "5 h: robust 1 of 2; means: robust 96.0%" in out
    assert out.count("by the law") == 1
