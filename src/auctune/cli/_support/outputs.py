"""Output files and charts of a command: all are written, or none."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from auctune.domain.errors import InputError
from auctune.sim.atomic_file import AtomicFiles
from auctune.sim.result_file import write_json as write_json_file

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart

Write = Callable[[TextIO], None]
"""Writes to an open file; bytes go to its `buffer`."""


def check_output_paths(inputs: Iterable[Path | None], outputs: Iterable[Path | None]) -> None:
    """Refuse outputs that are also inputs, or given twice.

    Args:
        inputs: files that the command reads; `None`: not given.
        outputs: files or folders that it writes, likewise.

    Raises:
        InputError: naming the file.
    """
    read = {path.resolve() for path in inputs if path is not None}
    written: set[Path] = set()
    for output in outputs:
        if output is None:
            continue
        if output.resolve() in read:
            raise InputError(str(output), "is read by this command", "another file to write")
        if output.resolve() in written:
            raise InputError(str(output), "is given twice", "a file for each output")
        written.add(output.resolve())


def files_in(settings: Iterable[str]) -> list[Path]:
    """Return the values of KEY=VALUE texts that are existing files."""
    values = (Path(text.partition("=")[2]) for text in settings)
    return [path for path in values if _is_file(path)]


def write_files(
    data: Mapping[Path | None, Write],
    charts: Path | None,
    drawn: "Mapping[str, Callable[[], AnyChart]]",
) -> None:
    """Write files and charts.

    Args:
        data: writers by path; `None` as a path: not wanted.
        charts: folder for charts; `None`: no charts.
        drawn: functions that make a chart, by the name of its file.

    Raises:
        InputError: if a file cannot be written.
    """
    contents = {} if charts is None else _render(charts, drawn)
    wanted = {path: write for path, write in data.items() if path is not None}
    with AtomicFiles([*wanted, *contents]) as files:
        for write, file in zip(wanted.values(), files, strict=False):
            write(file)
        for content, file in zip(contents.values(), files[len(wanted) :], strict=True):
            file.buffer.write(content)


def write_json(figures: Any) -> Write:
    """Return a writer of figures as JSON."""
    return lambda file: write_json_file(figures, file)


def _render(folder: Path, drawn: "Mapping[str, Callable[[], AnyChart]]") -> dict[Path, bytes]:
    """Render charts as SVG and PNG, by path; make the folder."""
    # Only --charts needs altair, which takes half a second to import.
    from auctune.charts.palette import LIGHT
    from auctune.charts.render import to_png, to_svg

    contents: dict[Path, bytes] = {}
    for name, draw in drawn.items():
        # The file may be shown on a dark page.
        chart = draw().properties(background=LIGHT.surface)
        contents[folder / f"{name}.svg"] = to_svg(chart).encode()
        contents[folder / f"{name}.png"] = to_png(chart)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = f"cannot be made ({error.strerror})"
        raise InputError(str(folder), found, "a folder for charts") from None
    return contents


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # The value cannot be a file's name.
        return False
