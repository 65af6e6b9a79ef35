"""What an operator sees of a timeshare zone."""

from typing import Any

from auctune.engine.unix_time import SlotClock
from auctune.service.zones.timeshare.gateway import shares_section

CLOCK = SlotClock(epoch=0.0, slot_seconds=60.0, now=lambda: 0.0)


def test_shares_are_those_of_quanta_in_which_a_job_was_there_by_its_label() -> None:
    units: list[dict[str, Any]] = [
        {"unit": 5, "span": 1.0, "shares": {}},
        {"unit": 6, "span": 1.0, "shares": {"ftjob-a": 0.5}},
        {"unit": 7, "span": 0.5, "shares": {"ftjob-a": 0.75, "ftjob-b": 0.25}},
    ]
    labels = {"ftjob-a": "weather", "ftjob-b": "rain"}
    section = shares_section(units, CLOCK, labels.__getitem__)
    assert section.rows == (
        (7, 420.0, 0.5, "weather", 0.75),
        (7, 420.0, 0.5, "rain", 0.25),
        (6, 360.0, 1.0, "weather", 0.5),
    )
    (chart,) = section.charts
    assert chart.data["slots"] == [
        {"slot": 0, "amounts": {"weather": 0.5}},
        {"slot": 1, "amounts": {"weather": 0.75, "rain": 0.25}},
    ]
    assert chart.data["times"] == {"start": 360.0, "seconds": 60.0}
    assert chart.text == "Shares of the pool by slot; in the newest weather 75%, rain 25%"
    assert shares_section(units[:1], CLOCK, str).charts == ()
