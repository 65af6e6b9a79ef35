"""Digest of all that a data set's size follows from, beside its content; loads no tokenizer.

A size that is known by this digest is known at once, also while the data process still starts.
"""

import hashlib
import json
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path

from auctune.domain.base_name import HUB
from auctune.domain.data_size import DataSize
from auctune.engine.base_place import BaseKind, base_place
from auctune.train.stored_tokens import ROW_LIBRARIES, ROW_RULES

# The second is a folder of Hugging Face's tokenizers.
_PATTERNS = ("*", "additional_chat_templates/*")
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".h5", ".msgpack", ".onnx", ".pt", ".pth")


def examination_digest(base: str, cache: Path) -> str:
    """Return SHA-256 over a base's files without weights, libraries, rules of rows, and fields.

    A base of the hub that is not on this machine has its name alone.

    Args:
        base: "tiny", a folder, or a hub's name.
        cache: folder of bases that are built here.
    """
    place = base_place(base, cache)
    is_of_hub = place.kind == BaseKind.HUB
    folder = _downloaded(base.removeprefix(HUB)) if is_of_hub else place.folder
    files = {} if folder is None else _digests(folder)
    parts = {
        "rules": ROW_RULES,
        # A size that an earlier release stored lacks what is counted since.
        "fields": [field.name for field in fields(DataSize)],
        "versions": [version(name) for name in ROW_LIBRARIES],
        "files": files or base,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file without weights, by its name in the folder."""
    return {
        str(path.relative_to(folder)): _digest(path)
        for pattern in _PATTERNS
        for path in folder.glob(pattern)
        if path.is_file() and path.suffix not in _WEIGHTS
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _downloaded(name: str) -> Path | None:
    """Return the folder of a hub's base in the hub's cache; `None` if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    return Path(found).parent if isinstance(found, str) else None
