from pathlib import Path

import pytest

from auctune.files.atomic import (
    backup_path,
    clean_staging,
    commit_folder,
    commit_if_absent,
    staging_folder,
)


def fill(place: Path, text: str) -> None:
    with staging_folder(place) as folder:
        (folder / "file").write_text(text)
        commit_folder(folder, place)


def test_a_filled_folder_replaces_the_one_before_and_leaves_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path / "place", "one")
    fill(tmp_path / "place", "two")
    assert (tmp_path / "place" / "file").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_an_error_while_filling_leaves_the_place_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path / "place", "one")
    with pytest.raises(IsADirectoryError), staging_folder(tmp_path / "place") as folder:
        folder.write_text("two")
    assert (tmp_path / "place" / "file").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_the_first_of_two_builders_wins(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with staging_folder(place) as late:
        (late / "file").write_text("late")
        fill(place, "early")
        commit_if_absent(late, place)
    assert (place / "file").read_text() == "early"


def test_what_a_dead_writer_left_does_not_stop_the_next(tmp_path: Path) -> None:
    place = tmp_path / "place"
    fill(place, "one")
    place.rename(backup_path(place))
    (tmp_path / ".tmp-place-dead").mkdir()
    fill(place, "two")
    clean_staging(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_what_dead_writers_of_another_place_left_stays(tmp_path: Path) -> None:
    with staging_folder(tmp_path / "a[1]") as dead, staging_folder(tmp_path / "a[1]-2") as other:
        clean_staging(tmp_path, "a[1]")
        assert not dead.exists()
        assert other.exists()
