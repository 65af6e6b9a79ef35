"""A service that is killed under load loses nothing that it said, and does nothing twice."""

from pathlib import Path

import pytest

from support.executor_kinds import KINDS
from support.kill_loop import kill_again_and_again
from support.thorough import alternated

pytestmark = pytest.mark.slow


KILLS = 5


@pytest.mark.parametrize("executor", alternated(KINDS))
def test_kills_under_load_lose_nothing_and_charge_nothing_twice(
    tmp_path: Path, executor: str
) -> None:
    report = kill_again_and_again(tmp_path, kills=KILLS, seed=20240813, executor=executor)
    assert report.faults == ()
    assert report.acknowledged > 40 * KILLS
    assert report.admitted > 4 * KILLS
    assert report.trained > 0
    assert report.repeated > 0
