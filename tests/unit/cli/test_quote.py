"""What `auctune quote` prints where several zones were asked."""

import pytest

from auctune.cli.quote import print_alternatives


def test_each_zone_stands_with_what_it_takes_or_why_it_cannot_have_the_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    able = {"cost": "1.2500", "finish": 1_800_000_000.0, "risk": 0.05, "why_not": None}
    unable = {"cost": None, "finish": None, "risk": None, "why_not": "it takes no bids now"}
    said = [
        {"zone": "north", "kind": "auction", **able},
        {"zone": "south", "kind": "auction", **unable},
    ]
    print_alternatives({"zone": "north", "alternatives": said})
    shown = capsys.readouterr().out
    north, south = (line for line in shown.splitlines() if "auction" in line)
    assert all(word in north for word in ("north", "1.2500", "5%", "shown below"))
    assert "it takes no bids now" in south
    assert "shown below" not in south
    # There is no other one to be had.
    assert "--zone" not in shown


def test_how_another_zone_is_had_is_said_where_there_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    able = {"cost": "1.2500", "finish": 1_800_000_000.0, "risk": 0.05, "why_not": None}
    said = [{"zone": name, "kind": "auction", **able} for name in ("north", "south")]
    print_alternatives({"zone": "north", "alternatives": said})
    assert "--zone NAME" in capsys.readouterr().out


def test_where_nobody_else_was_asked_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_alternatives({"zone": "north", "alternatives": []})
    assert capsys.readouterr().out == ""
