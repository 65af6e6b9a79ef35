"""Options that commands share: groups of options, KEY=VALUE texts, and how much a list shows."""

import itertools
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from auctune.cli._support.options import (
    Omit,
    given_options,
    option_groups,
    parse_key_values,
    take_newest,
)
from auctune.client import JobSpec, JobTerms
from auctune.domain import InputError


@dataclass(frozen=True)
class Place:
    """A group whose options are annotated."""

    site: Annotated[str, typer.Option(help="Where.")]
    floor: Annotated[int, typer.Option("--level", help="Which floor.")] = 0


def call(command: Any, *arguments: str) -> Any:
    """The result of a command of one application, or the message of what it refused."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(command)
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_each_field_of_a_group_is_an_option_and_the_command_gets_the_group() -> None:
    seen: list[Any] = []

    @option_groups
    def go(place: Place, speed: Annotated[float, typer.Option(help="How fast.")] = 1.0) -> None:
        seen.extend((place, speed))

    assert call(go, "--site", "north", "--level", "3", "--speed", "2").exit_code == 0
    assert seen == [Place("north", 3), 2.0]
    assert "Missing option '--site'" in call(go).output


def test_a_jobs_options_are_those_of_its_spec_and_terms_but_for_what_is_omitted() -> None:
    seen: list[Any] = []

    @option_groups
    def ask(terms: Annotated[JobTerms, Omit("bid", "what_if")], spec: JobSpec) -> None:
        seen.extend((terms, spec))

    words = ["rows.jsonl", "--deadline", "+2h", "--target-loss", "0.5", "--set", "epochs=6"]
    words += ["--site", "north=n.jsonl", "--site", "south=s.jsonl", "--repair"]
    assert call(ask, *words).exit_code == 0
    sites = {"north": "n.jsonl", "south": "s.jsonl"}
    assert seen == [
        JobTerms(deadline="+2h", target_loss=0.5),
        JobSpec("rows.jsonl", sites=sites, settings={"epochs": "6"}, repair=True),
    ]
    given = given_options(seen[1], seen[0])
    assert (given["TRAINING_FILE"], given["--site"], given["--bid"]) == ("rows.jsonl", sites, None)
    shown = call(ask, "--help").output
    assert "--bid" not in shown
    assert "Acceptable probability of missing" in shown
    with pytest.raises(InputError, match="--site: 'north'; expected NAME=FILE"):
        call(ask, "--site", "north")
    with pytest.raises(InputError, match=r"--value: '40@'; expected AMOUNT"):
        call(ask, "--value", "40@")


def test_settings_are_keys_and_values() -> None:
    assert parse_key_values(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(InputError, match="--set: '=1'; expected KEY=VALUE"):
        parse_key_values(["=1"])
    with pytest.raises(InputError, match="--set: 'a' is given twice"):
        parse_key_values(["a=1", "a=2"])


@pytest.mark.parametrize(("limit", "has_more"), [(3, True), (4, False), (5, False)])
def test_that_there_is_more_is_said_beside_the_list(
    capsys: pytest.CaptureFixture[str], limit: int, has_more: bool
) -> None:
    assert take_newest("abcd", limit, all_=False) == list("abcd"[:limit])
    shown = capsys.readouterr()
    assert (shown.out, "showing the newest 3; for more: --all" in shown.err) == ("", has_more)


def test_all_is_all_and_no_more_is_read_than_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert take_newest("abcd", 1, all_=True) == list("abcd")
    assert capsys.readouterr().err == ""
    assert take_newest(itertools.count(), 2, all_=False) == [0, 1]
