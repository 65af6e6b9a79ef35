"""Where the commands of `auctune spot` write: all files whole, or none."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from auctune.cli.drawing import render_into
from auctune.cli.overwriting import refuse_overwriting

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart

Write = Callable[[BinaryIO], None]
"""Fills an open file."""


def check_outputs(inputs: list[Path | None], out: Path | None, charts: Path | None) -> None:
    """Refuse outputs that are inputs, before anything is played.

    Raises:
        InputError: naming the file.
    """
    refuse_overwriting(inputs, (out, charts))


def write_outputs(
    out: Path | None,
    write: Write,
    charts: Path | None,
    drawn: "Mapping[str, Callable[[], AnyChart]]",
) -> None:
    """Write what was played and its charts.

    Args:
        out: file of what was played; none: nowhere.
        write: fills it.
        charts: folder; none: nowhere.
        drawn: charts by the names of their files.

    Raises:
        InputError: if a file cannot be written.
    """
    from auctune.sim.atomic_file import AtomicFiles

    contents = {} if charts is None else render_into(charts, drawn)
    paths = [*([] if out is None else [out]), *contents]
    with AtomicFiles(paths) as files:
        for path, file in zip(paths, files, strict=True):
            binary = file.buffer
            if path is out:
                write(binary)
            else:
                binary.write(contents[path])
