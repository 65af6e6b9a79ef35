"""No command writes over what it reads, or one output over another."""

from collections.abc import Iterable
from pathlib import Path

from auctune.domain.errors import InputError


def refuse_overwriting(inputs: Iterable[Path | None], outputs: Iterable[Path | None]) -> None:
    """Refuse outputs that are one of the files that are read, or one another.

    Args:
        inputs: files that are read; none: not given.
        outputs: files or folders to be written, likewise.

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
    """Those of KEY=VALUE texts whose values are files."""
    values = (Path(text.partition("=")[2]) for text in settings)
    return [path for path in values if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # A value that no file could be called is no file.
        return False
