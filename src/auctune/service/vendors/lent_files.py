"""Files that a vendor can fetch for now, by their SHA-256: while somebody lends them to it."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock


class LentFiles:
    """Lends files to a `data_app`; one content may be lent by several at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._paths: defaultdict[tuple[str, str], list[Path]] = defaultdict(list)

    @contextmanager
    def lend(self, path: Path, sha256: str, vendor: str) -> Iterator[None]:
        """Let a vendor find a file inside this block."""
        key = vendor, sha256
        with self._lock:
            self._paths[key].append(path)
        try:
            yield
        finally:
            with self._lock:
                self._paths[key].remove(path)
                if not self._paths[key]:
                    del self._paths[key]

    def find(self, vendor: str, sha256: str) -> Path | None:
        """The file with this digest; none if nobody lends this vendor one."""
        with self._lock:
            paths = self._paths.get((vendor, sha256))
            return paths[0] if paths else None
