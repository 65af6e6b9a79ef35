from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.event_log import EventLog
from auctune.engine.market.directory import InputFile, MarketDirectory, begin, check_new

BEGUN = {"type": "begun", "version": 1}


@pytest.fixture
def folder(tmp_path: Path) -> MarketDirectory:
    (tmp_path / "out").mkdir()
    return MarketDirectory(tmp_path / "out")


@pytest.fixture
def files(tmp_path: Path) -> list[InputFile]:
    (tmp_path / "market.toml").write_text("title = 'A'")
    (tmp_path / "rows.jsonl").write_text("rows")
    return [
        InputFile.note("", tmp_path / "market.toml"),
        InputFile.note("../rows.jsonl", tmp_path / "rows.jsonl"),
    ]


def _begun(folder: MarketDirectory) -> dict[str, object]:
    journal = EventLog(folder.event_log)
    journal.close()
    (event,) = journal.events
    return event


def test_a_run_that_has_begun_holds_all_that_it_needs(
    folder: MarketDirectory, files: list[InputFile]
) -> None:
    begin(folder, files, {"fast": "{}"}, BEGUN)
    for file in files:
        file.path.unlink()

    assert folder.exists()
    assert folder.market.read_text() == "title = 'A'"
    assert folder.resolve("../rows.jsonl").read_text() == "rows"
    assert folder.profile("fast").read_text() == "{}"
    assert _begun(folder)["version"] == 1
    folder.check_inputs(_begun(folder))
    assert {path.name for path in folder.root.iterdir()} == {"state"}


def test_a_changed_or_lost_copy_is_named(folder: MarketDirectory, files: list[InputFile]) -> None:
    begin(folder, files, {}, BEGUN)
    folder.resolve("../rows.jsonl").write_text("other rows")

    with pytest.raises(InputError, match=r"rows.jsonl: is not as it was when the run began"):
        folder.check_inputs(_begun(folder))
    folder.resolve("../rows.jsonl").unlink()
    with pytest.raises(InputError, match=r"rows.jsonl: is gone"):
        folder.check_inputs(_begun(folder))


def test_a_new_run_may_be_made_of_what_lies_in_the_one_that_it_replaces(
    folder: MarketDirectory, files: list[InputFile]
) -> None:
    begin(folder, files, {}, BEGUN)
    (folder.root / "tasks" / "old").mkdir(parents=True)
    (folder.root / "report.json").write_text("{}")
    (folder.root / "mine.txt").write_text("not the run's")
    own = [InputFile.note("", folder.market), InputFile.note("x", folder.resolve("../rows.jsonl"))]

    begin(folder, own, {}, BEGUN)

    assert folder.resolve("x").read_text() == "rows"
    assert {path.name for path in folder.root.iterdir()} == {"state", "mine.txt"}


def test_inputs_that_change_on_the_way_are_refused_and_the_earlier_run_stays(
    folder: MarketDirectory, files: list[InputFile]
) -> None:
    begin(folder, files, {}, BEGUN)
    files[1].path.write_text("more rows than before")

    with pytest.raises(InputError, match=r"rows.jsonl: was changed while"):
        begin(folder, files, {}, {**BEGUN, "version": 2})

    assert _begun(folder)["version"] == 1


def test_what_a_killed_beginning_leaves_is_taken_over_by_the_next(
    folder: MarketDirectory, files: list[InputFile]
) -> None:
    begin(folder, files, {}, BEGUN)
    (folder.root / "tasks").mkdir()
    (folder.root / "report.json").write_text("{}")
    # As it is right after the earlier run's state folder was moved.
    (folder.root / ".state.new").mkdir()
    folder.state.rename(folder.root / ".state.new" / "earlier")

    check_new(folder, fresh=False)
    begin(folder, files, {}, BEGUN)

    assert {path.name for path in folder.root.iterdir()} == {"state"}


def test_only_a_folder_that_is_new_empty_or_of_an_earlier_run_will_do(
    folder: MarketDirectory, files: list[InputFile], tmp_path: Path
) -> None:
    check_new(folder, fresh=False)
    check_new(MarketDirectory(tmp_path / "new"), fresh=True)
    with folder.locked():
        check_new(folder, fresh=False)
    with pytest.raises(InputError, match="is a file; expected a folder"):
        check_new(MarketDirectory(tmp_path / "rows.jsonl"), fresh=True)

    (folder.root / "tasks").mkdir()
    with pytest.raises(InputError, match="holds other files"):
        check_new(folder, fresh=True)

    begin(folder, files, {}, BEGUN)
    check_new(folder, fresh=True)
    with pytest.raises(InputError, match="holds a run already; expected --resume"):
        check_new(folder, fresh=False)


def test_drafts_of_killed_writers_are_removed(folder: MarketDirectory) -> None:
    (folder.root / "tasks" / "a").mkdir(parents=True)
    drafts = [".report.html.x1", ".decisions.jsonl.x2", "tasks/a/.receipt.json.x3"]
    for name in [*drafts, "tasks/a/receipt.json", ".keep"]:
        (folder.root / name).touch()

    folder.clean_temp_files()

    left = {path.name for path in folder.root.rglob("*") if path.is_file()}
    assert left == {"receipt.json", ".keep"}
