"""Output files and charts of a command, written all or none."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from auctune.domain.errors import InputError
from auctune.files import json_file
from auctune.files.atomic import AtomicFiles

if TYPE_CHECKING:
    from auctune.charts.theme import AnyChart

Write = Callable[[TextIO], None]
"""Writes to an open file; bytes go to its `buffer`."""


def check_output_paths(inputs: Iterable[Path | None], outputs: Iterable[Path | None]) -> None:
    """Refuse outputs that are also inputs, or that coincide; `None` is skipped."""
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
    folder: Path | None = None,
    charts: "Mapping[str, Callable[[], AnyChart]] | None" = None,
) -> None:
    """Write files and charts.

    `data` are writers by path; those of the path `None` are skipped. `charts` draw a chart each, by
    file name without suffix, into `folder`.
    """
    writers = {path: write for path, write in data.items() if path is not None}
    if folder is not None:
        images = _render(folder, charts or {})
        writers |= {path: partial(_write_bytes, content) for path, content in images.items()}
    with AtomicFiles(list(writers)) as files:
        for write, file in zip(writers.values(), files, strict=True):
            write(file)


def write_json(figures: Any) -> Write:
    """Return a writer of figures as JSON."""
    return lambda file: json_file.write_json(figures, file)


def _write_bytes(content: bytes, file: TextIO) -> None:
    file.buffer.write(content)


def _render(folder: Path, charts: "Mapping[str, Callable[[], AnyChart]]") -> dict[Path, bytes]:
    """Render charts as SVG and PNG, by path; make the folder."""
    # Only --charts needs altair, which takes half a second to import.
    from auctune.charts.render import to_png, to_svg
    from auctune.charts.theme import LIGHT

    contents: dict[Path, bytes] = {}
    for name, draw in charts.items():
        # The file may be embedded in a dark page.
        chart = draw().properties(background=LIGHT.surface)
        contents[folder / f"{name}.svg"] = to_svg(chart).encode()
        contents[folder / f"{name}.png"] = to_png(chart)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = f"cannot be created ({error.strerror})"
        raise InputError(str(folder), found, "a folder for charts") from None
    return contents


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # The text cannot be a path.
        return False
