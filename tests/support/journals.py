"""Journals, as earlier releases wrote them."""

import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_journal(path: Path, events: Iterable[Mapping[str, object]]) -> None:
    """Write a journal, and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [json.dumps(event).encode() for event in events]
    path.write_bytes(b"".join(f"{zlib.crc32(text):08x} ".encode() + text + b"\n" for text in texts))
