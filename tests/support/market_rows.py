"""Market files of made-up rows."""

from collections.abc import Iterable
from pathlib import Path


def write_rows(path: Path, rows: Iterable[str]) -> Path:
    path.write_text("\n".join(["t_s,available,price", *rows]) + "\n")
    return path


def even_rows(
    values: Iterable[tuple[object, object]], step: int = 600, first: int = 0
) -> list[str]:
    """Rows of (available, price), a step apart."""
    return [f"{first + step * i},{count},{price}" for i, (count, price) in enumerate(values)]
