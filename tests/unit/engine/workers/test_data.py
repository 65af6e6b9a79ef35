"""Errors of the data process as owners read them: without paths of the service."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from auctune.domain import InputError
from auctune.engine.messages.base import ErrorRecord, Failed
from auctune.engine.messages.data import ArchiveFolder, DataRequest, ReadAdapter, RepairFile
from auctune.engine.vendors import RepairParams
from auctune.engine.workers.data import answer

PATH = Path("/srv/data/files/file-abc")


@pytest.mark.parametrize(
    "message",
    [
        ReadAdapter(path=PATH, place="adapter"),
        RepairFile(source=PATH, target=Path("a"), vendor=RepairParams(), place="training_file"),
        ArchiveFolder(folder=Path("a"), target=PATH, name="a"),
        ArchiveFolder(folder=PATH, target=Path("a"), name="a"),
    ],
)
def test_an_error_names_a_file_by_its_name_alone(message: DataRequest) -> None:
    sent: list[Any] = []

    def fail(_: Any) -> None:
        raise InputError(f"{PATH}: line 3", f"cannot read {PATH}", "a data set")

    handlers = SimpleNamespace(prepare=lambda message: None, handle=fail)
    answer(cast(Any, SimpleNamespace(send=sent.append)), cast(Any, handlers), message, 2**30)
    error = ErrorRecord("file-abc: line 3", "cannot read file-abc", "a data set")
    assert sent == [Failed(error=error)]
