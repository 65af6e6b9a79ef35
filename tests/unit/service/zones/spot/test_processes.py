"""What counts as progress of a spot job's process."""

from typing import Any

from auctune.service.zones.spot.processes import NewSlots


def test_slots_that_a_restarted_process_repeats_are_not_progress() -> None:
    is_progress = NewSlots()
    reports: list[Any] = [
        {"kind": kind, "slot": slot} for slot in (0, 1) for kind in ("slot", "slot_done")
    ]
    assert [is_progress(message) for message in reports] == [True, False, True, False]
    assert not any(is_progress(message) for message in reports)
    overtime: Any = {"kind": "overtime", "slot": 2}
    assert is_progress(overtime)
    assert not is_progress({"kind": "ready", "seconds": 1.0})
