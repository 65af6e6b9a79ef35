"""A file that appears whole or not at all, also across a crash."""

import os
import tempfile
from pathlib import Path

from auctune.train.folders import sync_folder


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, flush it to disk, then rename it to `path`."""
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as draft:
        try:
            draft.write(data)
            draft.flush()
            os.fsync(draft.fileno())
            # Temporary files are private; the result is as readable as any new file.
            Path(draft.name).chmod(0o644)
            Path(draft.name).replace(path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise
    sync_folder(path.parent)
