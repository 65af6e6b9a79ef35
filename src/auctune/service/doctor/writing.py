"""Whether a folder can be written, tried with a file that has no name and leaves nothing."""

import tempfile
from pathlib import Path


def nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def why_not_written(folder: Path) -> str | None:
    """Why nothing can be written in a folder, or in the one in which it would be made; or none."""
    try:
        with tempfile.TemporaryFile(dir=nearest(folder)) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
