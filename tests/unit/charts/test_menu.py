"""The chart of a menu: prices by the time that one waits."""

import pytest

from auctune.charts.menu import MenuPoint, menu_chart


def points(*waits: float) -> list[MenuPoint]:
    return [MenuPoint(n, wait, 10.0 - n, f"line {n}") for n, wait in enumerate(waits)]


@pytest.mark.parametrize(
    ("last", "unit", "value"),
    [
        (90.0, "seconds", 90.0),
        (600.0, "minutes", 10.0),
        (9000.0, "hours", 2.5),
        (345_600.0, "days", 4.0),
    ],
)
def test_waits_are_in_a_unit_of_their_size(last: float, unit: str, value: float) -> None:
    spec = menu_chart(points(30.0, last)).to_dict()
    dots = spec["layer"][1]["encoding"]
    assert dots["x"]["title"].startswith(unit)
    values = (
        next(iter(spec.get("datasets", {}).values()), None) or spec["layer"][1]["data"]["values"]
    )
    assert values[-1]["wait"] == pytest.approx(value)


def test_a_menu_without_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        menu_chart([])
