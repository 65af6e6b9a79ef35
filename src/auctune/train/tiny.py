"""The tiny base model: built and briefly pre-trained on this machine, nothing to download.

A GPT-2 of a few layers with a byte-level BPE tokenizer, trained on generated texts
(auctune.train.tiny_text). It is large enough for LoRA fine-tuning to lower its loss well, and small
enough for one CPU core. It is saved as an ordinary folder for transformers' from_pretrained.

The same recipe gives bit-identical weights whenever it is built on one machine with one release of
torch: one thread, one seed, and no other use of the global random state. Importing the module does
not load torch.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from auctune.files.atomic import clean_staging, commit_if_absent, staging_folder


@dataclass(frozen=True, slots=True)
class TinyRecipe:
    """How a tiny base is made.

    Attributes:
        version: raised whenever the code or the texts change what comes out.
        layers, heads, width, context: of the GPT-2; context in tokens.
        vocabulary: tokens that the tokenizer knows.
        num_texts: texts that the tokenizer is trained on.
        steps, rows, row_tokens, learning_rate: of its pre-training with AdamW.
        seed: of everything random in it.
    """

    version: int = 1
    layers: int = 3
    heads: int = 4
    width: int = 128
    context: int = 512
    vocabulary: int = 1024
    num_texts: int = 4000
    steps: int = 400
    rows: int = 8
    row_tokens: int = 48
    learning_rate: float = 4e-3
    seed: int = 2024

    @property
    def key(self) -> str:
        """The name under which its result is cached."""
        parts = json.dumps(asdict(self), sort_keys=True).encode()
        return f"tiny-{self.version}-{hashlib.sha256(parts).hexdigest()[:12]}"


TINY = TinyRecipe()


__all__ = ["TINY", "TinyRecipe", "tiny_folder"]

Progress = Callable[[float], None]
"""Told the share done of a piece of work, from 0 to 1."""


def _ignore(share: float) -> None:
    """No progress display."""


def tiny_folder(cache: Path, recipe: TinyRecipe = TINY, progress: Progress = _ignore) -> Path:
    """Return the folder of a tiny base under `cache`, built there if it is not there yet."""
    place = cache / recipe.key
    if not place.is_dir():
        # Its imports take seconds of a core, and it is built once a machine.
        from auctune.train.tiny_build import build_tiny

        with _clean_cache(cache, recipe), staging_folder(place) as folder:
            build_tiny(folder, recipe, progress)
            commit_if_absent(folder, place)
    return place


@contextmanager
def _clean_cache(cache: Path, recipe: TinyRecipe) -> Iterator[None]:
    """Remove what killed builds left in a cache, unless another process is building there now.

    A process that builds shares a lock of the cache's folder, which ends with it.
    """
    cache.mkdir(parents=True, exist_ok=True)
    lock = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems lock no folders.
        with suppress(OSError):
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                clean_staging(cache, recipe.key)
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)
