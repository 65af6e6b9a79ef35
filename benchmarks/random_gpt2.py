"""GPT-2 small with random weights: a base of realistic size that needs no download."""

from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from auctune.train.base import Base, load_base
from auctune.train.tokenizer import quiet_transformers


def random_gpt2_small(folder: Path, device: str = "cpu") -> Base:
    """Write GPT-2 small with the tiny base's tokenizer to a folder, and load it on a device."""
    torch.manual_seed(0)
    path = folder / "gpt2-small"
    with quiet_transformers():
        GPT2LMHeadModel(GPT2Config()).save_pretrained(path)
    load_base("tiny", cache=folder).tokenizer.save_pretrained(str(path))
    dtype = "bfloat16" if device.startswith("cuda") else "float32"
    return load_base(str(path), cache=folder, device=device, dtype=dtype)
