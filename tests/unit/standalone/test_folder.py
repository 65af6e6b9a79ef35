from collections.abc import Mapping
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.standalone.folder import RunFolder

Files = Mapping[str, Path]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "out").mkdir()
    return RunFolder(tmp_path / "out")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "market.toml").write_text("title = 'A'")
    (tmp_path / "rows.jsonl").write_text("rows")
    return {"": tmp_path / "market.toml", "../rows.jsonl": tmp_path / "rows.jsonl"}


def _begin(folder: RunFolder, files: Files, log: str = "an event") -> dict[str, object]:
    with folder.staged(files) as staged:
        staged.log.write_text(log)
        return {"inputs": staged.input_digests()}


def test_a_run_that_has_begun_holds_all_that_it_needs(folder: RunFolder, files: Files) -> None:
    begun = _begin(folder, files)
    for path in files.values():
        path.unlink()

    assert folder.exists()
    assert folder.resolve("").read_text() == "title = 'A'"
    assert folder.resolve("../rows.jsonl").read_text() == "rows"
    folder.check_inputs(begun)
    assert {path.name for path in folder.root.iterdir()} == {"state"}


def test_a_changed_or_lost_copy_is_named(folder: RunFolder, files: Files) -> None:
    begun = _begin(folder, files)
    folder.resolve("../rows.jsonl").write_text("other rows")

    with pytest.raises(InputError, match=r"rows.jsonl: is not as it was when the run began"):
        folder.check_inputs(begun)
    folder.resolve("../rows.jsonl").unlink()
    with pytest.raises(InputError, match=r"rows.jsonl: is gone"):
        folder.check_inputs(begun)


def test_a_new_run_may_be_made_of_what_lies_in_the_one_that_it_replaces(
    folder: RunFolder, files: Files
) -> None:
    _begin(folder, files)
    (folder.root / "tasks" / "old").mkdir(parents=True)
    (folder.root / "report.json").write_text("{}")
    (folder.root / "mine.txt").write_text("not the run's")
    own = {"": folder.resolve(""), "x": folder.resolve("../rows.jsonl")}

    _begin(folder, own)

    assert folder.resolve("x").read_text() == "rows"
    assert {path.name for path in folder.root.iterdir()} == {"state", "mine.txt"}


def test_a_file_that_cannot_be_copied_is_named_by_its_field(
    folder: RunFolder, files: Files, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    # A file that not even root can open.
    (tmp_path / "loop").symlink_to("loop")
    fields = {"start": "market.toml: bids[0].start_from", "rows": "market.toml: bids[0].data"}
    for given, name, expected in (
        ("start", "empty", r"bids\[0\].start_from: .*/empty: has no adapter_config.json; expected"),
        ("rows", "loop", r"bids\[0\].data: .*/loop: cannot be read \(.*\); expected a file"),
    ):
        with (
            pytest.raises(InputError, match=f"^market.toml: {expected}"),
            folder.staged({**files, given: tmp_path / name}, fields),
        ):
            pytest.fail("was copied")
    assert not folder.exists()
    assert [*folder.root.iterdir()] == []


def test_a_start_that_fails_leaves_the_earlier_run(folder: RunFolder, files: Files) -> None:
    _begin(folder, files)
    with pytest.raises(InputError, match="is wrong"), folder.staged(files):
        raise InputError("rows.jsonl", "is wrong", "rows")

    assert folder.log.read_text() == "an event"
    assert {path.name for path in folder.root.iterdir()} == {"state"}


def test_a_new_folder_in_which_nothing_starts_is_removed(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "new" / "run")
    with pytest.raises(InputError, match="is wrong"), folder.locked():
        raise InputError("rows.jsonl", "is wrong", "rows")
    assert not folder.root.parent.exists()
    assert tmp_path.exists()


def test_what_a_killed_start_leaves_is_taken_over_by_the_next(
    folder: RunFolder, files: Files
) -> None:
    _begin(folder, files)
    (folder.root / "tasks").mkdir()
    (folder.root / "report.json").write_text("{}")
    # As it is right after the earlier run's state folder was moved.
    (folder.root / ".state.new").mkdir()
    folder.state.rename(folder.root / ".state.new" / "earlier")

    folder.check_new(fresh=False)
    _begin(folder, files)

    assert {path.name for path in folder.root.iterdir()} == {"state"}


def test_only_a_folder_that_is_new_empty_or_of_an_earlier_run_will_do(
    folder: RunFolder, files: Files, tmp_path: Path
) -> None:
    folder.check_new(fresh=False)
    RunFolder(tmp_path / "new").check_new(fresh=True)
    with folder.locked():
        folder.check_new(fresh=False)
    with pytest.raises(InputError, match="is a file; expected a folder"):
        RunFolder(tmp_path / "rows.jsonl").check_new(fresh=True)

    (folder.root / "tasks").mkdir()
    with pytest.raises(InputError, match="holds other files"):
        folder.check_new(fresh=True)

    _begin(folder, files)
    folder.check_new(fresh=True)
    with pytest.raises(InputError, match="holds a run already; expected --resume"):
        folder.check_new(fresh=False)


def test_drafts_of_killed_writers_are_removed(folder: RunFolder) -> None:
    (folder.root / "tasks" / "a").mkdir(parents=True)
    drafts = [".report.html.x1", ".decisions.jsonl.x2", "tasks/a/.receipt.json.x3"]
    for name in [*drafts, "tasks/a/receipt.json", ".keep"]:
        (folder.root / name).touch()

    folder.clean_temp_files()

    left = {path.name for path in folder.root.rglob("*") if path.is_file()}
    assert left == {"receipt.json", ".keep"}
