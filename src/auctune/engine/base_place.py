"""Location of a base by its name alone: nothing is loaded, built or fetched."""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from auctune.domain.base_name import HUB, resolve_base
from auctune.domain.errors import InputError
from auctune.train.tiny import TINY

_WEIGHTS = ("*.safetensors", "*.bin")


class BaseKind(StrEnum):
    """Class of a base's name."""

    TINY = "tiny"
    FOLDER = "folder"
    HUB = "hub"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BasePlace:
    """Location of a base.

    Attributes:
        kind: of its name.
        folder: that holds it; None if it is not on this machine, or in a cache of the hub's.
        num_bytes: size of its weights there; 0 if unknown.
    """

    kind: BaseKind
    folder: Path | None
    num_bytes: int


def base_cache() -> Path:
    """Return the folder of bases that are built on this machine; it need not exist yet."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "auctune" / "bases"


def base_place(name: str, cache: Path, beside: Path = Path()) -> BasePlace:
    """Return the location of a base.

    Args:
        name: as in a market file or in auctune.toml.
        cache: folder of bases that are built on this machine.
        beside: folder that relative paths start from.
    """
    try:
        found = resolve_base(name, beside)
    except InputError:
        return BasePlace(BaseKind.UNKNOWN, None, 0)
    if found == "tiny":
        return _in_folder(BaseKind.TINY, cache / TINY.key)
    if found.startswith(HUB):
        return BasePlace(BaseKind.HUB, None, 0)
    return _in_folder(BaseKind.FOLDER, Path(found))


def _in_folder(kind: BaseKind, folder: Path) -> BasePlace:
    if not folder.is_dir():
        return BasePlace(kind, None, 0)
    weights = (path for pattern in _WEIGHTS for path in folder.glob(pattern))
    return BasePlace(kind, folder, sum(path.stat().st_size for path in weights))
