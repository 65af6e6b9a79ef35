"""The tiny base model: built and briefly pre-trained on this machine, nothing to download.

A GPT-2 of a few layers with a byte-level BPE tokenizer, trained on texts made up in
auctune.train.tiny_text. It is large enough for LoRA fine-tuning to lower its loss well, and
small enough for one CPU core. It is saved as an ordinary folder for transformers' from_pretrained.

The same recipe gives the same weights, bit for bit, whenever it is built on one machine with one
release of torch: one thread, one seed, and no other use of the global random state.
"""

from collections.abc import Callable
from pathlib import Path

from auctune.atomic_files import commit_if_absent, staging_folder
from auctune.train.tiny_recipe import TINY, TinyRecipe

__all__ = ["TINY", "TinyRecipe", "tiny_folder"]

Progress = Callable[[float], None]
"""Told the share done of a piece of work, from 0 to 1."""


def _ignore(share: float) -> None:
    """A progress that nobody follows."""


def tiny_folder(cache: Path, recipe: TinyRecipe = TINY, progress: Progress = _ignore) -> Path:
    """The folder of a tiny base under `cache`, built there if it is not there yet."""
    place = cache / recipe.key
    if not place.is_dir():
        # Its imports take seconds of a core, and it is built once a machine.
        from auctune.train.tiny_build import build_tiny

        with staging_folder(place) as folder:
            build_tiny(folder, recipe, progress)
            commit_if_absent(folder, place)
    return place
