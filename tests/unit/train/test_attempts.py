from pathlib import Path

import pytest

from auctune.domain import CheckpointError
from auctune.train.attempts import begin_attempt, check_attempt


def test_only_the_newest_attempt_may_save(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    cut_off = begin_attempt(folder)
    check_attempt(folder, cut_off)
    newest = begin_attempt(folder)
    assert newest > cut_off
    check_attempt(folder, newest)
    with pytest.raises(CheckpointError, match="attempt 1 was replaced by attempt 2"):
        check_attempt(folder, cut_off)


@pytest.mark.parametrize("content", [None, b"", b"-"])
def test_an_attempt_is_refused_as_well_once_the_number_is_gone(
    tmp_path: Path, content: bytes | None
) -> None:
    for _ in range(3):
        attempt = begin_attempt(tmp_path)
    (file,) = tmp_path.iterdir()
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CheckpointError):
        check_attempt(tmp_path, attempt)
    check_attempt(tmp_path, begin_attempt(tmp_path))
