"""A folder belongs to one run at a time, and to none that did not begin."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.run.claim import claim
from auctune.run.spot.folder import SpotFolder

OTHER = InputError("base", "is unknown", "a base")


@pytest.fixture
def place(tmp_path: Path) -> SpotFolder:
    return SpotFolder(tmp_path / "rented" / "run")


def prepare(place: SpotFolder) -> None:
    place.inputs.mkdir()
    (place.inputs / "job.toml").write_text("[job]\n")
    place.journal.touch()


def go_wrong(place: SpotFolder, error: BaseException, *, event: str = "") -> None:
    """A run that keeps its inputs, perhaps begins, and ends so."""
    with claim(place, resume=False):
        if not place.inputs.exists():
            prepare(place)
        place.journal.write_text(event)
        raise error


def test_a_run_that_goes_wrong_before_it_begins_leaves_nothing(place: SpotFolder) -> None:
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER)
    assert not place.root.exists()
    place.root.mkdir()
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER)
    assert not [*place.root.iterdir()]


def test_a_run_that_goes_wrong_once_it_has_begun_leaves_all(place: SpotFolder) -> None:
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER, event="begun")
    assert place.is_begun
    assert (place.inputs / "job.toml").exists()


def test_a_run_that_is_stopped_before_it_begins_keeps_its_inputs_whatever_comes(
    place: SpotFolder,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        go_wrong(place, KeyboardInterrupt())
    with pytest.raises(InputError, match="is unknown"):
        go_wrong(place, OTHER)
    assert (place.inputs / "job.toml").exists()


def test_a_folder_in_use_is_refused_and_left_alone(place: SpotFolder) -> None:
    with claim(place, resume=False):
        prepare(place)
        before = {path: path.stat().st_mtime_ns for path in place.root.rglob("*")}
        with pytest.raises(InputError, match="in use"), claim(place, resume=False):
            raise AssertionError
        assert {path: path.stat().st_mtime_ns for path in place.root.rglob("*")} == before


def test_what_is_no_folder_to_run_in_is_refused(place: SpotFolder, tmp_path: Path) -> None:
    place.root.parent.write_text("a file")
    with pytest.raises(InputError, match="cannot be made"), claim(place, resume=False):
        raise AssertionError
    with (
        pytest.raises(InputError, match="is no folder"),
        claim(SpotFolder(place.root.parent), resume=False),
    ):
        raise AssertionError
    with pytest.raises(InputError, match="holds no run"), claim(place, resume=True):
        raise AssertionError
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="not empty"), claim(SpotFolder(tmp_path), resume=False):
        raise AssertionError
