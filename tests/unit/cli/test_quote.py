"""What `auctune quote` prints where several zones were asked."""

from typing import Any

import pytest

from auctune.cli._support.options import changed_options
from auctune.cli.quote import (
    errors_name_options,
    print_alternatives,
    print_quote,
    use_option_names,
)
from auctune.client import JobSpec, JobTerms
from auctune.domain import InputError


def test_each_zone_stands_with_what_it_takes_or_why_it_cannot_have_the_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    able = {"cost": "1.2500", "finish": 1_800_000_000.0, "risk": 0.05, "unavailable_reason": None}
    unable = {
        "cost": None,
        "finish": None,
        "risk": None,
        "unavailable_reason": "it takes no bids now",
    }
    said = [
        {"zone": "north", "kind": "auction", **able},
        {"zone": "south", "kind": "auction", **unable},
    ]
    print_alternatives({"zone": "north", "alternatives": said})
    shown = capsys.readouterr().out
    north, south = (line for line in shown.splitlines() if "auction" in line)
    assert all(word in north for word in ("north", "1.2500", "5%", "see below"))
    assert "it takes no bids now" in south
    assert "see below" not in south
    # There is no other one to be had.
    assert "--zone" not in shown


def test_how_another_zone_is_had_is_said_where_there_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    able = {"cost": "1.2500", "finish": 1_800_000_000.0, "risk": 0.05, "unavailable_reason": None}
    said = [{"zone": name, "kind": "auction", **able} for name in ("north", "south")]
    print_alternatives({"zone": "north", "alternatives": said})
    assert "--zone NAME" in capsys.readouterr().out


def test_where_nobody_else_was_asked_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_alternatives({"zone": "north", "alternatives": []})
    assert capsys.readouterr().out == ""


def menu(start: float) -> dict[str, Any]:
    line = {"line": 0, "finish": start + 30, "price": "0.8428", "start": start, "slots": 5}
    return {
        "id": "quote-a",
        "alternatives": [],
        "notes": [],
        "estimate": None,
        "lines": [line | {"vendor": None}],
        "created_at": 1000.0,
        "expires_at": 1600.0,
    }


def test_a_suggested_command_can_be_typed_a_minute_later(
    capsys: pytest.CaptureFixture[str],
) -> None:
    terms, spec = JobTerms(zone="day"), JobSpec("my rows.jsonl", settings={"epochs": "6"})
    given = changed_options(terms) | changed_options(spec)
    print_quote(menu(1060.0), " --data x", given)
    assert "  auctune submit --quote quote-a --line 0 --data x" in capsys.readouterr().out
    # Its line starts at once: a bid has no beginning.
    print_quote(menu(1006.0), " --data x", given)
    command = capsys.readouterr().out.splitlines()[-1]
    assert command == (
        "  auctune submit 'my rows.jsonl' --bid 1.6856 --deadline +2m --zone day --set epochs=6"
        " --data x"
    )
    print_quote(menu(1006.0), "", given | {"--deadline": "+9m"})
    assert "--deadline +9m" in capsys.readouterr().out


def test_a_field_of_a_request_is_named_by_the_option_that_sets_it() -> None:
    for said, shown in (
        ("market.target_loss: is given", "--target-loss: is given"),
        ("validation_file, or market.sites", "--validation, or --site"),
        ("market.value.zero_at: is early", "market.value.zero_at: is early"),
        ("or market.repair (--repair), and", "or --repair, and"),
        ("market.toml: bids[0]", "market.toml: bids[0]"),
    ):
        assert use_option_names(said) == shown


def test_what_the_service_refuses_is_named_as_it_was_typed() -> None:
    with (
        pytest.raises(InputError, match=r"^--deadline: 'soon'; expected a time, or --value"),
        errors_name_options(),
    ):
        raise InputError("market.deadline", "'soon'", "a time, or market.value")
