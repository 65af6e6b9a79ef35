"""What a run that was stopped says: how it goes on, if there is anything to go on with."""

from pathlib import Path

import pytest
import typer

from auctune.cli._support.errors import INTERRUPTED
from auctune.cli._support.runs import resumable
from auctune.domain import AuctuneError, InputError

FOLDER = Path("my run")
AGAIN = "resume with: auctune edge run --resume 'my run'"


@pytest.mark.parametrize(
    ("error", "what"),
    [(AuctuneError("nobody is left"), "nobody is left"), (OSError(28, "disk full"), "disk full")],
)
def test_what_stops_a_run_is_said_with_how_to_go_on(error: Exception, what: str) -> None:
    with (
        pytest.raises(AuctuneError) as found,
        resumable("edge run", FOLDER, is_stored=lambda: True),
    ):
        raise error
    assert str(found.value) == f"{what}; {AGAIN}"


@pytest.mark.parametrize("error", [AuctuneError("nobody is left"), OSError(28, "disk full")])
def test_a_run_that_left_nothing_is_not_said_to_go_on(error: Exception) -> None:
    with (
        pytest.raises(type(error)) as found,
        resumable("edge run", FOLDER, is_stored=lambda: False),
    ):
        raise error
    assert found.value is error


@pytest.mark.parametrize("error", [InputError("--out", "is bad", "good"), BrokenPipeError()])
def test_bad_input_and_a_closed_pipe_pass_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as found, resumable("edge run", FOLDER, is_stored=lambda: True):
        raise error
    assert found.value is error


@pytest.mark.parametrize(("kept", "says"), [(True, f"stopped; {AGAIN}"), (False, "stopped")])
def test_an_interrupted_run_says_so_and_exits(
    capsys: pytest.CaptureFixture[str], kept: bool, says: str
) -> None:
    with pytest.raises(typer.Exit) as left, resumable("edge run", FOLDER, is_stored=lambda: kept):
        raise KeyboardInterrupt
    assert left.value.exit_code == INTERRUPTED
    assert capsys.readouterr().err.strip() == says
