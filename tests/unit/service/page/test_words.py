"""Words for people."""

import pytest

from auctune.service.page import words


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1.8000", "1.80"),
        ("0.8428", "0.8428"),
        ("0.528", "0.5280"),
        ("-12", "-12.00"),
        ("0", "0.00"),
        ("100", "100.00"),
    ],
)
def test_money_has_two_decimals_or_four(amount: str, text: str) -> None:
    assert words.money(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (6, "6 s"), (60, "1 min"), (90, "1 min 30 s"), (3600, "1 h"), (90_061, "1 d 1 h")],
)
def test_a_span_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert words.span_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (3980, "3.98 kB"), (5 * 10**12, "5 TB")]
)
def test_sizes_are_in_thousands(count: int, text: str) -> None:
    assert words.size_text(count) == text


def test_a_job_is_told_by_what_happened_to_it() -> None:
    job = {"status": "failed", "error": {"code": "bid_rejected"}, "market": {"state": "rejected"}}
    assert words.status_of(job) == "rejected"
    assert words.status_of(job | {"error": {"code": "node_lost"}}) == "failed"
    paused = {"status": "queued", "error": None, "market": {"state": "paused"}}
    assert words.status_of(paused) == "paused"
    assert words.status_of(paused | {"market": {}}) == "planned"


def test_a_moment_can_be_read_by_people_and_by_browsers() -> None:
    assert words.moment(1_800_000_000.9) == (
        '<time datetime="2027-01-15T08:00:00+00:00">2027-01-15 08:00:00 UTC</time>'
    )


def test_a_sentence_begins_and_ends_as_one() -> None:
    assert words.sentence("the job is over") == "The job is over."
    assert words.sentence("Done.") == "Done."
