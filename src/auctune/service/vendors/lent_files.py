"""Files that can be fetched for now, by their SHA-256: while somebody lends them."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock


class LentFiles:
    """Lends files to a `data_app`; one content may be lent by several at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._paths: defaultdict[str, list[Path]] = defaultdict(list)

    @contextmanager
    def lend(self, path: Path, sha256: str) -> Iterator[None]:
        """Let a file be found inside this block."""
        with self._lock:
            self._paths[sha256].append(path)
        try:
            yield
        finally:
            with self._lock:
                self._paths[sha256].remove(path)
                if not self._paths[sha256]:
                    del self._paths[sha256]

    def find(self, sha256: str) -> Path | None:
        """The file with this digest; none if nobody lends one."""
        with self._lock:
            paths = self._paths.get(sha256)
            return paths[0] if paths else None
