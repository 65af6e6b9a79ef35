"""Tables on terminals: what is to be copied is whole, however narrow they are."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from auctune.cli._support import tables

JOB = "ftjob-Q976t9slY0TQqg3Znn1xkUqT"
Show = Callable[[int], str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Show:
    def show(columns: int) -> str:
        file = io.StringIO()
        console = Console(file=file, width=columns, force_terminal=True, color_system=None)
        monkeypatch.setattr(tables, "make_console", lambda _: console)
        table = tables.make_table("job", "name", "bid", "deadline", right=("bid",))
        table.add_row(JOB, "a name of some length", "12.5000", "2031-05-04 09:00:00")
        tables.print_table(table, optional=("deadline", "bid"))
        return file.getvalue()

    return show


@pytest.mark.parametrize("columns", [120, 80, 72, 60, 48])
def test_an_id_is_whole_on_every_terminal(shown: Show, columns: int) -> None:
    found = shown(columns)
    assert JOB in found
    assert max(map(len, found.splitlines())) <= columns
    assert "…" not in found


def test_columns_are_left_out_in_their_order_where_they_find_no_room(shown: Show) -> None:
    heads = [shown(columns).split("─")[0].split() for columns in (120, 80, 60)]
    assert heads == [["job", "name", "bid", "deadline"], ["job", "name", "bid"], ["job", "name"]]
