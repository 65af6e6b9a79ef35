"""A service that is killed under load loses nothing that it said, and does nothing twice."""

from pathlib import Path

import pytest

from support.kill_loop import kill_again_and_again

pytestmark = pytest.mark.slow


def test_five_kills_under_load_lose_nothing_and_charge_nothing_twice(tmp_path: Path) -> None:
    report = kill_again_and_again(tmp_path, kills=5, seed=20240813)
    assert report.faults == ()
    assert report.acknowledged > 200
    assert report.admitted > 20
    assert report.trained > 0
    assert report.repeated > 0
