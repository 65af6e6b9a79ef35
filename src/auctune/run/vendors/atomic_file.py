"""A file that appears whole or not at all, also across a crash."""

import tempfile
from pathlib import Path

from auctune.train.folders import sync_folder, sync_path


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` beside `path`, flush it to disk, then rename it to `path`."""
    with tempfile.NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as draft:
        try:
            draft.write(data)
            draft.flush()
            replace_durably(Path(draft.name), path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


def replace_durably(draft: Path, path: Path) -> None:
    """Flush a file to disk and rename it to `path`, in the same file system."""
    sync_path(draft)
    # Temporary files are private; the result is as readable as any new file.
    draft.chmod(0o644)
    draft.replace(path)
    sync_folder(path.parent)
