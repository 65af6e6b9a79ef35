"""Errors of the data process as owners read them: without paths of the service."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from auctune.domain import InputError
from auctune.engine.workers.data import answer


@pytest.mark.parametrize("field", ["path", "source", "target", "folder"])
def test_an_error_names_a_file_by_its_name_alone(field: str) -> None:
    path = "/srv/data/files/file-abc"
    sent: list[Any] = []

    def fail(_: Any) -> None:
        raise InputError(f"{path}: line 3", f"cannot read {path}", "a data set")

    handlers = SimpleNamespace(prepare=lambda request: None, by_name={"do": fail})
    request = {"do": "do", "id": 1, field: path}
    answer(cast(Any, SimpleNamespace(send=sent.append)), cast(Any, handlers), request, 2**30)
    assert sent == [
        {
            "kind": "failed",
            "id": 1,
            "place": "file-abc: line 3",
            "found": "cannot read file-abc",
            "expected": "a data set",
        }
    ]
