"""An adapter merged into its base: a whole model, as any tool of transformers reads it."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from auctune.train.export import put_adapter
from auctune.train.tokenizer import find_source, loading


def merge_adapter(base: str, cache: Path, adapter: Path, out: Path) -> None:
    """Save a base with an adapter merged into its weights.

    W + (alpha / r) B A is rounded to the type of the base's own weights: of a base in bfloat16, a
    merged model differs from base and adapter by that rounding.

    Args:
        base: as `load_base` has it.
        cache: folder of the tiny base.
        adapter: folder in PEFT's format.
        out: folder to write into, which exists.

    Raises:
        InputError: if the base does not exist or cannot be loaded.
        ExportError: if the adapter is not one of this base.
    """
    source, local = find_source(base, cache)
    with loading(f"base {base!r}"):
        model: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype="auto", local_files_only=local
        )
        tokenizer: Any = AutoTokenizer.from_pretrained(source, local_files_only=local)
        with torch.no_grad():
            merged: Any = put_adapter(model, adapter).merge_and_unload(safe_merge=True)
        merged.save_pretrained(out)
        tokenizer.save_pretrained(out)
