"""At which moments of which series advice is measured."""

import json
from pathlib import Path

import numpy as np

from auctune.spot import SpotMarket
from spot_advice import JOBS, draw_moments, past_slots, read_published


def test_a_series_of_many_instances_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "series.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 1800}, "data": [0, 16, 3, 1]}))
    assert read_published(path).available.tolist() == [0, 1, 1, 1]


def test_moments_have_a_past_with_stretches_as_long_as_the_job_and_room_for_it() -> None:
    job = JOBS["92 h, 1 GPU"]
    past = past_slots(job)
    assert past == 2 * job.deadline + 8
    market = SpotMarket(np.full(past + job.deadline + 1, 0.3), np.arange(past + 185) % 2)
    slots = {slot for _, slot in draw_moments([market], job, 40)}
    assert slots == {past, past + 1}


def test_short_jobs_have_four_days_of_past() -> None:
    assert past_slots(JOBS["5 h, 1 GPU"]) == 192
