"""The data folder: its rights, its room, and who holds it."""

import os
from pathlib import Path
from tempfile import gettempdir

import pytest

from auctune.client.address import URL_FILE
from auctune.run.lock import NODES_LOCK, hold
from auctune.service.doctor import State
from auctune.service.doctor.data_folder import lock_holder, look, needed_bytes, room
from auctune.service.doctor.writing import why_not_written
from support.examined import found, installation, only, states
from support.other_user import without_rights


def test_a_folder_that_is_not_there_yet_will_be_made(tmp_path: Path) -> None:
    findings = found(look, installation(tmp_path))
    assert states(findings) == {State.OK}
    assert "is not there yet" in findings[0].said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_rights_is_wrong(tmp_path: Path) -> None:
    for above in (tmp_path, *tmp_path.parents):
        if above == Path(gettempdir()):
            break
        above.chmod(0o755)
    (tmp_path / "data").mkdir(mode=0o555)
    at = installation(tmp_path)
    with without_rights():
        refused = only(found(look, at), State.WRONG)
        assert "Permission denied" in refused.said
    assert "chmod" in refused.mend
    assert why_not_written(tmp_path) is None


def test_a_folder_that_is_a_file_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    assert "is no folder" in only(found(look, installation(tmp_path)), State.WRONG).said


def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert states(found(look, installation(tmp_path))) == {State.OK}
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("free", "state"), [(1 << 20, State.WRONG), (1 << 30, State.WARN), (1 << 40, State.OK)]
)
def test_a_full_disk_is_wrong_and_one_that_fills_within_a_day_a_warning(
    free: int, state: State
) -> None:
    assert room(free, 10 << 30).state == state


def test_a_larger_base_and_more_nodes_need_more_room(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    with (base / "model.safetensors").open("wb") as file:
        file.truncate(100 << 30)
    node = '[[zones.nodes]]\nid = "{}"\ntype = "local"\n'
    needed = [
        needed_bytes(installation(tmp_path, f"[[zones]]\nbase = '{base}'\n{nodes}"))
        for nodes in (node.format("a"), node.format("a") + node.format("b"))
    ]
    least = needed_bytes(installation(tmp_path))
    assert least < needed[0] < needed[1]
    assert needed[1] - least == pytest.approx(2 * (needed[0] - least))


def test_a_folder_in_use_is_told_by_its_process(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    at = installation(tmp_path)
    assert lock_holder(data / NODES_LOCK) is None
    with hold(data / NODES_LOCK, "data"):
        opening = only(found(look, at), State.WARN)
        assert f"process {os.getpid()}" in opening.said
        (data / URL_FILE).write_text("http://127.0.0.1:1\n")
        assert states(found(look, at)) == {State.OK}
        assert f"process {os.getpid()}" in found(look, at)[-1].said
    assert "no service is at work" in found(look, at)[-1].said
