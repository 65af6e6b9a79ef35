import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.data.archive import archive_folder


def make_folder(folder: Path) -> Path:
    (folder / "more").mkdir(parents=True)
    (folder / "weights.safetensors").write_bytes(bytes(range(256)) * 5000)
    (folder / "config.json").write_text("{}")
    (folder / "more" / "é.txt").write_text("in a folder")
    return folder


def test_the_same_files_give_the_same_bytes_whenever_they_were_written(tmp_path: Path) -> None:
    first = make_folder(tmp_path / "a")
    second = make_folder(tmp_path / "b")
    for path in second.rglob("*"):
        os.utime(path, (10**9, 10**9))
    (second / "config.json").chmod(0o600)
    made = [archive_folder(f, tmp_path / f"{f.name}.zip", "mine") for f in (first, second)]
    content = (tmp_path / "a.zip").read_bytes()
    assert content == (tmp_path / "b.zip").read_bytes()
    assert made[0] == made[1]
    assert made[0].bytes == len(content)
    assert made[0].sha256 == hashlib.sha256(content).hexdigest()


def test_what_comes_out_is_what_went_in(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a")
    target = tmp_path / "a.zip"
    target.write_text("an older one")
    archive_folder(folder, target, "mine")
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "out")
    for path in folder.rglob("*"):
        other = tmp_path / "out" / "mine" / path.relative_to(folder)
        assert other.is_dir() if path.is_dir() else other.read_bytes() == path.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a", "a.zip", "out"}


def test_what_cannot_be_packed_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    for source, name in ((folder, "../up"), (folder, ""), (tmp_path / "empty", "mine")):
        with pytest.raises(InputError):
            archive_folder(source, tmp_path / "x.zip", name)
    (folder / "link").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="link"):
        archive_folder(folder, tmp_path / "x.zip", "mine")
    assert not list(tmp_path.glob("*.zip*"))
