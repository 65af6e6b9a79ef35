"""Where the commands of `auctune spot` write: all files whole, or none."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

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
    from auctune.domain.errors import InputError
    from auctune.sim.atomic_file import AtomicFiles

    contents = {} if charts is None else _render(drawn, charts)
    if charts is not None:
        try:
            charts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            found = f"cannot be made ({error.strerror})"
            raise InputError(str(charts), found, "a folder for charts") from None
    paths = [*([] if out is None else [out]), *contents]
    with AtomicFiles(paths) as files:
        for path, file in zip(paths, files, strict=True):
            binary = file.buffer
            if path is out:
                write(binary)
            else:
                binary.write(contents[path])


def _render(drawn: "Mapping[str, Callable[[], AnyChart]]", folder: Path) -> dict[Path, bytes]:
    from auctune.charts.palette import LIGHT
    from auctune.charts.render import to_png, to_svg

    contents: dict[Path, bytes] = {}
    for name, draw in drawn.items():
        # A file may be shown on any ground.
        chart = draw().properties(background=LIGHT.surface)
        contents[folder / f"{name}.svg"] = to_svg(chart).encode()
        contents[folder / f"{name}.png"] = to_png(chart)
    return contents
