"""Where commands write data and charts: all files whole, or none."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from auctune.cli.drawing import render_into

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart

Write = Callable[[TextIO], None]
"""Fills an open file; bytes go to its `buffer`."""


def write_outputs(
    data: Mapping[Path | None, Write],
    charts: Path | None,
    drawn: "Mapping[str, Callable[[], AnyChart]]",
) -> None:
    """Write files, each by what fills it, and charts.

    Args:
        data: by their paths; none as a path: not wanted.
        charts: folder; none: nowhere.
        drawn: charts by the names of their files.

    Raises:
        InputError: if a file cannot be written.
    """
    from auctune.sim.atomic_file import AtomicFiles

    contents = {} if charts is None else render_into(charts, drawn)
    wanted = {path: write for path, write in data.items() if path is not None}
    with AtomicFiles([*wanted, *contents]) as files:
        for write, file in zip(wanted.values(), files, strict=False):
            write(file)
        for content, file in zip(contents.values(), files[len(wanted) :], strict=True):
            file.buffer.write(content)


def write_json(figures: Any) -> Write:
    """What fills a file with figures."""

    def write(file: TextIO) -> None:
        from auctune.sim.result_file import write_json as dump

        dump(figures, file)

    return write
