"""Words for people."""

from pathlib import Path

import pytest

from auctune.service.page import templates


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (6, "6 s"), (60, "1 min"), (90, "1 min 30 s"), (3600, "1 h"), (90_061, "1 d 1 h")],
)
def test_a_span_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert templates.span_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (3980, "3.98 kB"), (5 * 10**12, "5 TB")]
)
def test_sizes_are_in_thousands(count: int, text: str) -> None:
    assert templates.size_text(count) == text


def test_a_job_is_told_by_what_happened_to_it() -> None:
    assert templates.status_of({"market": {"state": "rejected"}}) == "rejected"
    assert templates.status_of({"market": {"state": "trained"}}) == "packing"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("needs market.target_loss", 'needs "Loss to reach"'),
        ("does not support market.lora.rank", 'does not support "LoRA rank"'),
        ("market.sites.b: is unknown", '"Data at sites".b: is unknown'),
        ("it takes no bids now", "it takes no bids now"),
    ],
)
def test_fields_are_called_as_the_form_calls_them(said: str, told: str) -> None:
    assert templates.in_form(said) == told


def test_the_form_has_the_labels_that_errors_name() -> None:
    form = (Path(templates.__file__).parent / "templates/new_job.html").read_text()
    assert [label for label in templates._LABELS.values() if label not in form] == []


def test_a_moment_can_be_read_by_people_and_by_browsers() -> None:
    assert templates.moment(1_800_000_000.9) == (
        '<time datetime="2027-01-15T08:00:00+00:00">2027-01-15 08:00:00 UTC</time>'
    )


def test_a_sentence_begins_and_ends_as_one() -> None:
    assert templates.sentence("the job is over") == "The job is over."
    assert templates.sentence("Done.") == "Done."
