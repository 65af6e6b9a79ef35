"""The tables of a zone's state, as the API answers with them."""

from typing import Any


def records(state: dict[str, Any], title: str) -> list[dict[str, Any]]:
    """The rows of a section, each by the names of its columns."""
    (section,) = [one for one in state["sections"] if one["title"] == title]
    names = [column["name"] for column in section["columns"]]
    return [dict(zip(names, row, strict=True)) for row in section["rows"]]
